package workload_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// replaced are the fields of a PodSpec whose names are replaced by those of the copies. A path leads
// through each item of a list.
var replaced = map[string]workload.Kind{
	"containers.env.valueFrom.configMapKeyRef.name":     workload.ConfigMap,
	"containers.env.valueFrom.secretKeyRef.name":        workload.Secret,
	"containers.envFrom.configMapRef.name":              workload.ConfigMap,
	"containers.envFrom.secretRef.name":                 workload.Secret,
	"imagePullSecrets.name":                             workload.Secret,
	"initContainers.env.valueFrom.configMapKeyRef.name": workload.ConfigMap,
	"initContainers.env.valueFrom.secretKeyRef.name":    workload.Secret,
	"initContainers.envFrom.configMapRef.name":          workload.ConfigMap,
	"initContainers.envFrom.secretRef.name":             workload.Secret,
	"volumes.azureFile.secretName":                      workload.Secret,
	"volumes.cephfs.secretRef.name":                     workload.Secret,
	"volumes.cinder.secretRef.name":                     workload.Secret,
	"volumes.configMap.name":                            workload.ConfigMap,
	"volumes.csi.nodePublishSecretRef.name":             workload.Secret,
	"volumes.flexVolume.secretRef.name":                 workload.Secret,
	"volumes.iscsi.secretRef.name":                      workload.Secret,
	"volumes.projected.sources.configMap.name":          workload.ConfigMap,
	"volumes.projected.sources.secret.name":             workload.Secret,
	"volumes.rbd.secretRef.name":                        workload.Secret,
	"volumes.scaleIO.secretRef.name":                    workload.Secret,
	"volumes.secret.secretName":                         workload.Secret,
	"volumes.storageos.secretRef.name":                  workload.Secret,
}

// leftAlone are the other fields that look like references to a ConfigMap or a Secret, and why they
// are not replaced.
var leftAlone = map[string]string{
	"ephemeralContainers.env.valueFrom.configMapKeyRef.name":              refusedByServer,
	"ephemeralContainers.env.valueFrom.secretKeyRef.name":                 refusedByServer,
	"ephemeralContainers.envFrom.configMapRef.name":                       refusedByServer,
	"ephemeralContainers.envFrom.secretRef.name":                          refusedByServer,
	"volumes.cephfs.secretFile":                                           "it is a file of the node",
	"volumes.ephemeral.volumeClaimTemplate.metadata.ownerReferences.name": refusedByServer,
	"volumes.ephemeral.volumeClaimTemplate.spec.dataSource.name":          refusedByServer,
	"volumes.ephemeral.volumeClaimTemplate.spec.dataSourceRef.name":       refusedByServer,
}

// refusedByServer is the reason for a field that cannot name a ConfigMap or a Secret in a Deployment.
// A test asks the API server.
const refusedByServer = "the API server refuses a ConfigMap or a Secret there"

// A newer version of Kubernetes may have new references. Each must be decided about.
func TestEach_reference_of_a_PodSpec_is_replaced_or_left_alone_for_a_reason(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	for _, path := range namesIn(t, reflect.TypeFor[corev1.PodSpec](), "") {
		found[path] = true
		_, isReplaced := replaced[path]
		_, isLeftAlone := leftAlone[path]
		if isReplaced == isLeftAlone {
			t.Errorf("%s must be either in replaced, and in nameFields of the package, or in leftAlone", path)
		}
	}
	for _, path := range slices.Concat(slices.Sorted(maps.Keys(replaced)), slices.Sorted(maps.Keys(leftAlone))) {
		if !found[path] {
			t.Errorf("a PodSpec has no reference %s", path)
		}
	}
}

// Each reference that a PodSpec can have is set, and there is a ConfigMap and a Secret for each name.
func TestRender_replaces_each_reference_of_a_PodSpec(t *testing.T) {
	t.Parallel()
	before := corev1.PodSpec{}
	grow(t, reflect.ValueOf(&before).Elem(), func() int { return 1 })
	copies := workload.Copies{}
	visitNames(t, reflect.ValueOf(&before).Elem(), "", func(path string, name reflect.Value) {
		plain := strings.ToLower(strings.ReplaceAll(path, ".", "-"))
		name.SetString(plain)
		copies[workload.Reference{Kind: workload.ConfigMap, Name: plain}] = plain + "-copied-configmap"
		copies[workload.Reference{Kind: workload.Secret, Name: plain}] = plain + "-copied-secret"
	})
	after := renderPod(t, before, copies)
	changed := map[string]string{}
	visitNames(t, reflect.ValueOf(&after).Elem(), "", func(path string, name reflect.Value) {
		want := strings.ToLower(strings.ReplaceAll(path, ".", "-"))
		if kind, isReplaced := replaced[path]; isReplaced {
			want += "-copied-" + strings.ToLower(string(kind))
		}
		if name.String() != want {
			t.Errorf("%s is %s, want %s", path, name, want)
		}
		changed[path] = name.String()
	})
	if len(changed) != len(replaced)+len(leftAlone) {
		t.Errorf("%d references were rendered, want %d", len(changed), len(replaced)+len(leftAlone))
	}
	if diff := cmp.Diff(withCopies(t, renderPod(t, before, nil), copies), after); diff != "" {
		t.Errorf("pod (-want +got):\n%s", diff)
	}
}

