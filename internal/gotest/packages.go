package main

import (
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
	"slices"
	"strings"
)

// listed is a package as `go list -json` prints it.
type listed struct {
	ImportPath, Dir                    string
	GoFiles, TestGoFiles, XTestGoFiles []string
}

// list returns the packages that have tests. Those with most code of tests are first: if a long one
// was last, it would run alone.
func list(ctx context.Context, patterns []string) ([]listed, error) {
	command := exec.CommandContext(ctx, "go", append([]string{"list", "-json=ImportPath,Dir,GoFiles,TestGoFiles,XTestGoFiles"}, patterns...)...)
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
	slices.SortStableFunc(packages, func(a, b listed) int { return int(sizes[b.ImportPath] - sizes[a.ImportPath]) })
	return packages, nil
}

// divide returns the import paths of the packages that are tested with the race detector, and of the
// others.
func divide(which string, packages []listed) (raced, plain []string, err error) {
	for _, p := range packages {
		isRaced := which == "all"
		if which == "concurrent" {
			if isRaced, err = isConcurrent(p); err != nil {
				return nil, nil, err
			}
		} else if which != "all" && which != "none" {
			return nil, nil, fmt.Errorf("%q is not concurrent, all or none", which)
		}
		if isRaced {
			raced = append(raced, p.ImportPath)
		} else {
			plain = append(plain, p.ImportPath)
		}
	}
	return raced, plain, nil
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
