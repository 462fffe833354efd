// Package ledger records what the operator removes from members, and traces each removal to an intent
// of the user. The operator's requests must pass through a proxy, which calls [Describe] for each of
// them, reads the object before and after a write with [ReadObject], and records the write.
//
// A removal is the DELETE of an object on a member, or a write that scales a Deployment down there.
// Each must have an intent, which the tests declare: the AppService of the object, by UID, is deleted;
// or, at a generation that is not older than that of the object, it does not include this cluster,
// has no ports (for a Service), or has that number of replicas. A copy of a ConfigMap or a Secret may be
// deleted while the Deployment that owns it does not name it.
package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/framework"
)

// Intent is what the user wants of an AppService at one generation.
type Intent struct {
	At         time.Time
	App        types.UID
	Generation int64
	Deleted    bool
	Replicas   int32
	Ports      bool
	Clusters   []string
}

// loss is an object or replicas that a request of the operator removed from a member.
type loss struct {
	Request

	Deleted       bool        // an object; else replicas
	Object        ObjectState // before the request
	ReplicasAfter int32
}

func (l loss) String() string {
	if l.Deleted {
		return l.Request.String()
	}
	return fmt.Sprintf("%s scales down from %d to %d", l.Request, l.Object.Replicas, l.ReplicasAfter)
}

// ObjectState is the state of an object on a member.
type ObjectState struct {
	Present    bool
	App        types.UID // of its AppService, from its annotations
	Generation int64     // of its AppService when it was last applied
	Replicas   int32
	// InUse is set for a copy of a ConfigMap or a Secret if its owner names it.
	InUse bool
}

// Ledger records the losses of the members and the intents of the user. It is safe for concurrent
// use.
type Ledger struct {
	mu     sync.Mutex
	losses []loss
	wishes
}

// wishes are what the operator may know of the user's intents.
type wishes struct {
	intents []Intent
	hidden  []interval
}

// interval is a time in which the operator may not see the edits of the user.
type interval struct{ begin, end time.Time }

// graceTime is how long after the next edit an intent still explains a request.
const graceTime = 5 * time.Second

// HideEdits declares a time in which the operator may not see the edits of the user, because it
// cannot reach the hub. An intent explains a request until the operator can see the next edit.
func (l *Ledger) HideEdits(begin, end time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hidden = append(l.hidden, interval{begin, end})
}

// AddIntent declares an intent. It is called before the request of the user.
func (l *Ledger) AddIntent(i Intent) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.intents = append(l.intents, i)
}

// Record records what a member lost by a request, if anything.
func (l *Ledger) Record(r Request, before, after ObjectState) {
	succeeded := r.Code >= http.StatusOK && r.Code < http.StatusMultipleChoices
	if r.Cluster == framework.HubName || !succeeded {
		return
	}
	lost := loss{Request: r, Deleted: r.Verb == http.MethodDelete, Object: before, ReplicasAfter: after.Replicas}
	if !lost.Deleted && (!before.Present || !after.Present || after.Replicas >= before.Replicas) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.losses = append(l.losses, lost)
}

// Figures are the totals of a ledger.
type Figures struct {
	Deletions, ScaleDowns int
	Untraced              []string
}

// Figures returns the totals, with the losses that no intent explains.
func (l *Ledger) Figures() Figures {
	l.mu.Lock()
	defer l.mu.Unlock()
	var sum Figures
	for _, lost := range l.losses {
		if lost.Deleted {
			sum.Deletions++
		} else {
			sum.ScaleDowns++
		}
		if !l.isTraced(lost) {
			sum.Untraced = append(sum.Untraced, lost.String())
		}
	}
	return sum
}

// isTraced reports whether a loss is explained.
func (w wishes) isTraced(lost loss) bool {
	if copies[lost.Resource] != "" {
		return lost.Object.Present && !lost.Object.InUse
	}
	_, traced := w.trace(lost)
	return traced
}

