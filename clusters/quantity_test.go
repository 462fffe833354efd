package clusters_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// The hub parses quantities. A single absurd quantity could end the hub's process, or keep it busy
// forever.
func TestAbsurdQuantitiesOfNodes(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	for name, quantity := range map[string]string{"that the parser dies of": "1111111111111111111e2147483639", "that cannot be added to": "1e2147483646"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := env.newMember(t, env.operator, "quantity-"+memberName(name))
			m.proxy.setFault(func(w http.ResponseWriter, r *http.Request) bool {
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

// addedEvent is a watch event.
const addedEvent = `{"type": "ADDED", "object": %s}` + "\n"

// respondWithQuantity answers, after a delay, with a Deployment that contains a quantity, in a frame.
func respondWithQuantity(frame, quantity string) http.HandlerFunc {
	deployment := `{"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"namespace": "default", "name": "x", "resourceVersion": "1"},
		"spec": {"template": {"spec": {"containers": [{"name": "x", "resources": {"limits": {"cpu": ` + quantity + `}}}]}}}}`
	answer := fmt.Sprintf(frame, strings.ReplaceAll(deployment, "\n", ""))
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if http.NewResponseController(w).Flush() != nil {
			return
		}
		select {
		case <-time.After(1500 * time.Millisecond): // a watch that ends at once would fail for that reason
			_, _ = io.WriteString(w, answer)
		case <-r.Context().Done():
		}
	}
}

// The operator reports the fault, and no other member is affected. Without the refusal, each
// quantity would take gigabytes and minutes.
func TestAbsurdQuantitiesOfDeployments(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	o := env.newOperator(t, "fleet-quantities")
	healthy := env.newMember(t, o, "quantities-healthy")
	e := healthy.join(t)
	t.Run("at once", func(t *testing.T) {
		for i, quantity := range []string{`"1e-2000000000"`, `1e-2000000000`, `"1234567890123456789e2000000000"`, `1234567890123456789e2000000000`} {
			t.Run("in a list: "+quantity, func(t *testing.T) {
				t.Parallel()
				m := env.newMember(t, o, fmt.Sprintf("quantities-list-%d", i))
				onLists(respondWithQuantity(listPrefix+"%s]}", quantity))(t, m)
				m.createSecret(t, m.kubeconfig(t))
				m.waitForMessage(t, "the member sends a number that nothing can be")
				m.checkNotEngaged(t, 0)
				healthy.checkContinues(t, e)
			})
			t.Run("in a watch: "+quantity, func(t *testing.T) {
				t.Parallel()
				m := env.newMember(t, o, fmt.Sprintf("quantities-watch-%d", i))
				first := m.join(t)
				onWatches(respondWithQuantity(addedEvent, quantity))(t, m)
				m.waitForMessage(t, "the member sends a number that nothing can be")
				m.waitForEnd(t, first, testTimeout)
				healthy.checkContinues(t, e)
			})
		}
	})
	healthy.createDeployment(t, "beside-quantities")
	e.waitForDeployment(t, "beside-quantities", testTimeout)
}

// waitForMessage waits until the message of the Ready condition contains a text.
func (m *testMember) waitForMessage(t testing.TB, what string) {
	t.Helper()
	eventually(t, withinConnectTimeout, func() error {
		c := meta.FindStatusCondition(m.memberCluster(t).Status.Conditions, v1alpha1.ConditionReady)
		if c == nil || !strings.Contains(c.Message, what) {
			return fmt.Errorf("%s says %+v, want %s", m.name, c, what)
		}
		return nil
	})
}
