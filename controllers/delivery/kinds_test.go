package delivery

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/fleetwright/fleetwright/controllers/delivery/object"
)

// Each place that lists kinds knows every kind that an AppService may have on a member. A kind that
// one of them does not know would be handled wrongly without an error.
func TestKinds_are_known_everywhere(t *testing.T) {
	t.Parallel()
	kinds := Kinds()
	for _, k := range optionalKinds {
		if got := object.KindOf(k.empty()); got != k.kind {
			t.Errorf("the optional kind %s has objects of kind %s", k.kind, got)
		}
		kinds = append(kinds, k.empty())
	}
	for _, empty := range kinds {
		want, err := apiutil.GVKForObject(empty, scheme.Scheme)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(want.Kind, func(t *testing.T) {
			t.Parallel()
			if got := object.KindOf(empty); got != want.Kind {
				t.Errorf("object.KindOf: got %s", got)
			}
			typed := empty.DeepCopyObject().(client.Object)
			object.SetKind(typed)
			if got := typed.GetObjectKind().GroupVersionKind(); got != want {
				t.Errorf("object.SetKind: got %s, want %s", got, want)
			}
			if _, err := Mapper().RESTMapping(want.GroupKind(), want.Version); err != nil {
				t.Errorf("Mapper: %v", err)
			}
			cached := empty.DeepCopyObject().(client.Object)
			cached.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "kubectl"}})
			if _, err := Transform()(cached); err != nil || cached.GetManagedFields() != nil {
				t.Errorf("Transform: the managed fields are %v, and the error is %v", cached.GetManagedFields(), err)
			}
		})
	}
}
