package delivery

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// planned returns the replicas of the current entry.
func (s *setup) planned() int32 {
	if entry := s.entry(); entry != nil {
		return entry.Replicas
	}
	return 0
}

// desiredRevision returns the revision of the current entry.
func (s *setup) desiredRevision() int64 {
	if entry := s.entry(); entry != nil {
		return entry.Revision
	}
	return 0
}

// ready returns the expected report when the member runs what the current entry requires.
func (s *setup) ready() observation.Observation {
	pods := s.app.DesiredReplicas()
	return observation.Observation{
		UID:           s.app.UID,
		Generation:    s.app.Generation,
		Revision:      s.desiredRevision(),
		Planned:       s.planned(),
		Phase:         v1alpha1.ClusterReady,
		Applied:       s.app.Generation,
		Replicas:      pods,
		ReadyReplicas: pods,
	}
}

// failed returns the expected report when delivery is blocked.
func (s *setup) failed(reason, message string) observation.Observation {
	return observation.Observation{
		UID:        s.app.UID,
		Generation: s.app.Generation,
		Revision:   s.desiredRevision(),
		Planned:    s.planned(),
		Phase:      v1alpha1.ClusterFailed,
		Reason:     reason,
		Message:    message,
	}
}

// expectReport waits until the newest report of the member equals want.
func (s *setup) expectReport(want observation.Observation, options ...cmp.Option) {
	s.Helper()
	if want.Planned == 0 {
		want.Planned = s.planned()
	}
	wait.Eventually(s.T, func() error {
		if diff := cmp.Diff(want, s.reported.last(s.key(), s.cluster), options...); diff != "" {
			return fmt.Errorf("reported (-want +got):\n%s", diff)
		}
		return nil
	})
}

// ignoreReplicas ignores the replica counts, for tests that do not depend on the progress of the
// rollout.
var ignoreReplicas = cmpopts.IgnoreFields(observation.Observation{}, "Replicas", "ReadyReplicas")

// expectWorkload waits until the member's objects match want, in the format of
// [setup.describeWorkload].
func (s *setup) expectWorkload(want string) {
	s.Helper()
	wait.Eventually(s.T, func() error {
		if got := s.describeWorkload(); got != want {
			return fmt.Errorf("the member runs\n\t%s\nwant\n\t%s", got, want)
		}
		return nil
	})
}

// describeWorkload returns a line that describes the member's objects, such as "1 × web:1 A=1;
// ClusterIP 80→8080/TCP".
func (s *setup) describeWorkload() string {
	s.Helper()
	deployment, service := s.deployment(), s.service()
	line := "no Deployment"
	if deployment != nil {
		line = fmt.Sprintf("%d ×", *deployment.Spec.Replicas)
		for _, container := range deployment.Spec.Template.Spec.Containers {
			line += " " + container.Image
			for _, variable := range container.Env {
				line += fmt.Sprintf(" %s=%s", variable.Name, variable.Value)
			}
		}
	}
	if service == nil {
		return line + "; no Service"
	}
	line += "; " + string(service.Spec.Type)
	for _, port := range service.Spec.Ports {
		line += fmt.Sprintf(" %d→%d/%s", port.Port, port.TargetPort.IntVal, port.Protocol)
	}
	return line
}

// expectRequests fails the test unless the member has received exactly these requests since the
// operator started.
func (s *setup) expectRequests(want ...string) {
	s.Helper()
	if diff := cmp.Diff(want, s.sent.all()); diff != "" {
		s.Errorf("sent to the member (-want +got):\n%s", diff)
	}
}

// expectNoRequests fails the test if the member received a request with one of these prefixes.
func (o *operator) expectNoRequests(t *testing.T, beginnings ...string) {
	t.Helper()
	for _, request := range o.sent.all() {
		if slices.ContainsFunc(beginnings, func(b string) bool { return strings.HasPrefix(request, b) }) {
			t.Error("sent", request)
		}
	}
}

// expectAtRestAlsoAfterRestart checks invariant 5.
func (s *setup) expectAtRestAlsoAfterRestart() {
	s.Helper()
	s.sent.reset()
	_, _, err := s.reconcileOnce()
	s.must(err)
	s.expectNoRequests(s.T, "PATCH", "POST", "DELETE")
	s.restart()
	s.expectReport(s.ready())
	_, _, err = s.reconcileOnce()
	s.must(err)
	s.expectNoRequests(s.T, "PATCH", "POST", "DELETE")
}

// expectEvents waits until the events of that reason have exactly these notes. Each event exists
// twice: on the hub, related to the member, and on the member, with the name of the hub.
func (s *setup) expectEvents(reason string, notes ...string) {
	s.Helper()
	var onHubs, onMembers []string
	for _, note := range notes {
		onHubs = append(onHubs, fmt.Sprintf("AppService web, MemberCluster %s: %s: %s", s.cluster, s.cluster, note))
		kind := "Deployment"
		if strings.Contains(note, "Service web") {
			kind = "Service"
		}
		onMembers = append(onMembers, fmt.Sprintf("%s web: %s (by hub %s)", kind, note, testHubID))
	}
	wait.Eventually(s.T, func() error {
		if diff := cmp.Diff([][]string{onHubs, onMembers}, [][]string{s.eventsOn(onHub, reason), s.eventsOn(onMember, reason)}); diff != "" {
			return fmt.Errorf("events (-want +got):\n%s", diff)
		}
		return nil
	})
}

// eventsOn returns the events of a reason in the namespace of the AppService. A repeated event
// counts as several.
func (s *setup) eventsOn(server *server, reason string) []string {
	s.Helper()
	var list eventsv1.EventList
	s.must(server.List(s.Context(), &list, client.InNamespace(s.app.Namespace)))
	var all []string
	for _, event := range list.Items {
		if event.Reason != reason {
			continue
		}
		line := event.Regarding.Kind + " " + event.Regarding.Name
		if event.Related != nil {
			line += ", " + event.Related.Kind + " " + event.Related.Name
		}
		times := int32(1)
		if event.Series != nil {
			times = event.Series.Count
		}
		for range times {
			all = append(all, line+": "+event.Note)
		}
	}
	slices.Sort(all)
	return all
}

// expectUnchanged fails the test if the member's object has changed.
func (s *setup) expectUnchanged(was client.Object) {
	s.Helper()
	is := was.DeepCopyObject().(client.Object)
	s.must(onMember.Get(s.Context(), s.key(), is))
	if diff := cmp.Diff(was, is); diff != "" {
		s.Errorf("the object changed (-before +after):\n%s", diff)
	}
}

// expectReady waits until the member is Ready with the planned generation, with any number of
// replicas.
func (s *setup) expectReady() {
	s.Helper()
	s.expectReport(s.ready(), ignoreReplicas)
}

// expectReadyWith waits for the report of a Ready member that runs this number of replicas.
func (s *setup) expectReadyWith(replicas int32) {
	s.Helper()
	want := s.ready()
	want.Replicas, want.ReadyReplicas = replicas, replicas
	s.expectReport(want)
}

// expectOnlyPhase fails the test if the operator reported another phase at any time.
func (s *setup) expectOnlyPhase(phase v1alpha1.ClusterPhase) {
	s.Helper()
	all := s.reported.all(s.key(), s.cluster)
	if slices.ContainsFunc(all, func(seen observation.Observation) bool { return seen.Phase != phase }) {
		s.Errorf("reported %+v, want only %s", all, phase)
	}
}

const running = "1 × web:1 A=1; ClusterIP 80→8080/TCP"
