package tracing

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestTraceForGeneration(t *testing.T) {
	t.Run("is stable, and unique for each generation and AppService", func(t *testing.T) {
		seen := map[trace.TraceID]string{}
		for _, uid := range []string{"a", "b", "b/1"} {
			for generation := range int64(20) {
				of := fmt.Sprintf("%s, %d", uid, generation)
				edit := TraceForGeneration(types.UID(uid), generation)
				if !edit.IsValid() || !edit.IsRemote() || !edit.Equal(TraceForGeneration(types.UID(uid), generation)) {
					t.Errorf("%s: %+v", of, edit)
				}
				if other, found := seen[edit.TraceID()]; found {
					t.Errorf("%s has the trace of %s", of, other)
				}
				seen[edit.TraceID()] = of
			}
		}
	})
	t.Run("can be computed in a shell", func(t *testing.T) {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "printf %s/%s 9d0f3ae6-6a5b-4a0c-8a53-0d3f0f6d2c11 7 | sha256sum | cut -c1-32").Output()
		if err != nil {
			t.Skip(err)
		}
		if got, want := TraceForGeneration("9d0f3ae6-6a5b-4a0c-8a53-0d3f0f6d2c11", 7).TraceID().String(), strings.TrimSpace(string(out)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// fixture is a reconciliation whose requests go to a server that responds with the status in the
// path.
type fixture struct {
	*testing.T
	ended  *tracetest.InMemoryExporter
	server *httptest.Server
	client *http.Client
}

func newFixture(t *testing.T) *fixture {
	s := &fixture{T: t, ended: tracetest.NewInMemoryExporter()}
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSyncer(s.ended)))
	t.Cleanup(func() { otel.SetTracerProvider(noop.NewTracerProvider()) })
	s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var status int
		_, _ = fmt.Sscanf(r.URL.Path, "/%d/", &status)
		w.WriteHeader(status)
	}))
	t.Cleanup(s.server.Close)
	s.client = &http.Client{Transport: Transport(http.DefaultTransport)}
	return s
}

var app = &metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid", Generation: 3}

// reconcile records a reconciliation that sends requests, each "METHOD STATUS", and returns an
// error.
func (s *fixture) reconcile(work Work, err error, requests ...string) {
	s.Helper()
	work.Name, work.App = "deliver", app
	ctx, r := Start(s.Context(), work)
	for _, request := range requests {
		method, status, _ := strings.Cut(request, " ")
		sent, err := http.NewRequestWithContext(ctx, method, s.server.URL+"/"+status+"/apis/apps/v1/namespaces/shop/deployments/web?token=secret", http.NoBody)
		if err != nil {
			s.Fatal(err)
		}
		sent.Header.Set("Authorization", "Bearer secret")
		answer, err := s.client.Do(sent)
		if err != nil {
			s.Fatal(err)
		}
		_ = answer.Body.Close()
	}
	r.End(err)
}

// span has the properties of a span that the cases compare.
type span struct {
	Name, Message string
	Failed        bool
	Attributes    map[string]string
}

// spans returns the exported spans, with the span of the reconciliation first.
func (s *fixture) spans() []span {
	var all []span
	for _, ended := range s.ended.GetSpans() {
		made := span{Name: ended.Name, Message: ended.Status.Description, Failed: ended.Status.Code == codes.Error, Attributes: map[string]string{}}
		for _, a := range ended.Attributes {
			made.Attributes[string(a.Key)] = a.Value.String()
		}
		all = append(all, made)
		if ended.StartTime.IsZero() || ended.EndTime.Before(ended.StartTime) {
			s.Errorf("%s is from %s to %s", ended.Name, ended.StartTime, ended.EndTime)
		}
	}
	if len(all) > 0 {
		all = append(all[len(all)-1:], all[:len(all)-1]...)
	}
	return all
}

func (s *fixture) checkSpans(want ...span) {
	s.Helper()
	if diff := cmp.Diff(want, s.spans()); diff != "" {
		s.Errorf("-want +got:\n%s", diff)
	}
}

func attributes(pairs ...string) map[string]string {
	all := map[string]string{"fleetwright.namespace": "shop", "fleetwright.name": "web", "fleetwright.generation": "3"}
	for i := 0; i < len(pairs); i += 2 {
		all[pairs[i]] = pairs[i+1]
	}
	return all
}

func requestSpan(method, status string) span {
	return span{Name: method + " deployments", Attributes: map[string]string{"http.request.method": method, "http.response.status_code": status}}
}

