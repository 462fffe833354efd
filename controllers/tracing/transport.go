package tracing

import (
	"context"
	"net/http"
	"regexp"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// maxRequests is how many requests of one reconcile are told.
const maxRequests = 64

// Attributes of a request's span: those of OpenTelemetry's conventions that hold no address.
const (
	methodKey = attribute.Key("http.request.method")
	statusKey = attribute.Key("http.response.status_code")
)

// Transport notes the requests of each [Reconcile], from the sending until the answer begins. Nothing of a request is told but its method and
// its kind: no address, no query, no header and no body.
func Transport(next http.RoundTripper) http.RoundTripper { return &transport{next} }

type transport struct{ next http.RoundTripper }

// RoundTrip sends the request.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	of := From(request.Context())
	if of == nil {
		return t.next.RoundTrip(request)
	}
	s := sent{method: request.Method, path: request.URL.Path, begun: time.Now()}
	response, err := t.next.RoundTrip(request)
	s.ended, s.err = time.Now(), err
	if err == nil {
		s.status = response.StatusCode
	}
	of.add(s)
	return response, err
}

// WrappedRoundTripper lets client-go find the transport below.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// sent is a request that was sent.
type sent struct {
	method, path string
	begun, ended time.Time
	status       int // 0 without an answer
	err          error
}

func (s sent) changes() bool { return s.method != http.MethodGet }

// failed tells of an answer that says no. That there is no such object is an answer like another.
func (s sent) failed() bool {
	return s.status >= http.StatusBadRequest && (s.changes() || s.status != http.StatusNotFound)
}

// resourcePath is the end of the path of a request to an API server: what is before it may be a proxy's.
var resourcePath = regexp.MustCompile(`/(?:api|apis/[^/]+)/v[0-9][a-z0-9]*(?:/namespaces/[^/]+)?/([a-z]+)(?:/[^/]+)?(/[a-z]+)?$`)

// name is the method, and the resource with its subresource: PATCH appservices/status.
func (s sent) name() string {
	found := resourcePath.FindStringSubmatch(s.path)
	if found == nil {
		return s.method
	}
	return s.method + " " + found[1] + found[2]
}

// tell makes a span of it.
func (s sent) tell(ctx context.Context, tracer trace.Tracer) {
	_, span := tracer.Start(ctx, s.name(), trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(s.begun), trace.WithAttributes(methodKey.String(s.method)))
	defer span.End(trace.WithTimestamp(s.ended))
	if s.status != 0 {
		span.SetAttributes(statusKey.Int(s.status))
	}
	switch {
	case s.err != nil:
		span.SetStatus(codes.Error, broken(s.err))
	case s.failed():
		span.SetStatus(codes.Error, "")
	}
}
