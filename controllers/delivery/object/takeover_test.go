package object

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The lists of every kind can be replaced: a kind that is forgotten is an error.
func TestWithDesiredLists_knows_every_kind(t *testing.T) {
	t.Parallel()
	desired := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	for kind, version := range groupVersions {
		existing, err := scheme.Scheme.New(version.WithKind(kind))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := withDesiredLists(existing.(client.Object), desired); err != nil {
			t.Error(err)
		}
	}
	if _, err := withDesiredLists(&corev1.Namespace{}, desired); err == nil {
		t.Error("an unknown kind is no error")
	}
}
