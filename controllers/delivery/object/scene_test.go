package object

import (
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// testTime is when the tests decide.
var testTime = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// scene is an object of an AppService on a member. The cache and the member have it as it was
// applied, until a test changes that.
type scene struct {
	*testing.T
	facts   Facts
	kind    string
	desired *unstructured.Unstructured
	// cached is what the cache shows, and live what the member has; nil if there is none.
	cached, live client.Object
	// scaling, answer and refusal are what the member answers. Without an answer, a dry run answers
	// with the live object.
	scaling Scaling
	answer  *unstructured.Unstructured
	refusal error
	// adopted is an adopted Deployment, whose selector is kept.
	adopted *appsv1.Deployment
}

func newScene(t *testing.T, kind string, changes ...func(*v1alpha1.AppService)) *scene {
	t.Helper()
	s := &scene{T: t, kind: kind, scaling: NotScaled}
	s.facts = Facts{
		HubID: "hub-1", Now: testTime, App: &v1alpha1.AppService{},
		Entry: &v1alpha1.ClusterStatus{Name: "east", Replicas: 3, Revision: 1, Generation: 2},
	}
	app := s.facts.App
	app.Namespace, app.Name, app.UID, app.Generation = "shop", "web", "uid-1", 2
	app.Spec.Image, app.Spec.Replicas = "web:1", new(int32(3))
	app.Spec.Env = []corev1.EnvVar{{Name: "A", Value: "1"}}
	app.Spec.Ports = []v1alpha1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(8080)}}
	for _, change := range changes {
		change(app)
	}
	if app.Spec.Autoscaling != nil {
		s.facts.Entry.MaxReplicas = app.Spec.Autoscaling.MaxReplicas
	}
	s.facts.VerifyCached = kind == "HorizontalPodAutoscaler"
	s.render()
	s.applied()
	return s
}

// render renders the desired object.
func (s *scene) render() {
	s.Helper()
	rendered, err := workload.Render(s.facts.App, s.facts.Entry, &v1alpha1.MemberCluster{}, s.facts.HubID, nil)
	if err == nil {
		rendered, err = rendered.KeepSelector(s.adopted, nil)
	}
	if err != nil {
		s.Fatal(err)
	}
	s.facts.KeepsSelector = workload.HasOwnSelector(s.adopted)
	s.desired = map[string]*unstructured.Unstructured{
		"Deployment": rendered.Deployment, "Service": rendered.Service, "HorizontalPodAutoscaler": rendered.Autoscaler,
	}[s.kind]
}

// applied makes the member have what an apply gives.
func (s *scene) applied() {
	s.Helper()
	s.facts.Existing = nil
	step, err := Decide(s.facts, s.desired)
	if err != nil {
		s.Fatal(err)
	}
	existing := map[string]client.Object{
		"Deployment": &appsv1.Deployment{}, "Service": &corev1.Service{}, "HorizontalPodAutoscaler": &autoscalingv2.HorizontalPodAutoscaler{},
	}[s.kind]
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(step.Desired.Object, existing); err != nil {
		s.Fatal(err)
	}
	existing.SetUID("object-1")
	existing.SetResourceVersion("7")
	SetKind(existing)
	owned, err := ownableFields(step.Desired)
	if err != nil {
		s.Fatal(err)
	}
	existing.SetManagedFields([]metav1.ManagedFieldsEntry{s.entry(v1alpha1.ManagedBy, metav1.ManagedFieldsOperationApply, owned)})
	s.live = existing
	s.sync()
}

func (s *scene) entry(manager string, operation metav1.ManagedFieldsOperationType, owned *fieldpath.Set) metav1.ManagedFieldsEntry {
	s.Helper()
	fields, err := fieldsV1(owned)
	if err != nil {
		s.Fatal(err)
	}
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, FieldsV1: fields}
}

