package delivery

import (
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
	anotherHub := otherOwners()["another hub"]
	differs := "; it is not identical, so spec.conflictPolicy AdoptIfIdentical does not adopt it: "
	tests := map[string]struct {
		policy              v1alpha1.ConflictPolicy
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
		"of a Deployment of another hub": {
			policy: v1alpha1.ConflictAdopt, existing: identicalDeployment, labels: anotherHub.labels, annotations: anotherHub.annotations,
			want: "Deployment web exists and does not belong to this AppService: " + anotherHub.message,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSetup(t, withConflictPolicy(test.policy))
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
