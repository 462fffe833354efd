package upgrade

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// wantKept fails the test where something that was recorded is no longer there or has changed.
func (f *upgraded) wantKept(t *testing.T, c *cluster, kinds []kind) {
	t.Helper()
	now, err := c.objects(t.Context(), kinds)
	if err != nil {
		t.Fatal(err)
	}
	if len(now) != len(f.were[c.Name()]) {
		t.Errorf("%s has %d objects, %d were recorded", c.Name(), len(now), len(f.were[c.Name()]))
	}
	for _, was := range f.were[c.Name()] {
		i := slices.IndexFunc(now, func(is unstructured.Unstructured) bool { return is.GetUID() == was.GetUID() })
		if i < 0 {
			t.Errorf("%s: %s %s is gone", c.Name(), was.GetKind(), was.GetName())
			continue
		}
		for _, l := range lost("", lasting(was), lasting(now[i])) {
			if c != f.hub || explained[was.GetKind()+" "+index.ReplaceAllString(l.path, "[]")] == "" {
				t.Errorf("%s: %s %s: %s", c.Name(), was.GetKind(), was.GetName(), l)
			}
		}
	}
}

// lasting is an object without what the cluster itself changes.
func lasting(object unstructured.Unstructured) map[string]any {
	object = *object.DeepCopy()
	for _, path := range [][]string{
		{"metadata", "resourceVersion"}, {"metadata", "managedFields"}, {"metadata", "annotations", "deployment.kubernetes.io/revision"},
	} {
		unstructured.RemoveNestedField(object.Object, path...)
	}
	if object.GroupVersionKind().Group != v1alpha1.GroupVersion.Group {
		unstructured.RemoveNestedField(object.Object, "status")
	}
	return object.Object
}

// loss is a field that is gone, or says something else.
type loss struct {
	path    string
	was, is any
}

func (l loss) String() string { return fmt.Sprintf("%s was %v, and is %v", l.path, l.was, l.is) }

var index = regexp.MustCompile(`\[\d+\]`)

// lost are the fields of what was that are gone, or say something else, in what is. What that holds beside them may come of a new field.
func lost(path string, was, is any) (found []loss) {
	switch was := was.(type) {
	case map[string]any:
		if is, ok := is.(map[string]any); ok {
			for _, key := range slices.Sorted(maps.Keys(was)) {
				found = append(found, lost(path+"."+key, was[key], is[key])...)
			}
			return found
		}
	case []any:
		if is, ok := is.([]any); ok && len(is) == len(was) {
			for i := range was {
				found = append(found, lost(fmt.Sprintf("%s[%d]", path, i), was[i], is[i])...)
			}
			return found
		}
	}
	if !cmp.Equal(was, is) {
		found = []loss{{path, was, is}}
	}
	return found
}
