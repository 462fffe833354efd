// Terse shortens the descriptions of the types of Kubernetes in CRDs, which `kubectl explain` shows in
// full for a Pod. `kubectl apply` stores a CRD in an annotation, and annotations are limited to 256 KiB.
// `make generate` runs it.
//
//	go run ./internal/terse CRD...
package main

import (
	"bytes"
	"fmt"
	"os"
	"reflect"

	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// kinds has the Go type of each kind.
var kinds = map[string]reflect.Type{
	"AppService":      reflect.TypeFor[v1alpha1.AppService](),
	"AppServiceSlice": reflect.TypeFor[v1alpha1.AppServiceSlice](),
	"MemberCluster":   reflect.TypeFor[v1alpha1.MemberCluster](),
}

func main() {
	for _, file := range os.Args[1:] {
		if err := rewrite(file); err != nil {
			fmt.Fprintf(os.Stderr, "terse: %s: %v\n", file, err)
			os.Exit(1)
		}
	}
}

// rewrite shortens the descriptions in a file.
func rewrite(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	shortened, err := shortenCRD(text)
	if err != nil {
		return err
	}
	return os.WriteFile(file, shortened, 0o644)
}

// shortenCRD returns a CRD with shorter descriptions.
func shortenCRD(text []byte) ([]byte, error) {
	var whole map[string]any
	if err := yaml.Unmarshal(text, &whole); err != nil {
		return nil, err
	}
	spec, _ := whole["spec"].(map[string]any)
	names, _ := spec["names"].(map[string]any)
	kind, known := kinds[fmt.Sprint(names["kind"])]
	if !known {
		return nil, fmt.Errorf("the kind %v has no Go type here: add it to kinds", names["kind"])
	}
	versions, _ := spec["versions"].([]any)
	for _, version := range versions {
		of, _ := version.(map[string]any)
		inner, _ := of["schema"].(map[string]any)
		root, isSchema := inner["openAPIV3Schema"].(map[string]any)
		if !isSchema {
			return nil, fmt.Errorf("a version has no schema")
		}
		shortenType(kind, root)
	}
	shortened, err := yaml.Marshal(whole)
	return bytes.Join([][]byte{[]byte("---\n"), shortened}, nil), err
}
