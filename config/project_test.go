package config_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// project is the file PROJECT of Kubebuilder, with the fields that this project uses.
type project struct {
	Domain      string            `json:"domain"`
	Layout      []string          `json:"layout"`
	ProjectName string            `json:"projectName"`
	Repo        string            `json:"repo"`
	Resources   []projectResource `json:"resources"`
	Version     string            `json:"version"`
}

// projectResource is a kind in PROJECT. Without a group, its API group is the domain.
type projectResource struct {
	API struct {
		CRDVersion string `json:"crdVersion"`
		Namespaced bool   `json:"namespaced,omitempty"`
	} `json:"api"`
	Controller bool   `json:"controller,omitempty"`
	Domain     string `json:"domain"`
	Kind       string `json:"kind"`
	Path       string `json:"path"`
	Version    string `json:"version"`
}

// definition is the part of a CRD that PROJECT has, too.
type definition struct {
	APIVersion string `json:"apiVersion"`
	Spec       struct {
		Group string `json:"group"`
		Names struct {
			Kind string `json:"kind"`
		} `json:"names"`
		Scope    string `json:"scope"`
		Versions []struct {
			Name string `json:"name"`
		} `json:"versions"`
	} `json:"spec"`
}

// describedKind is what PROJECT and the CRDs must agree on.
type describedKind struct {
	CRDVersion, Group, Version, Kind string
	Namespaced                       bool
}

func TestProject_has_the_kinds_of_the_CRDs(t *testing.T) {
	var described, defined []describedKind
	read := readProject(t)
	for _, r := range read.Resources {
		described = append(described, describedKind{r.API.CRDVersion, r.Domain, r.Version, r.Kind, r.API.Namespaced})
	}
	files, err := filepath.Glob("crd/bases/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("found no CRDs (%v)", err)
	}
	for _, file := range files {
		var crd definition
		if err := yaml.Unmarshal(readFile(t, file), &crd); err != nil {
			t.Fatal(err)
		}
		for _, version := range crd.Spec.Versions {
			defined = append(defined, describedKind{
				strings.TrimPrefix(crd.APIVersion, "apiextensions.k8s.io/"), crd.Spec.Group, version.Name, crd.Spec.Names.Kind, crd.Spec.Scope == "Namespaced",
			})
		}
	}
	if diff := cmp.Diff(defined, described); diff != "" {
		t.Errorf("kinds (-CRDs +PROJECT):\n%s", diff)
	}
	for _, kind := range described {
		if kind.Group != read.Domain {
			t.Errorf("the group of %s is %s, and the domain %s", kind.Kind, kind.Group, read.Domain)
		}
	}
}

func TestProject_has_the_packages_of_its_kinds(t *testing.T) {
	read := readProject(t)
	for _, r := range read.Resources {
		directory, isOurs := strings.CutPrefix(r.Path, read.Repo+"/")
		if !isOurs || !slices.Contains(typesIn(t, filepath.Join("..", directory)), r.Kind) {
			t.Errorf("%s has no type %s", r.Path, r.Kind)
		}
	}
	module, _, _ := strings.Cut(strings.TrimPrefix(string(readFile(t, "../go.mod")), "module "), "\n")
	want := project{
		Domain: "fleetwright.dev", Layout: []string{"go.kubebuilder.io/v4"}, ProjectName: "fleetwright",
		Repo: module, Resources: read.Resources, Version: "3",
	}
	if diff := cmp.Diff(want, read); diff != "" {
		t.Errorf("PROJECT (-want +got):\n%s", diff)
	}
}

// readProject returns PROJECT. A field that is not in the types above is an error.
func readProject(t *testing.T) project {
	t.Helper()
	var read project
	if err := yaml.UnmarshalStrict(readFile(t, "../PROJECT"), &read); err != nil {
		t.Fatal(err)
	}
	return read
}

func readFile(t *testing.T, file string) []byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// typesIn returns the names of the types that the Go files of a directory declare.
func typesIn(t *testing.T, directory string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(directory, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(node ast.Node) bool {
			if spec, isType := node.(*ast.TypeSpec); isType {
				names = append(names, spec.Name.Name)
			}
			return true
		})
	}
	return names
}

func TestNames_of_Kubebuilder_make_our_targets(t *testing.T) {
	dryRun := func(target string) string {
		command := exec.CommandContext(t.Context(), "make", "--no-print-directory", "--dry-run", "-C", "..", target, "IMG=registry.example/x:1")
		command.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=")
		out, err := command.CombinedOutput()
		if err != nil || len(out) == 0 {
			t.Fatalf("make %s: %v\n%s", target, err, out)
		}
		return string(out)
	}
	for name, ours := range map[string]string{"manifests": "generate", "docker-build": "image", "docker-push": "push"} {
		if diff := cmp.Diff(dryRun(ours), dryRun(name)); diff != "" {
			t.Errorf("commands (-make %s +make %s):\n%s", ours, name, diff)
		}
	}
}
