// Command demo runs a fleet on this machine to try out: a hub, three members, the operator and the
// sample AppService, as local processes or, on kind, as containers. They continue to run when the
// command ends. Run it from the root of the repository: `make demo` and `make demo-down`, or
// `make kind-demo` and `make kind-demo-down`.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

const usage = `usage: demo COMMAND

  up             start the demo, or repair it
  stop CLUSTER   stop a cluster, as a power cut does
  start CLUSTER  start the cluster again
  add CLUSTER    create another cluster and join it
  down           remove the demo

Each command may be interrupted and called again.

flags, before the command:
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		if ctx.Err() != nil {
			err = errors.New("interrupted; run the same command to continue, or `down` to remove the demo")
		}
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	environment := flags.String("environment", "kwok", "where the clusters run: kwok (processes, simulated pods) or kind (containers)")
	image := flags.String("image", defaultImage, "the operator's image, on kind")
	dir := flags.String("dir", "", "directory of the demo's files (default .demo, on kind .demo-kind)")
	bin := flags.String("bin", "bin", "directory of the programs")
	members := flags.String("members", "north,south,east", "names of the members of a new demo; each needs some 500 MB of memory")
	flags.Usage = func() {
		_, _ = fmt.Fprint(flags.Output(), usage)
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	initial := strings.Split(*members, ",")
	for _, name := range initial {
		if err := checkName(name); err != nil {
			return err
		}
	}
	d, err := newDemo(*environment, *dir, *bin, *image, initial)
	if err != nil {
		return err
	}
	name := flags.Arg(1)
	switch command := fmt.Sprintf("%s/%d", flags.Arg(0), flags.NArg()); command {
	case "up/1":
		return d.up(ctx)
	case "stop/2":
		return d.stop(ctx, name)
	case "start/2":
		return d.start(ctx, name)
	case "add/2":
		return d.add(ctx, name)
	case "down/1":
		return d.down(ctx)
	default:
		flags.Usage()
		return fmt.Errorf("unknown command: demo %s", strings.Join(flags.Args(), " "))
	}
}
