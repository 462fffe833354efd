package object

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// rule is a scene, and what is decided.
type rule struct {
	kind  string // a Deployment if it is empty
	app   func(*v1alpha1.AppService)
	given func(*scene)
	want  outcome
}

func testRules(t *testing.T, rules map[string]rule) {
	t.Helper()
	t.Parallel()
	for name, rule := range rules {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if rule.kind == "" {
				rule.kind = "Deployment"
			}
			s := newScene(t, rule.kind, func(app *v1alpha1.AppService) {
				if rule.app != nil {
					rule.app(app)
				}
			})
			if rule.given != nil {
				rule.given(s)
			}
			got, step := s.decide()
			if diff := cmp.Diff(rule.want, got); diff != "" {
				t.Errorf("decided (-want +got):\n%s", diff)
			}
			if step.Desired != nil && step.Action != Create && step.Desired.GetUID() != "object-1" {
				t.Errorf("it would change an object with UID %q", step.Desired.GetUID())
			}
		})
	}
}

func deployment(object client.Object) *appsv1.Deployment { return object.(*appsv1.Deployment) }

func container(object client.Object) *corev1.Container {
	return &deployment(object).Spec.Template.Spec.Containers[0]
}

func setImage(image string) func(*v1alpha1.AppService) {
	return func(app *v1alpha1.AppService) { app.Spec.Image = image }
}

func setReplicas(n int32) func(*v1alpha1.AppService) {
	return func(app *v1alpha1.AppService) { app.Spec.Replicas = &n }
}

func withPolicy(policy v1alpha1.ConflictPolicy) func(*v1alpha1.AppService) {
	return func(app *v1alpha1.AppService) { app.Spec.ConflictPolicy = policy }
}

func externallyScaled(app *v1alpha1.AppService) { app.Spec.ExternallyScaled = true }

// scaleTo changes the replicas as an autoscaler's controller does.
func scaleTo(s *scene, replicas int32) {
	s.change("kube-controller-manager", func(o client.Object) { deployment(o).Spec.Replicas = &replicas }, "spec", "replicas")
}

// planReplicas changes the replicas of the spec and of the entry.
func planReplicas(s *scene, n int32) {
	s.facts.Entry.Replicas = n
	s.edit(setReplicas(n))
}

const imageField = `spec.template.spec.containers[name="app"].image`

// spoil is drift: another manager changes the image.
func spoil(s *scene) {
	s.change("editor", func(o client.Object) { container(o).Image = "bad:1" },
		"spec", "template", "spec", "containers", fieldpath.KeyByFields("name", "app"), "image")
}

func TestDecide_on_an_object(t *testing.T) {
	testRules(t, map[string]rule{
		"that is missing": {given: func(s *scene) { s.cached = nil }, want: outcome{Action: Create, Only: "1", Replicas: 3}},
		"that is missing, and is autoscaled": {
			app:   autoscaled,
			given: func(s *scene) { s.cached = nil },
			want:  outcome{Action: Create, Only: "1", Replicas: 3},
		},
		"at rest":                         {want: outcome{Action: Unchanged}},
		"at rest, of Service":             {kind: "Service", want: outcome{Action: Unchanged}},
		"that an edit changes nothing of": {given: func(s *scene) { s.edit(func(*v1alpha1.AppService) {}) }, want: outcome{Action: Unchanged}},
		"after an edit of a Service": {
			kind: "Service", given: func(s *scene) { s.edit(func(app *v1alpha1.AppService) { app.Spec.Ports[0].Port = 81 }) },
			want: outcome{Action: Update, Replicas: -1},
		},
		"that the member is deleting": {
			given: func(s *scene) {
				s.live.SetDeletionTimestamp(new(metav1.Now()))
				s.sync()
				s.edit(setImage("web:2"))
			},
			want: outcome{Action: Blocked, Reason: v1alpha1.ReasonRollingOut, Message: "the member is deleting Deployment web; Fleetwright creates it again afterwards", Retry: 10 * time.Second},
		},
		"of a generation that the hub has lost": {
			given: func(s *scene) {
				s.live.GetAnnotations()[v1alpha1.AnnotationGeneration] = "9"
				s.sync()
				s.edit(setImage("web:2"))
			},
			want: outcome{Action: Blocked, Reason: v1alpha1.ReasonHubBehind, Message: "Deployment is ahead of the hub"},
		},
		"that was applied a moment ago, before the cache shows it": {
			given: func(s *scene) {
				s.edit(setImage("web:2"))
				_, step := s.decide()
				s.facts.Memory = step.Memory
				cached := s.cached
				s.applied()
				s.cached = cached
			},
			want: outcome{Needs: []Need{NeedAutoscalers, NeedObject}, Action: Stale},
		},
		"whose watch may have ended, and that is complete": {
			kind: "HorizontalPodAutoscaler", app: autoscaled, given: beforeRaise,
			want: outcome{Needs: []Need{NeedObject}, Action: Unchanged},
		},
		"whose watch may have ended, and that is gone": {
			kind: "HorizontalPodAutoscaler", app: autoscaled, given: func(s *scene) { beforeRaise(s); s.live = nil },
			want: outcome{Needs: []Need{NeedObject}, Action: Create, Only: "1", Replicas: -1},
		},
		"whose removal was withdrawn": {
			kind: "Service",
			given: func(s *scene) {
				s.live.GetAnnotations()[v1alpha1.AnnotationPlacement] = "4"
				s.sync()
				s.facts.Entry.Placement = 5
			},
			want: outcome{Action: Update, Replicas: -1},
		},
	})
}