func TestReconcile(t *testing.T) {
	t.Run("that changes nothing emits no span, even after reads", func(t *testing.T) {
		s := newFixture(t)
		s.reconcile(Work{}, nil)
		s.reconcile(Work{}, nil, "GET 200", "GET 404")
		s.checkSpans()
	})
	t.Run("that changes something emits a span for each request", func(t *testing.T) {
		s := newFixture(t)
		s.reconcile(Work{Cluster: "east"}, nil, "GET 404", "PATCH 201", "PATCH 200")
		s.checkSpans(
			span{Name: "deliver", Attributes: attributes("fleetwright.cluster", "east", "fleetwright.sent", `["PATCH deployments"]`)},
			requestSpan("GET", "404"), requestSpan("PATCH", "201"), requestSpan("PATCH", "200"),
		)
	})
	t.Run("with an outcome emits a span", func(t *testing.T) {
		s := newFixture(t)
		ctx, r := Start(t.Context(), Work{Name: "deliver", App: app})
		FromContext(ctx).SetOutcome("Failed", "ImagePullBackOff")
		r.End(nil)
		s.checkSpans(span{Name: "deliver", Attributes: attributes("fleetwright.phase", "Failed", "fleetwright.reason", "ImagePullBackOff")})
	})
	t.Run("that fails has the error in its span", func(t *testing.T) {
		s := newFixture(t)
		s.reconcile(Work{}, errors.New("out of luck"), "GET 500")
		refused := requestSpan("GET", "500")
		refused.Failed = true
		s.checkSpans(span{Name: "deliver", Failed: true, Message: "out of luck", Attributes: attributes()}, refused)
	})
	t.Run("of an edit belongs to its trace, and settled work to a linked trace", func(t *testing.T) {
		s := newFixture(t)
		s.reconcile(Work{}, nil, "PATCH 200")
		s.reconcile(Work{Settled: true}, nil, "PATCH 200")
		edit, all := TraceForGeneration("uid", 3), s.ended.GetSpans()
		for i, within := range []bool{true, true, false, false} {
			if got := all[i].SpanContext.TraceID() == edit.TraceID(); got != within {
				t.Errorf("%d, %s: within the edit's trace: %v", i, all[i].Name, got)
			}
		}
		if first := all[1]; !first.Parent.Equal(edit) || len(first.Links) != 0 {
			t.Errorf("the first is under %v, with links %v", first.Parent, first.Links)
		}
		if later := all[3]; later.Parent.IsValid() || len(later.Links) != 1 || !later.Links[0].SpanContext.Equal(edit) {
			t.Errorf("the later is under %v, with links %v", later.Parent, later.Links)
		}
		if all[2].SpanContext.TraceID() != all[3].SpanContext.TraceID() {
			t.Error("a request is in another trace than its reconciliation")
		}
	})
	t.Run("records a limited number of requests", func(t *testing.T) {
		s := newFixture(t)
		many := make([]string, maxRequests+10)
		for i := range many {
			many[i] = "PATCH 200"
		}
		s.reconcile(Work{}, nil, many...)
		if got := len(s.spans()); got != maxRequests+1 {
			t.Errorf("%d spans", got)
		}
	})
	t.Run("that is nil records nothing", func(t *testing.T) {
		s := newFixture(t)
		FromContext(t.Context()).SetOutcome("Ready", "")
		answer, err := s.client.Get(s.server.URL + "/200/api/v1/pods")
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		s.checkSpans()
	})
	t.Run("costs two allocations without a TracerProvider", func(t *testing.T) {
		ctx := t.Context()
		if got := testing.AllocsPerRun(100, func() {
			_, r := Start(ctx, Work{Name: "deliver", App: app, Cluster: "east"})
			r.End(nil)
		}); got > 2 {
			t.Errorf("%v allocations", got)
		}
	})
}

func TestRequestName(t *testing.T) {
	for path, want := range map[string]string{
		"/apis/apps/v1/namespaces/shop/deployments/web":                             "PATCH deployments",
		"/k8s/clusters/c-1/apis/apps/v1/namespaces/shop/deployments/web":            "PATCH deployments",
		"/apis/fleetwright.dev/v1alpha1/namespaces/shop/appservices/web/status":     "PATCH appservices/status",
		"/apis/fleetwright.dev/v1alpha1/memberclusters/east/status":                 "PATCH memberclusters/status",
		"/api/v1/namespaces/shop/pods":                                              "PATCH pods",
		"/api/v1/namespaces/shop":                                                   "PATCH namespaces",
		"/api/v1/namespaces":                                                        "PATCH namespaces",
		"/api/v1/namespaces/api/services/v1":                                        "PATCH services",
		"/api/v1/namespaces/x/services/proxy/proxy/api/v1/namespaces/shop/pods/web": "PATCH pods",
		"/version": "PATCH",
		"":         "PATCH",
	} {
		if got := (sentRequest{method: "PATCH", path: path}).name(); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

func TestSafeMessage(t *testing.T) {
	dial := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 1, 2, 3), Port: 443}, Err: syscall.ECONNREFUSED}
	request := &url.Error{Op: "Patch", URL: "https://10.1.2.3/x?token=secret", Err: dial}
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"our own error is kept":                    {errors.New("read Deployment: gone"), "read Deployment: gone"},
		"a network error has no address":           {fmt.Errorf("apply Deployment: %w", dial), "the request failed: connection refused"},
		"a request error has no query":             {fmt.Errorf("apply Deployment: %w", request), "the request failed: connection refused"},
		"a joined network error has no address":    {errors.Join(errors.New("x"), request), "the request failed: connection refused"},
		"an unknown request error has no details":  {&url.Error{URL: "https://10.1.2.3", Err: errors.New("certificate is valid for 10.9.9.9")}, "the request failed"},
		"a timeout is named":                       {&url.Error{URL: "https://10.1.2.3", Err: &net.DNSError{IsTimeout: true}}, "the request failed: timed out"},
		"a long message is cut between characters": {errors.New(strings.Repeat("ä", 500) + "x"), strings.Repeat("ä", maxMessage/2) + "…"},
		"invalid UTF-8 is removed":                 {errors.New("a\xffb"), "ab"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := safeMessage(test.err); got != test.want || !utf8.ValidString(got) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