// trace returns the intent that explains a loss, and false if there is none.
func (w wishes) trace(lost loss) (Intent, bool) {
	for _, i := range w.intents {
		if lost.Object.Present && i.App == lost.Object.App && w.isCurrent(i, lost.At) && i.explains(lost) {
			return i, true
		}
	}
	return Intent{}, false
}

// isCurrent reports whether the operator may take an intent for the user's last one at a time.
func (w wishes) isCurrent(i Intent, at time.Time) bool {
	return !i.At.After(at) && !slices.ContainsFunc(w.intents, func(next Intent) bool {
		return next.App == i.App && next.Generation > i.Generation && w.seen(next.At).Before(at)
	})
}

// seen returns when the operator must have seen an edit that was made at a time.
func (w wishes) seen(edited time.Time) time.Time {
	seen := edited.Add(graceTime)
	for _, h := range w.hidden {
		if h.begin.Before(seen) && h.end.After(seen) {
			seen = h.end
		}
	}
	return seen
}

// explains reports whether the intent asks for the loss.
func (i Intent) explains(lost loss) bool {
	workload := lost.Resource == "deployments" || lost.Resource == "services"
	switch {
	case !workload || i.Generation < lost.Object.Generation:
		return false
	case lost.Deleted && (i.Deleted || !slices.Contains(i.Clusters, lost.Cluster)):
		return true
	case lost.Deleted:
		return lost.Resource == "services" && !i.Ports
	}
	return lost.Resource == "deployments" && !i.Deleted && i.Replicas == lost.ReplicasAfter
}

// Kinds are the Kinds of objects that an intent can explain the loss of.
var Kinds = map[string]schema.GroupVersionKind{
	"deployments": {Group: "apps", Version: "v1", Kind: "Deployment"},
	"services":    {Version: "v1", Kind: "Service"},
}

// copies are the Kinds of what travels with an AppService.
var copies = map[string]string{"configmaps": "ConfigMap", "secrets": "Secret"}

// ReadObject reads the object of a request. An object that cannot be read is not present.
func ReadObject(from client.Reader, r Request) ObjectState {
	if kind := copies[r.Resource]; kind != "" && r.Name != "" {
		return readCopy(from, kind, r)
	}
	kind, known := Kinds[r.Resource]
	if !known || r.Name == "" {
		return ObjectState{}
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	if err := from.Get(context.Background(), client.ObjectKey{Namespace: r.Namespace, Name: r.Name}, object); err != nil {
		return ObjectState{}
	}
	annotations := object.GetAnnotations()
	generation, _ := strconv.ParseInt(annotations[v1alpha1.AnnotationGeneration], 10, 64) // 0 if missing: every intent is newer
	replicas, _, _ := unstructured.NestedInt64(object.Object, "spec", "replicas")         // a Service has none
	return ObjectState{Present: true, App: types.UID(annotations[v1alpha1.AnnotationUID]), Generation: generation, Replicas: int32(replicas)}
}

// readCopy reads a copy of a ConfigMap or a Secret, and whether the Deployment that owns it names it.
func readCopy(from client.Reader, kind string, r Request) ObjectState {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: kind})
	if err := from.Get(context.Background(), client.ObjectKey{Namespace: r.Namespace, Name: r.Name}, object); err != nil {
		return ObjectState{}
	}
	state := ObjectState{Present: true}
	for _, owner := range object.OwnerReferences {
		deployment := &unstructured.Unstructured{}
		deployment.SetGroupVersionKind(Kinds["deployments"])
		if err := from.Get(context.Background(), client.ObjectKey{Namespace: r.Namespace, Name: owner.Name}, deployment); err != nil || deployment.GetUID() != owner.UID {
			continue
		}
		template, _, _ := unstructured.NestedMap(deployment.Object, "spec", "template")
		encoded, err := json.Marshal(template)
		state.InUse = state.InUse || err != nil || strings.Contains(string(encoded), strconv.Quote(r.Name))
	}
	return state
}