func autoscaled(app *v1alpha1.AppService) {
	app.Spec.Autoscaling = &v1alpha1.Autoscaling{MaxReplicas: 9}
}

// beforeRaise raises the bounds of an autoscaler, and leaves the cache as it was before.
func beforeRaise(s *scene) {
	cached := s.cached
	s.facts.Entry.MaxReplicas++
	s.edit(func(app *v1alpha1.AppService) { app.Spec.Autoscaling.MaxReplicas++ })
	s.applied()
	s.cached = cached
}

func TestDecide_on_drift(t *testing.T) {
	both := []Need{NeedAutoscalers, NeedObject}
	testRules(t, map[string]rule{
		"of a changed field": {given: spoil, want: outcome{Needs: both, Action: Correct, Replicas: 3, Managers: "editor", Fields: imageField}},
		"of a removed field": {
			given: func(s *scene) {
				s.change("", func(o client.Object) { container(o).Env = nil },
					"spec", "template", "spec", "containers", fieldpath.KeyByFields("name", "app"), "env", fieldpath.KeyByFields("name", "A"), "value")
			},
			want: outcome{Needs: both, Action: Correct, Replicas: 3, Managers: "an unknown manager", Fields: `spec.template.spec.containers[name="app"].env[name="A"].value`},
		},
		"of the selector of a Service": {
			kind: "Service",
			given: func(s *scene) {
				s.change("editor", func(o client.Object) { o.(*corev1.Service).Spec.Selector = map[string]string{"app": "shop"} }, "spec", "selector")
			},
			want: outcome{Needs: []Need{NeedObject}, Action: Correct, Replicas: -1, Managers: "editor", Fields: "spec.selector"},
		},
		"that only the cache still shows": {
			given: func(s *scene) { spoil(s); cached := s.cached; s.applied(); s.cached = cached },
			want:  outcome{Needs: both, Action: Stale},
		},
		"of an object that is gone": {given: func(s *scene) { spoil(s); s.live = nil }, want: outcome{Needs: both, Action: Stale}},
		"that belongs to somebody else now": {
			given: func(s *scene) { spoil(s); s.live.GetAnnotations()[v1alpha1.AnnotationHub] = "hub-2" },
			want: outcome{Needs: both, Action: Blocked, Reason: v1alpha1.ReasonConflict,
				Message: `Deployment web exists and does not belong to this AppService: it belongs to hub "hub-2"`},
		},
		"that was corrected too often": {
			given: func(s *scene) { spoil(s); s.facts.CorrectionDelay = time.Minute },
			want: outcome{Needs: both, Action: Blocked, Reason: v1alpha1.ReasonFieldConflict, Message: "editor changed " + imageField +
				" of Deployment web repeatedly, so it is now reverted less often: stop that manager, or change the AppService", Retry: time.Minute},
		},
		"that was corrected too often, after an edit": {
			given: func(s *scene) { spoil(s); s.facts.CorrectionDelay = time.Minute; s.edit(setImage("web:2")) },
			want:  outcome{Action: Update, Only: "71", Replicas: 3},
		},
		"of a manager that rewrites the hash": {
			given: func(s *scene) {
				_, step := func() (outcome, Step) { s.edit(setImage("web:2")); return s.decide() }()
				s.facts.Memory = step.Memory
				s.applied()
				s.change("rewriter", func(o client.Object) { o.GetAnnotations()[v1alpha1.AnnotationHash] = "0" }, "metadata", "annotations", v1alpha1.AnnotationHash)
			},
			want: outcome{Needs: both, Action: Correct, Replicas: 3, Managers: "rewriter", Fields: "metadata.annotations." + v1alpha1.AnnotationHash},
		},
	})
}

