package delivery

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

const (
	// listedTogether is how much earlier than planned the pods of a workload may be listed, together
	// with those of another one.
	listedTogether = 2 * time.Second
	// maxListedTogether is the number of workloads whose pods are listed by one request, and
	// maxPodsTogether the number of these pods.
	maxListedTogether, maxPodsTogether = 50, 10 * maxPods
)

// podLists lists the pods of workloads of one member. If those of several workloads of a namespace are
// due at nearly the same time, as when a registry is down, one request lists them all. It is safe for
// concurrent use.
type podLists struct {
	live client.Reader

	mu sync.Mutex
	// due are the lists that are planned.
	due map[types.NamespacedName]dueList
	// listed has the pods that were listed for other AppServices than the one that asked.
	listed map[types.NamespacedName]podList
}

// dueList is when the pods of a Deployment at a resource version are to be listed.
type dueList struct {
	at      time.Time
	version string
}

type podList struct {
	pods    []corev1.Pod
	at      time.Time
	version string // of the Deployment for which they were to be listed
}

func newPodLists(live client.Reader) *podLists {
	return &podLists{live: live, due: map[types.NamespacedName]dueList{}, listed: map[types.NamespacedName]podList{}}
}

// plan records when the pods of an AppService's Deployment are to be listed.
func (l *podLists) plan(app types.NamespacedName, deployment *appsv1.Deployment, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.due[app] = dueList{at, deployment.ResourceVersion}
}

// forget drops what is planned for an AppService.
func (l *podLists) forget(app types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.due, app)
	delete(l.listed, app)
}

// list returns up to maxPods pods of an AppService's Deployment, the first by name. They may have been
// listed up to listedTogether before, if the Deployment has not changed since.
func (l *podLists) list(ctx context.Context, app types.NamespacedName, deployment *appsv1.Deployment, now time.Time) ([]corev1.Pod, error) {
	if workload.HasOwnSelector(deployment) { // an adopted one
		return l.listOne(ctx, deployment)
	}
	listed, others := l.take(app, deployment, now)
	switch {
	case listed != nil:
		return listed.pods, nil
	case len(others) == 0:
		return l.listOne(ctx, deployment)
	}
	byName, err := l.listMany(ctx, app.Namespace, append(slices.Sorted(maps.Keys(others)), app.Name))
	if err != nil {
		return nil, err
	}
	if byName == nil {
		return l.listOne(ctx, deployment)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for other, version := range others {
		l.listed[types.NamespacedName{Namespace: app.Namespace, Name: other}] = podList{byName[other], now, version}
	}
	return byName[app.Name], nil
}

// take returns the pods of an AppService, if they were listed a moment ago. Otherwise it returns the other
// AppServices of its namespace whose pods are to be listed soon, with the versions of their Deployments.
func (l *podLists) take(app types.NamespacedName, deployment *appsv1.Deployment, now time.Time) (listed *podList, others map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.due, app)
	maps.DeleteFunc(l.listed, func(_ types.NamespacedName, list podList) bool { return now.Sub(list.at) > listedTogether })
	if list, found := l.listed[app]; found {
		delete(l.listed, app)
		if list.version == deployment.ResourceVersion {
			return &list, nil
		}
	}
	others = map[string]string{}
	for other, due := range l.due {
		if other.Namespace == app.Namespace && due.at.Sub(now) <= listedTogether && len(others) < maxListedTogether {
			others[other.Name] = due.version
			delete(l.due, other)
		}
	}
	return nil, others
}

// listOne lists the pods of one Deployment.
func (l *podLists) listOne(ctx context.Context, deployment *appsv1.Deployment) ([]corev1.Pod, error) {
	selector, err := metav1.LabelSelectorAsSelector(deployment.Spec.Selector)
	if err != nil {
		return nil, nil //nolint:nilerr // the API server of a member has no such Deployment
	}
	var pods corev1.PodList
	err = l.live.List(ctx, &pods, client.InNamespace(deployment.Namespace), client.MatchingLabelsSelector{Selector: selector}, client.Limit(maxPods))
	return pods.Items, err
}

// listMany lists the pods of several AppServices by name. It returns nil if there are too many for one
// request.
func (l *podLists) listMany(ctx context.Context, namespace string, apps []string) (map[string][]corev1.Pod, error) {
	requirement, err := labels.NewRequirement(v1alpha1.LabelAppService, selection.In, apps)
	if err != nil {
		return nil, err
	}
	var pods corev1.PodList
	err = l.live.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*requirement)}, client.Limit(maxPodsTogether))
	if err != nil || pods.Continue != "" {
		return nil, err
	}
	byName := map[string][]corev1.Pod{}
	for _, pod := range pods.Items {
		if name := pod.Labels[v1alpha1.LabelAppService]; len(byName[name]) < maxPods {
			byName[name] = append(byName[name], pod)
		}
	}
	return byName, nil
}
