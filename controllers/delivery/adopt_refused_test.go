package delivery

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// toAdopt is the advice for a pod template that differs.
const toAdopt = "; change the AppService to match, or set spec.conflictPolicy to Adopt, which replaces its pods"

func TestAdoption_is_refused(t *testing.T) {
	t.Parallel()
	const inPlace = "; change the AppService to match, or set spec.conflictPolicy to Adopt, which changes it"
	differs := "; it is not identical, so spec.conflictPolicy AdoptIfIdentical does not adopt it: "
	tests := map[string]struct {
		policy              v1alpha1.ConflictPolicy
		change              func(*v1alpha1.AppService)
		existing            client.Object
		labels, annotations map[string]string
		want                string
	}{
		"of a Deployment with one different field": {
			policy: v1alpha1.ConflictAdoptIfIdentical,
			existing: func() client.Object {
				d := identicalDeployment.DeepCopy()
				d.Spec.Template.Spec.Containers[0].Image = "web:0"
				return d
			}(),
			want: `Deployment web exists and does not belong to this AppService: it is managed by "creator"` + differs +
				`spec.template.spec.containers[name="app"].image differs` + toAdopt,
		},
		"of a Deployment whose container has another name": {
			policy: v1alpha1.ConflictAdoptIfIdentical,
			existing: func() client.Object {
				d := identicalDeployment.DeepCopy()
				d.Spec.Template.Spec.Containers[0].Name = "nginx"
				return d
			}(),
			want: `Deployment web exists and does not belong to this AppService: it is managed by "creator"` + differs +
				`spec.template.spec.containers[name="app"].image, spec.template.spec.containers[name="app"].name, ` +
				`spec.template.spec.containers[name="app"].env[name="A"].name and 3 more differ; its container is named "nginx": set spec.containerName to that name`,
		},
		"of a Deployment whose pods have other annotations": {
			policy:   v1alpha1.ConflictAdoptIfIdentical,
			change:   func(app *v1alpha1.AppService) { app.Spec.PodAnnotations = map[string]string{"note": "desired"} },
			existing: identicalDeployment,
			want: `Deployment web exists and does not belong to this AppService: it is managed by "creator"` + differs +
				`spec.template.metadata.annotations.note differs` + toAdopt,
		},
		"of a Deployment with many different fields": {
			policy:   v1alpha1.ConflictAdoptIfIdentical,
			existing: unmanagedDeployment,
			want: `Deployment web exists and does not belong to this AppService: it is managed by "creator"` + differs +
				`spec.template.metadata.labels.app.kubernetes.io/managed-by, spec.template.metadata.labels.app.kubernetes.io/name, ` +
				`spec.template.spec.containers[name="app"].image and 4 more differ` + toAdopt,
		},
		"of a Service with a different field": {
			policy: v1alpha1.ConflictAdoptIfIdentical,
			existing: func() client.Object {
				s := identicalService.DeepCopy()
				s.Spec.Ports[0].TargetPort = intstr.FromInt32(1)
				return s
			}(),
			want: `Service web exists and does not belong to this AppService: it is managed by "creator"` + differs +
				`spec.ports[port=80,protocol="TCP"].targetPort differs` + inPlace,
		},
	}
	for kind, object := range map[string]client.Object{"Deployment": identicalDeployment, "Service": identicalService} {
		for _, policy := range []v1alpha1.ConflictPolicy{v1alpha1.ConflictFail, v1alpha1.ConflictAdoptIfIdentical, v1alpha1.ConflictAdopt} {
			for name, owner := range otherOwners() {
				if (policy == v1alpha1.ConflictFail) == (name == "another hub") {
					continue // these are adopted, or covered by other tests
				}
				test := tests[name]
				test.policy, test.existing, test.labels, test.annotations = policy, object, owner.labels, owner.annotations
				test.want = kind + " web exists and does not belong to this AppService: " + owner.message
				tests[fmt.Sprintf("of a %s of %s by %s", kind, name, policy)] = test
			}
		}
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSetup(t, withConflictPolicy(test.policy), func(app *v1alpha1.AppService) {
				if test.change != nil {
					test.change(app)
				}
			})
			was := s.createByOther(test.existing, test.labels, test.annotations)
			s.connect()
			s.plan()
			for range 2 { // the second result must be the same
				seen, result, err := s.reconcileOnce()
				s.must(err)
				if diff := cmp.Diff(s.failed(v1alpha1.ReasonConflict, test.want), seen, ignoreReplicas); diff != "" {
					t.Errorf("reported (-want +got):\n%s", diff)
				}
				if result.RequeueAfter != blockerRetry {
					t.Error("requeued after", result.RequeueAfter)
				}
			}
			s.expectUnchanged(was)
		})
	}
}

// Adoption cannot be undone, so a decision from a stale cache is verified with a live read of the
// hub.
func TestAdoption_that_the_hub_does_not_verify_changes_nothing(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*setup){
		"after the policy changed":         func(s *setup) { s.edit(withConflictPolicy(v1alpha1.ConflictFail)) },
		"after the entry was removed":      func(s *setup) { s.writeEntries() },
		"after the AppService was deleted": func(s *setup) { s.must(onHub.Delete(s.Context(), s.app)) },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSetup(t, withConflictPolicy(v1alpha1.ConflictAdopt))
			was := s.createByOther(differentDeployment(), nil, nil)
			s.plan()
			cached := s.app.DeepCopy()
			change(s)
			s.connect()
			_, _, _ = s.reconcileWith(staleCluster{hubCached, []client.Object{cached}}, s.member)
			s.expectUnchanged(was)
		})
	}
}
