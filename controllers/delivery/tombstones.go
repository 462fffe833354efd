package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/delivery/object"
	"github.com/fleetwright/fleetwright/controllers/entries"
	"github.com/fleetwright/fleetwright/controllers/lineage"
	"github.com/fleetwright/fleetwright/controllers/placement"
)

// tombstones removes what is left of AppServices that were abandoned on this member while it could
// not be reached. Its tombstones are in the status of the MemberCluster.
type tombstones struct {
	hub       client.Reader // cached
	hubLive   client.Reader
	hubWriter client.StatusClient
	cluster   string
	reader    objectReader
	objects   *object.Member
	announcer announcer
}

// of returns the MemberCluster and its tombstones of one name.
func (t tombstones) of(ctx context.Context, from client.Reader, key types.NamespacedName) (*v1alpha1.MemberCluster, []v1alpha1.AbandonedAppService, error) {
	mc := &v1alpha1.MemberCluster{}
	if err := from.Get(ctx, client.ObjectKey{Name: t.cluster}, mc); err != nil {
		return nil, nil, client.IgnoreNotFound(err)
	}
	return mc, slices.DeleteFunc(slices.Clone(mc.Status.Abandoned), func(a v1alpha1.AbandonedAppService) bool {
		return a.Namespace != key.Namespace || a.Name != key.Name
	}), nil
}

// +kubebuilder:rbac:groups=fleetwright.dev,resources=memberclusters/status,verbs=patch

// process does what the tombstones of a name ask for, and removes those that are done. It reports
// whether it waits for something.
func (t tombstones) process(ctx context.Context, key types.NamespacedName) (waiting bool, err error) {
	if _, known, err := t.of(ctx, t.hub, key); err != nil || len(known) == 0 {
		return false, err
	}
	mc, all, err := t.of(ctx, t.hubLive, key) // a cache is no evidence to delete anything
	if err != nil {
		return false, fmt.Errorf("read tombstones: %w", err)
	}
	for _, tombstone := range all {
		left, err := t.processOne(ctx, tombstone)
		if err != nil {
			return false, err
		}
		if left > 0 {
			waiting = true
			continue
		}
		if err := t.dropTombstone(ctx, mc, tombstone); err != nil {
			return false, err
		}
	}
	return waiting, nil
}

// processOne does what one tombstone asks for, and returns how many objects are left.
func (t tombstones) processOne(ctx context.Context, tombstone v1alpha1.AbandonedAppService) (left int, err error) {
	use, readTime, err := t.readUse(ctx, tombstone)
	switch {
	case err != nil:
		return 0, err
	case use == usedUp:
		return 0, nil
	case use == undecided:
		return 1, nil
	}
	abandoned := &v1alpha1.AppService{}
	abandoned.Namespace, abandoned.Name, abandoned.UID = tombstone.Namespace, tombstone.Name, tombstone.UID
	read := t.reader.fromMember
	if use == deletesObjects {
		read = t.reader.allFromMember
	}
	found, err := read(ctx, abandoned, nil)
	if err != nil {
		return 0, err
	}
	verification := verification{readTime: readTime, read: func(ctx context.Context) (time.Time, error) {
		use, readTime, err := t.readUse(ctx, tombstone)
		if err == nil && use != deletesObjects {
			err = errNotVerified
		}
		return readTime, err
	}}
	for _, existing := range found.owned() {
		if lineage.IsAfterTombstone(tombstone, existing.Stamp) {
			continue // the tombstone is from a backup
		}
		left++
		if use == keepsObjects || existing.IsBeingDeleted() {
			continue
		}
		err := verification.renew(ctx)
		if errors.Is(err, errNotVerified) {
			return left, nil
		}
		if err == nil {
			err = client.IgnoreNotFound(t.objects.Delete(ctx, existing.Object))
		}
		if err != nil {
			return left, err
		}
		t.announcer.announce(nil, existing.Object, v1alpha1.ReasonRemoved, "Remove",
			"%s %s was deleted: AppService %s/%s was abandoned on this cluster while the cluster could not be reached",
			object.KindOf(existing), existing.GetName(), tombstone.Namespace, tombstone.Name)
	}
	return left, nil
}

// tombstoneUse is what a tombstone is good for, given what the hub has.
type tombstoneUse int

const (
	undecided      tombstoneUse = iota // the planner is about to write an entry, or to remove one
	usedUp                             // the objects belong to an entry
	keepsObjects                       // it waits for the objects, and is no evidence to delete them
	deletesObjects                     // it is evidence to delete the objects
)

