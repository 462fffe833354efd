package revision

import (
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/parser"
	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// rule is a CEL rule of the CRD, with the path of the field that has it.
type rule struct{ path, text string }

// rulesOf returns all rules in a schema.
func rulesOf(path string, schema map[string]any) []rule {
	var rules []rule
	validations, _ := schema["x-kubernetes-validations"].([]any)
	for _, validation := range validations {
		rules = append(rules, rule{path, validation.(map[string]any)["rule"].(string)})
	}
	for _, key := range []string{"items", "additionalProperties"} {
		if inner, found := schema[key].(map[string]any); found {
			rules = append(rules, rulesOf(path+"[]", inner)...)
		}
	}
	properties, _ := schema["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		rules = append(rules, rulesOf(path+"."+name, properties[name].(map[string]any))...)
	}
	return rules
}

// reads returns the paths of the fields that a rule reads, without those that only lead to another one.
func (r rule) reads(t *testing.T) []string {
	t.Helper()
	rules, err := parser.NewParser(parser.Macros(parser.AllMacros...))
	if err != nil {
		t.Fatal(err)
	}
	parsed, errs := rules.Parse(common.NewTextSource(r.text))
	if len(errs.GetErrors()) > 0 {
		t.Fatalf("%s: %s", r.text, errs.ToDisplayString())
	}
	found := fieldReader{paths: map[string]bool{}}
	found.visit(parsed.Expr(), map[string]string{"self": r.path, "oldSelf": r.path})
	return slices.Sorted(maps.Keys(found.withoutPrefixes()))
}

// fieldReader collects the paths of the fields that an expression reads.
type fieldReader struct{ paths map[string]bool }

// withoutPrefixes returns the paths that are no prefix of another one: has(self.a) && self.a.b reads
// a.b.
func (f fieldReader) withoutPrefixes() map[string]bool {
	leaves := maps.Clone(f.paths)
	for path := range f.paths {
		for other := range f.paths {
			if strings.HasPrefix(other, path+".") || strings.HasPrefix(other, path+"[") {
				delete(leaves, path)
			}
		}
	}
	return leaves
}

// visit collects the paths that an expression reads. The variables have the paths of their values, or ""
// if these are no fields.
func (f fieldReader) visit(e ast.Expr, variables map[string]string) {
	if path := pathOf(e, variables); path != "" {
		f.paths[path] = true
		return
	}
	switch e.Kind() {
	case ast.CallKind:
		if e.AsCall().IsMemberFunction() {
			f.visit(e.AsCall().Target(), variables)
		}
		for _, argument := range e.AsCall().Args() {
			f.visit(argument, variables)
		}
	case ast.ListKind:
		for _, element := range e.AsList().Elements() {
			f.visit(element, variables)
		}
	case ast.SelectKind:
		f.visit(e.AsSelect().Operand(), variables)
	case ast.ComprehensionKind:
		loop := e.AsComprehension()
		f.visit(loop.IterRange(), variables)
		inner := maps.Clone(variables)
		inner[loop.IterVar()], inner[loop.AccuVar()] = "", ""
		if path := elementsOf(loop.IterRange(), variables); path != "" {
			inner[loop.IterVar()] = path
		}
		for _, part := range []ast.Expr{loop.AccuInit(), loop.LoopCondition(), loop.LoopStep(), loop.Result()} {
			f.visit(part, inner)
		}
	}
}

// pathOf returns the path of the field that an expression is, or "".
func pathOf(e ast.Expr, variables map[string]string) string {
	switch e.Kind() {
	case ast.IdentKind:
		return variables[e.AsIdent()]
	case ast.SelectKind:
		if operand := pathOf(e.AsSelect().Operand(), variables); operand != "" {
			return operand + "." + e.AsSelect().FieldName()
		}
	case ast.CallKind:
		if call := e.AsCall(); call.FunctionName() == operators.Index {
			return elementsOf(call.Args()[0], variables)
		}
	}
	return ""
}

// elementsOf returns the path of the elements of a list, or of those that a filter or a map starts with,
// or "".
func elementsOf(list ast.Expr, variables map[string]string) string {
	if list.Kind() == ast.ComprehensionKind {
		return elementsOf(list.AsComprehension().IterRange(), variables)
	}
	if path := pathOf(list, variables); path != "" {
		return path + "[]"
	}
	return ""
}

// isImmediate reports whether the field with a path below the spec takes effect immediately.
func isImmediate(path string) bool {
	if path == "overrides[].replicas" {
		return true
	}
	name, _, _ := strings.Cut(strings.ReplaceAll(path, "[", "."), ".")
	for field := range reflect.TypeFor[v1alpha1.AppServiceSpec]().Fields() {
		if is, _, _ := strings.Cut(field.Tag.Get("json"), ","); is == name {
			return slices.Contains(immediateFields, field.Name)
		}
	}
	return false
}

// rulesOfAppServices returns the CEL rules in the CRD.
func rulesOfAppServices(t *testing.T) []rule {
	t.Helper()
	text, err := os.ReadFile("../../config/crd/bases/fleetwright.dev_appservices.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var crd struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema map[string]any `json:"openAPIV3Schema"`
				} `json:"schema"`
			} `json:"versions"`
		} `json:"spec"`
	}
	if err := yaml.Unmarshal(text, &crd); err != nil {
		t.Fatal(err)
	}
	return rulesOf("app", crd.Spec.Versions[0].Schema.OpenAPIV3Schema)
}

// `rollout undo` returns the staged fields to an earlier revision and keeps the immediate ones. A rule
// that compares a staged field with an immediate one could refuse that, when a user needs it most. Move
// one of the fields, or split the rule.
func TestNo_rule_reads_a_staged_and_an_immediate_field(t *testing.T) {
	rules := rulesOfAppServices(t)
	if len(rules) < 80 {
		t.Fatalf("only %d rules were found", len(rules))
	}
	for _, r := range rules {
		var staged, immediate []string
		for _, path := range r.reads(t) {
			switch field, inSpec := strings.CutPrefix(path, "app.spec."); {
			case inSpec && isImmediate(field):
				immediate = append(immediate, field)
			case inSpec:
				staged = append(staged, field)
			}
		}
		if len(staged) > 0 && len(immediate) > 0 {
			t.Errorf("the rule %q at %s reads the staged fields %q and the immediate fields %q", r.text, r.path, staged, immediate)
		}
	}
}

func TestReads_finds_every_field_of_a_rule(t *testing.T) {
	for text, want := range map[string][]string{
		"!has(self.a) || self.a.b > (has(self.c) ? self.c : 600)":                               {"app.a.b", "app.c"},
		"self.list.all(o, !has(o.x)) && self.list.size() > 0":                                   {"app.list[].x"},
		"[has(self.a) ? self.a : 0].all(own, self.list.map(s, s.y).all(m, m < own + self.d.e))": {"app.a", "app.d.e", "app.list[].y"},
		"self.list.filter(x, x.y > 1).exists(z, z.w == self.list[0].v)":                         {"app.list[].v", "app.list[].w", "app.list[].y"},
		"self.matches('a')": {"app"},
	} {
		if diff := cmp.Diff(want, rule{"app", text}.reads(t)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}
