package revision

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// Template returns the part of a spec that defines a pod or its Service. All other fields are zero.
// It shares memory with the spec.
func Template(spec v1alpha1.AppServiceSpec) v1alpha1.AppServiceSpec {
	template := withImmediate(spec, v1alpha1.AppServiceSpec{})
	template.Overrides = withoutReplicas(spec.Overrides)
	return template
}

// Compose returns a spec with the template of one spec and the other fields of another. It shares
// memory with both.
//
// Patches of a HorizontalPodAutoscaler are left out if the current spec has no autoscaling:
// otherwise a cluster that keeps an older template could not be changed any more.
func Compose(current, template v1alpha1.AppServiceSpec) v1alpha1.AppServiceSpec {
	composed := withImmediate(template, current)
	if current.Autoscaling == nil {
		composed.Overrides = withoutPatches(composed.Overrides, v1alpha1.PatchHorizontalPodAutoscaler)
	}
	return composed
}

// Restore returns a spec that has the template of an earlier one, and keeps the other fields of the
// current one, also the replicas in its overrides. It is what a user saves to return to a revision. It
// shares memory with both.
func Restore(current, template v1alpha1.AppServiceSpec) v1alpha1.AppServiceSpec {
	restored := Compose(current, template)
	restored.Overrides = slices.Clone(restored.Overrides)
	for _, override := range current.Overrides {
		if override.Replicas == nil {
			continue
		}
		i := slices.IndexFunc(restored.Overrides, func(o v1alpha1.Override) bool { return o.Name == override.Name })
		switch {
		case i >= 0 && equality.Semantic.DeepEqual(restored.Overrides[i].ClusterMatch, override.ClusterMatch):
			restored.Overrides[i].Replicas = override.Replicas
			continue
		case i >= 0: // it matches other clusters than in the template
			override.Name += "-replicas"
		}
		restored.Overrides = append(restored.Overrides, v1alpha1.Override{Name: override.Name, ClusterMatch: override.ClusterMatch, Replicas: override.Replicas})
	}
	return restored
}

// HasTemplate reports whether a spec has this template.
func HasTemplate(spec, template v1alpha1.AppServiceSpec) bool {
	return equality.Semantic.DeepEqual(Template(spec), Template(template))
}

// withImmediate returns a spec with the fields of another that take effect immediately.
func withImmediate(spec, from v1alpha1.AppServiceSpec) v1alpha1.AppServiceSpec {
	spec.Replicas = from.Replicas
	spec.ReplicaPolicy = from.ReplicaPolicy
	spec.Autoscaling = from.Autoscaling
	spec.ExternallyScaled = from.ExternallyScaled
	spec.ProgressDeadlineSeconds = from.ProgressDeadlineSeconds
	spec.Placement = from.Placement
	spec.ConflictPolicy = from.ConflictPolicy
	spec.DeletionPolicy = from.DeletionPolicy
	spec.Suspend = from.Suspend
	spec.RevisionHistoryLimit = from.RevisionHistoryLimit
	spec.Rollout = from.Rollout
	return spec
}

// withoutReplicas returns overrides without their replicas, which take effect immediately. An
// override that has nothing else is left out, so that it makes no other template.
func withoutReplicas(overrides []v1alpha1.Override) []v1alpha1.Override {
	var template []v1alpha1.Override
	for _, override := range overrides {
		override.Replicas = nil
		nothing := v1alpha1.Override{Name: override.Name, ClusterMatch: override.ClusterMatch}
		if !equality.Semantic.DeepEqual(override, nothing) {
			template = append(template, override)
		}
	}
	return template
}

// withoutPatches returns overrides without the patches of a kind.
func withoutPatches(overrides []v1alpha1.Override, target v1alpha1.PatchTarget) []v1alpha1.Override {
	kept := slices.Clone(overrides)
	for i := range kept {
		kept[i].Patches = slices.DeleteFunc(slices.Clone(kept[i].Patches), func(patch v1alpha1.Patch) bool { return patch.Target == target })
	}
	return kept
}
