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

// scope is the instrumentation scope of the spans.
const scope = "github.com/fleetwright/fleetwright"

// Attributes of the span of a reconciliation.
const (
	namespaceKey  = attribute.Key("fleetwright.namespace")
	nameKey       = attribute.Key("fleetwright.name")
	generationKey = attribute.Key("fleetwright.generation")
	clusterKey    = attribute.Key("fleetwright.cluster")
	phaseKey      = attribute.Key("fleetwright.phase")
	reasonKey     = attribute.Key("fleetwright.reason")
	sentKey       = attribute.Key("fleetwright.sent")
)

// Work describes one reconciliation.
type Work struct {
	// Name is the name of the span.
	Name string
	// App is the AppService in the version that was read.
	App metav1.Object
	// Cluster is the member; empty for work on the hub.
	Cluster string
	// Settled reports whether the generation was Ready before. The work then no longer belongs to
	// the edit.
	Settled bool
}

// Reconcile records one reconciliation and emits a span on End if it changed something, failed or
// had a new outcome. It is safe for concurrent use. A nil Reconcile records nothing.
type Reconcile struct {
	work      Work
	startTime time.Time

	mu            sync.Mutex
	requests      []sentRequest
	hasOutcome    bool
	phase, reason string
}

// contextKey is the key of a Reconcile in a context.
type contextKey struct{}

// Start starts to record a reconciliation. Requests that are sent with the returned context become
// child spans.
func Start(ctx context.Context, work Work) (context.Context, *Reconcile) {
	r := &Reconcile{work: work, startTime: time.Now()}
	return context.WithValue(ctx, contextKey{}, r), r
}

// FromContext returns the Reconcile of the context, or nil.
func FromContext(ctx context.Context) *Reconcile {
	r, _ := ctx.Value(contextKey{}).(*Reconcile)
	return r
}

// SetOutcome sets the outcome of the reconciliation. Callers set it only if it differs from the
// previous outcome. The phase may be empty.
func (r *Reconcile) SetOutcome(phase, reason string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hasOutcome, r.phase, r.reason = true, phase, reason
}

// addRequest records a request, up to maxRequests.
func (r *Reconcile) addRequest(request sentRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.requests) < maxRequests {
		r.requests = append(r.requests, request)
	}
}

// End emits the spans if the reconciliation changed something, failed or had a new outcome.
func (r *Reconcile) End(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && !r.hasOutcome && !slices.ContainsFunc(r.requests, sentRequest.isWrite) {
		return
	}
	tracer := otel.Tracer(scope)
	ctx, span := tracer.Start(r.parent(), r.work.Name, r.startOptions()...)
	defer span.End()
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(r.attributes()...)
	if err != nil {
		span.SetStatus(codes.Error, safeMessage(err))
	}
	for _, request := range r.requests {
		request.emitSpan(ctx, tracer)
	}
}

// parent returns a context with the parent span, which is the edit. Settled work has no parent.
func (r *Reconcile) parent() context.Context {
	if r.work.Settled {
		return context.Background() // a separate trace
	}
	return trace.ContextWithRemoteSpanContext(context.Background(), r.editTrace())
}

// editTrace returns the span context of the generation that is reconciled.
func (r *Reconcile) editTrace() trace.SpanContext {
	return TraceForGeneration(r.work.App.GetUID(), r.work.App.GetGeneration())
}

func (r *Reconcile) startOptions() []trace.SpanStartOption {
	options := []trace.SpanStartOption{trace.WithTimestamp(r.startTime)}
	if r.work.Settled {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: r.editTrace()}))
	}
	return options
}

func (r *Reconcile) attributes() []attribute.KeyValue {
	app := r.work.App
	attributes := []attribute.KeyValue{namespaceKey.String(app.GetNamespace()), nameKey.String(app.GetName()), generationKey.Int64(app.GetGeneration())}
	for key, value := range map[attribute.Key]string{clusterKey: r.work.Cluster, phaseKey: r.phase, reasonKey: r.reason} {
		if value != "" {
			attributes = append(attributes, key.String(value))
		}
	}
	var writes []string
	for _, request := range r.requests {
		if request.isWrite() && !slices.Contains(writes, request.name()) {
			writes = append(writes, request.name())
		}
	}
	if len(writes) > 0 {
		attributes = append(attributes, sentKey.StringSlice(writes))
	}
	return attributes
}

// TraceForGeneration returns the span context that is the parent of all spans of a generation of an
// AppService. The trace ID is the beginning of the SHA-256 of "UID/GENERATION", so that it can be
// computed in a shell. Its sampled flag is always set, so a sampler must decide by the trace ID.
func TraceForGeneration(app types.UID, generation int64) trace.SpanContext {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", app, generation))
	c := trace.SpanContextConfig{TraceFlags: trace.FlagsSampled, Remote: true}
	copy(c.SpanID[:], sum[copy(c.TraceID[:], sum[:]):])
	return trace.NewSpanContext(c)
}