// sync makes the cache show what the member has.
func (s *scene) sync() {
	s.cached = s.live.DeepCopyObject().(client.Object)
	s.cached.SetManagedFields(nil)
}

// change changes the object on the member, and the cache shows it. The manager then owns the field.
func (s *scene) change(manager string, change func(client.Object), path ...any) {
	s.Helper()
	change(s.live)
	s.live.SetResourceVersion(s.live.GetResourceVersion() + "1")
	entries := s.live.GetManagedFields()
	field := fieldpath.NewSet(fieldpath.MakePathOrDie(path...))
	own := slices.IndexFunc(entries, isOwn)
	if own >= 0 {
		owned, err := fieldsOf(entries[own])
		if err != nil {
			s.Fatal(err)
		}
		entries[own] = s.entry(v1alpha1.ManagedBy, metav1.ManagedFieldsOperationApply, owned.Difference(field))
	}
	if manager != "" {
		entries = append(entries, s.entry(manager, metav1.ManagedFieldsOperationUpdate, field))
	}
	s.live.SetManagedFields(entries)
	s.sync()
}

// edit changes the AppService, and the planner plans it.
func (s *scene) edit(change func(*v1alpha1.AppService)) {
	s.Helper()
	change(s.facts.App)
	s.facts.App.Generation++
	s.render()
}

// unmanage makes the object one of another manager.
func (s *scene) unmanage() {
	s.Helper()
	s.live.SetLabels(nil)
	s.live.SetAnnotations(nil)
	s.live.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "creator"}})
	s.sync()
}

// outcome is what was read for a decision, and what was decided.
type outcome struct {
	Needs  []Need
	Action Action
	// Only is the version that may be changed; Replicas are the desired ones, or -1.
	Only     string
	Replicas int64
	Managers, Fields,
	Reason, Message,
	Restart, PreviousUID string
	Retry time.Duration // of a blocker
	Error string
}

// decide decides, and answers as the member does until no more needs to be read.
func (s *scene) decide() (outcome, Step) {
	s.Helper()
	facts := s.facts
	facts.Existing = nil
	if s.cached != nil {
		existing := Inspect(facts.HubID, facts.App, facts.Entry, s.cached)
		facts.Existing = &existing
	}
	var got outcome
	for range MaxSteps {
		step, err := Decide(facts, s.desired)
		if err != nil {
			return outcome{Needs: got.Needs, Error: err.Error()}, Step{}
		}
		if step.Action != NeedLive {
			got.describe(step)
			return got, step
		}
		got.Needs = append(got.Needs, step.Need)
		switch step.Need {
		case NeedObject:
			facts.Live.Object, facts.Live.IsGone = s.live, s.live == nil
		case NeedAutoscalers:
			facts.Live.Scaling = s.scaling
		case NeedDryRun:
			facts.Live.Answer, facts.Live.Refusal = s.dryRun(), s.refusal
		}
	}
	s.Fatalf("undecided after %v", got.Needs)
	return outcome{}, Step{}
}

func (s *scene) dryRun() *unstructured.Unstructured {
	s.Helper()
	if s.refusal != nil || s.answer != nil {
		return s.answer
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s.live)
	if err != nil {
		s.Fatal(err)
	}
	return &unstructured.Unstructured{Object: content}
}

func (o *outcome) describe(step Step) {
	o.Action, o.Managers, o.Fields, o.Restart, o.PreviousUID = step.Action, step.Managers, step.Fields, step.Restart, string(step.PreviousUID)
	if step.Blocker != nil {
		o.Reason, o.Message, o.Retry = step.Blocker.Reason, step.Blocker.Message, step.Blocker.Retry
	}
	if step.Desired != nil {
		o.Only, o.Replicas = step.Desired.GetResourceVersion(), -1
		if replicas, found, _ := unstructured.NestedInt64(step.Desired.Object, "spec", "replicas"); found {
			o.Replicas = replicas
		}
	}
}
