package crash

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// intent is what the user said of an AppService at one generation.
type intent struct {
	at         time.Time
	app        types.UID
	generation int64
	deleted    bool
	replicas   int32
	ports      bool
	clusters   []string
}

// loss is something that a member lost by a request of the operator: an object, or replicas.
type loss struct {
	request

	deleted       bool // the object; else replicas
	object        held // before
	replicasAfter int32
}

func (l loss) String() string {
	if l.deleted {
		return l.request.String()
	}
	return fmt.Sprintf("%s lowers the replicas from %d to %d", l.request, l.object.replicas, l.replicasAfter)
}

// held is what the ledger knows of an object on a member.
type held struct {
	present    bool
	app        types.UID // the AppService that it belongs to by its marks
	generation int64     // that it was last applied for
	replicas   int32
}

// ledger has all that the members lost, and all that the user meant. It is safe for concurrent use.
type ledger struct {
	mu      sync.Mutex
	losses  []loss
	intents []intent
}

// superseded is how long after the next edit what an intent asked for may still be sent.
const superseded = 5 * time.Second

func (l *ledger) declare(i intent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.intents = append(l.intents, i)
}

// enter notes what was lost by a request that was sent to its end, if anything was.
func (l *ledger) enter(r request, before, after held) {
	done := r.code >= http.StatusOK && r.code < http.StatusMultipleChoices
	if r.cluster == hubName || !done {
		return
	}
	lost := loss{request: r, deleted: r.verb == http.MethodDelete, object: before, replicasAfter: after.replicas}
	if !lost.deleted && (!before.present || !after.present || after.replicas >= before.replicas) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.losses = append(l.losses, lost)
}

// figures are the ledger's sums.
type figures struct {
	Deletes, Lowered int
	Untraced         []string
}

func (l *ledger) figures() figures {
	l.mu.Lock()
	defer l.mu.Unlock()
	var sum figures
	for _, lost := range l.losses {
		if lost.deleted {
			sum.Deletes++
		} else {
			sum.Lowered++
		}
		if _, traced := trace(lost, l.intents); !traced {
			sum.Untraced = append(sum.Untraced, lost.String())
		}
	}
	return sum
}

// trace returns the intent that a loss is due to.
func trace(lost loss, intents []intent) (intent, bool) {
	for _, i := range intents {
		if lost.object.present && i.app == lost.object.app && i.current(lost.at, intents) && i.explains(lost) {
			return i, true
		}
	}
	return intent{}, false
}

// current tells whether the intent was the user's last word at a time, or until a moment before.
func (i intent) current(at time.Time, intents []intent) bool {
	return !i.at.After(at) && !slices.ContainsFunc(intents, func(next intent) bool {
		return next.app == i.app && next.generation > i.generation && next.at.Add(superseded).Before(at)
	})
}

// explains tells whether the intent asks for what was lost.
func (i intent) explains(lost loss) bool {
	workload := lost.resource == "deployments" || lost.resource == "services"
	switch {
	case !workload || i.generation < lost.object.generation:
		return false
	case lost.deleted && (i.deleted || !slices.Contains(i.clusters, lost.cluster)):
		return true
	case lost.deleted:
		return lost.resource == "services" && !i.ports
	}
	return lost.resource == "deployments" && !i.deleted && i.replicas == lost.replicasAfter
}

// kinds are those whose objects a member may lose; of others nothing is known, so no intent explains their loss.
var kinds = map[string]schema.GroupVersionKind{
	"deployments": {Group: "apps", Version: "v1", Kind: "Deployment"},
	"services":    {Version: "v1", Kind: "Service"},
}

// look reads the object that a request is about. What cannot be read is not present.
func look(from client.Reader, r request) held {
	kind, known := kinds[r.resource]
	if !known || r.name == "" {
		return held{}
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	if err := from.Get(context.Background(), client.ObjectKey{Namespace: r.namespace, Name: r.name}, object); err != nil {
		return held{}
	}
	marks := object.GetAnnotations()
	generation, _ := strconv.ParseInt(marks[v1alpha1.AnnotationGeneration], 10, 64) // 0, which every intent is newer than
	replicas, _, _ := unstructured.NestedInt64(object.Object, "spec", "replicas")   // a Service has none
	return held{present: true, app: types.UID(marks[v1alpha1.AnnotationUID]), generation: generation, replicas: int32(replicas)}
}
