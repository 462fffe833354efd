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
	"github.com/fleetwright/fleetwright/e2e/framework"
)

// expectKept fails the test if a recorded object is gone or has changed.
func (f *upgradedFleet) expectKept(t *testing.T, c *framework.Cluster, kinds []kind) {
	t.Helper()
	current, err := listObjects(t.Context(), c, kinds)
	if err != nil {
		t.Fatal(err)
	}
	if len(current) != len(f.before[c.Name()]) {
		t.Errorf("%s has %d objects, %d were recorded", c.Name(), len(current), len(f.before[c.Name()]))
	}
	for _, before := range f.before[c.Name()] {
		i := slices.IndexFunc(current, func(o unstructured.Unstructured) bool { return o.GetUID() == before.GetUID() })
		if i < 0 {
			t.Errorf("%s: %s %s is gone", c.Name(), before.GetKind(), before.GetName())
			continue
		}
		for _, d := range changedFields("", stableFields(before), stableFields(current[i])) {
			if c != f.Hub || explained[before.GetKind()+" "+listIndex.ReplaceAllString(d.path, "[]")] == "" {
				t.Errorf("%s: %s %s: %s", c.Name(), before.GetKind(), before.GetName(), d)
			}
		}
	}
}

// stableFields returns an object without the fields that the cluster changes.
func stableFields(object unstructured.Unstructured) map[string]any {
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

// fieldChange is a field that is gone or has another value.
type fieldChange struct {
	path          string
	before, after any
}

func (c fieldChange) String() string {
	return fmt.Sprintf("%s was %v, is %v now", c.path, c.before, c.after)
}

var listIndex = regexp.MustCompile(`\[\d+\]`)

// changedFields returns the fields of before that are gone or have another value in after. Fields
// that only after has are left out: the new release may have added them.
func changedFields(path string, before, after any) (changes []fieldChange) {
	switch before := before.(type) {
	case map[string]any:
		if after, ok := after.(map[string]any); ok {
			for _, key := range slices.Sorted(maps.Keys(before)) {
				changes = append(changes, changedFields(path+"."+key, before[key], after[key])...)
			}
			return changes
		}
	case []any:
		if after, ok := after.([]any); ok && len(after) == len(before) {
			for i := range before {
				changes = append(changes, changedFields(fmt.Sprintf("%s[%d]", path, i), before[i], after[i])...)
			}
			return changes
		}
	}
	if !cmp.Equal(before, after) {
		changes = []fieldChange{{path, before, after}}
	}
	return changes
}
