package delivery

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/controllers/workload"
)

// listing is a namespace of a member with pods of AppServices.
type listing struct {
	*setup
	lists *podLists
	now   time.Time
}

func newListing(t *testing.T, pods map[string]int) listing {
	l := listing{setup: unreadySetup(t), now: time.Now()}
	for app, count := range pods {
		for i := range count {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: l.app.Namespace, Name: fmt.Sprint(app, "-", i), Labels: workload.Selector(app)}}
			pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "web:1"}}
			l.must(onMember.Create(t.Context(), pod))
		}
	}
	l.lists = l.newReconciler().memories.pods
	l.sent.reset()
	return l
}

func (l listing) key(app string) types.NamespacedName {
	return types.NamespacedName{Namespace: l.app.Namespace, Name: app}
}

// listedDeployment returns the Deployment of an AppService at a version.
func listedDeployment(app, version string) *appsv1.Deployment {
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: app, ResourceVersion: version}}
	deployment.Spec.Selector = &metav1.LabelSelector{MatchLabels: workload.Selector(app)}
	return deployment
}

// plan plans the lists of AppServices so long after the present time.
func (l listing) plan(due map[string]time.Duration) {
	for app, after := range due {
		l.lists.plan(l.key(app), listedDeployment(app, "1"), l.now.Add(after))
	}
}

// expect lists the pods of an AppService, and checks them and the number of requests until now.
func (l listing) expect(app string, pods, requests int) {
	l.Helper()
	l.expectOf(listedDeployment(app, "1"), pods, requests)
}

// expectOf does the same for a Deployment.
func (l listing) expectOf(deployment *appsv1.Deployment, pods, requests int) {
	l.Helper()
	app := deployment.Name
	deployment.Namespace = l.app.Namespace
	listed, err := l.lists.list(l.Context(), l.key(app), deployment, l.now)
	l.must(err)
	var got, want []string
	for _, pod := range listed {
		got = append(got, pod.Name)
	}
	for i := range pods {
		want = append(want, fmt.Sprint(app, "-", i))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		l.Errorf("pods of %s (-want +got):\n%s", app, diff)
	}
	if got := l.sent.count("GET pods"); got != requests {
		l.Errorf("%d requests until the pods of %s were listed, want %d", got, app, requests)
	}
}

// When a registry is down, the pods of all workloads are to be listed in the same moment.
func TestPods_of_many_workloads_are_listed_by_one_request(t *testing.T) {
	t.Parallel()
	l := newListing(t, map[string]int{"web": 2, "shop": 1, "late": 1, "other": 1})
	l.plan(map[string]time.Duration{"web": 0, "shop": listedTogether, "none": 0, "late": listedTogether + 1, "ready": 0})
	l.lists.forget(l.key("ready"))
	l.expect("web", 2, 1)
	l.expect("none", 0, 1)
	l.expect("shop", 1, 1)
	l.expect("shop", 1, 2) // again: another list
	l.expect("late", 1, 3)
	if len(l.lists.due) > 0 || len(l.lists.listed) > 0 {
		t.Errorf("left: %v, %v", l.lists.due, l.lists.listed)
	}
}

func TestPods_that_were_listed_together_are_used_soon_or_never(t *testing.T) {
	t.Parallel()
	l := newListing(t, map[string]int{"web": 1, "shop": 1, "blog": 1})
	l.plan(map[string]time.Duration{"web": 0, "shop": time.Second, "blog": 0})
	l.expect("web", 1, 1)
	l.lists.forget(l.key("blog")) // it became ready
	l.now = l.now.Add(listedTogether + 1)
	l.expect("shop", 1, 2)
	l.expect("blog", 1, 3)
}

// The pods that were listed before are from before the change.
func TestPods_are_listed_again_after_a_change_of_the_Deployment(t *testing.T) {
	t.Parallel()
	l := newListing(t, map[string]int{"web": 1, "shop": 1})
	l.plan(map[string]time.Duration{"web": 0, "shop": 0})
	l.expect("web", 1, 1)
	l.expectOf(listedDeployment("shop", "2"), 1, 2)
}

// A workload with many pods gets the same diagnosis, whether its pods are listed alone or not.
func TestPods_of_a_workload_are_as_many_alone_as_together(t *testing.T) {
	t.Parallel()
	l := newListing(t, map[string]int{"web": maxPods + 1, "shop": 1})
	deployment := listedDeployment("web", "1")
	deployment.Namespace = l.app.Namespace
	alone, err := l.lists.list(t.Context(), l.key("web"), deployment, l.now)
	l.must(err)
	l.plan(map[string]time.Duration{"shop": 0})
	together, err := l.lists.list(t.Context(), l.key("web"), deployment, l.now)
	l.must(err)
	if diff := cmp.Diff(alone, together); diff != "" || len(alone) != maxPods {
		t.Errorf("%d pods alone; together (-want +got):\n%s", len(alone), diff)
	}
	l.expect("shop", 1, 2) // both were listed
}

func TestPods_that_are_too_many_for_one_request_are_listed_apart(t *testing.T) {
	t.Parallel()
	l := newListing(t, map[string]int{"web": 2, "shop": maxPodsTogether})
	l.plan(map[string]time.Duration{"web": 0, "shop": 0})
	l.expect("web", 2, 2)
}
