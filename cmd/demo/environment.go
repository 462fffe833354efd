package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/environment"
	"github.com/fleetwright/fleetwright/internal/environment/kind"
	"github.com/fleetwright/fleetwright/internal/environment/kwok"
)

// defaultImage is the operator's image on kind: that of `make image`.
const defaultImage = "localhost/fleetwright:dev"

// localEnvironment is the environment of a demo, which outlives the command.
type localEnvironment interface {
	environment.Environment

	// CheckPrograms returns an error if something is missing that clusters and the operator need.
	CheckPrograms() error

	// Lock makes this process the only one that uses the directory.
	Lock() error

	// IsOperatorCurrent reports whether the operator runs the last build.
	IsOperatorCurrent() bool
}

// invocation is how the user runs the demo.
type invocation struct {
	// target is the target of make. command is the command line of the other commands.
	target, command string
	// follow is the command line that follows the operator's log.
	follow string
	// simulated is true if pods do not really run.
	simulated bool
}

func newDemo(environment, dir, bin, image string, members []string) (*demo, error) {
	d := &demo{bin: bin, initial: members, invocation: invocation{target: "demo", command: program()}}
	var err error
	switch environment {
	case "kwok":
		d.dir = cmp.Or(dir, ".demo")
		d.simulated = true
		d.follow = "tail -f " + filepath.Join(d.dir, "operator.log")
		d.env, err = kwok.New(kwok.Options{Dir: d.dir, Bin: bin, Config: config})
	case "kind":
		d.dir = cmp.Or(dir, ".demo-kind")
		d.target, d.command = "kind-demo", d.command+" -environment kind"
		d.follow = filepath.Join(bin, "kubectl") + " logs -n fleetwright-system deployment/fleetwright -f"
		d.env, err = kind.New(kind.Options{Dir: d.dir, Root: ".", Image: image})
		if image != defaultImage {
			d.command += " -image " + image
		}
	default:
		err = fmt.Errorf("unknown environment %q: want kwok or kind", environment)
	}
	if err != nil {
		return nil, err
	}
	if dir != "" {
		d.command += " -dir " + dir
	}
	return d, d.env.Lock()
}

// program returns the command line of this program: as the user called it, or the command that built
// it in a temporary directory.
func program() string {
	if filepath.Base(os.Args[0]) == os.Args[0] {
		return os.Args[0] // found in PATH
	}
	dir, err := os.Getwd()
	if err != nil {
		return os.Args[0]
	}
	called := os.Args[0]
	if filepath.IsAbs(called) {
		if called, err = filepath.Rel(dir, called); err != nil {
			return os.Args[0]
		}
	}
	if filepath.IsLocal(called) {
		return called
	}
	return "go run ./cmd/demo"
}

// image loads the image of the sample onto the members' nodes, if pods are real.
func (d *demo) image(ctx context.Context, members ...string) error {
	env, ok := d.env.(interface {
		Obtain(ctx context.Context, of environment.Cluster, image string) (bool, error)
	})
	if !ok {
		return nil
	}
	content, err := os.ReadFile(sample)
	if err != nil {
		return err
	}
	app := &v1alpha1.AppService{}
	if err := yaml.Unmarshal(content, app); err != nil {
		return fmt.Errorf("read %s: %w", sample, err)
	}
	var without []string
	if err := step("image "+app.Spec.Image, func() error {
		for _, name := range members {
			member, err := d.member(name)
			if err != nil {
				return err
			}
			pulled, err := env.Obtain(ctx, member, app.Spec.Image)
			if err != nil {
				return err
			}
			if !pulled {
				without = append(without, name)
			}
		}
		return nil
	}); err != nil {
		return err
	}
	if len(without) > 0 {
		say("  it cannot be pulled: on %s, another small web server, %s, runs under its name", strings.Join(without, ", "), kind.Workload)
	}
	return nil
}
