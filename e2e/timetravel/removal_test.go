package timetravel

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/internal/environment"
)

// TestRestoredRemoval restores the hub to the removal from a member that could not be reached. After the
// backup, the removal was completed and the workload placed there again, without an edit. The operator
// does not run during the restore.
func TestRestoredRemoval(t *testing.T) {
	skipUnlessSampled(t, 1)
	f := newFleet(t, "north", "south")
	f.startQuickly(t)
	f.Join(t, "north", blue)
	f.Join(t, "south", blue)
	r := &removal{fleet: f, app: f.create(t, "moved", onBlue)}
	f.awaitReady(t, []*v1alpha1.AppService{r.app}, "north", "south")
	for _, step := range []struct {
		name string
		do   func(*testing.T)
	}{
		{"a member that cannot be reached leaves the placement, and a backup is made", r.leave},
		{"the member returns, is cleaned, and gets the workload again", r.placeAgain},
		{"the restored removal deletes nothing", r.restoreHub},
		{"a removal that is accepted is completed", r.accept},
		{"a missing workload is created again although a member cannot be reached", r.recreate},
	} {
		if !t.Run(step.name, step.do) {
			return
		}
	}
}

// removal is a fleet with an AppService that is placed by a label of the members.
type removal struct {
	*fleet

	app   *v1alpha1.AppService
	saved backups
}

var blue = map[string]string{"color": "blue"}

func onBlue(s *v1alpha1.AppServiceSpec) {
	s.Placement = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterSelector: &v1alpha1.ClusterSelector{MatchLabels: blue}}}
}

// paint labels the Secret of a member, which need not be reachable.
func (f *fleet) paint(t *testing.T, member, color string) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: environment.SecretNamespace, Name: member}}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{"color":%q}}}`, color)
	if err := f.Hub.Client.Patch(t.Context(), secret, client.RawPatch(types.MergePatchType, patch)); err != nil {
		t.Fatal(err)
	}
}

// startQuickly starts an operator that soon notices that a member cannot be reached.
func (f *fleet) startQuickly(t *testing.T) {
	t.Helper()
	if err := f.StartOperator(t.Context(), 1, "--leader-elect=false", "--member-probe-interval=2s"); err != nil {
		t.Fatal(err)
	}
}

// stopMember stops a member, and waits until its entry says so.
func (r *removal) stopMember(t *testing.T, name string) {
	t.Helper()
	if err := r.Members[name].Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.awaitEntry(t, r.app, name, v1alpha1.ReasonClusterUnreachable)
}

func (r *removal) startMember(t *testing.T, name string) {
	t.Helper()
	if err := r.Members[name].Start(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (r *removal) leave(t *testing.T) {
	r.stopMember(t, "south")
	r.paint(t, "south", "red")
	r.Eventually(t, "the removal from south to start", func(ctx context.Context) error {
		current, err := r.ReadApp(ctx, r.app)
		if err == nil {
			err = isRemoving(current, "south")
		}
		return err
	})
	r.saved = r.backUp(t, r.Hub)
}

func (r *removal) placeAgain(t *testing.T) {
	r.startMember(t, "south")
	r.awaitReady(t, []*v1alpha1.AppService{r.app}, "north")
	r.Eventually(t, "south to be cleaned", func(ctx context.Context) error { return r.Members["south"].CheckAbsent(ctx, deploymentOf(r.app)) })
	r.paint(t, "south", "blue")
	r.awaitReady(t, []*v1alpha1.AppService{r.app}, "north", "south")
	r.RefreshApp(t, r.app)
	if r.app.Generation != 1 {
		t.Fatalf("the AppService was edited: generation %d", r.app.Generation)
	}
}

func (r *removal) restoreHub(t *testing.T) {
	if err := r.Operator.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	before, deletions := r.inventory(t), r.countDeletions(t)
	r.restore(t, r.saved, r.Hub)
	r.startQuickly(t)
	r.awaitEntry(t, r.app, "south", v1alpha1.ReasonHubBehind)
	r.awaitReason(t, r.app, v1alpha1.ReasonHubBehind)
	r.expectKept(t, before)
	r.expectNoDeletion(t, deletions)
}

func (r *removal) accept(t *testing.T) {
	r.annotateAsPrinted(t, r.app, v1alpha1.AnnotationAcceptHub, r.awaitReason(t, r.app, v1alpha1.ReasonHubBehind))
	r.awaitReady(t, []*v1alpha1.AppService{r.app}, "north")
	r.paint(t, "south", "blue")
	r.awaitReady(t, []*v1alpha1.AppService{r.app}, "north", "south")
}

func (r *removal) recreate(t *testing.T) {
	if err := r.Operator.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.Members["south"].Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	gone := deploymentOf(r.app)
	if err := r.Members["north"].Client.Delete(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	r.Eventually(t, "the Deployment to be gone", func(ctx context.Context) error { return r.Members["north"].CheckAbsent(ctx, gone) })
	requests := r.requestsToHub(t)
	r.startQuickly(t)
	var created time.Time
	r.Eventually(t, "the Deployment to be created again", func(ctx context.Context) error {
		deployment, err := r.Members["north"].Deployment(ctx, r.app)
		if err == nil {
			created = deployment.CreationTimestamp.Time
		}
		return err
	})
	first := r.requestsToHub(t)[len(requests)]
	if took := created.Sub(first.At); took >= rollout.ReportTimeout {
		t.Errorf("created again %s after the first request of the operator: it waited for a report of south", framework.Round(took))
	} else {
		t.Logf("created again after %s", framework.Round(took))
	}
	r.startMember(t, "south")
	r.awaitReady(t, []*v1alpha1.AppService{r.app}, "north", "south")
}

// requestsToHub returns the requests of all operators to the hub.
func (f *fleet) requestsToHub(t *testing.T) []environment.Request {
	t.Helper()
	all, err := f.Hub.Requests(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// isRemoving returns an error unless an entry waits for a member that cannot be reached.
func isRemoving(app *v1alpha1.AppService, cluster string) error {
	entry := app.Status.Cluster(cluster)
	if entry == nil || entry.Phase != v1alpha1.ClusterRemoving || entry.Reason != v1alpha1.ReasonClusterUnreachable {
		return fmt.Errorf("the entry is %+v", entry)
	}
	return nil
}

func deploymentOf(app *v1alpha1.AppService) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name}}
}
