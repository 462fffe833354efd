package planner

import (
	"context"
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration/sources"
	"github.com/fleetwright/fleetwright/controllers/entries"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/revision"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// fixture is an AppService in its own namespace, and a planner for that namespace. The test plays
// the clusters, and reports observations as delivery does.
type fixture struct {
	*testing.T
	*plannerRun
	hub     *testHub
	app     *v1alpha1.AppService
	options Options
	// propagation are the options of the sources. Without namespaces, there are none.
	propagation sources.Options
	// revision is the number of the revision that the planner has for the spec.
	revision int64
}

// plannerRun is one run of the planner.
type plannerRun struct {
	observations  *Observations
	secondSources *sources.Sources // for the test's own Reconcilers; nil without any namespace
	client        client.Client    // the planner's, which reads from its cache
	sent          *traffic
	stop          func()
}

// newFixture returns a scene with members and a running planner, but without an AppService. It has one
// of the shared hubs to itself.
func newFixture(t *testing.T, members ...string) *fixture {
	return newFixtureOn(t, takeHub(t), members...)
}

// newFixtureOn is newFixture on this hub.
func newFixtureOn(t *testing.T, hub *testHub, members ...string) *fixture {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shop-"}}
	s := &fixture{T: t, hub: hub, app: &v1alpha1.AppService{}, revision: 1}
	s.must(s.hub.Create(t.Context(), namespace))
	s.app.Namespace, s.app.Name = namespace.Name, "web"
	s.app.Spec = v1alpha1.AppServiceSpec{Image: "web:1", Replicas: new(int32(2))}
	for _, member := range members {
		s.join(member)
	}
	s.start()
	return s
}

// newPlanned returns a scene with an AppService that is planned on all members.
func newPlanned(t *testing.T, members ...string) *fixture {
	s := newFixture(t, members...)
	s.createPlanned(members...)
	return s
}

// newRunning returns a scene with an AppService that all members run.
func newRunning(t *testing.T, members ...string) *fixture {
	s := newPlanned(t, members...)
	s.reportReady(members...)
	return s
}

// createPlanned creates the AppService, and waits until it is planned on the members.
func (s *fixture) createPlanned(members ...string) {
	s.Helper()
	s.createApp()
	var want []v1alpha1.ClusterStatus
	for _, member := range members {
		want = append(want, s.entry(member, v1alpha1.ClusterPending))
	}
	s.waitForEntries(want...)
}

// reportReady reports that the members run the current generation, and waits for the entries.
func (s *fixture) reportReady(members ...string) {
	s.Helper()
	var want []v1alpha1.ClusterStatus
	for _, member := range members {
		s.report(member, s.readyObservation())
		want = append(want, s.entry(member, v1alpha1.ClusterReady))
	}
	s.waitForEntries(want...)
}

func (s *fixture) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *fixture) key() client.ObjectKey { return client.ObjectKeyFromObject(s.app) }

func (s *fixture) request() reconcile.Request { return reconcile.Request{NamespacedName: s.key()} }

// createApp creates the AppService after the planner's cache has all members.
func (s *fixture) createApp() {
	s.Helper()
	s.waitForCache()
	s.must(s.hub.Create(s.Context(), s.app))
}

// start starts a new planner.
func (s *fixture) start() {
	s.Helper()
	p := &plannerRun{observations: NewObservations(), sent: &traffic{}}
	hubConfig := rest.CopyConfig(s.hub.granted)
	hubConfig.Wrap(p.sent.wrap)
	manager, err := ctrl.NewManager(hubConfig, ctrl.Options{
		Scheme:     kinds,
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{s.app.Namespace: {}}},
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	s.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	options := s.options
	options.Sources = s.newSources(ctx, hubConfig)
	_, err = SetupWithManager(manager, p.observations, options)
	s.must(err)
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	p.client = manager.GetClient()
	p.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.Error("the planner returned:", err)
		}
	})
	s.Cleanup(p.stop)
	s.plannerRun = p
}

func (s *fixture) restart() {
	s.Helper()
	s.stop()
	s.start()
}

// join creates a Ready MemberCluster.
func (s *fixture) join(name string) *v1alpha1.MemberCluster {
	s.Helper()
	member := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"tier": "prod"}}}
	s.must(s.hub.Create(s.Context(), member))
	s.Cleanup(func() { s.must(client.IgnoreNotFound(s.hub.Delete(context.Background(), member))) })
	s.setReady(name, metav1.ConditionTrue)
	return member
}

// setReady sets the Ready condition of a member.
func (s *fixture) setReady(name string, status metav1.ConditionStatus) {
	s.Helper()
	s.patchMember(name, func(member *v1alpha1.MemberCluster) {
		member.Status.Conditions = []metav1.Condition{{
			Type:               v1alpha1.ConditionReady,
			Status:             status,
			Reason:             v1alpha1.ReasonConnected,
			LastTransitionTime: metav1.Now(),
		}}
	})
}

