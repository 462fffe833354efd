// Package install installs Fleetwright on real clusters as a user does: with its Helm chart, and by the
// commands of docs/install.md for kind.
package install

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/internal/environment/kind"
)

var (
	kindFlag  = flag.Bool("kind", false, "run the tests, which need a Docker engine and the images (make e2e-kind)")
	imageFlag = flag.String("image", "localhost/fleetwright:dev", "the operator's image")
)

const (
	root = "../.."
	// published is the image of the chart's default values. The nodes have ours under this name.
	published = "ghcr.io/fleetwright/fleetwright:v0.0.0"
)

// suite has the clusters of the tests, which run side by side.
type suite struct {
	*kind.Environment
	// document has the clusters that the commands of docs/install.md create.
	document documentedClusters
}

var env suite

func TestMain(m *testing.M) {
	flag.Parse()
	if !*kindFlag {
		os.Exit(m.Run())
	}
	var err error
	env.Environment, err = kind.New(kind.Options{Dir: root + "/.e2e-kind/install", Root: root, Image: *imageFlag, Workloads: map[string][]string{kind.Workload: {"web:1"}, *imageFlag: {published}}})
	if err != nil {
		fmt.Fprintln(os.Stderr, "install:", err)
		os.Exit(1)
	}
	os.Exit(framework.Main(m, framework.MainOptions{Name: "install", Environment: &env}))
}

// needKind skips a test unless the flag is set.
func needKind(t *testing.T) {
	t.Helper()
	if !*kindFlag {
		t.Skip("needs a Docker engine and the flag -kind; make e2e-kind runs it")
	}
	t.Parallel() // it mostly waits
}

// Clean also removes the clusters of the document, if this process has created them.
func (s *suite) Clean(ctx context.Context) error {
	return errors.Join(s.document.delete(), s.Environment.Clean(ctx))
}
