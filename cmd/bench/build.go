package main

import (
	"context"
	_ "embed" // for the profiler
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// build builds the operators of the run, and returns the writers in the order of their names.
func (s settings) build(ctx context.Context, dir string) ([]contender, error) {
	if s.base == "" {
		say("building the operator")
		program := filepath.Join(dir, operatorWriter)
		return []contender{{name: nakedWriter}, {name: operatorWriter, program: program}}, buildOperator(ctx, ".", dir, program, s.profile)
	}
	say("building the operators of this tree and of %s", s.base)
	base, head := contender{name: baseWriter, program: filepath.Join(dir, baseWriter)}, contender{name: headWriter, program: filepath.Join(dir, headWriter)}
	tree := filepath.Join(dir, "base-tree")
	if err := extract(ctx, s.base, tree); err != nil {
		return nil, err
	}
	return []contender{base, head}, errors.Join(
		buildOperator(ctx, tree, dir, base.program, false),
		buildOperator(ctx, ".", dir, head.program, false),
		os.RemoveAll(tree),
	)
}

// extract writes the source tree of a commit to a new directory.
func extract(ctx context.Context, commit, dir string) error {
	if err := os.Mkdir(dir, 0o750); err != nil {
		return err
	}
	archive := dir + ".tar"
	if output, err := exec.CommandContext(ctx, "git", "archive", "--format=tar", "--output="+archive, commit).CombinedOutput(); err != nil {
		return fmt.Errorf("read commit %s: %w\n%s", commit, err, output)
	}
	if output, err := exec.CommandContext(ctx, "tar", "-xf", archive, "-C", dir).CombinedOutput(); err != nil {
		return fmt.Errorf("extract commit %s: %w\n%s", commit, err, output)
	}
	return os.Remove(archive)
}

// profiler is a file that an overlay of the build adds to the operator: it serves profiles. The
// operator as it is shipped has no such endpoint.
//
//go:embed profiler.go.txt
var profiler []byte

// profilerVariable is the environment variable with the address of the profiler.
const profilerVariable = "FLEETWRIGHT_BENCH_PROFILER"

// buildOperator builds the operator of a source tree.
func buildOperator(ctx context.Context, tree, dir, program string, profiled bool) error {
	absolute, err := filepath.Abs(tree)
	if err != nil {
		return err
	}
	args := []string{"build", "-trimpath", "-buildvcs=false", "-o", program}
	if profiled {
		file, overlay := filepath.Join(dir, "profiler.go"), filepath.Join(dir, "overlay.json")
		content, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(absolute, "cmd", "fleetwright", "profiler_bench.go"): file}})
		if err != nil {
			return err
		}
		if err := errors.Join(os.WriteFile(file, profiler, 0o600), os.WriteFile(overlay, content, 0o600)); err != nil {
			return err
		}
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "./cmd/fleetwright")...)
	cmd.Dir = absolute
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the operator of %s: %w\n%s", absolute, err, output)
	}
	return nil
}