func TestDecide_on_replicas(t *testing.T) {
	autoscalers := []Need{NeedAutoscalers}
	both := []Need{NeedAutoscalers, NeedObject}
	isScaled := func(s *scene) { s.scaling = Scaled }
	testRules(t, map[string]rule{
		"that an edit leaves as they are": {
			given: func(s *scene) { s.edit(setImage("web:2")) },
			want:  outcome{Action: Update, Only: "7", Replicas: 3},
		},
		"that an edit changes": {given: func(s *scene) { planReplicas(s, 4) }, want: outcome{Needs: autoscalers, Action: Update, Replicas: 4}},
		"that an edit changes, and an autoscaler sets": {
			given: func(s *scene) { isScaled(s); planReplicas(s, 4) }, want: outcome{Needs: autoscalers, Action: Update, Replicas: -1},
		},
		"that an autoscaler has set":   {given: func(s *scene) { isScaled(s); scaleTo(s, 7) }, want: outcome{Needs: autoscalers, Action: Update, Replicas: -1}},
		"that another manager has set": {given: func(s *scene) { scaleTo(s, 7) }, want: outcome{Needs: both, Action: Correct, Replicas: 3, Managers: "kube-controller-manager", Fields: "spec.replicas"}},
		"that are raised, perhaps by an autoscaler": {
			given: func(s *scene) { s.scaling = ScalingForbidden; scaleTo(s, 7) },
			want:  outcome{Needs: autoscalers, Action: Update, Replicas: -1},
		},
		"that are lowered, where autoscalers cannot be listed": {
			given: func(s *scene) { s.scaling = ScalingForbidden; scaleTo(s, 1) },
			want:  outcome{Needs: both, Action: Correct, Replicas: 3, Managers: "kube-controller-manager", Fields: "spec.replicas"},
		},
		"of a correction, beside an autoscaler": {
			given: func(s *scene) { isScaled(s); spoil(s) },
			want:  outcome{Needs: autoscalers, Action: Update, Replicas: -1},
		},
		"of an inheritance, beside an autoscaler": {
			given: func(s *scene) { isScaled(s); s.facts.App.UID = "uid-2"; s.edit(setImage("web:2")) },
			want:  outcome{Needs: both, Action: Adopt, Replicas: -1, PreviousUID: "uid-1"},
		},
		"that were given up for this generation": {
			given: func(s *scene) { giveUpReplicas(s); scaleTo(s, 7) },
			want:  outcome{Action: Unchanged},
		},
		"that were given up for an earlier generation": {
			given: func(s *scene) { giveUpReplicas(s); scaleTo(s, 7); s.edit(func(*v1alpha1.AppService) {}) },
			want:  outcome{Needs: autoscalers, Action: Update, Replicas: 3},
		},
		"of an externally scaled AppService": {
			app: externallyScaled, given: func(s *scene) { scaleTo(s, 7); s.edit(setImage("web:2")) },
			want: outcome{Action: Update, Replicas: -1},
		},
		"of an externally scaled AppService with other spec.replicas": {
			app: externallyScaled, given: func(s *scene) { scaleTo(s, 7); planReplicas(s, 1) },
			want: outcome{Action: Unchanged},
		},
		"of an AppService that is inherited and externally scaled": {
			app: externallyScaled, given: func(s *scene) { scaleTo(s, 7); s.facts.App.UID = "uid-2"; s.render() },
			want: outcome{Needs: []Need{NeedObject}, Action: Adopt, Replicas: -1, PreviousUID: "uid-1"},
		},
		"of 0, from which an autoscaler does not start": {
			app: autoscaled, given: func(s *scene) { scaleTo(s, 0) },
			want: outcome{Needs: []Need{NeedObject}, Action: Correct, Replicas: 3, Managers: "kube-controller-manager", Fields: "spec.replicas"},
		},
	})
}