// Only listed names change, and nothing else does: no other field, and no order of a list.
func TestRender_replaces_names_and_nothing_else(t *testing.T) {
	t.Parallel()
	checkProperty(t, func(t *rapid.T) {
		pod, copies := anyPodSpec.Draw(t, "pod"), copiesNamed(anyName).Draw(t, "copies")
		want := withCopies(t, renderPod(t, pod, nil), copies)
		if diff := cmp.Diff(want, renderPod(t, pod, copies)); diff != "" {
			t.Fatalf("pod (-want +got):\n%s", diff)
		}
	})
}

// What is rendered again from the names of copies stays as it is, unless such a name is a plain one
// as well.
func TestRender_keeps_the_names_of_copies(t *testing.T) {
	t.Parallel()
	checkProperty(t, func(t *rapid.T) {
		pod, copies := anyPodSpec.Draw(t, "pod"), copiesNamed(rapid.SampledFrom([]string{"copy-of-a", "copy-of-b"})).Draw(t, "copies")
		once := renderPod(t, pod, copies)
		if diff := cmp.Diff(once, renderPod(t, once, copies)); diff != "" {
			t.Fatalf("pod (-once +twice):\n%s", diff)
		}
	})
}

// Two plain names may have one copy. A list with the name as its key cannot have it twice.
func TestRender_lists_a_pull_secret_once(t *testing.T) {
	t.Parallel()
	copies := workload.Copies{{Kind: workload.Secret, Name: "a"}: "copy", {Kind: workload.Secret, Name: "c"}: "copy"}
	pod := corev1.PodSpec{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}}}
	want := []corev1.LocalObjectReference{{Name: "copy"}, {Name: "b"}, {Name: "d"}}
	if diff := cmp.Diff(want, renderPod(t, pod, copies).ImagePullSecrets); diff != "" {
		t.Errorf("imagePullSecrets (-want +got):\n%s", diff)
	}
}

var (
	// anyPodSpec draws a PodSpec with any references, and the fields around them.
	anyPodSpec = rapid.Custom(func(t *rapid.T) corev1.PodSpec {
		pod := corev1.PodSpec{}
		grow(t, reflect.ValueOf(&pod).Elem(), func() int { return rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "length") })
		visitNames(t, reflect.ValueOf(&pod).Elem(), "", func(_ string, name reflect.Value) {
			name.SetString(anyName.Draw(t, "name"))
		})
		pod.ImagePullSecrets = rapid.SliceOfNDistinct(rapid.Map(anyName, func(name string) corev1.LocalObjectReference {
			return corev1.LocalObjectReference{Name: name}
		}), 0, 4, func(secret corev1.LocalObjectReference) string { return secret.Name }).Draw(t, "imagePullSecrets")
		return pod
	})

	// anyName draws plain names, names of copies, and names of which nobody knows.
	anyName = rapid.SampledFrom(append([]string{"copy-of-a", "copy-of-b", "other"}, plainNames...))

	plainNames = []string{"a", "b", "c"}
)

// copiesNamed draws copies of some plain names.
func copiesNamed(names *rapid.Generator[string]) *rapid.Generator[workload.Copies] {
	reference := rapid.Custom(func(t *rapid.T) workload.Reference {
		return workload.Reference{
			Kind: rapid.SampledFrom([]workload.Kind{workload.ConfigMap, workload.Secret}).Draw(t, "kind"),
			Name: rapid.SampledFrom(plainNames).Draw(t, "name"),
		}
	})
	return rapid.Map(rapid.MapOfN(reference, names, 0, 6), func(copies map[workload.Reference]string) workload.Copies { return copies })
}

// renderPod returns the spec of the pod template that is rendered if a patch replaces the whole
// spec.
func renderPod(t testingT, pod corev1.PodSpec, copies workload.Copies) corev1.PodSpec {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&pod)
	if err != nil {
		t.Fatal(err)
	}
	withoutNulls(content)
	raw, err := json.Marshal(content)
	if err != nil {
		t.Fatal(err)
	}
	in := &v1alpha1.AppService{}
	in.Name, in.Spec.Image = "web", "web:1"
	in.Spec.Overrides = []v1alpha1.Override{{Name: "pod", Patches: []v1alpha1.Patch{{
		Target:     v1alpha1.PatchDeployment,
		Operations: []v1alpha1.PatchOperation{{Op: "replace", Path: "/spec/template/spec", Value: &v1alpha1.JSON{Raw: raw}}},
	}}}}
	rendered, err := workload.Render(in, entry(1), member(), "hub-1", copies)
	if err != nil {
		t.Fatal(err)
	}
	content, _, err = unstructured.NestedMap(rendered.Deployment.Object, "spec", "template", "spec")
	if err != nil {
		t.Fatal(err)
	}
	var after corev1.PodSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(content, &after, true); err != nil {
		t.Fatal(err)
	}
	return after
}

