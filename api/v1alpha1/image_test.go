package v1alpha1_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/internal/wait"
)

// olderGroup is the group of a copy of the CRD with the rules of an older version.
const olderGroup = "older.example"

// badImages are images whose text would change what a terminal shows.
var badImages = map[string]string{
	"an escape sequence":            `"nginx\e[2J"`,
	"a bell":                        `"nginx\a"`,
	"a line break":                  `"nginx\n"`,
	"a control character of Latin1": `"nginx\x9B2J"`,
	"a no-break space":              `"nginx\_"`,
	"a right-to-left override":      `"nginx\u202E"`,
	"a letter that looks like an i": `"ng\u0456nx"`,
}

func TestImage_has_printable_ASCII_characters_only(t *testing.T) {
	for name, bad := range badImages {
		for field, spec := range map[string]string{
			"spec.image":                   "image: " + bad,
			"spec.initContainers[0].image": image + "initContainers: [{name: a, image: " + bad + "}]",
			"spec.overrides[0].image":      image + "overrides: [{name: a, image: " + bad + "}]",
		} {
			_, err := dryRunCreate(t, newManifest(t, "bad-image", spec))
			if err == nil || !strings.Contains(err.Error(), field+": Invalid value") || !strings.Contains(err.Error(), "without spaces, control characters and letters that are not ASCII") {
				t.Errorf("%s in %s: got error %v", name, field, err)
			}
		}
	}
}

// Objects of an older version may have such an image. The API server validates only what an update
// changes (the ratcheting of CRDs), so that such an object can still be edited, scaled and deleted, and so
// that the operator can write its status and its finalizer.
func TestImage_that_an_older_version_accepted_stays_until_it_is_edited(t *testing.T) {
	if serverIsOlder {
		t.Skip("the API server may have no ratcheting")
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": parseYAML(t, `
image: "nginx\e[2J"
replicas: 1
initContainers: [{name: first, image: "init\e[2J"}]
overrides: [{name: eu, image: "nginx\e[2J"}]
`)}}
	object.SetAPIVersion(olderGroup + "/v1alpha1")
	object.SetKind("AppService")
	object.SetNamespace("default")
	object.SetName("older")
	installOlder(t, object)
	installNew(t, object)
	for name, patch := range map[string]string{
		"scale":                    `{"spec":{"replicas":2}}`,
		"a finalizer":              `{"metadata":{"finalizers":["fleetwright.dev/cleanup"]}}`,
		"no finalizer":             `{"metadata":{"finalizers":null}}`,
		"another field":            `{"spec":{"suspend":true}}`,
		"another override":         `{"spec":{"overrides":[{"name":"us","imageTag":"2"},{"name":"eu","image":"nginx\u001b[2J"}]}}`,
		"a field of the container": `{"spec":{"initContainers":[{"name":"first","image":"init\u001b[2J","args":["a"]}]}}`,
	} {
		if err := hub.Patch(t.Context(), object.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	status := client.RawPatch(types.MergePatchType, []byte(`{"status":{"replicas":2}}`))
	if err := hub.Status().Patch(t.Context(), object.DeepCopy(), status); err != nil {
		t.Errorf("the status: %v", err)
	}
	other := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"image":"apache\u001b[2J"}}`))
	if err := hub.Patch(t.Context(), object.DeepCopy(), other); err == nil || !strings.Contains(err.Error(), "spec.image: Invalid value") {
		t.Errorf("another bad image: got error %v", err)
	}
	if err := hub.Patch(t.Context(), object.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"image":"nginx"}}`))); err != nil {
		t.Errorf("a good image: %v", err)
	}
}

// installOlder installs the CRD of AppServices in another group, with rules for images that accept
// everything, and creates an object.
func installOlder(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	crd := readCRD(t, "matches('^[!-~]+$')", "matches('')")
	if err := hub.Create(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := hub.Delete(context.Background(), crd); err != nil {
			t.Error(err)
		}
	})
	wait.Eventually(t, func() error { return hub.Create(t.Context(), object) })
}

// installNew gives the CRD its present rules, and waits for them.
func installNew(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	crd := readCRD(t, "", "")
	current := crd.DeepCopy()
	if err := hub.Get(t.Context(), client.ObjectKeyFromObject(crd), current); err != nil {
		t.Fatal(err)
	}
	crd.SetResourceVersion(current.GetResourceVersion())
	if err := hub.Update(t.Context(), crd); err != nil {
		t.Fatal(err)
	}
	another := object.DeepCopy()
	another.SetName("another")
	another.SetResourceVersion("")
	another.SetUID("")
	wait.Eventually(t, func() error {
		if err := hub.Create(t.Context(), another.DeepCopy(), client.DryRunAll); err == nil || !strings.Contains(err.Error(), "spec.image: Invalid value") {
			return fmt.Errorf("another AppService with such an image: got error %w", err)
		}
		return nil
	})
}

// readCRD returns the CRD of AppServices in another group, with a text replaced.
func readCRD(t *testing.T, old, replacement string) *unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(appServices)
	if err != nil {
		t.Fatal(err)
	}
	if old != "" {
		text = bytes.ReplaceAll(text, []byte(old), []byte(replacement))
	}
	text = bytes.ReplaceAll(text, []byte("appservices.fleetwright.dev"), []byte("appservices."+olderGroup))
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &crd.Object); err != nil {
		t.Fatal(err)
	}
	err = unstructured.SetNestedField(crd.Object, olderGroup, "spec", "group")
	if err != nil {
		t.Fatal(err)
	}
	unstructured.RemoveNestedField(crd.Object, "spec", "names", "shortNames")
	unstructured.RemoveNestedField(crd.Object, "spec", "names", "categories")
	return crd
}
