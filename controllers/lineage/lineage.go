// Package lineage decides whether an object on a member comes from what this hub has planned, or from a hub state that a restore
// has undone. It is pure.
//
// Each object on a member has a stamp: the AppService (UID and creation time), its generation, and a hash of its spec. The status of
// the AppService has a short history of the specs that this hub has planned. It is written together with the plan, so the
// status names a spec before any member has an object that is stamped with it. An etcd restore takes the status back together with the
// spec. So an object is ahead of the hub when the history does not account for its stamp, even when later edits have brought the
// generations level.
//
// An object of another AppService of the same hub, namespace and name is ahead when that AppService was created later than this
// one: the restore brought back an AppService that had been deleted. A rebuilt hub creates its AppServices later than those that the members' objects
// name, so it takes over what they run.
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
)

// maxPlanned is how many planned specs a status keeps. A cluster that was away during more edits than that is not checked.
const maxPlanned = 64

// maxUID bounds what is taken from a member as a UID. Real ones have 36 characters.
const maxUID = 64

// Stamp says which state of which AppService an object was applied for.
type Stamp struct {
	UID types.UID
	// Created is when the AppService was created; zero on objects of older versions.
	Created time.Time
	// Generation is 0 on an object without a stamp.
	Generation int64
	// SpecHash is empty on objects of older versions.
	SpecHash string
}

// Of returns the stamp of a member's object. A value that is malformed counts as missing.
func Of(object metav1.Object) Stamp {
	annotations := object.GetAnnotations()
	stamp := Stamp{UID: types.UID(annotations[v1alpha1.AnnotationUID]), SpecHash: annotations[v1alpha1.AnnotationSpecHash]}
	if generation, err := strconv.ParseInt(annotations[v1alpha1.AnnotationGeneration], 10, 64); err == nil {
		stamp.Generation = generation
	}
	if created, err := time.Parse(time.RFC3339, annotations[v1alpha1.AnnotationCreated]); err == nil {
		stamp.Created = created
	}
	return stamp
}

// For returns the stamp of what is applied for an AppService now. It has a spec hash only if the status accounts for it.
func For(app *v1alpha1.AppService) Stamp {
	stamp := Stamp{UID: app.UID, Created: app.CreationTimestamp.Time, Generation: app.Generation}
	if len(app.Status.PlannedSpecs) > 0 && app.Status.PlannedSpecs[0].Generation == app.Generation {
		stamp.SpecHash = app.Status.PlannedSpecs[0].Hash
	}
	return stamp
}

// Annotations returns the annotations of the stamp, but for the UID, which marks the owner.
func (s Stamp) Annotations() map[string]string {
	annotations := map[string]string{v1alpha1.AnnotationGeneration: strconv.FormatInt(s.Generation, 10)}
	if s.SpecHash != "" {
		annotations[v1alpha1.AnnotationSpecHash] = s.SpecHash
	}
	if !s.Created.IsZero() {
		annotations[v1alpha1.AnnotationCreated] = s.Created.UTC().Format(time.RFC3339)
	}
	return annotations
}

// Token returns the name by which a person accepts this stamp and no other.
func (s Stamp) Token() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %d", s.UID, s.SpecHash, s.Generation))
	return fmt.Sprintf("%d-%s", s.Generation, hex.EncodeToString(sum[:4]))
}

// IsAhead reports whether the hub cannot account for the stamp, and nobody has accepted that. The stamp must be that of an
// object of this hub with the namespace and name of the AppService.
func IsAhead(app *v1alpha1.AppService, s Stamp) bool {
	if s.UID != app.UID {
		return s.Created.After(app.CreationTimestamp.Time) && !accepts(app, s.Token())
	}
	return !IsPlanned(app, s) && !accepts(app, s.Token())
}

// IsPlanned reports whether the history accounts for a stamp of the same AppService:
//
//   - The history has the spec, at the stamp's generation or at a later one: a deletion, for example, raises the generation and keeps the spec.
//   - The stamp is older than the history, which began again when the status was lost, or is full. That is no evidence of a
//     restore: a restore loses generations that are later than the newest one in its backup.
func IsPlanned(app *v1alpha1.AppService, s Stamp) bool {
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

// unrecorded returns the generation up to which an AppService without a history may have been planned: a status of an older version
// says what it observed, and a status that was lost says nothing.
func unrecorded(app *v1alpha1.AppService) int64 {
	if app.Status.ObservedGeneration > 0 {
		return app.Status.ObservedGeneration
	}
	return app.Generation
}

// Planned returns the history for the next status: the specs that were planned, newest first. A status of an older version gets its history
// with the next edit, so that an upgrade writes nothing. That history begins with the generation that was observed, without a hash.
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

// hash returns a hash of the spec.
func hash(app *v1alpha1.AppService) string {
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&app.Spec)
	if err != nil {
		return "" // which no type of the API causes; the stamp then goes by its generation
	}
	return contentHash(spec)
}

// PlacementHash returns a hash of spec.placement, which alone decides why a cluster that has not changed leaves the plan.
func PlacementHash(app *v1alpha1.AppService) string { return contentHash(app.Spec.Placement) }

// contentHash depends on the content alone: encoding/json sorts the keys of maps.
func contentHash(of any) string {
	content, err := json.Marshal(of)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:8])
}
