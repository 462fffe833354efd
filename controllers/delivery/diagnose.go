package delivery

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/delivery/diagnosis"
	"github.com/fleetwright/fleetwright/controllers/observation"
)

const (
	// The pods of a workload that is not ready are listed after firstListing, because a rollout
	// that goes well takes no longer. The interval then doubles, up to maxListing. After a change
	// of the Deployment or of the diagnosis, it is at most maxListingOfChanged.
	firstListing, maxListingOfChanged, maxListing = 5 * time.Second, time.Minute, 5 * time.Minute
	// A pod that has no volumes after longVolumeWait may lack one for good.
	longVolumeWait = time.Minute
	// maxPods is how many pods are listed.
	maxPods = 50
	// maxEvents is how many events of one pod are listed.
	maxEvents = 50
)

// podDiagnosis is what was last found in the pods of a workload, for one generation of its entry.
type podDiagnosis struct {
	generation      int64
	deployment      string // its resource version when the pods were listed
	listed, next    time.Time
	interval        time.Duration
	reason, message string
	// container is the container that fails, or "".
	container string
	// waitsForVolumes is set if a pod has waited for its volumes for long.
	waitsForVolumes bool
}

// forGeneration returns the diagnosis, or an empty one if it is of another generation.
func (p podDiagnosis) forGeneration(generation int64, now time.Time) podDiagnosis {
	if p.interval == 0 || p.generation != generation {
		return podDiagnosis{generation: generation, next: now.Add(firstListing), interval: firstListing}
	}
	return p
}

// isChanged reports whether the Deployment has changed since its pods were listed.
func (p podDiagnosis) isChanged(deployment *appsv1.Deployment) bool {
	return p.deployment != "" && p.deployment != deployment.ResourceVersion
}

// with returns the diagnosis after the pods were listed. Found has only what they show: a failure, and
// whether one of them waits for its volumes.
func (p podDiagnosis) with(deployment *appsv1.Deployment, found podDiagnosis, now time.Time) podDiagnosis {
	limit := maxListing
	if p.isChanged(deployment) || found.reason != p.reason || found.message != p.message {
		limit = maxListingOfChanged
	}
	found.generation, found.deployment, found.listed = p.generation, deployment.ResourceVersion, now
	found.interval = min(2*p.interval, limit)
	found.next = now.Add(found.interval)
	return found
}

// afterError returns the diagnosis, which stays as it is, after the pods could not be listed.
func (p podDiagnosis) afterError(now time.Time) podDiagnosis {
	p.interval = min(2*p.interval, maxListingOfChanged)
	p.next = now.Add(p.interval)
	return p
}

// podReader lists the pods of a workload and their events from the member itself. A cache of them
// would cost more than everything else that is cached of a member.
type podReader struct{ lists *podLists }

// diagnose adds to an observation why the workload is not ready. It returns when to list the pods
// again, or 0 if only the watch can bring something new.
// docs/decisions/pods-are-listed-not-watched.md says why.
func (p podReader) diagnose(ctx context.Context, t task, seen observation.Observation) (observation.Observation, time.Duration) {
	app := client.ObjectKeyFromObject(t.app)
	if seen.Phase == v1alpha1.ClusterReady {
		t.memory.pods = podDiagnosis{}
		p.lists.forget(app)
		return seen, 0
	}
	if message, refused := diagnosis.PodsRefused(t.objects.deployment); refused {
		p.lists.forget(app)
		seen.Reason, seen.Message = v1alpha1.ReasonPodsRefused, message
		return seen, 0
	}
	now := time.Now()
	last := t.memory.pods.forGeneration(t.entry.Generation, now)
	if soon := last.listed.Add(maxListingOfChanged); last.isChanged(t.objects.deployment) && soon.Before(last.next) {
		last.next = soon
	}
	if !now.Before(last.next) {
		if found, err := p.list(ctx, app, t.objects.deployment, now); err != nil {
			last = last.afterError(now)
		} else {
			last = last.with(t.objects.deployment, found, now)
		}
	}
	t.memory.pods = last
	p.lists.plan(app, t.objects.deployment, last.next)
	if last.message != "" {
		seen.Reason, seen.Message, seen.Container = cmp.Or(last.reason, seen.Reason), last.message, last.container
	}
	seen.PodsUnlisted = last.listed.IsZero()
	return seen, last.next.Sub(now)
}

// list lists the pods of a Deployment once, and returns why they are not ready, and whether one of
// them waits for its volumes for long.
func (p podReader) list(ctx context.Context, app types.NamespacedName, deployment *appsv1.Deployment, now time.Time) (found podDiagnosis, err error) {
	pods, err := p.lists.list(ctx, app, deployment, now)
	switch {
	case apierrors.IsForbidden(err):
		return podDiagnosis{message: "the cause is unknown: the credentials do not allow listing pods; apply config/member to the member"}, nil
	case err != nil:
		return podDiagnosis{}, err
	}
	pods = slices.DeleteFunc(pods, func(pod corev1.Pod) bool { return metav1.GetControllerOf(&pod) == nil }) // no Deployment has such a pod
	if first, _ := diagnosis.WaitingForVolumes(pods); first != nil {
		found.waitsForVolumes = now.Sub(first.CreationTimestamp.Time) >= longVolumeWait
	}
	failure := diagnosis.MostSevere(pods)
	found.reason, found.message, found.container = failure.Reason, failure.Message, failure.Container
	switch found.reason {
	case "", v1alpha1.ReasonPodsUnschedulable, v1alpha1.ReasonPodsNotReady:
		if cause, detail := p.mountFailure(ctx, pods); cause != "" || found.reason == "" {
			found.reason, found.message = cause, detail
		}
	}
	return found, nil
}

// mountFailure returns why pods wait for their volumes, such as for a ConfigMap that the member
// lacks. It lists the events of one pod, and only if a pod waits for volumes.
// docs/decisions/events-say-what-a-volume-lacks.md says why.
func (p podReader) mountFailure(ctx context.Context, pods []corev1.Pod) (reason, message string) {
	first, count := diagnosis.WaitingForVolumes(pods)
	if first == nil {
		return "", ""
	}
	var events eventsv1.EventList
	err := p.lists.live.List(ctx, &events, client.InNamespace(first.Namespace), client.MatchingFields{"regarding.uid": string(first.UID)}, client.Limit(maxEvents))
	switch {
	case apierrors.IsForbidden(err):
		return "", fmt.Sprintf("%d of %d pods may wait for a volume; the cause is unknown: the credentials do not allow listing events; apply config/member to the member", count, len(pods))
	case err != nil:
		return "", "" // they are listed again
	}
	if failure := diagnosis.MountFailure(events.Items); failure != "" {
		return v1alpha1.ReasonFailedMount, fmt.Sprintf("%d of %d pods are being created: %s", count, len(pods), failure)
	}
	return "", ""
}
