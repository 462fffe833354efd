// Command recording records the demo of docs/images/demo.svg: it starts the demo, types commands in a
// terminal, and writes what the terminal showed as an animated SVG. Run it from the root of the
// repository with `make recording`.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

const (
	columns, rows = 96, 26
	title         = "Fleetwright: a bad image and a lost cluster, as the terminal shows them"
)

// scene is a command that is typed, and what must be true before the next one.
type scene struct {
	command string
	// read is how long the output is shown.
	read time.Duration
	// until is a text that `kubectl appsvc status web` must print this often before the next scene.
	until string
	times int
}

// sample is the AppService of the recording. Its times are short.
//
//go:embed web.yaml
var sample []byte

var scenes = []scene{
	{command: "cat web.yaml", read: 2500 * time.Millisecond},
	{command: "kubectl apply -f web.yaml", read: 800 * time.Millisecond, until: "Ready        3/3 pods", times: 3},
	{command: "kubectl appsvc status web", read: 1700 * time.Millisecond},
	{command: "# An image that does not exist reaches one cluster, whose old pods continue to run.", read: 300 * time.Millisecond},
	{command: `kubectl patch appservice web --type=merge -p '{"spec":{"image":"nginx:bad"}}'`, read: 800 * time.Millisecond, until: "ImagePullBackOff: ", times: 1},
	{command: "kubectl appsvc status web", read: 3 * time.Second, until: "RolledBack", times: 1},
	{command: "# Some seconds later, without a command:", read: 300 * time.Millisecond},
	{command: "kubectl appsvc status web", read: 3 * time.Second},
	{command: "# A cluster loses its power: the others are not affected.", read: 300 * time.Millisecond},
	{command: "bin/demo stop north", read: 1200 * time.Millisecond, until: "north  Unknown", times: 1},
	{command: "kubectl appsvc status web", read: 3 * time.Second},
}

func main() {
	out := flag.String("out", "docs/images/demo.svg", "the file to write")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *out); err != nil {
		fmt.Fprintln(os.Stderr, "recording:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out string) (err error) {
	dir, err := workingDirectory()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	shell := &shell{dir: dir}
	defer func() {
		_, downErr := shell.run(context.WithoutCancel(ctx), "bin/demo", "down")
		err = errors.Join(err, downErr)
	}()
	if output, err := shell.run(ctx, "bin/demo", "up"); err != nil {
		return fmt.Errorf("start the demo: %w\n%s", err, output)
	}
	if output, err := shell.run(ctx, "bin/kubectl", "delete", "appservice", "web"); err != nil {
		return fmt.Errorf("delete the AppService: %w\n%s", err, output)
	}
	recorded, err := shell.record(ctx, scenes)
	if err != nil {
		return err
	}
	svg := draw(recorded)
	fmt.Printf("%s: %d kB, %s\n", out, len(svg)/1000, recorded.length())
	return os.WriteFile(out, svg, 0o644) //nolint:gosec // a file of the repository
}

// workingDirectory returns a directory in which the commands are typed as in the root of the
// repository, but whose demo is another one. It has the sample, as web.yaml.
func workingDirectory() (string, error) {
	dir, err := os.MkdirTemp("", "fleetwright")
	if err != nil {
		return "", err
	}
	for _, name := range []string{"bin", "config"} {
		target, err := filepath.Abs(name)
		if err == nil {
			err = os.Symlink(target, filepath.Join(dir, name))
		}
		if err != nil {
			return "", err
		}
	}
	return dir, os.WriteFile(filepath.Join(dir, "web.yaml"), sample, 0o600)
}

// run runs a command outside of the recording.
func (s *shell) run(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(s.dir, program), args...)
	cmd.Args[0] = program
	cmd.Dir, cmd.Env = s.dir, s.environ()
	output, err := cmd.CombinedOutput()
	return string(output), err
}

// await waits until the status is as the scene wants it.
func (s *shell) await(ctx context.Context, want scene) error {
	var output string
	for range 240 {
		// Its exit status is 3 if the AppService is not Ready.
		output, _ = s.run(ctx, "bin/kubectl-appsvc", "status", "web")
		if strings.Count(output, want.until) >= want.times {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(250 * time.Millisecond):
		}
	}
	return fmt.Errorf("after %s, the status does not contain %q: %s", want.command, want.until, output)
}

// environ returns the environment of a plain shell.
func (s *shell) environ() []string {
	bin := filepath.Join(s.dir, "bin")
	return []string{
		"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"),
		"KUBECONFIG=" + filepath.Join(s.dir, ".demo", "hub.kubeconfig"),
		"HOME=" + s.dir, "TERM=xterm-256color", "LANG=C.UTF-8", "INPUTRC=/dev/null", "HISTFILE=",
		"PS1=" + prompt,
	}
}