// giveUpReplicas makes the member have a Deployment that was applied without replicas.
func giveUpReplicas(s *scene) {
	s.Helper()
	with := s.desired
	without, err := workload.WithoutReplicas(with)
	if err != nil {
		s.Fatal(err)
	}
	s.live.GetAnnotations()[v1alpha1.AnnotationHash] = hashOf(without)
	s.sync()
}

func TestScalingBy(t *testing.T) {
	t.Parallel()
	web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	tests := map[string]struct {
		targets []autoscalingv2.CrossVersionObjectReference
		want    Scaling
	}{
		"none":           {nil, NotScaled},
		"another name":   {[]autoscalingv2.CrossVersionObjectReference{{Kind: "Deployment", Name: "other"}}, NotScaled},
		"another kind":   {[]autoscalingv2.CrossVersionObjectReference{{Kind: "StatefulSet", Name: "web"}}, NotScaled},
		"the second one": {[]autoscalingv2.CrossVersionObjectReference{{Kind: "StatefulSet", Name: "web"}, {Kind: "Deployment", Name: "web"}}, Scaled},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var scalers []autoscalingv2.HorizontalPodAutoscaler
			for _, target := range test.targets {
				scalers = append(scalers, autoscalingv2.HorizontalPodAutoscaler{Spec: autoscalingv2.HorizontalPodAutoscalerSpec{ScaleTargetRef: target}})
			}
			if got := scalingBy(scalers, web); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// Only a version that is not in the cache makes an update ask for autoscalers.
func TestDecide_on_an_update_of_another_version(t *testing.T) {
	t.Parallel()
	s := newScene(t, "Deployment")
	s.edit(setImage("web:2"))
	_, step := s.decide()
	if step.OnConflict != NeedAutoscalers {
		t.Errorf("if the member has another version, it needs %q", step.OnConflict)
	}
	s.facts.Live.Scaling = NotScaled // as it was read after the conflict
	got, step := s.decide()
	if diff := cmp.Diff(outcome{Action: Update, Replicas: 3}, got); diff != "" || step.OnConflict != "" {
		t.Errorf("on a conflict, it needs %q, and decided (-want +got):\n%s", step.OnConflict, diff)
	}
}

const (
	toAdopt   = "; change the AppService to match, or set spec.conflictPolicy to Adopt, which replaces its pods"
	inPlace   = "; change the AppService to match, or set spec.conflictPolicy to Adopt, which changes it"
	ofCreator = ` web exists and does not belong to this AppService: it is managed by "creator"`
	differs   = "; it is not identical, so spec.conflictPolicy AdoptIfIdentical does not adopt it: "
)

func TestDecide_on_adoption(t *testing.T) {
	ifIdentical, always := withPolicy(v1alpha1.ConflictAdoptIfIdentical), withPolicy(v1alpha1.ConflictAdopt)
	all := []Need{NeedAutoscalers, NeedObject, NeedDryRun}
	both, object := []Need{NeedAutoscalers, NeedObject}, []Need{NeedObject}
	refused := func(needs []Need, kind, why string) outcome {
		return outcome{Needs: needs, Action: Blocked, Reason: v1alpha1.ReasonConflict, Message: kind + ofCreator + why}
	}
	other := func(change func(client.Object)) func(*scene) {
		return func(s *scene) { change(s.live); s.unmanage() }
	}
	unmanaged := func(s *scene) { s.unmanage() }
	testRules(t, map[string]rule{
		"is not allowed": {given: unmanaged, want: refused(both, "Deployment", "; to adopt it, set spec.conflictPolicy to AdoptIfIdentical or Adopt")},
		"is never allowed for an object of another hub": {
			app: always,
			given: func(s *scene) {
				s.live.GetAnnotations()[v1alpha1.AnnotationHub] = "hub-2"
				container(s.live).Image = "web:0"
				s.sync()
			},
			want: outcome{Needs: both, Action: Blocked, Reason: v1alpha1.ReasonConflict,
				Message: `Deployment web exists and does not belong to this AppService: it belongs to hub "hub-2"`},
		},
		"of an identical Deployment, if identical": {app: ifIdentical, given: unmanaged, want: outcome{Needs: all, Action: Adopt, Replicas: 3}},
		"of an identical Deployment":               {app: always, given: unmanaged, want: outcome{Needs: all, Action: Adopt, Replicas: 3}},
		"of an identical Service":                  {kind: "Service", app: ifIdentical, given: unmanaged, want: outcome{Needs: object, Action: Adopt, Replicas: -1}},
		"of a Deployment with other replicas": {
			app: always, given: other(func(o client.Object) { deployment(o).Spec.Replicas = new(int32(5)) }),
			want: outcome{Needs: all, Action: Adopt, Replicas: 3},
		},
		"of a Deployment with another image, if identical": {
			app: ifIdentical, given: other(func(o client.Object) { container(o).Image = "web:0" }),
			want: refused(both, "Deployment", differs+imageField+" differs"+toAdopt),
		},
		"of a Deployment with another image": {
			app: always, given: other(func(o client.Object) { container(o).Image = "web:0" }),
			want: outcome{Needs: both, Action: Adopt, Replicas: 3, Restart: imageField + " differs"},
		},
		"of a container with another name": {
			app: ifIdentical, given: other(func(o client.Object) { container(o).Name = "nginx" }),
			want: refused(both, "Deployment", differs+imageField+`, spec.template.spec.containers[name="app"].name, `+
				`spec.template.spec.containers[name="app"].env[name="A"].name and 3 more differ; its container is named "nginx": set spec.containerName to that name`),
		},
		"of pods with other annotations": {
			app: func(app *v1alpha1.AppService) {
				ifIdentical(app)
				app.Spec.PodAnnotations = map[string]string{"note": "desired"}
			},
			given: other(func(o client.Object) { deployment(o).Spec.Template.Annotations = nil }),
			want:  refused(both, "Deployment", differs+"spec.template.metadata.annotations.note differs"+toAdopt),
		},
		"of pods with many other fields": {
			app: ifIdentical, given: other(func(o client.Object) {
				deployment(o).Spec.Template.Labels = map[string]string{"app.kubernetes.io/name": "web"}
				container(o).Image, container(o).Env = "web:0", nil
			}),
			want: refused(both, "Deployment", differs+"spec.template.metadata.labels.app.kubernetes.io/managed-by, "+
				"spec.template.metadata.labels.fleetwright.dev/appservice, "+imageField+" and 2 more differ"+toAdopt),
		},
		"of a Service with another port": {
			kind: "Service", app: ifIdentical, given: other(func(o client.Object) { o.(*corev1.Service).Spec.Ports[0].TargetPort = intstr.FromInt32(1) }),
			want: refused(object, "Service", differs+`spec.ports[port=80,protocol="TCP"].targetPort differs`+inPlace),
		},
		"that changes the order of lists, if identical": {
			app: ifIdentical, given: func(s *scene) { s.unmanage(); reorder(s) },
			want: refused(all, "Deployment", differs+"an apply changes the order of its lists"+toAdopt),
		},
		"that changes the order of lists": {
			app: always, given: func(s *scene) { s.unmanage(); reorder(s) },
			want: outcome{Needs: all, Action: Adopt, Replicas: 3, Restart: "an apply changes the order of its lists"},
		},
		"that the member refuses in a dry run": {
			app: always, given: func(s *scene) { s.unmanage(); s.refusal = errors.New("denied") },
			want: outcome{Needs: all, Error: "ask what adoption changes of Deployment web: denied"},
		},
		"of a Service of other pods, before the rollout": {
			kind: "Service", app: always, given: otherPods,
			want: outcome{Needs: object, Action: Blocked, Reason: v1alpha1.ReasonRollingOut, Message: "waiting for the Deployment to roll out; the Service is adopted afterwards", Retry: 10 * time.Second},
		},
		"of a Service of other pods, after the rollout": {
			kind: "Service", app: always, given: func(s *scene) { otherPods(s); s.facts.HasRolledOut = true },
			want: outcome{Needs: object, Action: Adopt, Replicas: -1},
		},
		"of a Service of other pods than those of an adopted Deployment, if identical": {
			kind: "Service", app: ifIdentical, given: func(s *scene) {
				s.adopted = &appsv1.Deployment{}
				s.adopted.Name = "web"
				s.adopted.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "shop"}}
				s.render()
				otherPods(s)
			},
			want: refused(object, "Service", differs+"spec.selector differs"+inPlace),
		},
		"of an object of an earlier AppService": {
			kind: "Service", given: func(s *scene) { s.facts.App.UID = "uid-2"; s.render() },
			want: outcome{Needs: object, Action: Adopt, Replicas: -1, PreviousUID: "uid-1"},
		},
	})
}

