package config_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// findReasons returns the values of the constants in api/v1alpha1 whose names start with Reason.
func findReasons(t *testing.T) map[string]bool {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../api/v1alpha1/conditions.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]bool{}
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Reason") {
			return true
		}
		value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		values[value] = true
		return false
	})
	return values
}

func TestEveryReasonIsInTheOperationsGuide(t *testing.T) {
	content, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	inCode := findReasons(t)
	for _, reason := range slices.Sorted(maps.Keys(inCode)) {
		if !strings.Contains(string(content), "`"+reason+"`") {
			t.Errorf("docs/operations.md does not explain %s", reason)
		}
	}
	firstCell := regexp.MustCompile("(?m)^\\| ((?:`[A-Za-z]+`(?:, )?)+) \\|")
	for _, match := range firstCell.FindAllStringSubmatch(string(content), -1) {
		for reason := range strings.SplitSeq(match[1], ", ") {
			if !inCode[strings.Trim(reason, "`")] {
				t.Errorf("docs/operations.md explains %s, which is not a reason", reason)
			}
		}
	}
}

// hasHeading reports whether a document has a heading with that anchor.
func hasHeading(document, anchor string) bool {
	content, err := os.ReadFile(document)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(content)) {
		heading := strings.ToLower(strings.ReplaceAll(strings.TrimSpace(strings.TrimLeft(line, "#")), " ", "-"))
		if strings.HasPrefix(line, "#") && regexp.MustCompile("[^a-z0-9-]").ReplaceAllString(heading, "") == anchor {
			return true
		}
	}
	return false
}
