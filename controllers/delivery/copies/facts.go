package copies

import (
	"cmp"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// Facts are what is decided on.
type Facts struct {
	App   *v1alpha1.AppService
	Entry *v1alpha1.ClusterStatus
	// Needed are the copies that the member needs.
	Needed []workload.Copy
	// Deployment is the Deployment in the member's cache; nil if there is none.
	Deployment *appsv1.Deployment
	// IsOwned is set if the Deployment belongs to the AppService, and IsManaged also if it belongs
	// to an earlier one of its name.
	IsOwned, IsManaged bool
	// HasRolledOut reports whether the Deployment is owned and completely available.
	HasRolledOut func() bool
	// NewOwner is the UID of a Deployment that was created a moment ago, or is about to be adopted.
	NewOwner types.UID
	// Memory is changed by what is learned and done.
	Memory *Memory
	Now    time.Time
}

// Any reports whether the AppService has or had copies on the member.
func (f Facts) Any() bool {
	return len(f.Needed) > 0 || len(f.Memory.known) > 0 || f.written() != ""
}

// written returns the record of a managed Deployment as it is written.
func (f Facts) written() string {
	if !f.IsManaged {
		return ""
	}
	return f.Deployment.Annotations[v1alpha1.AnnotationCopies]
}

// Record returns the copies that the Deployment lists.
func (f Facts) Record() Record { return ParseRecord(f.written()) }

// Confirmed returns the copies in the record that are on the member for sure.
func (f Facts) Confirmed() Record {
	return f.Record().Without(func(key Key) bool { return !f.Memory.isApplied(key) && !f.isConfirmed(key) })
}

// needs reports whether the member needs a copy.
func (f Facts) needs(key Key) bool {
	return slices.ContainsFunc(f.Needed, func(c workload.Copy) bool { return KeyOf(c) == key })
}

// DesiredAnnotation returns the record that the Deployment must have, as it is written. That of a
// new Deployment is not confirmed. It stays so if the rollout of the Deployment will prove that the
// copies are there, which saves a request for each member.
func (f Facts) DesiredAnnotation() string {
	if !f.Any() {
		return ""
	}
	record := f.desiredRecord()
	isOptional := func(needed workload.Copy) bool { return !f.isRequired(KeyOf(needed)) }
	switch deployment := f.Deployment; {
	case deployment == nil:
		return record.String()
	case f.IsOwned && f.written() == record.String() && !slices.ContainsFunc(f.Needed, isOptional):
		return record.String()
	default:
		return record.ConfirmedFor(deployment.UID)
	}
}

// desiredRecord returns what the Deployment lists already, what this process knows, and what the
// member needs.
func (f Facts) desiredRecord() Record {
	record := f.Record()
	for _, key := range slices.SortedFunc(maps.Keys(f.Memory.known), compareKeys) {
		if s := f.Memory.known[key]; s.isThere {
			record = record.With(Recorded{Key: key, Serial: s.serial})
		}
	}
	record = record.Without(func(key Key) bool { return f.Memory.isDeleted(key) && !f.needs(key) })
	for _, needed := range f.Needed {
		if _, found := record.Serial(KeyOf(needed)); !found {
			record = record.With(Recorded{Key: KeyOf(needed), Serial: needed.Serial})
		}
	}
	return record.Bounded(f.needs)
}

func compareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
}

// isConfirmed reports whether a copy that the record lists was applied for the Deployment on the
// member: the record says so, or the Deployment has rolled out and could not have without the copy.
// The record names another Deployment if the Deployment was created again from a backup.
func (f Facts) isConfirmed(key Key) bool {
	switch ConfirmedOwner(f.written(), f.Deployment.UID) {
	case f.Deployment.UID:
		return true
	case "":
		return f.isRequired(key) && f.HasRolledOut()
	}
	return false
}

// isRequired reports whether the Deployment on the member has pods that do not start without the
// copy.
func (f Facts) isRequired(key Key) bool {
	spec := &f.Deployment.Spec
	return ptr.Deref(spec.Replicas, 1) > 0 && IsRequired(&spec.Template.Spec, key)
}

// toApply returns the needed copies that are not there, or have an older content. It brings the
// memory up to date with the Deployment first.
func (f Facts) toApply() []workload.Copy {
	switch {
	case f.NewOwner != "" && len(f.Needed) > 0:
		f.learnNew()
	case f.NewOwner == "" && f.Any() && f.IsOwned && f.Deployment.DeletionTimestamp.IsZero():
		f.learn()
	default:
		return nil
	}
	return slices.DeleteFunc(slices.Clone(f.Needed), func(c workload.Copy) bool { return f.Memory.known[KeyOf(c)].has(c.Serial) })
}

// toDelete returns the copies that the record lists and that may be deleted: they are not needed,
// not known to be gone, and the rollout of the Deployment is complete.
func (f Facts) toDelete() []Key {
	var surplus []Key
	for _, recorded := range f.Record() {
		if !f.needs(recorded.Key) && !f.Memory.isDeleted(recorded.Key) {
			surplus = append(surplus, recorded.Key)
		}
	}
	if len(surplus) == 0 || f.Memory.owner != f.Deployment.UID || f.Memory.UntilDeletion(f.Now) > 0 || !f.HasRolledOut() {
		return nil
	}
	return surplus
}