// reorder makes a dry run answer with another order of lists.
func reorder(s *scene) {
	s.Helper()
	container(s.live).Env = append(container(s.live).Env, corev1.EnvVar{Name: "B", Value: "2"})
	env := container(s.live).Env
	s.answer = s.dryRun()
	env[0], env[1] = env[1], env[0]
	s.sync()
}

func otherPods(s *scene) {
	s.live.(*corev1.Service).Spec.Selector = map[string]string{"app": "another"}
	s.unmanage()
}

// An unmanaged Deployment with another template gets its lists replaced, because an apply would
// keep the containers of the other manager. Otherwise only ownership is taken.
func TestDecide_on_how_to_take_over(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		kind   string
		change func(client.Object)
		want   takeOver
	}{
		"an identical Deployment":            {"Deployment", func(client.Object) {}, takeFields},
		"a Deployment with other replicas":   {"Deployment", func(o client.Object) { deployment(o).Spec.Replicas = new(int32(5)) }, takeFields},
		"a Deployment with another template": {"Deployment", func(o client.Object) { container(o).Image = "web:0" }, replaceLists},
		"an identical Service":               {"Service", func(client.Object) {}, takeFields},
		"a Service with another port":        {"Service", func(o client.Object) { o.(*corev1.Service).Spec.Ports[0].Port = 81 }, replaceLists},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, test.kind, withPolicy(v1alpha1.ConflictAdopt))
			test.change(s.live)
			s.unmanage()
			if _, step := s.decide(); step.Action != Adopt || step.takeOver != test.want {
				t.Errorf("decided %s, %s", step.Action, step.takeOver)
			}
		})
	}
}

