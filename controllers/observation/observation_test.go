package observation_test

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
)

func TestObservation_WithDeployment(t *testing.T) {
	tests := map[string]struct {
		deployment *appsv1.Deployment
		want       observation.Observation
	}{
		"a new Deployment is Progressing": {
			deployment: deployment(func(d *appsv1.Deployment) { d.Status = appsv1.DeploymentStatus{} }),
			want:       Observation(v1alpha1.ClusterProgressing, Reporting(v1alpha1.ReasonRollingOut, "Replicas: 0/2"), Counting(0, 0)),
		},
		"a generation that the member has not observed yet is Progressing": {
			deployment: deployment(func(d *appsv1.Deployment) { d.Generation = 3 }),
			want:       Observation(v1alpha1.ClusterProgressing, Reporting(v1alpha1.ReasonRollingOut, "Deployment generation is 3, but latest observed generation is 2")),
		},
		"pods that are not updated yet are Progressing": {
			deployment: deployment(func(d *appsv1.Deployment) { d.Status.UpdatedReplicas = 1 }),
			want:       Observation(v1alpha1.ClusterProgressing, Reporting(v1alpha1.ReasonRollingOut, "Updated: 1/2")),
		},
		"pods that are not available yet are Progressing": {
			deployment: deployment(func(d *appsv1.Deployment) { d.Status.AvailableReplicas, d.Status.ReadyReplicas = 1, 1 }),
			want:       Observation(v1alpha1.ClusterProgressing, Reporting(v1alpha1.ReasonRollingOut, "Available: 1/2"), Counting(2, 1)),
		},
		"ready pods that are not available yet are counted": {
			deployment: deployment(func(d *appsv1.Deployment) { d.Status.AvailableReplicas = 0 }),
			want:       Observation(v1alpha1.ClusterProgressing, Reporting(v1alpha1.ReasonRollingOut, "Available: 0/2"), CountingAvailable(0)),
		},
		"more available pods than ready ones are a false report": {
			deployment: deployment(func(d *appsv1.Deployment) { d.Status.AvailableReplicas = math.MaxInt32 }),
			want:       Observation(v1alpha1.ClusterReady),
		},
		"less than no available pods are a false report": {
			deployment: deployment(func(d *appsv1.Deployment) { d.Status.AvailableReplicas = -1 }),
			want:       Observation(v1alpha1.ClusterProgressing, Reporting(v1alpha1.ReasonRollingOut, "Available: -1/2"), CountingAvailable(0)),
		},
		"old pods that are still terminating are Progressing": {
			deployment: deployment(func(d *appsv1.Deployment) { d.Status.Replicas = 3 }),
			want:       Observation(v1alpha1.ClusterProgressing, Reporting(v1alpha1.ReasonRollingOut, "Pending termination: 1"), Counting(3, 2)),
		},
		"all pods available is Ready, without a message": {
			deployment: deployment(),
			want:       Observation(v1alpha1.ClusterReady),
		},
		"zero desired and zero actual replicas is Ready": {
			deployment: deployment(func(d *appsv1.Deployment) {
				d.Spec.Replicas = new(int32(0))
				d.Status.Replicas, d.Status.UpdatedReplicas, d.Status.ReadyReplicas, d.Status.AvailableReplicas = 0, 0, 0, 0
			}),
			want: Observation(v1alpha1.ClusterReady, Counting(0, 0)),
		},
		"zero desired replicas that the member has not observed yet is Progressing": {
			deployment: deployment(func(d *appsv1.Deployment) {
				d.Spec.Replicas = new(int32(0))
				d.Status = appsv1.DeploymentStatus{}
			}),
			want: Observation(v1alpha1.ClusterProgressing, Reporting(v1alpha1.ReasonRollingOut, "Deployment not Available"), Counting(0, 0)),
		},
		"a rollout past its deadline is Failed": {
			deployment: deployment(condition(appsv1.DeploymentProgressing, corev1.ConditionFalse, "ProgressDeadlineExceeded"), func(d *appsv1.Deployment) {
				d.Status.AvailableReplicas, d.Status.ReadyReplicas = 0, 0
			}),
			want: Observation(v1alpha1.ClusterFailed, Reporting(v1alpha1.ReasonRolloutFailed, "Progress deadline exceeded"), Counting(2, 0)),
		},
		"a Deployment that is being deleted is Progressing": {
			deployment: deployment(func(d *appsv1.Deployment) { d.DeletionTimestamp = &Now }),
			want:       Observation(v1alpha1.ClusterProgressing, Reporting(v1alpha1.ReasonRollingOut, "Resource scheduled for deletion")),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			// The previous phase, reason and message are replaced. The identity of the answered
			// entry is kept.
			earlier := Observation(v1alpha1.ClusterFailed, Reporting(v1alpha1.ReasonRefused, "quota"), Counting(7, 7), CountingAvailable(3))
			deployment := test.deployment.DeepCopy()
			got, err := earlier.WithDeployment(deployment)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("observation (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.deployment, deployment); diff != "" {
				t.Errorf("the Deployment changed (-before +after):\n%s", diff)
			}
		})
	}
}

// deployment returns a Deployment with two replicas whose rollout is complete.
func deployment(changes ...func(*appsv1.Deployment)) *appsv1.Deployment {
	deployment := &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: new(int32(2))}}
	deployment.Namespace, deployment.Name, deployment.Generation = "shop", "web", 2
	deployment.Status = appsv1.DeploymentStatus{ObservedGeneration: 2, Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 2}
	condition(appsv1.DeploymentProgressing, corev1.ConditionTrue, "NewReplicaSetAvailable")(deployment)
	condition(appsv1.DeploymentAvailable, corev1.ConditionTrue, "MinimumReplicasAvailable")(deployment)
	for _, change := range changes {
		change(deployment)
	}
	return deployment
}

func condition(kind appsv1.DeploymentConditionType, status corev1.ConditionStatus, reason string) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		d.Status.Conditions = slices.DeleteFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool { return c.Type == kind })
		d.Status.Conditions = append(d.Status.Conditions, appsv1.DeploymentCondition{Type: kind, Status: status, Reason: reason})
	}
}

func TestObservation_has_the_message_of_the_Deployment(t *testing.T) {
	got, err := observation.Observation{}.WithDeployment(deployment(func(d *appsv1.Deployment) {
		d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionFalse, Reason: "ProgressDeadlineExceeded", Message: `ReplicaSet "web-1" has timed out progressing.`}}
	}))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(`ReplicaSet "web-1" has timed out progressing.`, got.Message); diff != "" {
		t.Error(diff)
	}
}
