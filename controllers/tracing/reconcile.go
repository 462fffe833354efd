package tracing

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// scope names who makes the spans.
const scope = "github.com/fleetwright/fleetwright"

// Attributes of a reconcile's span.
const (
	namespaceKey  = attribute.Key("fleetwright.namespace")
	nameKey       = attribute.Key("fleetwright.name")
	generationKey = attribute.Key("fleetwright.generation")
	clusterKey    = attribute.Key("fleetwright.cluster")
	phaseKey      = attribute.Key("fleetwright.phase")
	reasonKey     = attribute.Key("fleetwright.reason")
	sentKey       = attribute.Key("fleetwright.sent")
)

// Work is what one reconcile does.
type Work struct {
	// Name is that of the span.
	Name string
	// App is the AppService, as it was read.
	App metav1.Object
	// Cluster is the member that it is done on, if it is.
	Cluster string
	// Settled tells that the generation was Ready before: it is no longer the edit that something is done for.
	Settled bool
}

// Reconcile is what one did, of which a span is made at its end when there is something to tell. It is safe for concurrent use; a nil one
// takes nothing.
type Reconcile struct {
	work  Work
	begun time.Time

	mu            sync.Mutex
	requests      []sent
	news          bool
	phase, reason string
}

// key is that of a Reconcile in a context.
type key struct{}

// Begin begins a reconcile. The requests that are sent with the context are told below it.
func Begin(ctx context.Context, work Work) (context.Context, *Reconcile) {
	r := &Reconcile{work: work, begun: time.Now()}
	return context.WithValue(ctx, key{}, r), r
}

// From returns the reconcile that the context is of, or nil.
func From(ctx context.Context) *Reconcile {
	r, _ := ctx.Value(key{}).(*Reconcile)
	return r
}

// Came takes what the reconcile came to, when that is not what was known before. The phase may be empty.
func (r *Reconcile) Came(phase, reason string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.news, r.phase, r.reason = true, phase, reason
}

// add notes a request.
func (r *Reconcile) add(request sent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.requests) < maxRequests {
		r.requests = append(r.requests, request)
	}
}

// End makes the spans, when there is something to tell.
func (r *Reconcile) End(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && !r.news && !slices.ContainsFunc(r.requests, sent.changes) {
		return
	}
	tracer := otel.Tracer(scope)
	ctx, span := tracer.Start(r.parent(), r.work.Name, r.options()...)
	defer span.End()
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(r.attributes()...)
	if err != nil {
		span.SetStatus(codes.Error, message(err))
	}
	for _, request := range r.requests {
		request.tell(ctx, tracer)
	}
}

// parent is where the span belongs.
func (r *Reconcile) parent() context.Context {
	if r.work.Settled {
		return context.Background() // a trace of its own
	}
	return trace.ContextWithRemoteSpanContext(context.Background(), r.edit())
}

func (r *Reconcile) edit() trace.SpanContext {
	return Edit(r.work.App.GetUID(), r.work.App.GetGeneration())
}

func (r *Reconcile) options() []trace.SpanStartOption {
	options := []trace.SpanStartOption{trace.WithTimestamp(r.begun)}
	if r.work.Settled {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: r.edit()}))
	}
	return options
}

func (r *Reconcile) attributes() []attribute.KeyValue {
	app := r.work.App
	all := []attribute.KeyValue{namespaceKey.String(app.GetNamespace()), nameKey.String(app.GetName()), generationKey.Int64(app.GetGeneration())}
	for key, value := range map[attribute.Key]string{clusterKey: r.work.Cluster, phaseKey: r.phase, reasonKey: r.reason} {
		if value != "" {
			all = append(all, key.String(value))
		}
	}
	var changes []string
	for _, request := range r.requests {
		if request.changes() && !slices.Contains(changes, request.name()) {
			changes = append(changes, request.name())
		}
	}
	if len(changes) > 0 {
		all = append(all, sentKey.StringSlice(changes))
	}
	return all
}

// Edit is what all spans of a generation of an AppService hang off. The trace's ID is the beginning of the SHA-256 of "UID/GENERATION", so
// that it can be made in a shell. It says of itself that it is sampled, but the sampler has to go by the ID: nobody has decided yet.
func Edit(app types.UID, generation int64) trace.SpanContext {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", app, generation))
	c := trace.SpanContextConfig{TraceFlags: trace.FlagsSampled, Remote: true}
	copy(c.SpanID[:], sum[copy(c.TraceID[:], sum[:]):])
	return trace.NewSpanContext(c)
}