// discard makes the member have no node selector, as if its API server had discarded it.
func discard(s *scene) {
	deployment(s.live).Spec.Template.Spec.NodeSelector = nil
	s.answer = s.dryRun()
	s.sync()
}

func withNodeSelector(app *v1alpha1.AppService) {
	app.Spec.NodeSelector = map[string]string{"disk": "ssd"}
}

// withSources sets a list that server-side apply compares as a whole.
func withSources(app *v1alpha1.AppService) {
	secret := &corev1.SecretProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "a"}, Optional: new(true)}
	bundle := &corev1.ClusterTrustBundleProjection{Name: new("a"), Path: "a"}
	app.Spec.Volumes = []v1alpha1.Volume{{Name: "a", Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{Secret: secret}, {ClusterTrustBundle: bundle}}}}}
}

const sourcesField = `spec.template.spec.volumes[name="a"].projected.sources`

func sources(o client.Object) []corev1.VolumeProjection {
	return deployment(o).Spec.Template.Spec.Volumes[0].Projected.Sources
}

// discardSource makes the member have an empty source, as if its API server had discarded what is in it.
func discardSource(s *scene) {
	sources(s.live)[1].ClusterTrustBundle = nil
	s.answer = s.dryRun()
	s.sync()
}

func changeSources(s *scene, change func(client.Object)) {
	s.change("editor", change, "spec", "template", "spec", "volumes", fieldpath.KeyByFields("name", "a"), "projected", "sources")
}

// know makes the memory have what the member discards.
func know(s *scene) {
	_, step := s.decide()
	s.facts.Memory = step.Memory
}

