package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// asker is a cluster that can ask for something over the network, from its machine. Where there is none, pods are simulated.
type asker interface {
	Get(ctx context.Context, host string, port int32) (string, error)
}

func greets(with string) change { return onlyEnv("GREETING", with) }

// onNodes makes the Service listen on each node of each member too.
func onNodes(port int32) change {
	return func(s *v1alpha1.AppServiceSpec) { s.Ports[0].NodePort = port }
}

// gracefully is what a user says to lose no request: a pod gets none before it listens, and serves on until it gets no more.
func gracefully(s *v1alpha1.AppServiceSpec) {
	s.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(80)}}, PeriodSeconds: 1}
	s.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 5}}}
}

// The workload does its work: asked from the hub's machine, over the network, at a member's node, its Service has one of its pods answer.
func TestServes(t *testing.T) {
	f := theFleet
	from, ok := f.hub.Cluster.(asker)
	if !ok {
		t.Skip("pods are simulated, and answer nobody")
	}
	const port = 30080
	app := f.declare(t, "voice", onNodes(port), greets("good morning"), gracefully)
	f.awaitReady(t, app, "north", "south", "east")

	ask := func(member string) (string, error) { return f.ask(from, member, port) }
	answered := func(member, greeting string) error {
		answer, err := ask(member)
		if err != nil {
			return err
		}
		return f.spokenBy(member, app, greeting, answer)
	}
	for member := range f.members {
		t.Run("a pod of "+member+" answers", func(t *testing.T) {
			eventually(t, member+" to answer", func() error { return answered(member, "good morning") })
		})
	}

	t.Run("while an edit is rolled out, every request is answered, and at last by what it says", func(t *testing.T) {
		done := keepAsking(t, ask, "north", "south", "east")
		f.edit(t, app, greets("good evening"))
		f.awaitReady(t, app, "north", "south", "east")
		for member := range f.members {
			eventually(t, member+" to answer anew", func() error { return answered(member, "good evening") })
			eventually(t, "the pods from before to be gone from "+member, func() error {
				pods, err := f.podsOf(member, app)
				if len(pods) > int(app.DesiredReplicas()) {
					err = fmt.Errorf("there are %v", pods)
				}
				return err
			})
		}
		done()
	})
}

// ask asks at a member's node.
func (f *fleet) ask(from asker, member string, port int32) (string, error) {
	nodes := &corev1.NodeList{}
	if err := f.members[member].api.List(background, nodes); err != nil {
		return "", err
	}
	for _, address := range nodes.Items[0].Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			return from.Get(background, address.Address, port)
		}
	}
	return "", fmt.Errorf("the node of %s has no address", member)
}

// spokenBy is nil when the answer is that greeting, from one of the AppService's pods on that member.
func (f *fleet) spokenBy(member string, app *v1alpha1.AppService, greeting, answer string) error {
	pods, err := f.podsOf(member, app)
	if err != nil {
		return err
	}
	if by, found := strings.CutPrefix(answer, greeting+" from "); !found || !slices.Contains(pods, by) {
		return fmt.Errorf("want %q from one of %v, %s answers %q", greeting, pods, member, answer)
	}
	return nil
}

// podsOf are the names of an AppService's pods on a member, also of those that are about to end.
func (f *fleet) podsOf(member string, app *v1alpha1.AppService) ([]string, error) {
	pods := &corev1.PodList{}
	err := f.members[member].api.List(background, pods, client.InNamespace(app.Namespace), client.MatchingLabels{v1alpha1.LabelAppService: app.Name})
	var names []string
	for i := range pods.Items {
		names = append(names, pods.Items[i].Name)
	}
	return names, err
}

// keepAsking asks at each member, again and again, until the function that it returns is called. It fails the test when any request does.
func keepAsking(t *testing.T, ask func(member string) (string, error), members ...string) (done func()) {
	t.Helper()
	end, problems, counts := make(chan struct{}), make([]error, len(members)), make([]int, len(members))
	var group sync.WaitGroup
	for i, member := range members {
		group.Go(func() {
			for problems[i] == nil {
				select {
				case <-end:
					return
				default:
				}
				if _, problems[i] = ask(member); problems[i] == nil {
					counts[i]++
				}
			}
		})
	}
	done = sync.OnceFunc(func() {
		close(end)
		group.Wait()
		if err := errors.Join(problems...); err != nil {
			t.Error(err)
		}
		t.Logf("%v were asked %v times", members, counts)
	})
	t.Cleanup(done)
	return done
}
