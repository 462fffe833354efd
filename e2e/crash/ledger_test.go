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

// intent is what the user wants of an AppService at one generation.
type intent struct {
	at         time.Time
	app        types.UID
	generation int64
	deleted    bool
	replicas   int32
	ports      bool
	clusters   []string
}

// loss is an object or replicas that a request of the operator removed from a member.
type loss struct {
	request

	deleted       bool        // an object; else replicas
	object        objectState // before the request
	replicasAfter int32
}

func (l loss) String() string {
	if l.deleted {
		return l.request.String()
	}
	return fmt.Sprintf("%s scales down from %d to %d", l.request, l.object.replicas, l.replicasAfter)
}

// objectState is the state of an object on a member.
type objectState struct {
	present    bool
	app        types.UID // of its AppService, from its annotations
	generation int64     // of its AppService when it was last applied
	replicas   int32
}

// ledger records the losses of the members and the intents of the user. It is safe for concurrent
// use.
type ledger struct {
	mu      sync.Mutex
	losses  []loss
	intents []intent
}

// graceTime is how long after the next edit an intent still explains a request.
const graceTime = 5 * time.Second

func (l *ledger) addIntent(i intent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.intents = append(l.intents, i)
}

// record records what a member lost by a request, if anything.
func (l *ledger) record(r request, before, after objectState) {
	succeeded := r.code >= http.StatusOK && r.code < http.StatusMultipleChoices
	if r.cluster == hubName || !succeeded {
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

// figures are the totals of a ledger.
type figures struct {
	Deletions, ScaleDowns int
	Untraced              []string
}

func (l *ledger) figures() figures {
	l.mu.Lock()
	defer l.mu.Unlock()
	var sum figures
	for _, lost := range l.losses {
		if lost.deleted {
			sum.Deletions++
		} else {
			sum.ScaleDowns++
		}
		if _, traced := trace(lost, l.intents); !traced {
			sum.Untraced = append(sum.Untraced, lost.String())
		}
	}
	return sum
}

// trace returns the intent that explains a loss, and false if there is none.
func trace(lost loss, intents []intent) (intent, bool) {
	for _, i := range intents {
		if lost.object.present && i.app == lost.object.app && i.isCurrent(lost.at, intents) && i.explains(lost) {
			return i, true
		}
	}
	return intent{}, false
}

// isCurrent reports whether the intent was the user's last one at a time, or until graceTime before.
func (i intent) isCurrent(at time.Time, intents []intent) bool {
	return !i.at.After(at) && !slices.ContainsFunc(intents, func(next intent) bool {
		return next.app == i.app && next.generation > i.generation && next.at.Add(graceTime).Before(at)
	})
}

// explains reports whether the intent asks for the loss.
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

// kinds are the kinds of objects that an intent can explain the loss of.
var kinds = map[string]schema.GroupVersionKind{
	"deployments": {Group: "apps", Version: "v1", Kind: "Deployment"},
	"services":    {Version: "v1", Kind: "Service"},
}

// readObject reads the object of a request. An object that cannot be read is not present.
func readObject(from client.Reader, r request) objectState {
	kind, known := kinds[r.resource]
	if !known || r.name == "" {
		return objectState{}
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	if err := from.Get(context.Background(), client.ObjectKey{Namespace: r.namespace, Name: r.name}, object); err != nil {
		return objectState{}
	}
	annotations := object.GetAnnotations()
	generation, _ := strconv.ParseInt(annotations[v1alpha1.AnnotationGeneration], 10, 64) // 0 if missing: every intent is newer
	replicas, _, _ := unstructured.NestedInt64(object.Object, "spec", "replicas")         // a Service has none
	return objectState{present: true, app: types.UID(annotations[v1alpha1.AnnotationUID]), generation: generation, replicas: int32(replicas)}
}
