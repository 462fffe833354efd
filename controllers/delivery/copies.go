package delivery

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/configuration/snapshots"
	"github.com/fleetwright/fleetwright/controllers/delivery/copies"
	"github.com/fleetwright/fleetwright/controllers/delivery/object"
	"github.com/fleetwright/fleetwright/controllers/numbering"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/revision"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// maxSerials is how many serials of a member are reported: more than an AppService has sources.
const maxSerials = 64

// copyMemory is what this process knows about the copies that a Deployment owns. The record in the
// Deployment says the rest.
type copyMemory struct {
	owner types.UID // of the Deployment
	// serials has the serial of each copy that is there, which is 0 for a Versioned one, and notThere
	// for one that is not.
	serials map[copies.Key]int64
	// uids has the UIDs of copies that are updated in place, if this process has applied them.
	uids map[copies.Key]types.UID
	// recorded has the serial with which the record last listed a copy that is there.
	recorded map[copies.Key]int64
	// nextPrune is when to try again to delete copies, after it failed.
	nextPrune time.Time
	// sameSpec are the first and the last of the last generations of the Deployment that differ only in
	// its record.
	sameSpec struct{ first, last int64 }
	// recordTime is when the record was written last.
	recordTime time.Time
}

func newCopyMemory(owner types.UID) copyMemory {
	return copyMemory{owner: owner, serials: map[copies.Key]int64{}, uids: map[copies.Key]types.UID{}, recorded: map[copies.Key]int64{}}
}

// compareWithRecord compares what is known of a copy with the record. If the record had it, or a newer
// content of it, the member was restored to an earlier state.
func (m *copyMemory) compareWithRecord(key copies.Key, record copies.Record) {
	serial, isRecorded := record.Serial(key)
	last, wasRecorded := m.recorded[key]
	switch {
	case m.serials[key] == notThere:
		delete(m.recorded, key)
	case isRecorded && (!wasRecorded || serial >= last):
		m.recorded[key] = serial
	case isRecorded:
		m.serials[key], m.recorded[key] = serial, serial
	case wasRecorded:
		m.serials[key] = notThere
		delete(m.recorded, key)
	}
}

// noteRecorded records that the record of a Deployment was written.
func (m *copyMemory) noteRecorded(before, after int64, now time.Time) {
	if after == 0 {
		return
	}
	if m.sameSpec.last != before {
		m.sameSpec.first = before
	}
	m.sameSpec.last, m.recordTime = after, now
}

// awaitsCache reports whether a Deployment is from before its record was written a moment ago. To write
// the record again would be a conflict.
func (m *copyMemory) awaitsCache(deployment client.Object, now time.Time) bool {
	return deployment.GetUID() == m.owner && deployment.GetGeneration() < m.sameSpec.last && now.Sub(m.recordTime) < maxCacheLag
}

// withObserved makes the status of a Deployment count although its record has changed since. A change
// of annotations raises the generation. Without this, each would look like a rollout for a moment.
func (m *copyMemory) withObserved(deployment *appsv1.Deployment) {
	if deployment != nil && deployment.UID == m.owner && deployment.Generation <= m.sameSpec.last && deployment.Status.ObservedGeneration >= m.sameSpec.first {
		deployment.Status.ObservedGeneration = max(deployment.Status.ObservedGeneration, deployment.Generation)
	}
}

const notThere = -1

// withConfiguration returns the task with the copies that the member needs. The snapshots are those of
// its revision.
func withConfiguration(t task, named []configuration.Named) (task, error) {
	if len(t.spec.Configuration) == 0 {
		return t, nil
	}
	app := *t.app
	app.Spec = *t.spec
	var err error
	t.copyNames, t.copies, err = workload.Configuration(&app, t.member, named)
	switch {
	case workload.IsInvalid(err):
		return t, &object.Blocker{Reason: v1alpha1.ReasonInvalidOverride, Message: err.Error()}
	case errors.Is(err, workload.ErrNoSnapshot):
		return t, &object.Blocker{Reason: v1alpha1.ReasonSnapshotMissing, Message: "the cluster keeps what it runs: " + err.Error()}
	}
	return t, err
}

// needs reports whether the member needs a copy.
func (t task) needs(key copies.Key) bool {
	return slices.ContainsFunc(t.copies, func(c workload.Copy) bool { return copies.KeyOf(c) == key })
}

// hasCopies reports whether the AppService has or had copies on the member.
func (t task) hasCopies() bool {
	return len(t.copies) > 0 || len(t.memory.copies.serials) > 0 || t.objects.isManaged() && t.objects.deployment.Annotations[v1alpha1.AnnotationCopies] != ""
}

