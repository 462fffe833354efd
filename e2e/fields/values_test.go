package fields

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// object is a JSON object.
type object = map[string]any

// tables are tables.yaml, which explains them.
type tables struct {
	Values    map[string][]any  `json:"values"`
	Siblings  map[string]object `json:"siblings"`
	Contexts  []object          `json:"contexts"`
	Constant  map[string]string `json:"constant"`
	Invisible map[string]string `json:"invisible"`
	Untested  map[string]string `json:"untested"`
}

// keyOf returns the longest key of a table that is the end of a path, or "".
func keyOf[T any](table map[string]T, p path) string {
	for i := range p {
		if key := p[i:].String(); hasKey(table, key) {
			return key
		}
	}
	return ""
}

// keyAround returns the key of a table for a field, or for something around the field, or "".
func keyAround(table map[string]string, p path) string {
	for i := range p {
		if key := keyOf(table, p[:i+1]); key != "" {
			return key
		}
	}
	return ""
}

func hasKey[T any](table map[string]T, key string) bool {
	_, found := table[key]
	return found
}

// generator generates values and specs.
type generator struct {
	*schema
	*tables
}

// candidates returns values for a field with a schema. Which of them are valid is not known.
func (g *generator) candidates(s *schema, p path) (values []any) {
	if listed := g.Values[keyOf(g.Values, p)]; listed != nil {
		return listed
	}
	switch {
	case len(s.Enum) > 0:
		isDefault := func(value any) bool { return value == s.Default }
		return append(slices.DeleteFunc(slices.Clone(s.Enum), isDefault), s.Enum[max(0, slices.IndexFunc(s.Enum, isDefault))])
	case s.Items != nil:
		for _, value := range g.candidates(s.Items, p.child(item)) {
			values = append(values, []any{value})
		}
		return values
	case s.AdditionalProperties != nil:
		for _, value := range g.candidates(s.AdditionalProperties, p.child("a")) {
			values = append(values, object{"a": value})
		}
		return values
	case s.Type == "object":
		return g.objects(s, p)
	case s.Type == "boolean":
		return []any{true, false}
	case s.IsIntOrString && strings.Contains(s.Pattern, "numkMGTPE"): // a quantity
		return []any{"2", "3"}
	case s.IsIntOrString, s.Type == "integer":
		return []any{int64(2), int64(3), int64(1)}
	default:
		return []any{"a", "b"}
	}
}

// objects returns candidates for an object: two with only the fields that are required, then one for
// each other field.
func (g *generator) objects(s *schema, p path) (values []any) {
	for i := range 2 {
		value := object{}
		for _, name := range s.Required {
			all := g.candidates(s.Properties[name], p.child(name))
			value[name] = all[min(i, len(all)-1)]
		}
		values = append(values, value)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if !slices.Contains(s.Required, name) {
			value := maps.Clone(values[0].(object))
			value[name] = g.candidates(s.Properties[name], p.child(name))[0]
			values = append(values, value)
		}
	}
	return values
}

// minimal is the spec that has what every AppService needs. Without pods, everything is quick.
var minimal = object{"image": "web:1", "replicas": int64(0)}

// contexts returns the specs in which a field may be valid, the likeliest first: those with the most of
// its path, and last the minimal one.
func (g *generator) contexts(p path) (specs []object) {
	depths := map[int][]object{}
	for _, context := range g.Contexts {
		if depth := overlap(context, p); depth > 0 {
			depths[depth] = append(depths[depth], merge(minimal, context))
		}
	}
	for _, depth := range slices.Backward(slices.Sorted(maps.Keys(depths))) {
		specs = append(specs, depths[depth]...)
	}
	return append(specs, minimal)
}

// overlap returns how many elements of a path a value has.
func overlap(value any, p path) int {
	if len(p) == 0 {
		return 0
	}
	switch value := value.(type) {
	case object:
		if inner, found := value[p[0]]; found {
			return 1 + overlap(inner, p[1:])
		}
	case []any:
		if p[0] == item && len(value) > 0 {
			return 1 + overlap(value[0], p[1:])
		}
	}
	return 0
}

// with returns a copy of a value in which the field at a path has another value. The path has two parts:
// here leads to the value, rest from there to the field. The objects on the way get the fields that the
// schema requires, and those whose paths have at most so many elements also the siblings of the tables.
func (g *generator) with(current any, here, rest path, value any, siblings int) any {
	inner, _ := current.(object)
	if key := keyOf(g.Siblings, here); key != "" && len(here) <= siblings {
		inner = merge(g.Siblings[key], inner)
	}
	if len(rest) == 0 {
		if value, isObject := value.(object); isObject {
			return merge(inner, value)
		}
		return value
	}
	if rest[0] == item {
		list, _ := current.([]any)
		var first any
		if len(list) > 0 {
			first, list = list[0], list[1:]
		}
		return append([]any{g.with(first, here.child(item), rest[1:], value, siblings)}, list...)
	}
	inner = merge(inner, nil)
	inner[rest[0]] = g.with(inner[rest[0]], here.child(rest[0]), rest[1:], value, siblings)
	s := g.at(here)
	for _, name := range s.Required {
		if _, found := inner[name]; !found {
			inner[name] = g.candidates(s.Properties[name], here.child(name))[0]
		}
	}
	return inner
}

// without returns a copy of a value without the field at a path.
func without(current any, p path) any {
	switch current := current.(type) {
	case object:
		inner := merge(current, nil)
		if len(p) == 1 {
			delete(inner, p[0])
		} else {
			inner[p[0]] = without(inner[p[0]], p[1:])
		}
		return inner
	case []any:
		return append([]any{without(current[0], p[1:])}, current[1:]...)
	}
	return current
}

// merge returns a copy of an object with the fields of another one, which win.
func merge(into, from object) object {
	merged := object{}
	for name, value := range into {
		merged[name] = runtime.DeepCopyJSONValue(value)
	}
	for name, value := range from {
		inner, isObject := value.(object)
		existing, wasObject := merged[name].(object)
		if isObject && wasObject {
			merged[name] = merge(existing, inner)
		} else {
			merged[name] = runtime.DeepCopyJSONValue(value)
		}
	}
	return merged
}

func newGenerator(t *testing.T) *generator {
	t.Helper()
	g := &generator{&schema{}, &tables{}}
	content, err := os.ReadFile("tables.yaml")
	if err == nil {
		err = yaml.UnmarshalStrict(content, g.tables)
	}
	if err != nil {
		t.Fatalf("read tables.yaml: %v", err)
	}
	if err := json.Unmarshal([]byte(asJSON(readSchema(t))), g.schema); err != nil {
		t.Fatalf("read the schema: %v", err)
	}
	return g
}
