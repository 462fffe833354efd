// Package lineage decides whether an object on a member comes from a spec that this hub has
// planned, or from a hub state that a restore has undone. It is pure.
//
// Each object on a member has a stamp: the AppService (UID and creation time), its generation, and
// a hash of its spec. The status of the AppService has a short history of the specs that this hub
// has planned. It is written together with the plan, so the status names a spec before any member
// has an object with the stamp of that spec. An etcd restore resets the status together with the
// spec. Therefore an object is ahead of the hub if the history does not account for its stamp, even
// when later edits have brought the generation to the same number.
//
// An object of another AppService of the same hub, namespace and name is ahead if that AppService
// was created later than this one: the restore brought back an AppService that had been deleted. A
// rebuilt hub creates its AppServices later than the AppServices that the objects on the members
// name, so it takes these objects over.
//
// Delivery does not compare stamps with what is desired: a generation that changes nothing on a member,
// such as an edit of the placement, causes no write.
//
// A stamp also has the number of a placement, see [IsAhead]: a removal is evidence only about the
// objects of the placement that it ends.
package lineage

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/numbering"
)

// maxPlanned is the maximum number of planned specs in a status. A cluster that was away during
// more edits than that is not checked.
const maxPlanned = 64

// maxUID limits a UID that is read from a member. Real UIDs have 36 characters.
const maxUID = 64

// Stamp identifies the AppService, and the state of it, for which an object was applied.
type Stamp struct {
	UID types.UID
	// Created is the creation time of the AppService; zero on objects of older versions.
	Created time.Time
	// Generation is 0 on an object without a stamp.
	Generation int64
	// SpecHash is empty on objects of older versions.
	SpecHash string
	// Revision is the revision of a Deployment, and 0 on other objects.
	Revision int64
	// Placement is the placement of the entry; 0 on objects of older versions.
	Placement int64
	// ObjectCreated is the creation time of the object itself.
	ObjectCreated time.Time
}

// Of returns the stamp of an object on a member. A malformed value counts as missing.
func Of(object metav1.Object) Stamp {
	annotations := object.GetAnnotations()
	stamp := Stamp{
		UID: types.UID(annotations[v1alpha1.AnnotationUID]), SpecHash: annotations[v1alpha1.AnnotationSpecHash],
		ObjectCreated: object.GetCreationTimestamp().Time,
	}
	if generation, err := strconv.ParseInt(annotations[v1alpha1.AnnotationGeneration], 10, 64); err == nil {
		stamp.Generation = generation
	}
	if created, err := time.Parse(time.RFC3339, annotations[v1alpha1.AnnotationCreated]); err == nil {
		stamp.Created = created
	}
	stamp.Revision = numbering.Parse(annotations[v1alpha1.AnnotationRevision])
	stamp.Placement = numbering.Parse(annotations[v1alpha1.AnnotationPlacement])
	return stamp
}

// For returns the stamp of the objects that are applied for an entry of an AppService now. It has a
// spec hash only if the status accounts for the spec.
func For(app *v1alpha1.AppService, entry *v1alpha1.ClusterStatus) Stamp {
	stamp := Stamp{UID: app.UID, Created: app.CreationTimestamp.Time, Generation: app.Generation, Placement: entry.Placement}
	if len(app.Status.PlannedSpecs) > 0 && app.Status.PlannedSpecs[0].Generation == app.Generation {
		stamp.SpecHash = app.Status.PlannedSpecs[0].Hash
	}
	return stamp
}

// Annotations returns the annotations of the stamp, without the UID, which marks the owner.
func (s Stamp) Annotations() map[string]string {
	annotations := map[string]string{v1alpha1.AnnotationGeneration: strconv.FormatInt(s.Generation, 10)}
	if s.SpecHash != "" {
		annotations[v1alpha1.AnnotationSpecHash] = s.SpecHash
	}
	if !s.Created.IsZero() {
		annotations[v1alpha1.AnnotationCreated] = s.Created.UTC().Format(time.RFC3339)
	}
	if s.Placement != 0 {
		annotations[v1alpha1.AnnotationPlacement] = strconv.FormatInt(s.Placement, 10)
	}
	return annotations
}

// tokenFor returns the value with which a user accepts that a stamp is ahead of an AppService.
func tokenFor(app *v1alpha1.AppService, s Stamp) string {
	if s.UID == app.UID && isSpecPlanned(app, s) { // the revision is ahead
		sum := sha256.Sum256(fmt.Appendf(nil, "%q revision %d", s.UID, s.Revision))
		return fmt.Sprintf("r%d-%s", s.Revision, hex.EncodeToString(sum[:4]))
	}
	return s.Token()
}

// Token returns the value with which a user accepts this stamp and no other, if the hub has not
// planned its spec.
func (s Stamp) Token() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %d", s.UID, s.SpecHash, s.Generation))
	return fmt.Sprintf("%d-%s", s.Generation, hex.EncodeToString(sum[:4]))
}

// IsAhead reports whether the hub cannot account for the stamp and no user has accepted it. The
// stamp must be from an object of this hub with the namespace and name of the AppService, on the
// cluster of the entry. The entry may be nil.
func IsAhead(app *v1alpha1.AppService, entry *v1alpha1.ClusterStatus, s Stamp) bool {
	if s.UID != app.UID {
		return s.Created.After(app.CreationTimestamp.Time) && !accepts(app, s.Token())
	}
	return !IsPlanned(app, s) && !accepts(app, tokenFor(app, s)) ||
		isAfterRemoval(app, entry, s) && !accepts(app, s.placementToken())
}

