package delivery

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// recordWrites are the last writes of a Deployment that changed only its record of copies.
type recordWrites struct {
	deployment types.UID
	// first and last are the generations before and after these writes. They have the same spec.
	first, last int64
	time        time.Time // of the last one
}

// note records that the record of a Deployment was written, which has raised its generation.
func (w *recordWrites) note(before client.Object, after int64, now time.Time) {
	if after == 0 {
		return
	}
	if w.deployment != before.GetUID() || w.last != before.GetGeneration() {
		w.first = before.GetGeneration()
	}
	w.deployment, w.last, w.time = before.GetUID(), after, now
}

// hasWrittenSince reports whether the record of a Deployment was written a moment ago, after the
// version that the cache shows.
func (w *recordWrites) hasWrittenSince(deployment client.Object, now time.Time) bool {
	return deployment.GetUID() == w.deployment && deployment.GetGeneration() < w.last && now.Sub(w.time) < maxCacheLag
}

// countObserved makes the status of a Deployment count although its record has changed since, in
// place. A change of annotations raises the generation. Without this, each would look like a
// rollout for a moment.
func (w *recordWrites) countObserved(deployment *appsv1.Deployment) {
	if deployment.UID == w.deployment && deployment.Generation <= w.last && deployment.Status.ObservedGeneration >= w.first {
		deployment.Status.ObservedGeneration = max(deployment.Status.ObservedGeneration, deployment.Generation)
	}
}
