package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// proofs looks up proofs in the sources.
type proofs struct {
	root     string
	packages map[string]goPackage // by directory
}

// check returns an error for each proof of a row that does not exist.
func (p *proofs) check(r row) (errs []error) {
	if len(r.proofs) == 0 {
		errs = append(errs, errors.New("it has no proof"))
	}
	if others := strings.Trim(r.others, ", "); others != "" {
		errs = append(errs, fmt.Errorf("%q is no proof: proofs are code, with commas between them", others))
	}
	for _, proof := range r.proofs {
		if err := p.find(proof); err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// testProof is a package, a function and perhaps a subtest. No name of a package has a dot.
var testProof = regexp.MustCompile(`^([a-z0-9/-]+)\.((?:Test|Benchmark)\w+)(?:/(.+))?$`)

// find returns an error unless a proof exists.
func (p *proofs) find(proof string) error {
	if rule, is := strings.CutPrefix(proof, "explore: "); is {
		return p.findRule(rule)
	}
	if scenario, is := strings.CutPrefix(proof, "make bench "); is {
		return p.findScenario(scenario)
	}
	parts := testProof.FindStringSubmatch(proof)
	if parts == nil {
		return fmt.Errorf("%s is no proof: write package.TestName, explore: RULE or make bench SCENARIO", proof)
	}
	pkg, err := p.read(parts[1])
	if err != nil {
		return err
	}
	literals, exists := pkg.tests[parts[2]]
	switch {
	case !exists:
		return fmt.Errorf("%s has no %s", parts[1], parts[2])
	case parts[3] != "" && !literals[parts[3]]:
		return fmt.Errorf("%s.%s has no subtest %q", parts[1], parts[2], parts[3])
	}
	return nil
}

// explorations are the directories that have the rules of the exploration.
var explorations = []string{"internal/explore", "internal/explore/fleet"}

func (p *proofs) findRule(rule string) error {
	for _, directory := range explorations {
		pkg, err := p.read(directory)
		if err != nil {
			return err
		}
		if pkg.rules[rule] {
			return nil
		}
	}
	return fmt.Errorf("%s has no rule %q", explorations[0], rule)
}

// benchmarks is the directory of `make bench`. Variables of the package have the names of its
// scenarios.
const benchmarks = "cmd/bench"

var scenarioName = regexp.MustCompile(`^B[0-9]+$`)

func (p *proofs) findScenario(scenario string) error {
	pkg, err := p.read(benchmarks)
	if err != nil {
		return err
	}
	if !scenarioName.MatchString(scenario) || !pkg.variables[scenario] {
		return fmt.Errorf("%s has no scenario %s", benchmarks, scenario)
	}
	return nil
}

// goPackage is what the Go files of a directory have.
type goPackage struct {
	// tests are the tests and the benchmarks, by name, each with its string literals.
	tests map[string]map[string]bool
	// variables are the string literals of package variables and constants, without those of tests.
	variables map[string]bool
	// rules are the string literals of variables that are named rules, and of fields that are named Rule.
	rules map[string]bool
}

// read parses the Go files of a directory, once.
func (p *proofs) read(directory string) (goPackage, error) {
	if known, isKnown := p.packages[directory]; isKnown {
		return known, nil
	}
	files, err := filepath.Glob(filepath.Join(p.root, filepath.FromSlash(directory), "*.go"))
	if err != nil || len(files) == 0 {
		return goPackage{}, fmt.Errorf("there is no package %s", directory)
	}
	pkg := goPackage{tests: map[string]map[string]bool{}, variables: map[string]bool{}, rules: map[string]bool{}}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return goPackage{}, err
		}
		for _, declaration := range file.Decls {
			pkg.add(declaration, strings.HasSuffix(name, "_test.go"))
		}
	}
	p.packages[directory] = pkg
	return pkg, nil
}

// add adds a declaration.
func (p *goPackage) add(declaration ast.Decl, isOfTests bool) {
	found := literalsIn(declaration)
	maps.Copy(p.rules, rulesIn(declaration))
	function, isFunction := declaration.(*ast.FuncDecl)
	switch {
	case isFunction && isOfTests && function.Recv == nil:
		p.tests[function.Name.Name] = found
	case !isFunction && !isOfTests:
		maps.Copy(p.variables, found)
	}
}

// rulesIn returns the rules of an exploration in a declaration.
func rulesIn(root ast.Node) map[string]bool {
	found := map[string]bool{}
	ast.Inspect(root, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.ValueSpec:
			if len(n.Names) == 1 && n.Names[0].Name == "rules" {
				maps.Copy(found, literalsIn(n))
			}
		case *ast.KeyValueExpr:
			if key, is := n.Key.(*ast.Ident); is && key.Name == "Rule" {
				maps.Copy(found, literalsIn(n.Value))
			}
		}
		return true
	})
	return found
}

// literalsIn returns the values of the string literals in a node.
func literalsIn(root ast.Node) map[string]bool {
	found := map[string]bool{}
	ast.Inspect(root, func(node ast.Node) bool {
		if literal, is := node.(*ast.BasicLit); is && literal.Kind == token.STRING {
			if value, err := strconv.Unquote(literal.Value); err == nil {
				found[value] = true
			}
		}
		return true
	})
	return found
}