// recordedCopies returns the copies that the Deployment in the member's cache lists.
func (o objects) recordedCopies() copies.Record {
	if deployment := o.facts["Deployment"]; deployment == nil || !deployment.IsManagedByThisHub() {
		return nil
	}
	return copies.ParseRecord(o.deployment.Annotations[v1alpha1.AnnotationCopies])
}

// confirmedOwner returns the UID of the Deployment that owns the copies in the record of the Deployment,
// or "" if the record was written before they were applied. It is the UID of another Deployment if
// somebody created the Deployment again from a backup.
func (o objects) confirmedOwner() types.UID {
	return copies.ConfirmedOwner(o.deployment.Annotations[v1alpha1.AnnotationCopies], o.deployment.UID)
}

// serials returns the serials in the record of the Deployment, without those of copies that may not be
// there.
func (t task) serials() []observation.ConfigurationSerial {
	var serials []observation.ConfigurationSerial
	for _, recorded := range t.objects.recordedCopies() {
		if recorded.Serial > 0 && len(serials) < maxSerials && (t.isApplied(recorded.Key) || t.isConfirmed(recorded.Key)) {
			serials = append(serials, observation.ConfigurationSerial{Kind: v1alpha1.ConfigurationKind(recorded.Kind), Copy: recorded.Name, Serial: recorded.Serial})
		}
	}
	slices.SortFunc(serials, func(a, b observation.ConfigurationSerial) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Copy, b.Copy))
	})
	return serials
}

// copyRecord returns the record that the Deployment must have: what it lists already, what this
// process knows, and what the member needs.
func (t task) copyRecord() copies.Record {
	record, known := t.objects.recordedCopies(), t.memory.copies.serials
	for _, key := range slices.SortedFunc(maps.Keys(known), compareKeys) {
		if known[key] != notThere {
			record = record.With(copies.Recorded{Key: key, Serial: known[key]})
		}
	}
	record = record.Without(func(key copies.Key) bool {
		serial, isKnown := known[key]
		return isKnown && serial == notThere && !t.needs(key)
	})
	for _, needed := range t.copies {
		if _, found := record.Serial(copies.KeyOf(needed)); !found {
			record = record.With(copies.Recorded{Key: copies.KeyOf(needed), Serial: needed.Serial})
		}
	}
	return record.Bounded(t.needs)
}

// copyAnnotation returns the record as it is written. That of a new Deployment is not confirmed. It stays
// so if the rollout of the Deployment will prove that the copies are there, which saves a request for
// each member.
func (t task) copyAnnotation() string {
	record := t.copyRecord()
	isOptional := func(needed workload.Copy) bool { return !t.isRequired(copies.KeyOf(needed)) }
	switch deployment := t.objects.deployment; {
	case deployment == nil:
		return record.String()
	case t.objects.isOwned("Deployment") && deployment.Annotations[v1alpha1.AnnotationCopies] == record.String() && !slices.ContainsFunc(t.copies, isOptional):
		return record.String()
	default:
		return record.ConfirmedFor(deployment.UID)
	}
}

// isApplied reports whether this process knows that a copy is there.
func (t task) isApplied(key copies.Key) bool {
	serial, isKnown := t.memory.copies.serials[key]
	return isKnown && serial != notThere
}

// isConfirmed reports whether a copy that the record lists was applied for the Deployment on the member:
// the record says so, or the Deployment has rolled out and could not have without the copy.
func (t task) isConfirmed(key copies.Key) bool {
	switch t.objects.confirmedOwner() {
	case t.objects.deployment.UID:
		return true
	case "":
		return t.isRequired(key) && t.objects.hasRolledOut()
	}
	return false
}

// isRequired reports whether the Deployment on the member has pods that do not start without the copy.
func (t task) isRequired(key copies.Key) bool {
	spec := &t.objects.deployment.Spec
	return ptr.Deref(spec.Replicas, 1) > 0 && copies.IsRequired(&spec.Template.Spec, key)
}

func compareKeys(a, b copies.Key) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
}

