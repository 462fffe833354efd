package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/fleetwright/fleetwright/internal/sample"
)

// listed is a package as `go list -json` prints it.
type listed struct {
	ImportPath, Dir                    string
	GoFiles, TestGoFiles, XTestGoFiles []string
	TestImports, XTestImports          []string
}

// list returns the packages that have tests. Those that start API servers are first, and of these those
// with most code of tests: if a long one was last, it would run alone.
func list(ctx context.Context, patterns []string) ([]listed, error) {
	command := exec.CommandContext(ctx, "go", append([]string{"list", "-json=ImportPath,Dir,GoFiles,TestGoFiles,XTestGoFiles,TestImports,XTestImports"}, patterns...)...)
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var packages []listed
	sizes := map[string]int64{}
	for decoder := json.NewDecoder(strings.NewReader(string(output))); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		for _, name := range append(p.TestGoFiles, p.XTestGoFiles...) {
			info, err := os.Stat(filepath.Join(p.Dir, name))
			if err != nil {
				return nil, err
			}
			sizes[p.ImportPath] += info.Size()
		}
		if sizes[p.ImportPath] > 0 {
			packages = append(packages, p)
		}
	}
	slices.SortStableFunc(packages, func(a, b listed) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(sizes[b.ImportPath], sizes[a.ImportPath]))
	})
	return packages, nil
}

// group is packages whose tests run by one command.
type group struct {
	title    string
	isRaced  bool
	atOnce   int      // how many packages are tested at once
	flags    []string // of go test
	packages []string // import paths
}

// groups divides the packages by whether the race detector is used, and the tests of some of them if
// there is a sample.
func groups(which string, packages []listed, isSample bool) ([]group, error) {
	var raced, sampled, divided, plain []listed
	var taken []string
	for _, p := range packages {
		isRaced := which == "all"
		if which == "concurrent" {
			var err error
			if isRaced, err = isConcurrent(p); err != nil {
				return nil, err
			}
		} else if which != "all" && which != "none" {
			return nil, fmt.Errorf("%q is not concurrent, all or none", which)
		}
		switch {
		case isRaced && which == "concurrent" && isSample && p.startsServers():
			if !sample.Takes(p.ImportPath, racedPackages) {
				plain = append(plain, p)
				continue
			}
			tests, err := sampledTests(p)
			if err != nil {
				return nil, err
			}
			if taken = append(taken, tests...); len(tests) > 0 {
				sampled = append(sampled, p)
			}
			divided = append(divided, p)
		case isRaced:
			raced = append(raced, p)
		default:
			plain = append(plain, p)
		}
	}
	slices.Sort(taken) // the cache of results sees the flags
	pattern := "^(" + strings.Join(slices.Compact(taken), "|") + ")$"
	// More packages at once take more CPU time: their tests poll for longer, and their API servers are
	// not free when they are idle.
	processors := runtime.GOMAXPROCS(0)
	few := (processors + 1) / 2
	all := []group{
		{title: fmt.Sprintf("with the race detector, one test in %d", racedTests), isRaced: true, atOnce: few, flags: []string{"-run=" + pattern}, packages: paths(sampled)},
		{title: "without it, the other tests", atOnce: processors, flags: []string{"-skip=" + pattern}, packages: paths(divided)},
		{title: "with the race detector", isRaced: true, atOnce: few, packages: paths(raced)},
		{title: "without it", atOnce: processors + 1, packages: paths(plain)},
	}
	all = slices.DeleteFunc(all, func(g group) bool { return len(g.packages) == 0 })
	if !slices.ContainsFunc(all, func(g group) bool { return !g.isRaced }) {
		for i := range all {
			all[i].atOnce = processors
		}
	}
	return all, nil
}

func paths(packages []listed) []string {
	var all []string
	for _, p := range packages {
		all = append(all, p.ImportPath)
	}
	return all
}

// Of the packages that start API servers, a run with a sample takes one in so many, and runs one in so
// many of its tests with the race detector. With it, tests need three times as much CPU time, and a
// package needs API servers for both parts.
const (
	racedPackages = 2
	racedTests    = 4
)

// sampledTests returns the tests of a package that a sample takes.
func sampledTests(p listed) ([]string, error) {
	var taken []string
	for _, file := range append(p.TestGoFiles, p.XTestGoFiles...) {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, declared := range parsed.Decls {
			f, isFunc := declared.(*ast.FuncDecl)
			if isFunc && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain" && sample.Takes(f.Name.Name, racedTests) {
				taken = append(taken, f.Name.Name)
			}
		}
	}
	return taken, nil
}

func (p listed) rank() int {
	if p.startsServers() {
		return 0
	}
	return 1
}

// startsServers reports whether the tests start API servers.
func (p listed) startsServers() bool {
	for _, path := range append(p.TestImports, p.XTestImports...) {
		if strings.HasSuffix(path, "internal/servertest") || strings.HasSuffix(path, "/envtest") {
			return true
		}
	}
	return false
}

// isConcurrent reports whether a file of the package, other than a test, starts or synchronizes
// goroutines.
func isConcurrent(p listed) (bool, error) {
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return false, err
		}
		if usesGoroutines(file) {
			return true, nil
		}
	}
	return false, nil
}

// usesGoroutines reports whether a file has a go statement or a channel, or uses package sync,
// sync/atomic or golang.org/x/sync. sync.OnceValue and its kin are not counted: pure packages use them
// to compute late what may not be needed.
func usesGoroutines(file *ast.File) bool {
	for _, imported := range file.Imports {
		path := strings.Trim(imported.Path.Value, `"`)
		if path == "sync/atomic" || strings.HasPrefix(path, "golang.org/x/sync/") {
			return true
		}
	}
	found := false
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.GoStmt, *ast.ChanType, *ast.SelectStmt:
			found = true
		case *ast.SelectorExpr:
			x, isName := node.X.(*ast.Ident)
			found = found || isName && x.Name == "sync" && !strings.HasPrefix(node.Sel.Name, "Once")
		}
		return !found
	})
	return found
}
