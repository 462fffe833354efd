package fields

import (
	"iter"
	"maps"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/internal/sample"
)

func TestSchema_has_all_fields(t *testing.T) {
	g := newGenerator(t)
	all := map[string]bool{}
	for _, p := range g.fields(nil) {
		all[p.String()] = true
	}
	for _, name := range []string{"image", "env", "env[].valueFrom.fieldRef.fieldPath", "initContainers[].livenessProbe.httpGet.port", "podLabels"} {
		if !all[name] {
			t.Errorf("%s is missing", name)
		}
	}
	if want := countProperties(readSchema(t)); len(all) != want {
		t.Errorf("%d fields, but the CRD has %d", len(all), want)
	}
}

// countProperties counts the properties of a schema, wherever they are in it.
func countProperties(in any) (count int) {
	switch in := in.(type) {
	case object:
		for keyword, value := range in {
			if properties, isObject := value.(object); isObject && keyword == "properties" {
				count += len(properties)
			}
			count += countProperties(value)
		}
	case []any:
		for _, value := range in {
			count += countProperties(value)
		}
	}
	return count
}

// The hash of a commit chooses any sample. Together they have each field once, and none is much larger
// than the others.
func TestSamples_have_all_fields(t *testing.T) {
	all := newGenerator(t).fields(nil)
	count := map[string]int{}
	for number := 1; number <= samples; number++ {
		t.Setenv("SAMPLE", strconv.Itoa(number))
		size := 0
		for _, p := range all {
			if sample.Takes(p.String(), samples) {
				count[p.String()]++
				size++
			}
		}
		if mean := len(all) / samples; size < mean/2 || size > mean*3/2 {
			t.Errorf("sample %d has %d of %d fields", number, size, len(all))
		}
	}
	for _, p := range all {
		if count[p.String()] != 1 {
			t.Errorf("%s is in %d samples", p, count[p.String()])
		}
	}
}

// A key of tables.yaml that no field has is left over, or is misspelled.
func TestTables_have_only_fields_of_the_schema(t *testing.T) {
	g := newGenerator(t)
	isUsed := map[string]bool{}
	for _, field := range g.fields(nil) {
		for _, p := range []path{field, field.child(item)} {
			for table, key := range map[string]string{
				"values": keyOf(g.Values, p), "siblings": keyOf(g.Siblings, p), "constant": keyOf(g.Constant, p),
				"invisible": keyOf(g.Invisible, p), "untested": keyOf(g.Untested, p),
			} {
				isUsed[table+": "+key] = true
			}
		}
	}
	check := func(table string, keys iter.Seq[string]) {
		for key := range keys {
			if !isUsed[table+": "+key] {
				t.Errorf("%s: %s is not the end of the path of a field, or another key always is a longer one", table, key)
			}
		}
	}
	check("values", maps.Keys(g.Values))
	check("siblings", maps.Keys(g.Siblings))
	check("constant", maps.Keys(g.Constant))
	check("invisible", maps.Keys(g.Invisible))
	check("untested", maps.Keys(g.Untested))
}

func TestGenerator(t *testing.T) {
	g := &generator{&schema{}, &tables{}}
	if err := yaml.UnmarshalStrict([]byte(`{type: object, required: [image], properties: {
		image: {type: string},
		mode: {type: string, enum: [a, b, c], default: b},
		size: {pattern: numkMGTPE, x-kubernetes-int-or-string: true},
		labels: {type: object, additionalProperties: {type: string}},
		ports: {type: array, items: {type: object, required: [number], properties: {number: {type: integer}, secure: {type: boolean}, note: {type: string}}}}}}`), g.schema); err != nil {
		t.Fatal(err)
	}
	g.Values = map[string][]any{"note": {"c", "d"}}
	g.Siblings = map[string]object{"ports[]": {"secure": true}}
	g.Contexts = []object{{"mode": "a"}, {"ports": []any{object{"number": int64(80)}}}}
	got := map[string]any{}
	for _, p := range g.fields(nil) {
		got[p.String()] = g.candidates(g.at(p), p)[:2]
	}
	note := path{"ports", item, "note"}
	contexts := g.contexts(note)
	with := g.with(contexts[0], nil, note, "x", 0)
	got["contexts"], got["with"], got["without"] = contexts, with, without(with, note)
	got["in a new object"] = []any{g.with(object{}, nil, note, "x", 0), g.with(object{}, nil, note, "x", len(note))}
	want := `{
		"contexts": [{"image": "web:1", "ports": [{"number": 80}], "replicas": 0}, {"image": "web:1", "replicas": 0}],
		"image": ["a", "b"],
		"in a new object": [{"image": "a", "ports": [{"note": "x", "number": 2}]}, {"image": "a", "ports": [{"note": "x", "number": 2, "secure": true}]}],
		"labels": [{"a": "a"}, {"a": "b"}],
		"mode": ["a", "c"],
		"ports": [[{"number": 2}], [{"number": 3}]], "ports[].note": ["c", "d"], "ports[].number": [2, 3], "ports[].secure": [true, false],
		"size": ["2", "3"],
		"with": {"image": "web:1", "ports": [{"note": "x", "number": 80}], "replicas": 0},
		"without": {"image": "web:1", "ports": [{"number": 80}], "replicas": 0}}`
	var parsed any
	if err := yaml.Unmarshal([]byte(want), &parsed); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(asJSON(parsed), asJSON(got)); diff != "" {
		t.Errorf("generated (-want +got):\n%s", diff)
	}
}
