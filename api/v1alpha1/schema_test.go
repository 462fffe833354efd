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

// `kubectl apply` stores the object in an annotation, and annotations are limited to 256 KiB: what is left
// is for new fields. internal/terse shortens the descriptions. etcd limits an object to 1.5 MiB.
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
		if len(text) > 400_000 || len(applied) > 220_000 {
			t.Errorf("%s: %d bytes, %d as JSON; want at most 400,000 and 220,000", file, len(text), len(applied))
		}
	}
}

// schema is the part of an OpenAPI schema that `kubectl explain` shows.
type schema struct {
	Description          string            `json:"description"`
	Properties           map[string]schema `json:"properties"`
	Items                *schema           `json:"items"`
	AdditionalProperties *schema           `json:"additionalProperties"`
}

func TestExplain_describes_every_field(t *testing.T) {
	for file, kind := range map[string]reflect.Type{
		appServices:    reflect.TypeFor[v1alpha1.AppService](),
		memberClusters: reflect.TypeFor[v1alpha1.MemberCluster](),
	} {
		explained := &explanation{t: t}
		explained.checkFields(kind.Name(), kind, schemaOf(t, file))
		t.Logf("%s: %d fields", kind.Name(), explained.number)
		if explained.number < 10 {
			t.Errorf("%s: only %d fields were found", kind.Name(), explained.number)
		}
	}
}

// explanation walks the fields of the types of this API together with the schema. It skips the
// types of Kubernetes.
type explanation struct {
	t      *testing.T
	number int
}

func (e *explanation) checkFields(path string, kind reflect.Type, s schema) {
	e.checkDescription(path, s.Description)
	known := map[string]bool{"apiVersion": true, "kind": true, "metadata": true}
	for _, field := range jsonFields(kind) {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		known[name] = true
		if name == "metadata" {
			continue
		}
		property, found := s.Properties[name]
		if !found {
			e.t.Errorf("%s.%s is not in the schema", path, name)
			continue
		}
		e.number++
		e.checkDescription(path+"."+name, property.Description)
		// internal/terse drops what the entries of worstClusters repeat from those of clusters.
		if inner := elementType(field.Type); isAPIStruct(inner) && name != "worstClusters" {
			e.checkFields(path+"."+name, inner, elementSchema(property))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if !known[name] {
			e.t.Errorf("%s.%s is in the schema, but in no Go type", path, name)
		}
	}
}

// badPatterns are patterns that a description must not have. `kubectl explain` keeps line breaks
// and wraps long lines, so a line must end with a sentence.
var badPatterns = regexp.MustCompile(`TODO|FIXME|XXX|\+kubebuilder|\+optional|”|“|  |[^.]\n|\s$`)

func (e *explanation) checkDescription(path, description string) {
	switch {
	case description == "":
		e.t.Errorf("%s has no description", path)
	case !strings.HasSuffix(description, "."):
		e.t.Errorf("%s: the description %q is not a sentence", path, description)
	case badPatterns.MatchString(description):
		e.t.Errorf("%s: the description %q must not contain %q", path, description, badPatterns.FindString(description))
	}
}

// jsonFields returns the fields of a struct, including those of inlined structs.
func jsonFields(kind reflect.Type) []reflect.StructField {
	var fields []reflect.StructField
	for i := range kind.NumField() {
		field := kind.Field(i)
		if strings.Contains(field.Tag.Get("json"), ",inline") {
			if isAPIStruct(field.Type) {
				fields = append(fields, jsonFields(field.Type)...)
			}
			continue
		}
		fields = append(fields, field)
	}
	return fields
}

func elementType(kind reflect.Type) reflect.Type {
	for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice || kind.Kind() == reflect.Map {
		kind = kind.Elem()
	}
	return kind
}

func elementSchema(s schema) schema {
	if s.Items != nil {
		return *s.Items
	}
	if s.AdditionalProperties != nil {
		return *s.AdditionalProperties
	}
	return s
}

// isAPIStruct reports whether a type is a struct of this API with fields in the schema.
func isAPIStruct(kind reflect.Type) bool {
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
