package v1alpha1_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

func TestSamples_are_accepted(t *testing.T) {
	files, err := filepath.Glob("../../config/samples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	number := 0
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			if content, err := os.ReadFile(file); err != nil || !bytes.HasPrefix(content, []byte("# ")) {
				t.Errorf("the sample does not start with a comment about its purpose (%v)", err)
			}
			for _, object := range readFile(t, file) {
				if object.GroupVersionKind().GroupVersion() != v1alpha1.GroupVersion {
					continue // the API server may not have the CRDs of other groups
				}
				number++
				if object.GetKind() == "AppService" && object.GetNamespace() == "" {
					object.SetNamespace("default") // as kubectl does
				}
				if _, err := dryRunCreate(t, object); err != nil {
					t.Error(err)
				}
			}
		})
	}
	if number == 0 {
		t.Error("config/samples has no object of this API group")
	}
}

// readFile returns the objects of a file with one or more documents.
func readFile(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict(document, &object.Object); err != nil {
			t.Fatal(err)
		}
		if len(object.Object) > 0 && object.GetKind() != "Kustomization" {
			objects = append(objects, object)
		}
	}
}
