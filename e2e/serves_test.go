package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/framework"
)

// httpGetter is a cluster whose node can send requests over the network. Clusters with simulated
// pods do not implement it.
type httpGetter interface {
	Get(ctx context.Context, host string, port int32) (string, error)
}

// greeting sets the response of the web server.
func greeting(text string) framework.Change { return framework.Env("GREETING", text) }

// nodePort makes the Service listen on the nodes.
func nodePort(port int32) framework.Change {
	return func(s *v1alpha1.AppServiceSpec) { s.Ports[0].NodePort = port }
}

// gracefulShutdown is what a user configures to lose no request: a pod gets requests only when it
// listens, and serves until it no longer gets any.
func gracefulShutdown(s *v1alpha1.AppServiceSpec) {
	s.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(80)}}, PeriodSeconds: 1}
	s.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 5}}}
}

// TestServes tests that the workload serves: a request from the hub's node to a member's node is
// answered by a pod of the AppService.
func TestServes(t *testing.T) {
	f := testFleet(t, onKind)
	hub, ok := f.Hub.Cluster.(httpGetter)
	if !ok {
		t.Skip("the pods are simulated")
	}
	const port = 30080
	app := f.createApp(t, "serving", nodePort(port), greeting("good morning"), gracefulShutdown)
	f.awaitReady(t, app, "north", "south", "east")

	get := func(ctx context.Context, member string) (string, error) { return f.get(ctx, hub, member, port) }
	check := func(ctx context.Context, member, greeting string) error {
		answer, err := get(ctx, member)
		if err != nil {
			return err
		}
		return f.checkAnswer(ctx, member, app, greeting, answer)
	}
	for member := range f.Members {
		t.Run("a pod of "+member+" answers", func(t *testing.T) {
			f.Eventually(t, member+" to answer", func(ctx context.Context) error { return check(ctx, member, "good morning") })
		})
	}

	t.Run("kubectl appsvc reads the logs of all pods", func(t *testing.T) {
		clusters := slices.Concat([]*framework.Cluster{f.Hub}, slices.Collect(maps.Values(f.Members)))
		output := mustRunPlugin(t, contextsOf(t, clusters...), "logs", app.Name, "-n", namespace)
		for member := range f.Members {
			if !strings.Contains(output, "["+member+"/"+app.Name+"-") {
				t.Errorf("there is no line of %s:\n%s", member, output)
			}
		}
	})

	t.Run("every request is answered while an edit is rolled out", func(t *testing.T) {
		done := requestContinuously(t, get, "north", "south", "east")
		f.EditApp(t, app, greeting("good evening"))
		f.awaitReady(t, app, "north", "south", "east")
		for member := range f.Members {
			f.Eventually(t, member+" to answer with the new greeting", func(ctx context.Context) error { return check(ctx, member, "good evening") })
			f.Eventually(t, "the old pods to be gone from "+member, func(ctx context.Context) error {
				pods, err := f.podNames(ctx, member, app)
				if len(pods) > int(app.DesiredReplicas()) {
					err = fmt.Errorf("these pods still exist: %v", pods)
				}
				return err
			})
		}
		done()
	})
}

// get sends a request from the hub's node to a port of a member's node.
func (f *fleet) get(ctx context.Context, hub httpGetter, member string, port int32) (string, error) {
	nodes := &corev1.NodeList{}
	if err := f.Members[member].Client.List(ctx, nodes); err != nil {
		return "", err
	}
	for _, address := range nodes.Items[0].Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			return hub.Get(ctx, address.Address, port)
		}
	}
	return "", fmt.Errorf("the node of %s has no address", member)
}

// checkAnswer returns an error unless the answer is the greeting of one of the AppService's pods on
// the member.
func (f *fleet) checkAnswer(ctx context.Context, member string, app *v1alpha1.AppService, greeting, answer string) error {
	pods, err := f.podNames(ctx, member, app)
	if err != nil {
		return err
	}
	if pod, found := strings.CutPrefix(answer, greeting+" from "); !found || !slices.Contains(pods, pod) {
		return fmt.Errorf("want %q from one of %v, %s answered %q", greeting, pods, member, answer)
	}
	return nil
}

// podNames returns the names of an AppService's pods on a member, including terminating pods.
func (f *fleet) podNames(ctx context.Context, member string, app *v1alpha1.AppService) ([]string, error) {
	pods := &corev1.PodList{}
	err := f.Members[member].Client.List(ctx, pods, client.InNamespace(app.Namespace), client.MatchingLabels{v1alpha1.LabelAppService: app.Name})
	var names []string
	for i := range pods.Items {
		names = append(names, pods.Items[i].Name)
	}
	return names, err
}

// requestContinuously sends requests to each member, one after the other, until the test calls done
// or ends. It fails the test if a request fails.
func requestContinuously(t *testing.T, get func(ctx context.Context, member string) (string, error), members ...string) (done func()) {
	t.Helper()
	end, errs, counts := make(chan struct{}), make([]error, len(members)), make([]int, len(members))
	var group sync.WaitGroup
	for i, member := range members {
		group.Go(func() {
			for errs[i] == nil {
				select {
				case <-end:
					return
				default:
				}
				if _, errs[i] = get(context.Background(), member); errs[i] == nil {
					counts[i]++
				}
			}
		})
	}
	done = sync.OnceFunc(func() {
		close(end)
		group.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Error(err)
		}
		t.Logf("%v answered %v requests", members, counts)
	})
	t.Cleanup(done)
	return done
}
