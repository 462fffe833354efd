package workload

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// fixed has the fields that no patch may change, by kind, and what to do instead.
var fixed = []struct {
	kind string // empty: every one
	path string
	why  string
}{
	{"", "apiVersion", "it identifies the kind of the object"},
	{"", "kind", "it identifies the kind of the object"},
	{"", "status", "the member sets it"},
	{"Deployment", "spec.selector", "it selects the pods of the AppService"},
	{"Service", "spec.selector", "it selects the pods of the AppService"},
	{"PodDisruptionBudget", "spec.selector", "it selects the pods of the AppService"},
	{"Deployment", "spec.replicas", "set replicas of the override, or replicaPolicy of the AppService"},
	{"HorizontalPodAutoscaler", "spec.scaleTargetRef", "it scales the AppService's Deployment"},
	{"HorizontalPodAutoscaler", "spec.minReplicas", "set autoscaling.minReplicas of the AppService"},
	{"HorizontalPodAutoscaler", "spec.maxReplicas", "set autoscaling.maxReplicas of the AppService"},
}

// checkIdentity refuses a patch that changes the identity, the owner or the number of pods of an
// object. It checks the outcome, so that the operations do not matter.
func checkIdentity(before, after map[string]any) error {
	for _, field := range fixed {
		if field.kind != "" && field.kind != before["kind"] {
			continue
		}
		path := strings.Split(field.path, ".")
		was, _, _ := unstructured.NestedFieldNoCopy(before, path...)
		is, found, _ := unstructured.NestedFieldNoCopy(after, path...)
		if !reflect.DeepEqual(was, is) || found && is == nil {
			return fmt.Errorf("%s must not be changed: %s", field.path, field.why)
		}
	}
	if err := checkMetadata(before, after); err != nil {
		return err
	}
	return checkMarks(before, after, "spec", "template", "metadata", "labels")
}

// checkMetadata allows changes of labels and annotations that are not Fleetwright's, and of nothing
// else.
func checkMetadata(before, after map[string]any) error {
	was, is := mapAt(before, "metadata"), mapAt(after, "metadata")
	for _, key := range keysOf(was, is) {
		if key != "labels" && key != "annotations" && !reflect.DeepEqual(was[key], is[key]) {
			return fmt.Errorf("metadata.%s must not be changed: in metadata, a patch may change only labels and annotations", key)
		}
	}
	if err := checkMarks(before, after, "metadata", "labels"); err != nil {
		return err
	}
	return checkMarks(before, after, "metadata", "annotations")
}

// checkMarks allows changes of labels or annotations that are not Fleetwright's.
func checkMarks(before, after map[string]any, path ...string) error {
	was, is := mapAt(before, path...), mapAt(after, path...)
	for _, key := range keysOf(was, is) {
		if isMark(key) && !reflect.DeepEqual(was[key], is[key]) {
			return fmt.Errorf("%s[%s] must not be changed: it belongs to Fleetwright", strings.Join(path, "."), key)
		}
	}
	return nil
}

// isMark reports whether a label or annotation is one of Fleetwright's marks, which identify the
// owner of an object.
func isMark(key string) bool {
	return key == labelName || key == v1alpha1.LabelManagedBy || strings.HasPrefix(key, v1alpha1.GroupVersion.Group+"/")
}

// mapAt returns the map at a path, or nil if the path has another value, which decoding refuses.
func mapAt(content map[string]any, path ...string) map[string]any {
	value, _, _ := unstructured.NestedFieldNoCopy(content, path...)
	found, _ := value.(map[string]any)
	return found
}

// keysOf returns the keys of both maps, sorted, so that the message is stable.
func keysOf(one, other map[string]any) []string {
	all := maps.Clone(one)
	if all == nil {
		all = map[string]any{}
	}
	maps.Copy(all, other)
	return slices.Sorted(maps.Keys(all))
}

// checkKeys refuses two items with the same key in a list that server-side apply merges by key: an
// apply would fail.
func checkKeys(object typedObject) error {
	switch object := object.(type) {
	case *appsv1.Deployment:
		return checkPod(&object.Spec.Template.Spec)
	case *corev1.Service:
		return distinct("spec.ports", object.Spec.Ports, func(p corev1.ServicePort) string {
			return fmt.Sprintf("port %d, protocol %s", p.Port, p.Protocol)
		})
	}
	return nil
}

func checkPod(pod *corev1.PodSpec) error {
	name := func(c corev1.Container) string { return c.Name }
	checks := []error{
		distinct("containers", pod.Containers, name),
		distinct("initContainers", pod.InitContainers, name),
		distinct("volumes", pod.Volumes, func(v corev1.Volume) string { return v.Name }),
		distinct("imagePullSecrets", pod.ImagePullSecrets, func(s corev1.LocalObjectReference) string { return s.Name }),
		distinct("hostAliases", pod.HostAliases, func(a corev1.HostAlias) string { return a.IP }),
		distinct("resourceClaims", pod.ResourceClaims, func(c corev1.PodResourceClaim) string { return c.Name }),
		distinct("schedulingGates", pod.SchedulingGates, func(g corev1.PodSchedulingGate) string { return g.Name }),
		distinct("topologySpreadConstraints", pod.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) string {
			return fmt.Sprintf("topologyKey %s, whenUnsatisfiable %s", c.TopologyKey, c.WhenUnsatisfiable)
		}),
	}
	for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
		checks = append(checks, checkContainer(&container))
	}
	return firstOf(checks)
}

func checkContainer(c *corev1.Container) error {
	return firstOf([]error{
		distinct("env", c.Env, func(v corev1.EnvVar) string { return v.Name }),
		distinct("ports", c.Ports, func(p corev1.ContainerPort) string {
			return fmt.Sprintf("containerPort %d, protocol %s", p.ContainerPort, p.Protocol)
		}),
		distinct("volumeMounts", c.VolumeMounts, func(m corev1.VolumeMount) string { return m.MountPath }),
		distinct("volumeDevices", c.VolumeDevices, func(d corev1.VolumeDevice) string { return d.DevicePath }),
		distinct("resources.claims", c.Resources.Claims, func(r corev1.ResourceClaim) string { return r.Name }),
	})
}

func distinct[T any](list string, items []T, keyOf func(T) string) error {
	seen := map[string]bool{}
	for _, item := range items {
		key := keyOf(item)
		if seen[key] {
			return fmt.Errorf("%s contains %s twice", list, key)
		}
		seen[key] = true
	}
	return nil
}

func firstOf(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
