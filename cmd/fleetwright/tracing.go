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

// flushTimeout bounds how long the end waits for the collector to take the last spans.
const flushTimeout = 5 * time.Second

// tracesPath is where a collector takes spans.
const tracesPath = "/v1/traces"

// traces say where spans are sent to, and which.
type traces struct {
	endpoint string // none: there is nothing but this struct
	sample   float64
}

// check says what nothing can be traced with.
func (t *traces) check() error {
	if !(t.sample > 0 && t.sample <= 1) {
		return fmt.Errorf("--tracing-sample %v: want more than 0, and at most 1", t.sample)
	}
	if t.endpoint == "" {
		return nil
	}
	at, err := url.Parse(t.endpoint)
	switch {
	case err != nil: // which quotes what may be a password
		return errors.New("--tracing-endpoint: want a URL such as http://otel-collector:4318")
	case at.User != nil:
		return errors.New("--tracing-endpoint holds credentials: they belong in OTEL_EXPORTER_OTLP_HEADERS")
	case at.Scheme != "http" && at.Scheme != "https", at.Hostname() == "", at.RawQuery != "", at.Fragment != "":
		return fmt.Errorf("--tracing-endpoint %q: want a URL such as http://otel-collector:4318", t.endpoint)
	}
	return nil
}

// wrap notes the requests of reconciles; nil where nothing is traced.
func (t *traces) wrap() transport.WrapperFunc {
	if t.endpoint == "" {
		return nil
	}
	return tracing.Transport
}

// start begins to send spans, where the flag asks for it. What it returns sends the last ones, and takes no longer than the flushTimeout.
func (t *traces) start(ctx context.Context) (flush func(), err error) {
	if t.endpoint == "" {
		return func() {}, nil
	}
	otel.SetLogger(logr.Discard()) // it quotes headers that it cannot read, and they are secrets
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

// sampler decides by the trace's ID, so that all replicas decide the same of an edit. The parent of the spans of an edit is only made up: whether it is
// sampled says nothing.
func (t *traces) sampler() sdktrace.Sampler {
	share := sdktrace.TraceIDRatioBased(t.sample)
	return sdktrace.ParentBased(share, sdktrace.WithRemoteParentSampled(share), sdktrace.WithRemoteParentNotSampled(share))
}

// errorLogInterval is the least time between two lines of the log on spans that were lost.
const errorLogInterval = 10 * time.Minute

// rateLimitedErrorHandler logs what goes wrong with spans, but not each time: a collector may be away for long. It is safe for concurrent use.
type rateLimitedErrorHandler struct {
	log logr.Logger

	mu    sync.Mutex
	last  time.Time
	since int
}

// Handle logs an error, or counts it.
func (s *rateLimitedErrorHandler) Handle(err error) {
	if err == nil {
		return
	}
	if times := s.due(time.Now()); times > 0 {
		s.log.Info("Traces are lost", "why", err.Error(), "times", times)
	}
}

// due counts an error, and returns how many there were since it was last logged; 0 when it is too soon for another line.
func (s *rateLimitedErrorHandler) due(now time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.since++
	if !s.last.IsZero() && now.Sub(s.last) < errorLogInterval {
		return 0
	}
	times := s.since
	s.last, s.since = now, 0
	return times
}
