package clusters_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// Volatile is a kind whose decoding panics if its text says so.
type Volatile struct {
	metav1.TypeMeta
	metav1.ObjectMeta
}

func (v *Volatile) UnmarshalJSON(raw []byte) error {
	if strings.Contains(string(raw), "panic") {
		panic("on " + string(raw))
	}
	var object struct{ Metadata metav1.ObjectMeta }
	err := json.Unmarshal(raw, &object)
	v.ObjectMeta = object.Metadata
	return err
}

func (v *Volatile) DeepCopyObject() runtime.Object {
	return &Volatile{v.TypeMeta, *v.ObjectMeta.DeepCopy()}
}

type VolatileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`
	Items           []Volatile `json:"items"`
}

func (l *VolatileList) DeepCopyObject() runtime.Object {
	return &VolatileList{l.TypeMeta, l.ListMeta, append([]Volatile(nil), l.Items...)}
}

var volatileKind = schema.GroupVersion{Group: "example.com", Version: "v1"}.WithKind("Volatile")

// watchingVolatiles makes the operator watch Volatiles too, with a transform function for its
// caches.
func watchingVolatiles(t *testing.T, transform func(any) (any, error)) func(*setup) {
	t.Helper()
	kinds := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(kinds), v1alpha1.AddToScheme(kinds)); err != nil {
		t.Fatal(err)
	}
	kinds.AddKnownTypes(volatileKind.GroupVersion(), &Volatile{}, &VolatileList{})
	metav1.AddToGroupVersion(kinds, volatileKind.GroupVersion())
	return func(o *setup) {
		o.Scheme = kinds
		o.Mapper.(*meta.DefaultRESTMapper).Add(volatileKind, meta.RESTScopeNamespace)
		o.Watch = append(watchedKinds(), &Volatile{})
		o.Cache.DefaultTransform = transform
	}
}

// volatiles makes the proxy serve Volatiles: those of a list, and then one event.
func (m *testMember) volatiles(listed, event string) {
	m.proxy.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasPrefix(r.URL.Path, "/apis/example.com/v1/volatiles") {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		if !r.URL.Query().Has("watch") {
			_, _ = io.WriteString(w, `{"kind": "VolatileList", "apiVersion": "example.com/v1", "metadata": {"resourceVersion": "1"}, "items": [`+listed+`]}`)
			return true
		}
		if event != "" {
			_, _ = io.WriteString(w, `{"type": "ADDED", "object": `+event+"}\n")
		}
		if http.NewResponseController(w).Flush() == nil {
			<-r.Context().Done()
		}
		return true
	})
	m.link.resetConnections()
}

func volatile(name string) string {
	return `{"kind": "Volatile", "apiVersion": "example.com/v1", "metadata": {"namespace": "default", "name": "` + name + `", "resourceVersion": "2"}}`
}

// A panic while the operator decodes the data of one member ends only the session of that member.
// With client-go's own decoding, the panic would end the process of this test.
func TestPanic_in_the_decoder_ends_only_the_session_of_the_member(t *testing.T) {
	t.Parallel()
	if !utilruntime.ReallyCrash {
		t.Fatal("panics are hidden in this process")
	}
	env := sharedEnv(t)
	o := env.newOperator(t, "fleet-panics", watchingVolatiles(t, nil))
	neighbor := env.newMember(t, o, "panic-beside")
	neighbor.volatiles(volatile("good"), volatile("better"))
	healthy := neighbor.join(t)
	wait.Eventually(t, func() error {
		return healthy.cluster.GetClient().Get(ctx, client.ObjectKey{Namespace: "default", Name: "better"}, &Volatile{})
	})
	const message = "the decoder panicked on the member's data"

	t.Run("in a list of a new member", func(t *testing.T) {
		m := env.newMember(t, o, "panic-list")
		m.volatiles(volatile("panic"), "")
		m.createSecret(t, m.kubeconfig(t))
		m.waitForMessage(t, message)
		m.checkNotEngaged(t, 0)
		m.volatiles(volatile("good"), "")
		m.waitForEngagement(t, 1)
	})

	t.Run("in a watch of an engaged member", func(t *testing.T) {
		m := env.newMember(t, o, "panic-watch")
		m.volatiles(volatile("good"), "")
		e := m.join(t)
		m.volatiles(volatile("good"), volatile("panic"))
		m.waitForEnd(t, e)
		m.waitForMessage(t, message)
		m.volatiles(volatile("good"), "")
		wait.Eventually(t, func() error {
			if newest := m.newestEngagement(); newest.ctx.Err() != nil {
				return errors.New("the member is not engaged")
			}
			return nil
		})
	})

	neighbor.checkContinues(t, healthy)
}

func TestPanic_in_a_transform_function_ends_the_session(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	o := env.newOperator(t, "fleet-transforms", watchingVolatiles(t, func(object any) (any, error) {
		if v, is := object.(*Volatile); is && v.Name == "bad" {
			panic("on purpose")
		}
		return object, nil
	}))
	m := env.newMember(t, o, "panic-transform")
	m.volatiles(volatile("good"), volatile("bad"))
	m.createSecret(t, m.kubeconfig(t))
	m.waitForMessage(t, "the decoder panicked on the member's data")
	m.volatiles(volatile("good"), "")
	m.waitForConditions(t, summaryConnected)
}

// An object that a transform refuses would be missing in the cache.
func TestError_of_a_transform_function_ends_the_session(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	o := env.newOperator(t, "fleet-transform-errors", watchingVolatiles(t, func(object any) (any, error) {
		if v, is := object.(*Volatile); is && v.Name == "bad" {
			return nil, errors.New("it quotes the object")
		}
		return object, nil
	}))
	m := env.newMember(t, o, "error-of-transform")
	m.volatiles(volatile("good"), volatile("bad")) // the list has one, then the watch the other one
	m.createSecret(t, m.kubeconfig(t))
	m.waitForMessage(t, "an object of the member could not be transformed")
	waitForLogLine(t, "An object was not transformed", "cluster="+m.name, "it quotes the object")
	m.volatiles(volatile("good"), "")
	m.waitForConditions(t, summaryConnected)
}

func TestPanic_in_the_function_of_an_index_ends_the_session(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	setUp := watchingVolatiles(t, func(object any) (any, error) { return object, nil })
	o := env.newOperator(t, "fleet-index-panics", func(with *setup) {
		setUp(with)
		with.addIndexes = func(p *clusters.Provider) error {
			return p.IndexField(ctx, &Volatile{}, "panics", func(object client.Object) []string {
				if object.GetName() == "bad" {
					panic("on purpose")
				}
				return nil
			})
		}
	})
	m := env.newMember(t, o, "panic-index")
	// The index is asked again when the object is deleted.
	m.volatiles(volatile("good"), volatile("bad")+"}\n"+`{"type": "DELETED", "object": `+volatile("bad"))
	m.createSecret(t, m.kubeconfig(t))
	m.waitForMessage(t, "the decoder panicked on the member's data")
	m.volatiles(volatile("good"), "")
	m.waitForConditions(t, summaryConnected)
}
