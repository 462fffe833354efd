// Package source builds programs of the project, and reports which commit they are built from. The
// same commit and the same version of Go give the same bytes on every machine.
package source

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Tree is a clone of the project.
type Tree struct {
	Dir      string
	Revision string    // the commit, or unknown; with -dirty if the files differ from it
	Changes  string    // how the files differ from the commit, as git status prints it
	Time     time.Time // of the commit, or SOURCE_DATE_EPOCH
}

// Platform is an operating system and an architecture, in Go's terms.
type Platform struct{ OS, Arch string }

func (p Platform) String() string { return p.OS + "/" + p.Arch }

// Open returns the clone in a directory. Without Git, the commit is unknown and its time is 1970.
func Open(ctx context.Context, dir string) (*Tree, error) {
	tree := &Tree{Dir: dir, Revision: "unknown", Time: time.Unix(0, 0).UTC()}
	seconds := os.Getenv("SOURCE_DATE_EPOCH")
	if out, err := run(ctx, dir, nil, "git", "log", "-1", "--format=%H %ct"); err == nil {
		revision, committed, _ := strings.Cut(strings.TrimSpace(out), " ")
		tree.Revision = revision
		if seconds == "" {
			seconds = committed
		}
		if tree.Changes, err = run(ctx, dir, nil, "git", "status", "--porcelain"); err != nil {
			return nil, err
		}
		if tree.Changes != "" {
			tree.Revision += "-dirty"
		}
	}
	if seconds == "" {
		return tree, nil
	}
	epoch, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("SOURCE_DATE_EPOCH %q is no number of seconds", seconds)
	}
	tree.Time = time.Unix(epoch, 0).UTC()
	return tree, nil
}

// ParsePlatform returns a platform such as linux/amd64.
func ParsePlatform(text string) (Platform, error) {
	system, arch, found := strings.Cut(text, "/")
	if !found || system == "" || arch == "" || strings.Contains(arch, "/") {
		return Platform{}, fmt.Errorf("%q is no platform: want linux/amd64, linux/arm64 or another one without a variant", text)
	}
	return Platform{system, arch}, nil
}

// Build builds a package of the tree as a static binary that reports a version.
func (t *Tree) Build(ctx context.Context, pkg, version string, platform Platform, out string) error {
	// Variables that change the code are set, so that those of the caller have no effect.
	env := []string{
		"CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOWORK=off", "GOOS=" + platform.OS, "GOARCH=" + platform.Arch,
		"GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off",
	}
	_, err := run(ctx, t.Dir, env, "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -buildid= -X main.version="+version, "-o", out, pkg)
	return err
}

// run runs a program in a directory, and returns its standard output.
func run(ctx context.Context, dir string, env []string, program string, args ...string) (string, error) {
	var out, stderr bytes.Buffer
	command := exec.CommandContext(ctx, program, args...)
	command.Dir, command.Stdout, command.Stderr = dir, &out, &stderr
	command.Env = slices.Concat(os.Environ(), env)
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("%s: %w", program, errors.Join(err, errors.New(strings.TrimSpace(stderr.String()))))
	}
	return out.String(), nil
}
