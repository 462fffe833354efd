package v1alpha1_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/servertest"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// versionsHub is a hub of its own, whose CRD of AppServices gets other versions.
type versionsHub struct {
	t *testing.T
	client.Client
}

// docs/releases.md says how a second version of the API will come. Each step of it is tried here on an
// API server, with the CRD as it is.
func TestSecondVersion_comes_without_a_webhook(t *testing.T) {
	own := servertest.New("../../config/crd/bases")
	servertest.Start(t, own)
	var warnings []string
	config := rest.CopyConfig(own.Config)
	config.WarningHandlerWithContext = warningsTo(&warnings)
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := &versionsHub{t, c}
	h.apply("v1alpha1", "team", map[string]any{"image": "registry.example/web:1", "suspend": true, "env": []any{map[string]any{"name": "A", "value": "a"}}})
	h.apply("v1alpha1", "cron", map[string]any{"progressDeadlineSeconds": int64(30)})
	before := h.get("v1alpha1")

	// Both versions are served, and v1alpha1 is stored.
	h.editCRD(func(crd map[string]any) { addVersion(crd, "v1beta1") })
	wait.Eventually(t, func() error { return h.read("v1beta1", &unstructured.Unstructured{}) })
	h.checkSame(before, h.get("v1beta1"), true)
	h.apply("v1beta1", "team", map[string]any{"image": "registry.example/web:1", "suspend": true})
	edited := h.get("v1beta1")
	if h.has("env") {
		t.Error("a client that applies with another version does not own what it had applied")
	}

	// v1beta1 is stored, and v1alpha1 is deprecated.
	h.editCRD(func(crd map[string]any) { storeVersion(crd, "v1beta1", "v1alpha1") })
	wait.Eventually(t, func() error {
		warnings = nil
		h.checkSame(edited, h.get("v1alpha1"), true)
		if len(warnings) == 0 {
			return fmt.Errorf("a client of v1alpha1 gets no warning")
		}
		return nil
	})
	h.checkStored("v1alpha1", "v1beta1")
	if err := h.tryEditCRD(func(crd map[string]any) { removeVersion(crd, "v1alpha1") }); err == nil {
		t.Error("a version that objects may be stored in can be removed")
	}

	// A patch of the status that changes nothing stores the object again, once.
	for _, writes := range []bool{true, false} {
		old := h.get("v1beta1")
		if err := h.Status().Patch(t.Context(), old.DeepCopy(), client.RawPatch(types.MergePatchType, []byte("{}"))); err != nil {
			t.Fatal(err)
		}
		stored := h.get("v1beta1")
		h.checkSame(old, stored, false)
		if got := stored.GetResourceVersion() != old.GetResourceVersion(); got != writes {
			t.Errorf("the object was stored: %v, want %v", got, writes)
		}
	}

	// v1alpha1 is not served. Clients still apply what managedFields say about it. After it is gone, an apply
	// fails where they do. Both versions have the same fields, so
	// another name of the version keeps every owner.
	h.editCRD(func(crd map[string]any) { stopServing(crd, "v1alpha1") })
	h.awaitUnserved("v1alpha1")
	h.apply("v1beta1", "team", map[string]any{"image": "registry.example/web:1", "suspend": true})
	h.renameVersionOfManagers("v1alpha1", "v1beta1")
	if got := h.get("v1beta1"); got.GetGeneration() != edited.GetGeneration() {
		t.Errorf("generation %d, want %d", got.GetGeneration(), edited.GetGeneration())
	}

	// v1alpha1 is gone.
	h.patchStored("v1beta1")
	h.editCRD(func(crd map[string]any) { removeVersion(crd, "v1alpha1") })
	h.checkSame(edited, h.get("v1beta1"), false)
	h.apply("v1beta1", "cron", map[string]any{})
	if h.has("progressDeadlineSeconds") {
		t.Error("a client that had applied only with the removed version does not own its field")
	}

	// A field that the schema has no longer is not read, and the generation stays.
	old := h.get("v1beta1")
	h.editCRD(func(crd map[string]any) { removeField(crd, "suspend") })
	wait.Eventually(t, func() error {
		if h.has("suspend") {
			return fmt.Errorf("the field is still read")
		}
		return nil
	})
	if got := h.get("v1beta1"); got.GetGeneration() != old.GetGeneration() || got.GetResourceVersion() != old.GetResourceVersion() {
		t.Errorf("generation %d and resourceVersion %s, want %d and %s", got.GetGeneration(), got.GetResourceVersion(), old.GetGeneration(), old.GetResourceVersion())
	}
}

// warningsTo collects the warnings of the API server.
func warningsTo(texts *[]string) rest.WarningHandlerWithContext { return collector{texts} }

type collector struct{ texts *[]string }

// HandleWarningHeaderWithContext is part of [rest.WarningHandlerWithContext].
func (c collector) HandleWarningHeaderWithContext(_ context.Context, _ int, _, text string) {
	*c.texts = append(*c.texts, text)
}

var (
	webKey = client.ObjectKey{Namespace: "default", Name: "web"}
	crdKey = client.ObjectKey{Name: "appservices.fleetwright.dev"}
)

func (h *versionsHub) apply(version, owner string, spec map[string]any) {
	h.t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.Group + "/" + version, "kind": "AppService",
		"metadata": map[string]any{"namespace": webKey.Namespace, "name": webKey.Name}, "spec": spec,
	}}
	if err := h.Apply(h.t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(owner)); err != nil {
		h.t.Fatal(err)
	}
}

