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
	// maxTogether is maxPodsTogether.
	maxTogether int64

	mu sync.Mutex
	// due is when the pods of AppServices are to be listed.
	due map[types.NamespacedName]time.Time
	// listed has the pods that were listed for other AppServices than the one that asked.
	listed map[types.NamespacedName]podList
}

type podList struct {
	pods []corev1.Pod
	at   time.Time
}

func newPodLists(live client.Reader) *podLists {
	return &podLists{live: live, maxTogether: maxPodsTogether, due: map[types.NamespacedName]time.Time{}, listed: map[types.NamespacedName]podList{}}
}

// plan records when the pods of an AppService are to be listed; never, if the time is zero.
func (l *podLists) plan(app types.NamespacedName, due time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if due.IsZero() {
		delete(l.due, app)
		delete(l.listed, app)
		return
	}
	l.due[app] = due
}

// list returns up to maxPods pods of an AppService's Deployment.
func (l *podLists) list(ctx context.Context, app types.NamespacedName, deployment *appsv1.Deployment, now time.Time) ([]corev1.Pod, error) {
	if !maps.Equal(deployment.Spec.Selector.MatchLabels, workload.Selector(app.Name)) || len(deployment.Spec.Selector.MatchExpressions) > 0 {
		return l.listOne(ctx, deployment) // an adopted one has its own selector
	}
	others, listed, found := l.take(app, now)
	if found {
		return listed.pods, nil
	}
	if len(others) == 0 {
		return l.listOne(ctx, deployment)
	}
	byName, err := l.listMany(ctx, app.Namespace, append(others, app.Name))
	if err != nil {
		return nil, err
	}
	if byName == nil {
		return l.listOne(ctx, deployment)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, other := range others {
		l.listed[types.NamespacedName{Namespace: app.Namespace, Name: other}] = podList{byName[other], now}
	}
	return byName[app.Name], nil
}

// take returns the pods of an AppService, if they were listed a moment ago. Otherwise it returns the names
// of the AppServices of its namespace whose pods are to be listed soon.
func (l *podLists) take(app types.NamespacedName, now time.Time) (others []string, listed podList, found bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.due, app)
	maps.DeleteFunc(l.listed, func(_ types.NamespacedName, list podList) bool { return now.Sub(list.at) > listedTogether })
	if listed, found = l.listed[app]; found {
		delete(l.listed, app)
		return nil, listed, true
	}
	for other, due := range l.due {
		if late := now.Sub(due); other.Namespace == app.Namespace && late >= -listedTogether && len(others) < maxListedTogether {
			others = append(others, other.Name)
			delete(l.due, other)
		}
	}
	slices.Sort(others)
	return others, podList{}, false
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
	err = l.live.List(ctx, &pods, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*requirement)}, client.Limit(l.maxTogether))
	if err != nil || pods.Continue != "" {
		return nil, err
	}
	byName := map[string][]corev1.Pod{}
	for _, pod := range pods.Items {
		name := pod.Labels[v1alpha1.LabelAppService]
		byName[name] = append(byName[name], pod)
	}
	return byName, nil
}
