package config_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
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

// Each table of reasons ends with what to do next.
func TestEveryReasonInATableHasANextStep(t *testing.T) {
	content, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	inCode, rows := findReasons(t), 0
	for line := range strings.Lines(string(content)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		reason, _, isCode := strings.Cut(strings.TrimPrefix(strings.TrimSpace(cells[0]), "`"), "`")
		if !strings.HasPrefix(line, "| `") || !isCode || !inCode[reason] {
			continue
		}
		rows++
		if len(cells) < 2 || strings.TrimSpace(cells[len(cells)-1]) == "" {
			t.Errorf("docs/operations.md has no next step for %s", reason)
		}
	}
	if rows < 90 {
		t.Errorf("found only %d rows of reasons", rows)
	}
}

func TestReadmeHasTheNumberOfReasons(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if want := strconv.Itoa(len(findReasons(t))) + " documented reasons"; !strings.Contains(string(readme), want) {
		t.Errorf("README.md does not have %q", want)
	}
}

// A reason that is not a constant of api/v1alpha1 is not documented.
func TestEveryReasonIsAConstant(t *testing.T) {
	fields := 0
	for _, directory := range []string{"../controllers", "../clusters", "../cmd/fleetwright"} {
		for file, parsed := range parseSources(t, directory) {
			ast.Inspect(parsed, func(node ast.Node) bool {
				for _, value := range reasonsIn(node) {
					fields++
					if literal, is := value.(*ast.BasicLit); is && literal.Value != `""` {
						t.Errorf("%s sets the reason %s: use a constant of api/v1alpha1", file, literal.Value)
					}
				}
				return true
			})
		}
	}
	if fields < 50 {
		t.Errorf("found only %d fields Reason", fields)
	}
}

// parseSources returns the Go files below a directory, without those of tests.
func parseSources(t *testing.T, directory string) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	err := filepath.WalkDir(directory, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasSuffix(entry.Name(), "test"):
			return filepath.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files[path], err = parser.ParseFile(token.NewFileSet(), path, nil, 0)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// reasonsIn returns what a node sets a field Reason to.
func reasonsIn(node ast.Node) []ast.Expr {
	switch found := node.(type) {
	case *ast.KeyValueExpr:
		if key, is := found.Key.(*ast.Ident); is && key.Name == "Reason" {
			return []ast.Expr{found.Value}
		}
	case *ast.AssignStmt:
		var values []ast.Expr
		for i, target := range found.Lhs {
			if field, is := target.(*ast.SelectorExpr); is && field.Sel.Name == "Reason" && len(found.Lhs) == len(found.Rhs) {
				values = append(values, found.Rhs[i])
			}
		}
		return values
	}
	return nil
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

// The column REGION, the page and the samples read the standard label, so each document, sample and
// the demo joins and selects clusters by it.
func TestExamplesUseTheStandardLabelOfRegions(t *testing.T) {
	files := []string{"../cmd/demo/demo.go", "../cmd/kubectl-appsvc/join/join.go"}
	for _, pattern := range []string{"../*.md", "../docs/*.md", "samples/*.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("found no %s (%v)", pattern, err)
		}
		files = append(files, found...)
	}
	own := regexp.MustCompile(`labels region=|=true region=|"region":|[ {]region: (eu|us|ap|cn)\b|[kK]ey: region\b`)
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for number, line := range strings.Split(string(content), "\n") {
			if own.MatchString(line) {
				t.Errorf("%s:%d selects by the label region, not by topology.kubernetes.io/region: %s", file, number+1, strings.TrimSpace(line))
			}
		}
	}
}
