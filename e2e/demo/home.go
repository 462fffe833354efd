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
	"github.com/fleetwright/fleetwright/e2e/environment"
	"github.com/fleetwright/fleetwright/e2e/environment/kind"
	"github.com/fleetwright/fleetwright/e2e/environment/kwok"
)

// home is the environment of a demo: it outlives the command.
type home interface {
	environment.Environment

	// CheckPrograms tells with a nil error that all is there that clusters and the operator are made from.
	CheckPrograms() error

	// Lock makes this process the only one that works with the directory.
	Lock() error

	// OperatorIsCurrent tells whether the operator that runs is the one that was built last.
	OperatorIsCurrent() bool
}

// way is how the demo is called.
type way struct {
	// target is make's, and command is that of all else.
	target, command string
	// follow shows the operator's log.
	follow string
}

func newDemo(environment, dir, bin, image string) (*demo, error) {
	d := &demo{bin: bin, way: way{target: "demo", command: "go run ./e2e/demo"}}
	var err error
	switch environment {
	case "kwok":
		d.dir = cmp.Or(dir, ".demo")
		d.follow = "tail -f " + filepath.Join(d.dir, "operator.log")
		d.env, err = kwok.New(kwok.Options{Dir: d.dir, Bin: bin, Config: config})
	case "kind":
		d.dir = cmp.Or(dir, ".demo-kind")
		d.target, d.command = "kind-demo", d.command+" -environment kind"
		d.follow = filepath.Join(bin, "kubectl") + " logs -n fleetwright-system deployment/fleetwright -f"
		d.env, err = kind.New(kind.Options{Dir: d.dir, Root: ".", Image: image})
	default:
		err = fmt.Errorf("there is no environment %q", environment)
	}
	if err != nil {
		return nil, err
	}
	return d, d.env.Lock()
}

// image has the members' nodes have the image of the sample, where pods really run.
func (d *demo) image(ctx context.Context) error {
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
	members, err := d.members()
	if err != nil {
		return err
	}
	var without []string
	if err := step("image "+app.Spec.Image, func() error {
		for _, member := range members {
			pulled, err := env.Obtain(ctx, member, app.Spec.Image)
			if err != nil {
				return err
			}
			if !pulled {
				without = append(without, member.Name())
			}
		}
		return nil
	}); err != nil {
		return err
	}
	if len(without) > 0 {
		say("  it cannot be pulled: on %s, another small web server, %s, goes by its name", strings.Join(without, ", "), kind.Workload)
	}
	return nil
}
