package clusters_test

import (
	"io"
	"net/http"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// A quantity is text that the hub computes with: one of them could end it, or keep it busy for ever.
func TestAbsurdQuantitiesOfNodes(t *testing.T) {
	t.Parallel()
	w := shared(t)
	for name, quantity := range map[string]string{"that the parser dies of": "1111111111111111111e2147483639", "that cannot be added to": "1e2147483646"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := w.newMember(t, w.operator, "quantity-"+label(name))
			m.front.fail(func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != "/api/v1/nodes" {
					return false
				}
				w.Header().Set("Content-Type", "application/json")
				node := func(cpu string) string {
					return `{"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "` + cpu + `"}}}`
				}
				_, _ = io.WriteString(w, `{"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": [`+node("1")+","+node(quantity)+"]}")
				return true
			})
			m.join(t)
			if c := meta.FindStatusCondition(m.memberCluster(t).Status.Conditions, v1alpha1.ConditionAllocatableKnown); c == nil {
				t.Error("nothing is said of what the nodes can hold")
			}
		})
	}
}
