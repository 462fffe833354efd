package upgrade

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/environment"
)

// fleet is a hub and its members, with no operator and no CRDs yet.
type fleet struct {
	hub     *cluster
	members map[string]*cluster
}

// cluster is one with a client.
type cluster struct {
	environment.Cluster
	api client.Client
}

func newFleet(t *testing.T, members ...string) *fleet {
	t.Helper()
	made, err := environment.CreateAll(t.Context(), theEnvironment, append([]string{"hub"}, members...)...)
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{members: map[string]*cluster{}}
	for _, c := range made {
		api, err := environment.NewClient(c.Kubeconfig())
		if err != nil {
			t.Fatal(err)
		}
		f.members[c.Name()] = &cluster{c, api}
	}
	f.hub = f.members["hub"]
	delete(f.members, "hub")
	for _, member := range f.members {
		member.giveStorage(t)
	}
	return f
}

// giveStorage makes volumes for the claims of the restricted sample.
func (c *cluster) giveStorage(t *testing.T) {
	t.Helper()
	for i := range 2 {
		volume := &corev1.PersistentVolume{}
		volume.Name = fmt.Sprintf("volume-%d", i)
		volume.Spec = corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/nowhere"}},
		}
		if err := c.api.Create(t.Context(), volume); err != nil {
			t.Fatalf("%s: %v", c.Name(), err)
		}
	}
}

// installCRDs does what make install does: with -k config/crd, or -f and the directory of a release.
func (f *fleet) installCRDs(t *testing.T, flag, dir string) {
	t.Helper()
	f.hub.kubectl(t, "apply", "--server-side", flag, dir)
	eventually(t, "the CRDs to be served", func(ctx context.Context) error {
		return errors.Join(f.hub.api.List(ctx, &v1alpha1.AppServiceList{}), f.hub.api.List(ctx, &v1alpha1.MemberClusterList{}))
	})
}

// join makes clusters members, with these labels. The Secrets' namespace has to be there.
func (f *fleet) join(t *testing.T, labels map[string]map[string]string) {
	t.Helper()
	for name, of := range labels {
		if err := environment.Join(t.Context(), f.hub.api, f.members[name], of); err != nil {
			t.Fatal(err)
		}
	}
}

// startOperator starts it without an election, which is no part of what is looked at.
func (f *fleet) startOperator(t *testing.T) environment.Operator {
	t.Helper()
	operator, err := theEnvironment.StartOperator(t.Context(), f.hub, 1, "--leader-elect=false")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the operator's log ends:\n%s", environment.Tail(operator.Log(), 40))
		}
	})
	return operator
}

// kubectl runs the real one against the cluster.
func (c *cluster) kubectl(t *testing.T, args ...string) {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, c.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	args = append(args, "--kubeconfig", kubeconfig, "--cache-dir", filepath.Join(t.TempDir(), "cache"))
	output, err := exec.CommandContext(t.Context(), filepath.Join(*binFlag, "kubectl"), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %v: %v\n%s", args, err, output)
	}
}

// eventually waits until check returns nil, or ends the test.
func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	if err := environment.Await(t.Context(), patience, what, check); err != nil {
		t.Fatal(err)
	}
}
