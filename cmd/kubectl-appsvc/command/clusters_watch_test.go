package command_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/command"
)

func TestClusters_say_when_the_operator_does_not_run(t *testing.T) {
	createMembers(t)
	const missing = "! no operator runs: there is no Lease fleetwright-system/fleetwright (see --secret-namespace), so what you see may be old\n"
	if got := run(t, "clusters"); got.code != 0 || got.errOut != missing || strings.Count(got.out, "\n") != 4 {
		t.Errorf("%+v", got)
	}
	run(t, "clusters", "north", "-o", "name").check(t, result{out: "membercluster.fleetwright.dev/north\n", errOut: missing})
	createLease(t, time.Now().Add(-time.Hour))
	if got := run(t, "clusters"); got.code != 0 || !strings.HasPrefix(got.errOut, "! the operator has not renewed its Lease for 60m, so what you see may be old") {
		t.Errorf("%+v", got)
	}
}

// watchClusters runs clusters --watch with these flags until the test ends it.
func watchClusters(t *testing.T, flags ...string) (out *notifier, end func() result) {
	t.Helper()
	_, out = newNotifier()
	ctx, interrupt := context.WithCancel(t.Context())
	errOut := &bytes.Buffer{}
	done := make(chan int)
	go func() {
		done <- command.Run(ctx, "test", append([]string{"clusters", "--watch", "--kubeconfig", hubKubeconfig}, flags...),
			genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: out, ErrOut: errOut})
	}()
	return out, func() result {
		interrupt()
		return result{<-done, out.text.String(), errOut.String()}
	}
}

// In a pipe, a watch prints the list and then only what changes.
func TestClusters_watch(t *testing.T) {
	createLease(t, time.Now().Add(time.Hour)) // it does not expire in this test
	createMembers(t)
	table, endTable := watchClusters(t)
	names, endNames := watchClusters(t, "-o", "name", "-l", "topology.kubernetes.io/region in (ap, eu)")
	awaitText(t, table, "south   False")
	awaitText(t, names, "membercluster.fleetwright.dev/east\nmembercluster.fleetwright.dev/north\n")
	east := &v1alpha1.MemberCluster{}
	if err := hub.Get(t.Context(), client.ObjectKey{Name: "east"}, east); err != nil {
		t.Fatal(err)
	}
	east.Status.Conditions[0].Status, east.Status.Conditions[0].Reason = metav1.ConditionFalse, "Unreachable"
	if err := hub.Status().Update(t.Context(), east); err != nil {
		t.Fatal(err)
	}
	awaitText(t, table, "east    False   Unreachable")
	if err := hub.Delete(t.Context(), &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "north"}}); err != nil {
		t.Fatal(err)
	}
	awaitText(t, table, "north   <deleted>")
	awaitText(t, names, "membercluster.fleetwright.dev/north\nmembercluster.fleetwright.dev/east\n")
	if got := endTable(); got.code != 0 || got.errOut != "" || strings.Count(got.out, "\n") != 6 || strings.Count(got.out, "NAME") != 1 {
		t.Errorf("%+v", got)
	}
	if got := endNames(); got.code != 0 || got.errOut != "" || strings.Count(got.out, "\n") != 3 {
		t.Errorf("%+v", got)
	}
}
