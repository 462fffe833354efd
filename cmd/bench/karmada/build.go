// Package karmada installs Karmada beside the benchmark's members: the peer of `make bench
// BENCH='-peer karmada'`. Karmada is the release that tools/karmada/go.mod names, unmodified.
//
// [Build] builds its programs. [Prepare] writes the certificates, and the API server of Karmada's hub
// starts with [Installation.HubFlags]. [Installation.Install] applies what Karmada's Helm chart
// applies, from the files of Karmada's module. [Installation.Start] starts the processes, with the
// flags of that chart, and [Installation.Join] leaves a member as `karmadactl join` does.
package karmada

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	// moduleDir is the module with Karmada's version, below the root of the repository.
	moduleDir = "tools/karmada"
	// module is the name of Karmada's module.
	module = "github.com/karmada-io/karmada"
)

// Programs are the programs of a release of Karmada.
type Programs struct {
	// Version is the release, such as v1.18.2.
	Version string
	// source is the directory of Karmada's module: its chart is there.
	source string
	// dir is the directory of the programs.
	dir string
}

// Check returns an error if Karmada cannot be built.
func Check() error {
	if _, err := os.Stat(filepath.Join(moduleDir, "go.mod")); err != nil {
		return fmt.Errorf("%s lacks go.mod: run the benchmark from the root of the repository", moduleDir)
	}
	if _, err := exec.LookPath("go"); err != nil {
		return errors.New("go is not installed, which builds Karmada")
	}
	_, err := cacheDir()
	return err
}

// cacheDir returns the directory of the built programs of all releases.
func cacheDir() (string, error) {
	caches, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a directory for the programs of Karmada: %w", err)
	}
	return filepath.Join(caches, "fleetwright", "karmada"), nil
}

// Build builds Karmada's programs, some minutes the first time, into the user's cache.
func Build(ctx context.Context) (Programs, error) {
	if _, err := goCommand(ctx, "mod", "download", module); err != nil {
		return Programs{}, err
	}
	output, err := goCommand(ctx, "list", "-m", "-f", "{{.Version}} {{.Dir}}", module)
	if err != nil {
		return Programs{}, err
	}
	version, source, found := strings.Cut(strings.TrimSpace(output), " ")
	cache, err := cacheDir()
	if err != nil || !found {
		return Programs{}, errors.Join(err, fmt.Errorf("find %s: %q", module, output))
	}
	p := Programs{Version: version, source: source, dir: filepath.Join(cache, version)}
	if err := os.MkdirAll(p.dir, 0o750); err != nil {
		return Programs{}, err
	}
	_, err = goCommand(ctx, "build", "-trimpath", "-o", p.dir+string(filepath.Separator), "tool")
	return p, err
}

// goCommand runs go in the module with Karmada's version.
func goCommand(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = moduleDir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var problems strings.Builder
	cmd.Stderr = &problems
	output, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("go %s in %s: %w\n%s", strings.Join(args, " "), moduleDir, err, problems.String())
	}
	return string(output), nil
}