// readUse reads the hub live. It returns what a tombstone is good for, and when the read began.
func (t tombstones) readUse(ctx context.Context, tombstone v1alpha1.AbandonedAppService) (tombstoneUse, time.Time, error) {
	readTime, app := time.Now(), &v1alpha1.AppService{}
	key := types.NamespacedName{Namespace: tombstone.Namespace, Name: tombstone.Name}
	if err := t.hubLive.Get(ctx, key, app); client.IgnoreNotFound(err) != nil {
		return undecided, readTime, fmt.Errorf("read AppService: %w", err)
	}
	entry, known, err := entries.Of(ctx, t.hubLive, app, t.cluster)
	switch {
	case err != nil || !known: // the planner writes the missing slice again
		return undecided, readTime, err
	case app.UID == tombstone.UID && entry != nil && entry.Phase == v1alpha1.ClusterRemoving: // it is about to go
		return undecided, readTime, nil
	case app.UID == tombstone.UID && entry != nil:
		return usedUp, readTime, nil
	}
	deletes, err := t.isEvidence(ctx, tombstone, app, entry)
	if deletes {
		return deletesObjects, readTime, err
	}
	return keepsObjects, readTime, err
}

// isEvidence reports whether a tombstone is evidence to delete the objects of its AppService, given
// what the hub has under that name now and its entry for this member. The tombstone may come from a
// backup.
//
// An AppService with the UID of the tombstone that still lives may have been placed here again
// since: its objects are reported as unplanned, and the planner decides. Another AppService of that
// name inherits the objects if it is placed here, or is about to be.
// docs/decisions/a-tombstone-is-no-evidence-while-its-appservice-lives.md says why.
func (t tombstones) isEvidence(ctx context.Context, tombstone v1alpha1.AbandonedAppService, app *v1alpha1.AppService, entry *v1alpha1.ClusterStatus) (bool, error) {
	switch {
	case app.UID == "":
		return true, nil
	case app.Status.IsHubBehind(), entry != nil && entry.HubBehind != nil:
		return false, nil
	case app.IsDeleting():
		return true, nil
	case app.UID == tombstone.UID:
		return false, nil
	case entry != nil:
		return entry.Phase == v1alpha1.ClusterRemoving, nil
	}
	mayCome, err := t.mayBePlaced(ctx, app)
	return !mayCome, err
}

// mayBePlaced reports whether the planner is about to place an AppService on this member, or would
// do so if the member were Ready. It returns true while the placement is invalid or entries are not
// known, because then the decision is not known.
func (t tombstones) mayBePlaced(ctx context.Context, app *v1alpha1.AppService) (bool, error) {
	var members v1alpha1.MemberClusterList
	if err := t.hub.List(ctx, &members, client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("list MemberClusters: %w", err)
	}
	all, stored, err := entries.Read(ctx, t.hub, app)
	if err != nil {
		return false, err
	}
	if app.Status.ClustersIn == v1alpha1.ClustersInSlices && stored.Missing() > 0 {
		return true, nil
	}
	plan, err := placement.Decide(entries.WithEntries(app, all), members.Items)
	if err != nil {
		return true, nil //nolint:nilerr // The planner reports an invalid placement; until it is valid, nothing is known.
	}
	decision := plan.Find(t.cluster)
	return decision.Chosen() || decision.Reason == v1alpha1.ReasonClusterNotReady, nil
}

// dropTombstone removes a tombstone from the MemberCluster.
func (t tombstones) dropTombstone(ctx context.Context, mc *v1alpha1.MemberCluster, tombstone v1alpha1.AbandonedAppService) error {
	updated := mc.DeepCopy()
	updated.Status.Abandoned = slices.DeleteFunc(updated.Status.Abandoned, func(a v1alpha1.AbandonedAppService) bool { return a.UID == tombstone.UID })
	if err := t.hubWriter.Status().Patch(ctx, updated, client.MergeFromWithOptions(mc, client.MergeFromWithOptimisticLock{})); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("remove the tombstone of AppService %s/%s: %w", tombstone.Namespace, tombstone.Name, err)
	}
	*mc = *updated
	ctrl.LoggerFrom(ctx).Info("Removed an abandoned AppService", "AppService", strings.Join([]string{tombstone.Namespace, tombstone.Name}, "/"), "uid", tombstone.UID)
	return nil
}
