package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"k8s.io/client-go/transport"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/fleetwright/fleetwright/controllers/tracing"
)

// flushTimeout limits how long the shutdown waits for the collector to accept the last spans.
const flushTimeout = 5 * time.Second

// tracesPath is the path at which a collector accepts spans.
const tracesPath = "/v1/traces"

// traces configures where spans are sent, and which share of the traces.
type traces struct {
	endpoint string // empty: tracing is disabled
	sample   float64
}

// check returns an error if the flags are invalid.
func (t *traces) check() error {
	if !(t.sample > 0 && t.sample <= 1) {
		return fmt.Errorf("--tracing-sample %v: want more than 0, and at most 1", t.sample)
	}
	if t.endpoint == "" {
		return nil
	}
	at, err := url.Parse(t.endpoint)
	switch {
	case err != nil: // do not wrap it: it quotes the URL, which may contain a password
		return errors.New("--tracing-endpoint: want a URL such as http://otel-collector:4318")
	case at.User != nil:
		return errors.New("--tracing-endpoint contains credentials: put them in OTEL_EXPORTER_OTLP_HEADERS")
	case at.Scheme != "http" && at.Scheme != "https", at.Hostname() == "", at.RawQuery != "", at.Fragment != "":
		return fmt.Errorf("--tracing-endpoint %q: want a URL such as http://otel-collector:4318", t.endpoint)
	}
	return nil
}

// wrap returns a wrapper that records the requests of reconciliations, or nil if tracing is
// disabled.
func (t *traces) wrap() transport.WrapperFunc {
	if t.endpoint == "" {
		return nil
	}
	return tracing.Transport
}

// start starts to send spans if tracing is enabled. The returned function sends the last spans
// within flushTimeout.
func (t *traces) start(ctx context.Context) (flush func(), err error) {
	if t.endpoint == "" {
		return func() {}, nil
	}
	otel.SetLogger(logr.Discard()) // it quotes malformed headers, which are secrets
	otel.SetErrorHandler(&rateLimitedErrorHandler{log: ctrl.Log.WithName("tracing")})
	who, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "fleetwright"), attribute.String("service.version", version)),
		resource.WithTelemetrySDK(), resource.WithHost(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	endpoint := strings.TrimSuffix(strings.TrimSuffix(t.endpoint, "/"), tracesPath)
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(endpoint+tracesPath)) // which dials nothing yet
	if err != nil {
		return nil, fmt.Errorf("send traces: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(t.sampler()), sdktrace.WithResource(who), sdktrace.WithBatcher(exporter))
	otel.SetTracerProvider(provider)
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer cancel()
		otel.Handle(provider.Shutdown(ctx))
	}, nil
}

// sampler samples by trace ID, so that all replicas sample the same edits. It ignores the sampled
// flag of the parent, because the parent of an edit's spans is synthetic.
func (t *traces) sampler() sdktrace.Sampler {
	share := sdktrace.TraceIDRatioBased(t.sample)
	return sdktrace.ParentBased(share, sdktrace.WithRemoteParentSampled(share), sdktrace.WithRemoteParentNotSampled(share))
}

// errorLogInterval is the minimum time between two log lines about lost spans.
const errorLogInterval = 10 * time.Minute

// rateLimitedErrorHandler logs errors of the exporter at a limited rate, because a collector may be
// unreachable for long. It is safe for concurrent use.
type rateLimitedErrorHandler struct {
	log logr.Logger

	mu      sync.Mutex
	lastLog time.Time
	errors  int // since the last log line
}

// Handle logs or counts an error.
func (s *rateLimitedErrorHandler) Handle(err error) {
	if err == nil {
		return
	}
	if count := s.countToLog(time.Now()); count > 0 {
		s.log.Info("Lost spans", "error", err.Error(), "count", count)
	}
}

// countToLog counts an error, and returns the number of errors since the last log line; 0 if it is
// too early for another line.
func (s *rateLimitedErrorHandler) countToLog(now time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errors++
	if !s.lastLog.IsZero() && now.Sub(s.lastLog) < errorLogInterval {
		return 0
	}
	count := s.errors
	s.lastLog, s.errors = now, 0
	return count
}
