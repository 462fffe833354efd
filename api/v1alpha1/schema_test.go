package v1alpha1_test

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

const (
	appServices    = "../../config/crd/bases/fleetwright.dev_appservices.yaml"
	memberClusters = "../../config/crd/bases/fleetwright.dev_memberclusters.yaml"
)

// `kubectl apply` keeps what was applied in an annotation, and annotations have 256 KiB. A request has 3 MiB, and an object in
// etcd 1.5; with the whole of the Pod API in it, it would come close.
func TestCRD_is_small_enough_to_be_applied(t *testing.T) {
	for _, file := range []string{appServices, memberClusters} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		applied, err := yaml.YAMLToJSON(text)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d bytes, %d as JSON", file, len(text), len(applied))
		if len(text) > 450_000 || len(applied) > 250_000 {
			t.Errorf("%s: %d bytes, %d as JSON; want at most 450,000 and 250,000", file, len(text), len(applied))
		}
	}
}

// schema is what `kubectl explain` reads.
type schema struct {
	Description          string            `json:"description"`
	Properties           map[string]schema `json:"properties"`
	Items                *schema           `json:"items"`
	AdditionalProperties *schema           `json:"additionalProperties"`
}

func TestExplain_says_something_of_every_field(t *testing.T) {
	for file, kind := range map[string]reflect.Type{
		appServices:    reflect.TypeFor[v1alpha1.AppService](),
		memberClusters: reflect.TypeFor[v1alpha1.MemberCluster](),
	} {
		explained := &explanation{t: t}
		explained.fields(kind.Name(), kind, schemaOf(t, file))
		t.Logf("%s: %d fields of ours", kind.Name(), explained.number)
		if explained.number < 10 {
			t.Errorf("%s: only %d fields were found", kind.Name(), explained.number)
		}
	}
}

// explanation goes through the fields of the types of this API, and through the schema beside them. What is in a type of Kubernetes is explained
// by Kubernetes.
type explanation struct {
	t      *testing.T
	number int
}

func (e *explanation) fields(path string, kind reflect.Type, s schema) {
	e.reads(path, s.Description)
	known := map[string]bool{"apiVersion": true, "kind": true, "metadata": true}
	for _, field := range jsonFields(kind) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		known[name] = true
		if name == "metadata" {
			continue
		}
		property, found := s.Properties[name]
		if !found {
			e.t.Errorf("%s.%s: is not in the schema", path, name)
			continue
		}
		e.number++
		e.reads(path+"."+name, property.Description)
		if inner := elem(field.Type); isOurs(inner) {
			e.fields(path+"."+name, inner, within(property))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if !known[name] {
			e.t.Errorf("%s.%s: is in the schema, and in no type", path, name)
		}
	}
}

// A line of explain that ends in the middle of a sentence is broken again where the terminal ends: ragged.
var oddities = regexp.MustCompile(`TODO|FIXME|XXX|\+kubebuilder|\+optional|”|“|  |[^.]\n|\s$`)

func (e *explanation) reads(path, description string) {
	switch {
	case description == "":
		e.t.Errorf("%s: has no description", path)
	case !strings.HasSuffix(description, "."):
		e.t.Errorf("%s: %q: is no sentence", path, description)
	case oddities.MatchString(description):
		e.t.Errorf("%s: %q: %q reads badly", path, description, oddities.FindString(description))
	}
}

// jsonFields are the fields of a struct, with those of the structs that are inlined.
func jsonFields(kind reflect.Type) []reflect.StructField {
	var fields []reflect.StructField
	for i := range kind.NumField() {
		field := kind.Field(i)
		if strings.Contains(field.Tag.Get("json"), ",inline") {
			if isOurs(field.Type) {
				fields = append(fields, jsonFields(field.Type)...)
			}
			continue
		}
		fields = append(fields, field)
	}
	return fields
}

func elem(kind reflect.Type) reflect.Type {
	for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice || kind.Kind() == reflect.Map {
		kind = kind.Elem()
	}
	return kind
}

func within(s schema) schema {
	if s.Items != nil {
		return *s.Items
	}
	if s.AdditionalProperties != nil {
		return *s.AdditionalProperties
	}
	return s
}

// isOurs tells whether it is a struct of this API that has fields in the schema.
func isOurs(kind reflect.Type) bool {
	return kind.Kind() == reflect.Struct && kind.PkgPath() == reflect.TypeFor[v1alpha1.AppService]().PkgPath() && kind != reflect.TypeFor[v1alpha1.JSON]()
}

func schemaOf(t *testing.T, file string) schema {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema schema `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	content, err := yaml.YAMLToJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, &crd); err != nil {
		t.Fatal(err)
	}
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema
}