// IsPlanned reports whether the hub accounts for a stamp of the same AppService: for its spec and for
// its revision.
// docs/decisions/lineage-is-compared-not-generations.md says why.
func IsPlanned(app *v1alpha1.AppService, s Stamp) bool {
	return isSpecPlanned(app, s) && !hasLaterRevision(app, s)
}

// hasLaterRevision reports whether a stamp has a higher revision than the hub knows. A change of
// the configuration is a new revision of the same spec, and so is a retry. So the history of specs
// does not show that a restore has undone it. A hub whose status was lost knows no revision. An
// outlier is no revision of any hub, so delivery corrects it as drift.
func hasLaterRevision(app *v1alpha1.AppService, s Stamp) bool {
	if !app.HasConfiguration() && app.Spec.Rollout == nil || app.Status.Rollout.Revision == 0 {
		return false
	}
	latest := LatestRevision(app)
	return s.Revision > latest && !numbering.IsOutlier(s.Revision, latest)
}

// LatestRevision returns the highest revision in the status of an AppService, without its entries.
func LatestRevision(app *v1alpha1.AppService) int64 {
	known := app.Status.Rollout
	return max(known.Revision, known.LatestRevision, known.StableRevision, known.PreviousRevision, known.FailedRevision)
}

// isSpecPlanned reports whether the history accounts for the spec of a stamp of the same
// AppService. A stamp without a hash, or an AppService without a history, is checked by the
// generation alone. Otherwise the history accounts for a stamp in two cases:
//
//   - The history has the spec, at the generation of the stamp or at a later one. For example, a
//     deletion raises the generation and keeps the spec.
//   - The stamp is older than the history, which started again because the status was lost, or
//     which is full. Such a stamp is no evidence of a restore, because a restore drops generations
//     that are later than the newest one in its backup.
func isSpecPlanned(app *v1alpha1.AppService, s Stamp) bool {
	if s.SpecHash == "" {
		return s.Generation <= app.Generation
	}
	history := app.Status.PlannedSpecs
	if len(history) == 0 {
		return s.Generation <= unrecorded(app)
	}
	oldest := history[len(history)-1]
	if s.Generation < oldest.Generation || s.Generation == oldest.Generation && oldest.Hash == "" {
		return true
	}
	return slices.ContainsFunc(history, func(p v1alpha1.PlannedSpec) bool { return p.Hash == s.SpecHash && p.Generation >= s.Generation })
}

// unrecorded returns the generation up to which an AppService without a history may have been
// planned. A status of an older version has the observed generation. A status that was lost has
// none, so every generation may have been planned.
func unrecorded(app *v1alpha1.AppService) int64 {
	if app.Status.ObservedGeneration > 0 {
		return app.Status.ObservedGeneration
	}
	return app.Generation
}

// Planned returns the history for the next status: the specs that were planned, newest first. A
// status of an older version gets its history with the next edit, so that an upgrade writes
// nothing. That history starts with the observed generation, without a hash.
func Planned(app *v1alpha1.AppService) []v1alpha1.PlannedSpec {
	history := app.Status.PlannedSpecs
	switch observed := app.Status.ObservedGeneration; {
	case len(history) > 0 && history[0].Generation == app.Generation:
		return history
	case len(history) == 0 && observed == app.Generation:
		return nil
	case len(history) == 0 && observed > 0:
		history = []v1alpha1.PlannedSpec{{Generation: observed}}
	}
	older := slices.DeleteFunc(slices.Clone(history), func(p v1alpha1.PlannedSpec) bool { return p.Generation >= app.Generation })
	next := append([]v1alpha1.PlannedSpec{{Generation: app.Generation, Hash: hash(app)}}, older...)
	return next[:min(len(next), maxPlanned)]
}

// IsRecorded reports whether the status has the plan of the present spec: the history begins with
// its generation. An AppService without a history, of an older version, counts as recorded. Entries
// in the status appear together with the history. Entries in slices may be seen before it.
func IsRecorded(app *v1alpha1.AppService) bool {
	history := app.Status.PlannedSpecs
	return len(history) == 0 || history[0].Generation >= app.Generation
}

// hash returns a hash of the spec.
func hash(app *v1alpha1.AppService) string {
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&app.Spec)
	if err != nil {
		return "" // no API type causes this error; the stamp is then checked by its generation
	}
	return contentHash(spec)
}

// PlacementHash returns a hash of spec.placement. If a cluster that has not changed leaves the
// plan, only spec.placement can be the reason.
func PlacementHash(app *v1alpha1.AppService) string { return contentHash(app.Spec.Placement) }

// ReplicasHash returns a hash of the fields of the spec that set the replicas of each cluster. If a
// cluster is to have fewer replicas and the hash has not changed, clusters have.
func ReplicasHash(app *v1alpha1.AppService) string {
	spec := &app.Spec
	type override struct {
		Match    v1alpha1.ClusterMatch
		Replicas *int32
	}
	var overrides []override
	for _, o := range spec.Overrides {
		if o.Replicas != nil {
			overrides = append(overrides, override{o.ClusterMatch, o.Replicas})
		}
	}
	return contentHash([]any{spec.Placement, spec.Replicas, spec.ReplicaPolicy, spec.Autoscaling, spec.ExternallyScaled, overrides})
}

// contentHash returns a hash that depends only on the content, because encoding/json sorts the keys
// of maps.
func contentHash(of any) string {
	content, err := json.Marshal(of)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:8])
}
