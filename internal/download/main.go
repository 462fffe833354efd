// Command download gets the published binaries of the control plane for tools/install.sh, so that
// the first `make demo` does not compile Kubernetes. tools/checksums.txt has their checksums.
//
//	download install [-not-in DIR] NAME@VERSION=FILE...
//	    prints `NAME PATH` for each tool that is in PATH with that version, or was downloaded to
//	    FILE. It reports the others on standard error, and the caller builds them.
//	download urls [OS/ARCH]    prints the URLs, to fill a mirror
//	download verify            fails if checksums.txt is not for the versions in go.mod
//	download update            writes checksums.txt again, from the published checksums
//
// If TOOLS_MIRROR is set to a URL or a directory, files come from TOOLS_MIRROR/HOST/PATH instead of
// https://HOST/PATH. `wget -x` writes this layout.
//
// The package imports only the standard library, so that `go run` downloads no module.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "tools: %v\n", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("download", flag.ContinueOnError)
	dir := flags.String("tools", "tools", "the directory of checksums.txt and of the modules that pin the versions")
	platform := flags.String("platform", runtime.GOOS+"/"+runtime.GOARCH, "the platform of the binaries")
	notIn := flags.String("not-in", "", "a directory of PATH that is not searched")
	if err := flags.Parse(args); err != nil {
		return err
	}
	file := filepath.Join(*dir, "checksums.txt")
	switch command := flags.Arg(0); command {
	case "install", "urls", "verify":
		entries, err := readEntries(file)
		if err != nil {
			return err
		}
		switch command {
		case "urls":
			for _, entry := range entries {
				if flags.NArg() == 1 || entry.platform == flags.Arg(1) {
					fmt.Println(entry.url)
				}
			}
			return nil
		case "verify":
			return verify(entries, *dir)
		}
		fetcher, err := newFetcher(os.Getenv("TOOLS_MIRROR"))
		if err != nil {
			return err
		}
		i := installation{entries: entries, platform: *platform, notIn: *notIn, fetcher: fetcher, terminal: isTerminal(os.Stderr), log: os.Stderr}
		return i.run(ctx, flags.Args()[1:], os.Stdout)
	case "update":
		fetcher, err := newFetcher(os.Getenv("TOOLS_MIRROR"))
		if err != nil {
			return err
		}
		return update(ctx, fetcher, *dir, file)
	default:
		return fmt.Errorf("%q is no command of download: use install, urls, verify or update", strings.Join(args, " "))
	}
}

func isTerminal(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