// withoutNulls removes what the type has as null, and no patch may have.
func withoutNulls(value any) {
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			withoutNulls(item)
		}
	case map[string]any:
		maps.DeleteFunc(value, func(_ string, inner any) bool { return inner == nil })
		for _, inner := range value {
			withoutNulls(inner)
		}
	}
}

// withCopies returns a PodSpec with the names of the copies in the replaced fields.
func withCopies(t testingT, pod corev1.PodSpec, copies workload.Copies) corev1.PodSpec {
	t.Helper()
	pod = *pod.DeepCopy()
	visitNames(t, reflect.ValueOf(&pod).Elem(), "", func(path string, name reflect.Value) {
		if copied, listed := copies[workload.Reference{Kind: replaced[path], Name: name.String()}]; listed {
			name.SetString(copied)
		}
	})
	var distinct []corev1.LocalObjectReference
	for _, secret := range pod.ImagePullSecrets {
		if !slices.Contains(distinct, secret) {
			distinct = append(distinct, secret)
		}
	}
	pod.ImagePullSecrets = distinct
	return pod
}

// namesIn returns the paths of the fields in a type that may name a ConfigMap or a Secret.
func namesIn(t testingT, of reflect.Type, path string) []string {
	t.Helper()
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct {
		return nil
	}
	var paths []string
	for field := range of.Fields() {
		switch inner := join(path, field); {
		case !field.IsExported():
		case isNameField(of, field):
			paths = append(paths, inner)
		default:
			paths = append(paths, namesIn(t, field.Type, inner)...)
		}
	}
	if isReference(of) && len(paths) == 0 {
		t.Fatalf("%s refers to an object, and no field with its name was found", of)
	}
	return paths
}

// isNameField reports whether a field of a type may name a ConfigMap or a Secret: a Name in a
// reference, or a text whose own name has one of these words.
func isNameField(of reflect.Type, field reflect.StructField) bool {
	value := field.Type
	for value.Kind() == reflect.Pointer || value.Kind() == reflect.Slice || value.Kind() == reflect.Map {
		value = value.Elem()
	}
	return value.Kind() == reflect.String &&
		(isReference(of) && field.Name == "Name" || strings.Contains(field.Name, "Secret") || strings.Contains(field.Name, "ConfigMap"))
}

// isReference reports whether a type refers to an object: a LocalObjectReference, a
// SecretKeySelector, a ConfigMapVolumeSource.
func isReference(of reflect.Type) bool {
	return of.Kind() == reflect.Struct &&
		(strings.HasSuffix(of.Name(), "Reference") || strings.Contains(of.Name(), "Secret") || strings.Contains(of.Name(), "ConfigMap"))
}

func join(path string, field reflect.StructField) string {
	return strings.Trim(path+"."+jsonName(field), ".")
}

// visitNames visits the fields in a value that may name a ConfigMap or a Secret.
func visitNames(t testingT, value reflect.Value, path string, visit func(path string, name reflect.Value)) {
	t.Helper()
	switch value.Kind() {
	case reflect.Pointer:
		if !value.IsNil() {
			visitNames(t, value.Elem(), path, visit)
		}
	case reflect.Slice:
		for i := range value.Len() {
			visitNames(t, value.Index(i), path, visit)
		}
	case reflect.Struct:
		for i := range value.NumField() {
			field := value.Type().Field(i)
			switch inner := join(path, field); {
			case !field.IsExported():
			case isNameField(value.Type(), field):
				if field.Type.Kind() != reflect.String {
					t.Fatalf("%s is no string: teach the test about its type %s", inner, field.Type)
				}
				visit(inner, value.Field(i))
			default:
				visitNames(t, value.Field(i), inner, visit)
			}
		}
	}
}

// grow sets the fields of a value that have references in them, and all fields of the references.
// Length is asked for the length of each list, and whether to set a pointer.
func grow(t testingT, value reflect.Value, length func() int) {
	t.Helper()
	switch value.Kind() {
	case reflect.Pointer:
		if length() > 0 {
			value.Set(reflect.New(value.Type().Elem()))
			grow(t, value.Elem(), length)
		}
	case reflect.Slice:
		value.Set(reflect.MakeSlice(value.Type(), length(), 2))
		for i := range value.Len() {
			grow(t, value.Index(i), length)
			setKey(value.Index(i), i)
		}
	case reflect.Struct:
		for i := range value.NumField() {
			field := value.Type().Field(i)
			if field.IsExported() && (isReference(value.Type()) || len(namesIn(t, field.Type, "")) > 0) {
				grow(t, value.Field(i), length)
			}
		}
	}
}

// setKey sets the key of an item of a list that has keys: the name of a container, a variable or a
// volume.
func setKey(item reflect.Value, i int) {
	if item.Kind() != reflect.Struct || isReference(item.Type()) {
		return
	}
	if name := item.FieldByName("Name"); name.IsValid() {
		name.SetString(fmt.Sprint("item-", i))
	}
}