func TestDecide_on_a_pruned_field(t *testing.T) {
	asks := []Need{NeedAutoscalers, NeedObject, NeedDryRun}
	testRules(t, map[string]rule{
		"that is new":   {app: withNodeSelector, given: discard, want: outcome{Needs: asks, Action: Unchanged}},
		"that is known": {app: withNodeSelector, given: func(s *scene) { discard(s); know(s) }, want: outcome{Action: Unchanged}},
		"that is known, before the retry": {
			app: withNodeSelector, given: func(s *scene) { discard(s); know(s); s.facts.Now = testTime.Add(PruneRetry - 1) },
			want: outcome{Action: Unchanged},
		},
		"that is known, at the retry": {
			app: withNodeSelector, given: func(s *scene) { discard(s); know(s); s.facts.Now = testTime.Add(PruneRetry) },
			want: outcome{Needs: asks, Action: Unchanged},
		},
		"that the member would keep now": {
			app: withNodeSelector, given: func(s *scene) { kept := s.dryRun(); discard(s); s.answer = kept },
			want: outcome{Needs: asks, Action: Update, Replicas: 3},
		},
		"that the member claims to keep, and discards again": {
			app: withNodeSelector, given: func(s *scene) { kept := s.dryRun(); discard(s); s.answer = kept; know(s) },
			want: outcome{Action: Unchanged},
		},
		"of an apply that the member refuses": {
			app: withNodeSelector, given: func(s *scene) { discard(s); s.answer, s.refusal = nil, errors.New("denied") },
			want: outcome{Needs: asks, Action: Unchanged},
		},
		"beside drift": {
			app: withNodeSelector, given: func(s *scene) { discard(s); know(s); spoil(s) },
			want: outcome{Needs: asks[:2], Action: Correct, Replicas: 3, Managers: "editor", Fields: imageField},
		},
		"that another manager has removed": {
			app: withNodeSelector, given: func(s *scene) {
				s.change("", func(o client.Object) { deployment(o).Spec.Template.Spec.NodeSelector = nil }, "spec", "template", "spec", "nodeSelector")
			},
			want: outcome{Needs: asks[:2], Action: Correct, Replicas: 3, Managers: "an unknown manager", Fields: "spec.template.spec.nodeSelector"},
		},
		"in a list": {app: withSources, given: discardSource, want: outcome{Needs: asks, Action: Unchanged}},
		"in a list, that is known": {
			app: withSources, given: func(s *scene) { discardSource(s); know(s) }, want: outcome{Action: Unchanged},
		},
		"in a list, of which the member would keep more now": {
			app: withSources, given: func(s *scene) {
				discardSource(s)
				sources(s.live)[0].Secret.Optional = nil
				s.sync()
			},
			want: outcome{Needs: asks, Action: Update, Replicas: 3},
		},
		"in a list, that another manager has removed": {
			app: withSources, given: func(s *scene) {
				changeSources(s, func(o client.Object) { sources(o)[1].ClusterTrustBundle = nil })
			},
			want: outcome{Needs: asks[:2], Action: Correct, Replicas: 3, Managers: "editor", Fields: sourcesField},
		},
		"in a list, of which another manager has removed more": {
			app: withSources, given: func(s *scene) {
				discardSource(s)
				know(s)
				changeSources(s, func(o client.Object) { sources(o)[0].Secret.Optional = nil })
			},
			want: outcome{Needs: asks[:2], Action: Correct, Replicas: 3, Managers: "editor", Fields: sourcesField},
		},
		"in a list that another manager has changed": {
			app: withSources, given: func(s *scene) {
				discardSource(s)
				know(s)
				changeSources(s, func(o client.Object) { sources(o)[0].Secret.Name = "b" })
			},
			want: outcome{Needs: asks[:2], Action: Correct, Replicas: 3, Managers: "editor", Fields: sourcesField},
		},
		"that an edit removes": {
			app: withNodeSelector, given: func(s *scene) {
				discard(s)
				know(s)
				s.edit(func(app *v1alpha1.AppService) { app.Spec.NodeSelector = nil })
			},
			want: outcome{Action: Update, Only: "7", Replicas: 3},
		},
	})
}

// The member discards nothing any more once the object holds every field.
func TestDecide_forgets_a_pruned_field(t *testing.T) {
	t.Parallel()
	s := newScene(t, "Deployment", withNodeSelector)
	discard(s)
	know(s)
	if s.facts.Memory.Pruned.IsEmpty() {
		t.Error("nothing is known")
	}
	s.applied()
	if know(s); !s.facts.Memory.Pruned.IsEmpty() {
		t.Errorf("known: %v", FieldNames(s.facts.Memory.Pruned.Fields))
	}
}

