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

// maxRequests is the maximum number of requests that one reconciliation records.
const maxRequests = 64

// Attributes of the span of a request. They are attributes of the OpenTelemetry conventions that
// contain no address.
const (
	methodKey = attribute.Key("http.request.method")
	statusKey = attribute.Key("http.response.status_code")
)

// Transport returns a round tripper that records the requests of each [Reconcile], from sending the
// request until the response headers arrive. It records the method and the resource, and never an
// address, a query, a header or a body.
func Transport(next http.RoundTripper) http.RoundTripper { return &transport{next} }

type transport struct{ next http.RoundTripper }

// RoundTrip sends the request and records it.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	record := FromContext(request.Context())
	if record == nil {
		return t.next.RoundTrip(request)
	}
	s := sentRequest{method: request.Method, path: request.URL.Path, startTime: time.Now()}
	response, err := t.next.RoundTrip(request)
	s.endTime, s.err = time.Now(), err
	if err == nil {
		s.status = response.StatusCode
	}
	record.addRequest(s)
	return response, err
}

// WrappedRoundTripper lets client-go find the transport below.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// sentRequest is a request and its result.
type sentRequest struct {
	method, path       string
	startTime, endTime time.Time
	status             int // 0 without a response
	err                error
}

func (s sentRequest) isWrite() bool { return s.method != http.MethodGet }

// isRefused reports whether the server refused the request. A read of an object that does not exist
// is not refused.
func (s sentRequest) isRefused() bool {
	return s.status >= http.StatusBadRequest && (s.isWrite() || s.status != http.StatusNotFound)
}

// resourcePath matches the end of the path of a request to an API server. A proxy may add a prefix.
var resourcePath = regexp.MustCompile(`/(?:api|apis/[^/]+)/v[0-9][a-z0-9]*(?:/namespaces/[^/]+)?/([a-z]+)(?:/[^/]+)?(/[a-z]+)?$`)

// name returns the method, and the resource with its subresource: PATCH appservices/status.
func (s sentRequest) name() string {
	match := resourcePath.FindStringSubmatch(s.path)
	if match == nil {
		return s.method
	}
	return s.method + " " + match[1] + match[2]
}

// emitSpan emits the span of the request.
func (s sentRequest) emitSpan(ctx context.Context, tracer trace.Tracer) {
	_, span := tracer.Start(ctx, s.name(), trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(s.startTime), trace.WithAttributes(methodKey.String(s.method)))
	defer span.End(trace.WithTimestamp(s.endTime))
	if s.status != 0 {
		span.SetAttributes(statusKey.Int(s.status))
	}
	switch {
	case s.err != nil:
		span.SetStatus(codes.Error, requestFailure(s.err))
	case s.isRefused():
		span.SetStatus(codes.Error, "")
	}
}
