package timetravel

import (
	"context"
	"fmt"
	"testing"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/internal/environment"
)

// TestRestore restores the hub and then a member from backups of the same time. The operator runs
// all the time. Each step continues where the previous one ended.
func TestRestore(t *testing.T) {
	skipUnlessSampled(t, 0)
	f := newFleet(t, "east", "north", "south")
	if err := f.StartOperator(t.Context(), 1, "--leader-elect=false", environment.Propagate); err != nil {
		t.Fatal(err)
	}
	f.Join(t, "north", nil)
	f.Join(t, "south", nil)
	r := &restored{fleet: f}
	for _, step := range []struct {
		name string
		do   func(*testing.T)
	}{
		{"a backup is made, and changes follow it", r.change},
		{"a restored hub deletes nothing and says what it lost", r.restoreHub},
		{"the documented way out brings the hub up to date", r.repairHub},
		{"a restored member deletes nothing and is brought up to date", r.restoreMember},
	} {
		if !t.Run(step.name, step.do) {
			return
		}
	}
}

// restored is a fleet with AppServices that are named by what happens to them after the backup.
type restored struct {
	*fleet

	kept, edited, moved, narrowed, removed, created, configured *v1alpha1.AppService

	saved backups
}

var everywhere = framework.OnAllClusters

func (r *restored) change(t *testing.T) {
	r.kept = r.create(t, "kept", everywhere)
	r.edited = r.create(t, "edited", framework.OnClusters("north", "south"))
	r.moved = r.create(t, "moved", framework.OnClusters("north"))
	r.narrowed = r.create(t, "narrowed", framework.OnClusters("north", "south"))
	r.removed = r.create(t, "removed", framework.OnClusters("north", "south"))
	r.greet(t, "hello")
	r.configured = r.create(t, "configured", framework.OnClusters("north", "south"), withSettings)
	r.awaitReady(t, []*v1alpha1.AppService{r.kept, r.edited, r.narrowed, r.removed, r.configured}, "north", "south")
	r.awaitReady(t, []*v1alpha1.AppService{r.moved}, "north")
	r.awaitGreeting(t, r.configured, "hello", "north", "south")

	r.saved = r.backUp(t, r.Hub, r.Members["north"])

	r.Join(t, "east", nil)
	r.EditApp(t, r.edited, framework.Image("web:2"), framework.Replicas(3))
	r.EditApp(t, r.moved, framework.OnClusters("south"))
	r.EditApp(t, r.narrowed, framework.OnClusters("north"), framework.Image("web:2"))
	r.created = r.create(t, "created", framework.OnClusters("north"))
	r.greet(t, "hi")
	if err := r.Hub.Client.Delete(t.Context(), r.removed); err != nil {
		t.Fatal(err)
	}
	r.awaitGreeting(t, r.configured, "hi", "north", "south")
	r.awaitReady(t, []*v1alpha1.AppService{r.configured}, "north", "south")
	r.awaitReady(t, []*v1alpha1.AppService{r.kept}, "east", "north", "south")
	r.awaitReady(t, []*v1alpha1.AppService{r.edited}, "north", "south")
	r.awaitReady(t, []*v1alpha1.AppService{r.moved}, "south")
	r.awaitReady(t, []*v1alpha1.AppService{r.created, r.narrowed}, "north")
	r.awaitGone(t, r.removed)
}

func (r *restored) awaitGone(t *testing.T, app *v1alpha1.AppService) {
	t.Helper()
	r.Eventually(t, app.Name+" to be gone", func(ctx context.Context) error { return r.Hub.CheckAbsent(ctx, app) })
}

// restoreHub takes the hub back. The hub lost the edits, the placement, a content of the ConfigMap, a new
// AppService and a new member, and got back a deleted AppService.
func (r *restored) restoreHub(t *testing.T) {
	before, deletions := r.inventory(t), r.countDeletions(t)
	r.restore(t, r.saved, r.Hub)
	if err := r.Hub.CheckAbsent(t.Context(), r.created); err != nil {
		t.Fatal(err)
	}
	r.awaitReason(t, r.edited, v1alpha1.ReasonHubBehind)
	r.awaitReason(t, r.moved, v1alpha1.ReasonHubBehind)
	r.awaitReason(t, r.narrowed, v1alpha1.ReasonHubBehind)
	r.awaitReason(t, r.configured, v1alpha1.ReasonHubBehind)
	r.awaitGreeting(t, r.configured, "hi", "north", "south")
	// The deletion is lost too, so the AppService is delivered again.
	r.awaitReady(t, []*v1alpha1.AppService{r.kept, r.removed}, "north", "south")
	r.expectKept(t, before)
	r.expectNoDeletion(t, deletions)
	// It was moved away from south by an edit that only north shows.
	if found, isThere := r.inventory(t)["south"][r.narrowed.Name]; isThere {
		t.Errorf("the lost state was created on south: %+v", found)
	}
}

