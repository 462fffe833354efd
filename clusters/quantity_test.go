package clusters_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// The operator parses quantities. A single expensive quantity could end its process, or keep it
// busy forever.
func TestNode_with_an_expensive_quantity_is_not_counted(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	for name, test := range map[string]struct {
		quantity string
		status   metav1.ConditionStatus // of AllocatableKnown
		cpus     string
	}{
		"with which the parser panics":   {"1111111111111111111e2147483639", metav1.ConditionUnknown, "0"},
		"with which additions never end": {"1e2147483646", metav1.ConditionUnknown, "0"},
		"that no node has":               {"1e999999", metav1.ConditionTrue, "1"},
	} {
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
				_, _ = io.WriteString(w, `{"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": [`+node("1")+","+node(test.quantity)+"]}")
				return true
			})
			e := m.join(t)
			wait.Eventually(t, func() error {
				status := m.memberCluster(t).Status
				c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionAllocatableKnown)
				if c == nil || c.Reason == v1alpha1.ReasonConnecting || c.Status != test.status || status.Allocatable.Cpu().String() != test.cpus {
					return fmt.Errorf("AllocatableKnown is %+v, with %v", c, status.Allocatable)
				}
				return nil
			})
			m.checkContinues(t, e)
		})
	}
}

// addedEvent is a watch event.
const addedEvent = `{"type": "ADDED", "object": %s}` + "\n"

// respondWithQuantity responds after a delay with a Deployment that contains a quantity. The format
// has a place for the Deployment.
func respondWithQuantity(format, quantity string) http.HandlerFunc {
	deployment := `{"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {"namespace": "default", "name": "x", "resourceVersion": "1"},
		"spec": {"template": {"spec": {"containers": [{"name": "x", "resources": {"limits": {"cpu": ` + quantity + `}}}]}}}}`
	answer := fmt.Sprintf(format, strings.ReplaceAll(deployment, "\n", ""))
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if http.NewResponseController(w).Flush() != nil {
			return
		}
		select {
		case <-time.After(1500 * time.Millisecond): // a watch that ends at once would count as a failure
			_, _ = io.WriteString(w, answer)
		case <-r.Context().Done():
		}
	}
}

// The operator reports the fault, and no other member is affected. Each of these quantities would
// take gigabytes and minutes to parse.
func TestDeployment_with_an_expensive_quantity_affects_only_its_member(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	o := env.newOperator(t, "fleet-quantities")
	healthy := env.newMember(t, o, "quantities-healthy")
	e := healthy.join(t)
	t.Run("all at the same time", func(t *testing.T) {
		for i, quantity := range []string{`"1e-2000000000"`, `1e-2000000000`, `"1234567890123456789e2000000000"`, `1234567890123456789e2000000000`} {
			t.Run("in a list: "+quantity, func(t *testing.T) {
				t.Parallel()
				m := env.newMember(t, o, fmt.Sprintf("quantities-list-%d", i))
				onLists(respondWithQuantity(listPrefix+"%s]}", quantity))(t, m)
				m.createSecret(t, m.kubeconfig(t))
				m.waitForMessage(t, "the member sends a quantity that is too expensive to parse")
				m.checkNotEngaged(t, 0)
				healthy.checkContinues(t, e)
			})
			t.Run("in a watch: "+quantity, func(t *testing.T) {
				t.Parallel()
				m := env.newMember(t, o, fmt.Sprintf("quantities-watch-%d", i))
				first := m.join(t)
				onWatches(respondWithQuantity(addedEvent, quantity))(t, m)
				m.waitForMessage(t, "the member sends a quantity that is too expensive to parse")
				m.waitForEnd(t, first)
				healthy.checkContinues(t, e)
			})
		}
	})
	healthy.createDeployment(t, "beside-quantities")
	e.waitForDeployment(t, "beside-quantities")
}

// waitForMessage waits until the message of the Ready condition contains a text.
func (m *testMember) waitForMessage(t testing.TB, what string) {
	t.Helper()
	wait.Eventually(t, func() error {
		c := meta.FindStatusCondition(m.memberCluster(t).Status.Conditions, v1alpha1.ConditionReady)
		if c == nil || !strings.Contains(c.Message, what) {
			return fmt.Errorf("%s: the condition Ready is %+v, want message %q", m.name, c, what)
		}
		return nil
	})
}
