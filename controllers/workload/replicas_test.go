package workload_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/controllers/workload"
)

// An AppService that declares an external autoscaler, and one whose autoscaler is detected, render
// the same objects for a member: switching between them causes no write.
func TestWithoutReplicas_equals_an_externally_scaled_AppService(t *testing.T) {
	t.Parallel()
	checkProperty(t, func(t *rapid.T) {
		in := anyInput.Draw(t, "input")
		in.app.Spec.ExternallyScaled = false
		rendered := in.render(t).Deployment
		before := rendered.DeepCopy()
		got, err := workload.WithoutReplicas(rendered)
		if err != nil {
			t.Fatal(err)
		}
		in.app.Spec.ExternallyScaled = true
		if diff := cmp.Diff(in.render(t).Deployment, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(before, rendered); diff != "" {
			t.Fatalf("its input changed (-before +after):\n%s", diff)
		}
		again, err := workload.WithoutReplicas(got)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(got, again); diff != "" {
			t.Fatalf("a second time (-first +second):\n%s", diff)
		}
	})
}

// The initial replicas of an autoscaled Deployment are not compared later, so the hash stays the
// same.
func TestWithReplicas_adds_the_replicas_and_nothing_else(t *testing.T) {
	t.Parallel()
	checkProperty(t, func(t *rapid.T) {
		in := anyInput.Draw(t, "input")
		replicas := rapid.Int32Range(0, 9).Draw(t, "begins with")
		rendered := in.render(t).Deployment
		before := rendered.DeepCopy()
		got := workload.WithReplicas(rendered, replicas)
		want := before.DeepCopy()
		want.Object["spec"].(map[string]any)["replicas"] = int64(replicas)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(before, rendered); diff != "" {
			t.Fatalf("its input changed (-before +after):\n%s", diff)
		}
	})
}