// repairHub brings the hub up to date, as from Git, and accepts it. Meanwhile, Git has another image and
// another content than those that were lost.
func (r *restored) repairHub(t *testing.T) {
	before := r.inventory(t)
	r.EditApp(t, r.edited, framework.Image("web:3"), framework.Replicas(3))
	r.EditApp(t, r.moved, framework.OnClusters("south"))
	r.greet(t, "good morning")
	r.EditApp(t, r.narrowed, framework.OnClusters("north"), framework.Image("web:3"))
	for _, app := range []*v1alpha1.AppService{r.edited, r.moved, r.narrowed, r.configured} {
		r.Eventually(t, app.Name+" to be planned", func(ctx context.Context) error {
			current, err := r.ReadApp(ctx, app)
			if err != nil {
				return err
			}
			return framework.IsObserved(current)
		})
		message := r.awaitReason(t, app, v1alpha1.ReasonHubBehind) // an edit does not end it
		r.annotateAsPrinted(t, app, v1alpha1.AnnotationAcceptHub, message)
	}
	r.awaitReady(t, []*v1alpha1.AppService{r.edited, r.configured}, "north", "south")
	r.awaitImage(t, r.edited, "web:3", "north", "south")
	r.awaitGreeting(t, r.configured, "good morning", "north", "south")
	r.awaitReady(t, []*v1alpha1.AppService{r.moved}, "south")
	r.awaitReady(t, []*v1alpha1.AppService{r.narrowed}, "north")
	if err := r.Hub.Client.Delete(t.Context(), r.removed); err != nil {
		t.Fatal(err)
	}
	r.created = r.create(t, "created", framework.OnClusters("north"))
	r.Join(t, "east", nil)
	r.awaitReady(t, []*v1alpha1.AppService{r.created}, "north")
	r.awaitReady(t, []*v1alpha1.AppService{r.kept}, "east", "north", "south")
	r.awaitGone(t, r.removed)
	for _, name := range r.MemberNames() {
		delete(before[name], r.removed.Name)
	}
	delete(before["north"], r.moved.Name) // the restored hub had delivered it there again
	r.expectKept(t, before)
}

// restoreMember takes north back to before the edits. It has the old spec of an AppService and an old
// content of the ConfigMap, lacks another AppService, and has the objects of two that are not there any
// more.
func (r *restored) restoreMember(t *testing.T) {
	deletions := r.countDeletions(t)
	r.restore(t, r.saved, r.Members["north"])
	before := r.inventory(t)
	r.Eventually(t, "north to be Ready", func(ctx context.Context) error { return r.CheckMembersReady(ctx, "north") })
	r.awaitReady(t, []*v1alpha1.AppService{r.edited, r.configured}, "north", "south")
	r.awaitImage(t, r.edited, "web:3", "north", "south")
	r.awaitGreeting(t, r.configured, "good morning", "north", "south")
	r.awaitReady(t, []*v1alpha1.AppService{r.created}, "north")
	r.awaitReady(t, []*v1alpha1.AppService{r.kept}, "east", "north", "south")
	// The restored member has an AppService that has left it: somebody must say what is intended.
	message := r.awaitEntry(t, r.moved, "north", v1alpha1.ReasonRemovalNeedsApproval)
	r.expectKept(t, before)
	r.expectNoDeletion(t, deletions)
	r.annotateAsPrinted(t, r.moved, v1alpha1.AnnotationAcceptRemovals, message)
	r.awaitReady(t, []*v1alpha1.AppService{r.moved}, "south")
}

// awaitImage waits until the Deployment of an AppService on each of these members has an image.
func (r *restored) awaitImage(t *testing.T, app *v1alpha1.AppService, image string, members ...string) {
	t.Helper()
	r.Eventually(t, fmt.Sprintf("%v to run %s", members, image), func(ctx context.Context) error {
		for _, name := range members {
			deployment, err := r.Members[name].Deployment(ctx, app)
			if err != nil {
				return err
			}
			if got := deployment.Spec.Template.Spec.Containers[0].Image; got != image {
				return fmt.Errorf("%s: %s has the image %s", name, app.Name, got)
			}
		}
		return nil
	})
}

// awaitEntry waits until an entry has a reason, and returns its message.
func (f *fleet) awaitEntry(t *testing.T, app *v1alpha1.AppService, cluster, reason string) (message string) {
	t.Helper()
	f.Eventually(t, app.Name+" to be "+reason+" on "+cluster, func(ctx context.Context) error {
		current, err := f.ReadApp(ctx, app)
		if err != nil {
			return err
		}
		entry := current.Status.Cluster(cluster)
		if entry == nil || entry.Reason != reason {
			return fmt.Errorf("the entry is %+v", entry)
		}
		message = entry.Message
		return nil
	})
	return message
}