// learnCopies brings what is known of the copies up to date with the Deployment that owns them. The
// record counts for copies that the Deployment uses. Others may have been deleted by a process that
// ended before it could write that. It does not count for a Deployment whose copies may never have
// been applied: one of an earlier AppService, one that has taken the place of another, and one whose
// record is not confirmed. A content that is newer than that of the hub is left alone. A serial that is
// an outlier says nothing about the content, so the copy is applied.
func (t task) learnCopies() {
	deployment, known := t.objects.deployment, &t.memory.copies
	isReplaced := known.owner != "" && known.owner != deployment.UID || !t.objects.isOwned("Deployment")
	if known.owner != deployment.UID {
		*known = newCopyMemory(deployment.UID)
	}
	record, uses := t.objects.recordedCopies(), t.usedNames()
	for _, needed := range t.copies {
		key := copies.KeyOf(needed)
		if _, isKnown := known.serials[key]; isKnown {
			known.compareWithRecord(key, record)
			continue
		}
		known.serials[key] = notThere
		serial, isRecorded := record.Serial(key)
		isRecorded = isRecorded && !numbering.IsOutlier(serial, max(needed.Serial, t.app.Status.ConfigurationSerial))
		if isRecorded && !isReplaced && t.isConfirmed(key) && (serial > needed.Serial || uses(key.Name)) {
			known.serials[key], known.recorded[key] = serial, serial
		}
	}
}

// usedNames returns a function that reports whether the Deployment on the member uses the copy with
// this name. A copy that no pod refers to is used by the revision that lists it.
func (t task) usedNames() func(string) bool {
	if revision.Of(t.objects.deployment) == t.entry.Revision {
		return func(string) bool { return true }
	}
	var template []byte
	return func(name string) bool {
		if template == nil {
			template, _ = json.Marshal(t.objects.deployment.Spec.Template.Spec)
		}
		return strings.Contains(string(template), name)
	}
}

// applyCopies applies the copies that the Deployment on the member will need, before it is changed. A
// Deployment that does not exist comes first, because it owns the copies, and one that is not managed yet
// or belongs to an earlier AppService is checked first. If only a newer content is refused for a copy that
// is there, the rest continues, and the error is returned as outdated.
func (r *reconciler) applyCopies(ctx context.Context, t task) (outdated, err error) {
	deployment := t.objects.facts["Deployment"]
	if !t.hasCopies() || deployment == nil || !deployment.IsOwned() || deployment.IsBeingDeleted() {
		return nil, nil
	}
	t.learnCopies()
	return r.applyMissingCopies(ctx, t)
}

// applyCopiesOfNew applies the copies of a Deployment that was created a moment ago, or is about to be
// adopted.
func (r *reconciler) applyCopiesOfNew(ctx context.Context, t task, owner types.UID) error {
	if len(t.copies) == 0 {
		return nil
	}
	known := &t.memory.copies
	if known.owner != owner { // otherwise some may have been applied before an earlier try failed
		*known = newCopyMemory(owner)
	}
	for _, needed := range t.copies {
		if _, isKnown := known.serials[copies.KeyOf(needed)]; !isKnown {
			known.serials[copies.KeyOf(needed)] = notThere
		}
	}
	outdated, err := r.applyMissingCopies(ctx, t)
	return errors.Join(outdated, err)
}

// applyMissingCopies applies the needed copies that are not there, or have an older content.
func (r *reconciler) applyMissingCopies(ctx context.Context, t task) (outdated, err error) {
	for _, needed := range t.copies {
		serial := t.memory.copies.serials[copies.KeyOf(needed)]
		if serial != notThere && serial >= needed.Serial {
			continue
		}
		err := r.applyCopy(ctx, t, needed, serial != notThere)
		switch {
		case err != nil && serial == notThere:
			return outdated, err
		case err != nil:
			outdated = errors.Join(outdated, err)
		}
	}
	return outdated, nil
}

// applyCopy applies one copy, or updates one that is there.
func (r *reconciler) applyCopy(ctx context.Context, t task, needed workload.Copy, isThere bool) error {
	content, err := r.snapshots.Content(ctx, t.app, v1alpha1.ConfigurationKind(needed.Kind), needed.Snapshot)
	if err != nil {
		return err
	}
	defer content.Release()
	key, known := copies.KeyOf(needed), &t.memory.copies
	object := copies.Object{
		Key:         key,
		Namespace:   t.app.Namespace,
		AppService:  t.app.Name,
		Deployment:  known.owner,
		IsImmutable: needed.Serial == 0,
		Content:     content.Fields(),
	}
	var uid types.UID
	begin := time.Now()
	if isThere {
		uid, err = r.copies.Update(ctx, object, known.uids[key])
	} else {
		uid, err = r.copies.Apply(ctx, object)
	}
	measureApply(r.cluster, err, time.Since(begin))
	if err != nil {
		delete(known.uids, key) // it may be the UID of a copy that is gone
		return err
	}
	known.serials[key] = needed.Serial
	if needed.Serial > 0 {
		known.uids[key] = uid
	}
	ctrl.LoggerFrom(ctx).Info("Applied", "kind", needed.Kind, "name", needed.Name, "serial", needed.Serial)
	return nil
}