// patchMember changes a MemberCluster.
func (s *fixture) patchMember(name string, change func(*v1alpha1.MemberCluster)) {
	s.Helper()
	member := &v1alpha1.MemberCluster{}
	s.must(s.hub.Get(s.Context(), client.ObjectKey{Name: name}, member))
	before := member.DeepCopy()
	change(member)
	s.must(s.hub.Status().Patch(s.Context(), member.DeepCopy(), client.MergeFrom(before)))
	s.must(s.hub.Patch(s.Context(), member, client.MergeFrom(before)))
}

func (s *fixture) detach(name string) {
	s.Helper()
	s.must(s.hub.Delete(s.Context(), &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}))
}

// edit changes the AppService as a user does.
func (s *fixture) edit(change func(*v1alpha1.AppService)) {
	s.Helper()
	s.readApp()
	before := s.app.DeepCopy()
	change(s.app)
	s.must(s.hub.Patch(s.Context(), s.app, client.MergeFrom(before)))
	if !revision.HasTemplate(before.Spec, s.app.Spec) {
		s.revision++
	}
}

// readApp reads the AppService with all its entries, also from its slices.
func (s *fixture) readApp() {
	s.Helper()
	app := &v1alpha1.AppService{}
	s.must(s.hub.Get(s.Context(), s.key(), app))
	s.app = app
	if app.Status.HasSlices() {
		all, _, err := entries.Read(s.Context(), s.listSlicesReader(), app)
		s.must(err)
		s.app = entries.WithEntries(app, all)
	}
}

func (s *fixture) delete() {
	s.Helper()
	s.must(s.hub.Delete(s.Context(), s.app))
	s.readApp()
}

// report reports an observation. Like delivery, which shares the cache, it observes no member
// before the planner's cache has its entry, except for found objects.
func (s *fixture) report(member string, seen observation.Observation) {
	if seen.Planned == 0 && !seen.Found {
		seen.Planned = s.app.DesiredReplicas() // the replicas of the entry that it answers
	}
	s.Helper()
	s.waitForCache()
	if !seen.Found {
		wait.Eventually(s.T, func() error {
			app := &v1alpha1.AppService{}
			s.must(s.client.Get(s.Context(), s.key(), app))
			entry, _, err := entries.Of(s.Context(), s.client, app, member)
			if err != nil || entry == nil {
				return fmt.Errorf("there is no entry for %s", member)
			}
			if seen.Revision == 0 {
				seen.Revision = entry.Revision
			}
			return nil
		})
	}
	s.observations.Report(s.key(), member, seen)
}

// readyObservation returns the observation of a member that runs the current generation.
func (s *fixture) readyObservation() observation.Observation {
	return observation.Observation{
		UID:           s.app.UID,
		Generation:    s.app.Generation,
		Revision:      s.revision,
		Planned:       s.app.DesiredReplicas(),
		Phase:         v1alpha1.ClusterReady,
		Applied:       s.app.Generation,
		Replicas:      s.app.DesiredReplicas(),
		ReadyReplicas: s.app.DesiredReplicas(),
	}
}

// removalConfirmed returns the observation that no object is left, in answer to an entry that has
// been Removing since then.
func (s *fixture) removalConfirmed(since metav1.Time) observation.Observation {
	return observation.Observation{UID: s.app.UID, Generation: s.app.Generation, Phase: v1alpha1.ClusterRemoving, GoneSince: since}
}

// entry returns the entry of a member in a phase, for the current generation.
func (s *fixture) entry(member string, phase v1alpha1.ClusterPhase, changes ...func(*v1alpha1.ClusterStatus)) v1alpha1.ClusterStatus {
	entry := v1alpha1.ClusterStatus{
		Name:       member,
		Phase:      phase,
		Generation: s.app.Generation,
		Revision:   s.revision,
		Replicas:   s.app.DesiredReplicas(),
	}
	switch phase {
	case v1alpha1.ClusterPending:
		entry.Reason, entry.Surging = v1alpha1.ReasonPending, true
	case v1alpha1.ClusterProgressing:
		entry.Reason = v1alpha1.ReasonRollingOut
	case v1alpha1.ClusterUnknown:
		entry.Reason, entry.LastKnownPhase = v1alpha1.ReasonClusterUnreachable, v1alpha1.ClusterReady
	case v1alpha1.ClusterRemoving:
		entry.Reason = v1alpha1.ReasonRemoving
	case v1alpha1.ClusterDetached:
		entry.LastKnownPhase = v1alpha1.ClusterReady
		entry.Reason = v1alpha1.ReasonClusterDetached
	}
	if phase != v1alpha1.ClusterPending {
		applied(entry.Generation, entry.Replicas)(&entry)
	}
	for _, change := range changes {
		change(&entry)
	}
	return entry
}

// applied sets the last observed state of an entry.
func applied(generation int64, pods int32) func(*v1alpha1.ClusterStatus) {
	return func(entry *v1alpha1.ClusterStatus) {
		entry.ObservedGeneration, entry.ReadyReplicas = generation, pods
	}
}

func withReason(reason, message string) func(*v1alpha1.ClusterStatus) {
	return func(entry *v1alpha1.ClusterStatus) { entry.Reason, entry.Message = reason, message }
}

func withUnready(pods int32) func(*v1alpha1.ClusterStatus) {
	return func(entry *v1alpha1.ClusterStatus) { entry.UnreadyReplicas = pods }
}
