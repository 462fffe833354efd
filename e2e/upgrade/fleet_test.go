package upgrade

import (
	"context"
	"errors"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/framework"
)

// fleet is the fleet of a test.
type fleet struct{ *framework.Fleet }

// newFleet creates a fleet without an operator and without CRDs.
func newFleet(t *testing.T, members ...string) *fleet {
	t.Helper()
	created, err := framework.New(t.Context(), env, members...)
	if err != nil {
		t.Fatal(err)
	}
	for _, member := range created.Members {
		member.CreateVolumes(t, 2) // for the claims of the restricted sample
	}
	return &fleet{created}
}

// kubectl runs kubectl against a cluster.
func kubectl(t *testing.T, c *framework.Cluster, args ...string) {
	t.Helper()
	c.Kubectl(t, *binFlag, args...)
}

// installCRDs applies the CRDs, as make install does: with -k config/crd, or with -f and the
// directory of a release.
func (f *fleet) installCRDs(t *testing.T, flag, dir string) {
	t.Helper()
	kubectl(t, f.Hub, "apply", "--server-side", flag, dir)
	f.Eventually(t, "the CRDs to be served", func(ctx context.Context) error {
		return errors.Join(f.Hub.Client.List(ctx, &v1alpha1.AppServiceList{}), f.Hub.Client.List(ctx, &v1alpha1.MemberClusterList{}))
	})
}

// startOperator starts the operator without leader election.
func (f *fleet) startOperator(t *testing.T) {
	t.Helper()
	if err := f.StartOperator(t.Context(), 1, "--leader-elect=false", "--member-probe-interval=2s"); err != nil {
		t.Fatal(err)
	}
}

// editRare edits an AppService of testdata/rare.yaml.
func (f *fleet) editRare(t *testing.T, name string, change framework.Change) {
	t.Helper()
	app := &v1alpha1.AppService{}
	if err := f.Hub.Client.Get(t.Context(), client.ObjectKey{Namespace: "rare", Name: name}, app); err != nil {
		t.Fatal(err)
	}
	f.EditApp(t, app, change)
}