func (h *versionsHub) read(version string, object *unstructured.Unstructured) error {
	object.SetAPIVersion(v1alpha1.GroupVersion.Group + "/" + version)
	object.SetKind("AppService")
	return h.Get(h.t.Context(), webKey, object)
}

func (h *versionsHub) awaitUnserved(version string) {
	h.t.Helper()
	wait.Eventually(h.t, func() error {
		if err := h.read(version, &unstructured.Unstructured{}); err == nil {
			return fmt.Errorf("%s is still served", version)
		}
		return nil
	})
}

func (h *versionsHub) get(version string) *unstructured.Unstructured {
	h.t.Helper()
	object := &unstructured.Unstructured{}
	if err := h.read(version, object); err != nil {
		h.t.Fatal(err)
	}
	return object
}

// has reports whether the AppService has a field in its spec.
func (h *versionsHub) has(field string) bool {
	h.t.Helper()
	_, has, err := unstructured.NestedFieldNoCopy(h.get("v1beta1").Object, "spec", field)
	return has && err == nil
}

func (h *versionsHub) renameVersionOfManagers(from, to string) {
	h.t.Helper()
	object := h.get(to)
	managers := object.GetManagedFields()
	for i := range managers {
		managers[i].APIVersion = strings.Replace(managers[i].APIVersion, from, to, 1)
	}
	object.SetManagedFields(managers)
	if err := h.Update(h.t.Context(), object); err != nil {
		h.t.Fatal(err)
	}
}

// checkSame compares what two reads show, in any version.
func (h *versionsHub) checkSame(want, got *unstructured.Unstructured, andResourceVersion bool) {
	h.t.Helper()
	for _, field := range []string{"spec", "status"} {
		if diff := cmp.Diff(want.Object[field], got.Object[field]); diff != "" {
			h.t.Errorf("%s (-want +got):\n%s", field, diff)
		}
	}
	if want.GetGeneration() != got.GetGeneration() || want.GetUID() != got.GetUID() {
		h.t.Errorf("generation %d of %s, want %d of %s", got.GetGeneration(), got.GetUID(), want.GetGeneration(), want.GetUID())
	}
	if andResourceVersion && want.GetResourceVersion() != got.GetResourceVersion() {
		h.t.Errorf("resourceVersion %s, want %s", got.GetResourceVersion(), want.GetResourceVersion())
	}
}

func (h *versionsHub) crd() *unstructured.Unstructured {
	h.t.Helper()
	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	if err := h.Get(h.t.Context(), crdKey, crd); err != nil {
		h.t.Fatal(err)
	}
	return crd
}

func (h *versionsHub) tryEditCRD(edit func(crd map[string]any)) error {
	h.t.Helper()
	crd := h.crd()
	edit(crd.Object)
	return h.Update(h.t.Context(), crd)
}

func (h *versionsHub) editCRD(edit func(crd map[string]any)) {
	h.t.Helper()
	wait.Eventually(h.t, func() error { return h.tryEditCRD(edit) }) // the API server writes its status, too
}

func (h *versionsHub) checkStored(want ...string) {
	h.t.Helper()
	got, _, _ := unstructured.NestedStringSlice(h.crd().Object, "status", "storedVersions")
	if diff := cmp.Diff(want, got); diff != "" {
		h.t.Errorf("status.storedVersions (-want +got):\n%s", diff)
	}
}

func (h *versionsHub) patchStored(version string) {
	h.t.Helper()
	patch := fmt.Appendf(nil, `{"status": {"storedVersions": [%q]}}`, version)
	if err := h.Status().Patch(h.t.Context(), h.crd(), client.RawPatch(types.MergePatchType, patch)); err != nil {
		h.t.Fatal(err)
	}
}

func versionsOf(crd map[string]any) []any {
	versions, _, _ := unstructured.NestedSlice(crd, "spec", "versions")
	return versions
}

func addVersion(crd map[string]any, name string) {
	versions := versionsOf(crd)
	added := (&unstructured.Unstructured{Object: versions[0].(map[string]any)}).DeepCopy().Object
	added["name"], added["storage"] = name, false
	_ = unstructured.SetNestedSlice(crd, append(versions, added), "spec", "versions")
}

func storeVersion(crd map[string]any, name, deprecated string) {
	versions := versionsOf(crd)
	for _, version := range versions {
		fields := version.(map[string]any)
		fields["storage"], fields["deprecated"] = fields["name"] == name, fields["name"] == deprecated
	}
	_ = unstructured.SetNestedSlice(crd, versions, "spec", "versions")
}

func stopServing(crd map[string]any, name string) {
	versions := versionsOf(crd)
	for _, version := range versions {
		fields := version.(map[string]any)
		fields["served"] = fields["name"] != name
	}
	_ = unstructured.SetNestedSlice(crd, versions, "spec", "versions")
}

func removeVersion(crd map[string]any, name string) {
	left := slices.DeleteFunc(versionsOf(crd), func(version any) bool { return version.(map[string]any)["name"] == name })
	_ = unstructured.SetNestedSlice(crd, left, "spec", "versions")
}

func removeField(crd map[string]any, name string) {
	versions := versionsOf(crd)
	unstructured.RemoveNestedField(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec", "properties", name)
	_ = unstructured.SetNestedSlice(crd, versions, "spec", "versions")
}