// pruneCopies deletes the copies that the member does not need any more, after the rollout of the
// Deployment is complete there: until then, a pod of an older revision may restart. The Deployment in
// the member's cache has every desired field. A live read of the hub confirms each deletion. It reports
// whether it deleted any.
func (r *reconciler) pruneCopies(ctx context.Context, t task) (pruned bool) {
	isNeeded := func(recorded copies.Recorded) bool { return t.needs(recorded.Key) }
	record := t.objects.recordedCopies()
	if !slices.ContainsFunc(record, func(recorded copies.Recorded) bool { return !isNeeded(recorded) }) || !t.objects.hasRolledOut() {
		return false
	}
	known := &t.memory.copies
	if time.Now().Before(known.nextPrune) {
		return false
	}
	confirmed := r.remover.confirmation(t)
	for _, recorded := range record {
		if isNeeded(recorded) || known.serials[recorded.Key] == notThere {
			continue
		}
		err := r.copies.Delete(ctx, t.app.Namespace, recorded.Key, known.owner, confirmed.renew)
		if errors.Is(err, errNotVerified) {
			return pruned // the hub's next event is on its way
		}
		if err != nil {
			ctrl.LoggerFrom(ctx).Info("Cannot delete a copy", "kind", recorded.Kind, "name", recorded.Name, "reason", redact(err))
			known.nextPrune = time.Now().Add(blockerRetry)
			return pruned
		}
		pruned = true
		known.serials[recorded.Key] = notThere
		delete(known.recorded, recorded.Key)
		delete(known.uids, recorded.Key)
		ctrl.LoggerFrom(ctx).Info("Deleted", "kind", recorded.Kind, "name", recorded.Name)
	}
	return pruned
}

// forgetGone forgets the copies that are gone and that the record does not list.
func (t task) forgetGone() {
	record := t.objects.recordedCopies()
	maps.DeleteFunc(t.memory.copies.serials, func(key copies.Key, serial int64) bool {
		_, isRecorded := record.Serial(key)
		return serial == notThere && !isRecorded && !t.needs(key)
	})
}

// restoreCopies applies the copies again that may be missing according to what was found in the pods.
// A member that has a newer content than the hub keeps it.
func (r *reconciler) restoreCopies(ctx context.Context, t task) error {
	if !t.objects.isOwned("Deployment") || t.memory.copies.owner != t.objects.deployment.UID {
		return nil
	}
	found := t.memory.pods
	var errs error
	for _, needed := range t.copies {
		if !found.suspects(needed, t.objects.deployment.Spec.Template.Spec) || t.memory.copies.serials[copies.KeyOf(needed)] > needed.Serial {
			continue
		}
		errs = errors.Join(errs, r.applyCopy(ctx, t, needed, false))
	}
	return errs
}

// suspects reports whether pods may wait for a copy: the kubelet names it, they wait for volumes for
// long, or they cannot pull their image and need it for that.
func (p podDiagnosis) suspects(needed workload.Copy, pod corev1.PodSpec) bool {
	switch p.reason {
	case v1alpha1.ReasonContainerConfig, v1alpha1.ReasonFailedMount:
		if strings.Contains(p.message, needed.Name) {
			return true
		}
	case v1alpha1.ReasonImagePullBackOff:
		return needed.Kind == workload.Secret && slices.Contains(pod.ImagePullSecrets, corev1.LocalObjectReference{Name: needed.Name})
	}
	return p.waitsForVolumes
}

// refusedCopy returns why a cluster stops at a copy that its member refuses, or nil.
func refusedCopy(err error) *object.Blocker {
	var (
		answer  *copies.Error
		notCopy *copies.NotCopyError
	)
	switch {
	case errors.As(err, &notCopy):
		return &object.Blocker{Reason: v1alpha1.ReasonConflict, Message: "the cluster keeps what it runs: " + notCopy.Error()}
	case errors.As(err, &answer) && answer.IsRefused():
		return &object.Blocker{Reason: v1alpha1.ReasonConfigurationRefused, Message: fmt.Sprintf(
			"%v; the cluster keeps what it runs: if permissions are missing, apply config/member/configuration to the member, otherwise see its quotas and admission policies", answer)}
	case snapshots.IsMissing(err):
		return &object.Blocker{Reason: v1alpha1.ReasonSnapshotMissing, Message: "the cluster keeps what it runs: " + err.Error()}
	}
	return nil
}
