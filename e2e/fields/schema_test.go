package fields

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// schema is the part of an OpenAPI schema from which values are generated.
type schema struct {
	Type                 string             `json:"type"`
	Properties           map[string]*schema `json:"properties"`
	Items                *schema            `json:"items"`
	AdditionalProperties *schema            `json:"additionalProperties"`
	Required             []string           `json:"required"`
	Enum                 []any              `json:"enum"`
	Default              any                `json:"default"`
	Pattern              string             `json:"pattern"`
	IsIntOrString        bool               `json:"x-kubernetes-int-or-string"`
}

// readSchema returns the schema of the spec of an AppService, as it is in the CRD.
func readSchema(t *testing.T) object {
	t.Helper()
	var crd object
	content, err := os.ReadFile(filepath.Join(config, "crd", "bases", "fleetwright.dev_appservices.yaml"))
	if err == nil {
		err = yaml.Unmarshal(content, &crd)
	}
	versions, _, _ := unstructured.NestedSlice(crd, "spec", "versions")
	if err != nil || len(versions) != 1 {
		t.Fatalf("the CRD has %d versions, want one: %v", len(versions), err)
	}
	spec, found, err := unstructured.NestedMap(versions[0].(object), "schema", "openAPIV3Schema", "properties", "spec")
	if err != nil || !found {
		t.Fatalf("the CRD has no spec: %v", err)
	}
	return spec
}

// item is the element of a path that stands for the first item of a list.
const item = "[]"

// path is the names of the fields that lead from the spec to a field.
type path []string

func (p path) String() string { return strings.ReplaceAll(strings.Join(p, "."), "."+item, item) }

// child returns the path of a field of the object at p.
func (p path) child(name string) path { return append(slices.Clip(p), name) }

// fields returns the paths of all fields below an object, parents first. The items of a list and the
// keys of a map are no fields of their own.
func (s *schema) fields(at path) (all []path) {
	if s.Items != nil {
		return s.Items.fields(at.child(item))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		all = append(all, at.child(name))
		all = append(all, s.Properties[name].fields(at.child(name))...)
	}
	return all
}

// at returns the schema of the field at a path.
func (s *schema) at(p path) *schema {
	for _, name := range p {
		if name == item {
			s = s.Items
		} else {
			s = s.Properties[name]
		}
	}
	return s
}