func TestDecide_on_the_record_of_copies(t *testing.T) {
	const record = "ConfigMap/web-settings-5hc9dk2m7t"
	recorded := func(s *scene) {
		s.live.GetAnnotations()[v1alpha1.AnnotationCopies] = record
		s.sync()
	}
	testRules(t, map[string]rule{
		"that is missing":   {given: func(s *scene) { s.facts.Copies = record }, want: outcome{Action: Record, Only: "7", Replicas: 3}},
		"that is there":     {given: func(s *scene) { s.facts.Copies = record; recorded(s) }, want: outcome{Action: Unchanged}},
		"that nobody needs": {given: recorded, want: outcome{Action: Record, Only: "7", Replicas: 3}},
		"with the UID of its Deployment": {
			given: func(s *scene) {
				s.facts.Copies = record + ",Deployment/object-1"
				recorded(s)
				s.cached.GetAnnotations()[v1alpha1.AnnotationCopies] += ",Deployment/this"
			},
			want: outcome{Action: Unchanged},
		},
		"of a Deployment that is being deleted": {
			given: func(s *scene) { s.facts.Copies = record; s.cached.SetDeletionTimestamp(new(metav1.Now())) },
			want:  outcome{Action: Unchanged},
		},
		"beside an edit": {given: func(s *scene) { s.facts.Copies = record; s.edit(setImage("web:2")) }, want: outcome{Action: Update, Only: "7", Replicas: 3}},
		"that does not take the replicas of an autoscaler": {
			given: func(s *scene) { s.facts.Copies = record; giveUpReplicas(s); scaleTo(s, 7) },
			want:  outcome{Action: Record, Only: "71", Replicas: -1},
		},
	})
}

func TestInspect(t *testing.T) {
	t.Parallel()
	marks := map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelAppService: "web"}
	const adoptable = "; to adopt it, set spec.conflictPolicy to AdoptIfIdentical or Adopt"
	tests := map[string]struct {
		labels, annotations map[string]string
		want                string // without an adoption
		isAdoptable         bool
		hasNoManagedFields  bool // as an object in the cache
	}{
		"a manager without a label":    {want: `it is managed by "creator"` + adoptable, isAdoptable: true},
		"nobody knows whom":            {want: "it is managed by an unknown manager" + adoptable, isAdoptable: true, hasNoManagedFields: true},
		"another tool":                 {labels: map[string]string{v1alpha1.LabelManagedBy: "Helm"}, want: `it is managed by "Helm"` + adoptable, isAdoptable: true},
		"another hub":                  {labels: marks, annotations: map[string]string{v1alpha1.AnnotationHub: "hub-2"}, want: `it belongs to hub "hub-2"`},
		"a copy of the labels":         {labels: marks, want: `it is managed by "creator"` + adoptable, isAdoptable: true},
		"a copy of another AppService": {annotations: map[string]string{v1alpha1.AnnotationHub: "hub-1", v1alpha1.AnnotationUID: "uid-9"}, want: "it is a copy of an object of another AppService" + adoptable, isAdoptable: true},
		"an earlier AppService":        {labels: marks, annotations: map[string]string{v1alpha1.AnnotationHub: "hub-1", v1alpha1.AnnotationUID: "uid-9"}},
		"this AppService":              {labels: marks, annotations: map[string]string{v1alpha1.AnnotationHub: "hub-1", v1alpha1.AnnotationUID: "uid-1"}},
	}
	for _, kind := range []string{"Deployment", "Service"} {
		for name, test := range tests {
			t.Run(kind+" of "+name, func(t *testing.T) {
				t.Parallel()
				s := newScene(t, kind)
				s.live.SetLabels(test.labels)
				s.live.SetAnnotations(test.annotations)
				if s.live.SetManagedFields(nil); !test.hasNoManagedFields {
					s.live.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "creator"}})
				}
				existing := Inspect("hub-1", s.facts.App, s.facts.Entry, s.live)
				for _, policy := range []v1alpha1.ConflictPolicy{v1alpha1.ConflictFail, v1alpha1.ConflictAdoptIfIdentical, v1alpha1.ConflictAdopt} {
					want := ""
					if test.want != "" && (policy == v1alpha1.ConflictFail || !test.isAdoptable) {
						want = kind + " web exists and does not belong to this AppService: " + test.want
					}
					got := ""
					if blocker := existing.Blocker(policy); blocker != nil {
						got = blocker.Message
					}
					if got != want {
						t.Errorf("%s: blocked by %q, want %q", policy, got, want)
					}
				}
			})
		}
	}
}
