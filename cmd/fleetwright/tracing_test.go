package main

import (
	"context"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/tracing"
	"github.com/fleetwright/fleetwright/internal/servertest"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// collectedSpans holds the spans that a collector received. It is safe for concurrent use.
type collectedSpans struct {
	mu       sync.Mutex
	spans    []*tracepb.Span
	resource []*commonpb.KeyValue // whose they are
	header   http.Header
	raw      strings.Builder
}

// ServeHTTP receives spans as a collector does.
func (r *collectedSpans) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	var data tracepb.TracesData
	if err := errors.Join(err, proto.Unmarshal(body, &data)); err != nil || request.URL.Path != "/v1/traces" {
		http.Error(w, "no", http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.header = request.Header
	r.raw.Write(body)
	for _, resource := range data.ResourceSpans {
		r.resource = resource.Resource.Attributes
		for _, scope := range resource.ScopeSpans {
			r.spans = append(r.spans, scope.Spans...)
		}
	}
}

// ofEdit returns the spans of the trace of an edit.
func (r *collectedSpans) ofEdit(app *v1alpha1.AppService) []*tracepb.Span {
	id := tracing.TraceForGeneration(app.UID, app.Generation).TraceID()
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.spans), func(s *tracepb.Span) bool { return string(s.TraceId) != string(id[:]) })
}

func (r *collectedSpans) all() []*tracepb.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.spans)
}

// attributeValue returns the value of an attribute as text.
func attributeValue(of []*commonpb.KeyValue, key string) string {
	for _, a := range of {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

// checkSpan returns nil if there is a span with the name and the attribute that has a child span
// with each of the other names.
func checkSpan(spans []*tracepb.Span, name, key, want string, below ...string) error {
	var names []string
	for _, s := range spans {
		names = append(names, s.Name+" "+attributeValue(s.Attributes, "fleetwright.reason"))
		if s.Name != name || attributeValue(s.Attributes, key) != want {
			continue
		}
		missing := slices.DeleteFunc(slices.Clone(below), func(child string) bool {
			return slices.ContainsFunc(spans, func(c *tracepb.Span) bool { return c.Name == child && string(c.ParentSpanId) == string(s.SpanId) })
		})
		if len(missing) == 0 {
			return nil
		}
	}
	return fmt.Errorf("no %s with %s %s, and %v below, in %q", name, key, want, below, names)
}

// tokenKubeconfig returns a kubeconfig with a token for the hub as a member.
func (h *hub) tokenKubeconfig(t *testing.T) (kubeconfig []byte, token string) {
	t.Helper()
	ctx, meta := context.Background(), metav1.ObjectMeta{Namespace: "fleetwright-system", Name: "member"}
	account, request := &corev1.ServiceAccount{ObjectMeta: meta}, &authenticationv1.TokenRequest{}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: meta.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: meta.Namespace, Name: meta.Name}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
	}
	if err := errors.Join(h.admin.Create(ctx, account), h.admin.Create(ctx, binding), h.admin.SubResource("token").Create(ctx, account, request)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.delete(account, binding) })
	config := clientcmdapi.Config{
		CurrentContext: "it",
		Contexts:       map[string]*clientcmdapi.Context{"it": {Cluster: "it", AuthInfo: "it"}},
		Clusters:       map[string]*clientcmdapi.Cluster{"it": {Server: "https://" + strings.TrimPrefix(h.environment.Config.Host, "https://"), CertificateAuthorityData: h.environment.Config.CAData}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"it": {Token: request.Status.Token}},
	}
	kubeconfig, err := clientcmd.Write(config)
	if err != nil {
		t.Fatal(err)
	}
	return kubeconfig, request.Status.Token
}

// markRolledOut sets the status of a Deployment as its controller does when all pods are ready.
func (h *hub) markRolledOut(t *testing.T, app *v1alpha1.AppService) {
	t.Helper()
	ctx, deployment := context.Background(), &appsv1.Deployment{}
	if err := h.admin.Get(ctx, client.ObjectKeyFromObject(app), deployment); err != nil {
		t.Fatal(err)
	}
	n := *deployment.Spec.Replicas
	patch := fmt.Sprintf(`{"status": {"observedGeneration": %d, "replicas": %d, "updatedReplicas": %d, "readyReplicas": %d, "availableReplicas": %d,
		"conditions": [{"type": "Available", "status": "True"}, {"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}]}}`, deployment.Generation, n, n, n, n)
	if err := h.admin.Status().Patch(ctx, deployment, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

// silentServer returns the address of a server that accepts connections and never responds.
func silentServer(t *testing.T) (address string, asked <-chan struct{}) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	came := make(chan struct{}, 100)
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = connection.Close() })
			came <- struct{}{}
		}
	}()
	return "http://" + listener.Addr().String(), came
}

func TestOperator_exports_traces(t *testing.T) {
	h := sharedHub(t)
	h.installCRDs(t)
	kubeconfig, token := h.tokenKubeconfig(t)
	edited := h.createAppService(t, "edited")
	t.Run("with one trace for each edit", func(t *testing.T) {
		got := &collectedSpans{}
		collector := httptest.NewServer(got)
		defer collector.Close()
		operator := replicaOn(t, h.kubeconfig, "--tracing-endpoint", collector.URL)
		operator.waitUntilReady(t)
		h.addMember(t, "east", kubeconfig)
		for generation := int64(1); generation <= 2; generation++ {
			image := fmt.Sprintf("registry.example/app:%d", generation)
			if generation > 1 {
				h.update(t, edited, func() { edited.Spec.Image = image })
			}
			h.waitForImage(t, edited, image)
			h.markRolledOut(t, edited)
			wait.Eventually(t, func() error {
				spans := got.ofEdit(edited)
				return errors.Join(
					checkSpan(spans, "plan", "fleetwright.name", "edited", "PATCH appservices/status"),
					checkSpan(spans, "deliver", "fleetwright.cluster", "east", "PATCH deployments"),
					checkSpan(spans, "deliver", "fleetwright.phase", "Ready"),
					checkSpan(spans, "plan", "fleetwright.reason", "Ready", "PATCH appservices/status"),
				)
			})
		}
		operator.terminate(t)
		checkNoSecrets(t, got, token, strings.TrimPrefix(h.environment.Config.Host, "https://"))
		service := attributeValue(got.resource, "service.name") + " " + attributeValue(got.resource, "service.version")
		if service != "fleetwright unknown" {
			t.Errorf("the service of the spans is %q", service)
		}
	})
	t.Run("and logs once that the collector refuses connections, without delays", func(t *testing.T) {
		operator := replicaOn(t, h.kubeconfig, "--tracing-endpoint", "http://"+servertest.FreeAddress(t))
		operator.waitUntilReady(t)
		h.addMember(t, "east", kubeconfig)
		for _, image := range []string{"registry.example/app:3", "registry.example/app:4"} {
			h.update(t, edited, func() { edited.Spec.Image = image })
			h.waitForImage(t, edited, image)
		}
		wait.Eventually(t, func() error {
			if !strings.Contains(operator.output.String(), "Lost spans") {
				return errors.New("the lost spans were not logged")
			}
			return nil
		})
		operator.terminate(t)
		if count := strings.Count(operator.output.String(), "Lost spans"); count != 1 {
			t.Errorf("the lost spans were logged %d times:\n%s", count, operator.output.String())
		}
	})
	t.Run("without delays if the collector does not respond", func(t *testing.T) {
		address, asked := silentServer(t)
		operator := replicaOn(t, h.kubeconfig, "--tracing-endpoint", address)
		operator.waitUntilReady(t)
		h.addMember(t, "east", kubeconfig)
		for _, image := range []string{"registry.example/app:5", "registry.example/app:6"} {
			h.update(t, edited, func() { edited.Spec.Image = image })
			h.waitForImage(t, edited, image)
		}
		wait.Receive(t, asked, "a span")
		h.update(t, edited, func() { edited.Spec.Image = "registry.example/app:7" })
		h.waitForImage(t, edited, "registry.example/app:7")
		operator.terminate(t)
	})
}

// checkNoSecrets checks that no span contains secrets or addresses.
func checkNoSecrets(t *testing.T, got *collectedSpans, secrets ...string) {
	t.Helper()
	sent := strings.ReplaceAll(got.raw.String(), "https://opentelemetry.io/schemas/", "")
	for _, secret := range append(secrets, "Bearer", "fieldManager", "https://", "resourceVersion=") {
		if strings.Contains(sent, secret) {
			t.Errorf("%q was sent", secret)
		}
	}
	for _, s := range got.all() {
		if strings.ContainsAny(s.Name, "?=&") {
			t.Errorf("trace %s has a span %q", hex.EncodeToString(s.TraceId), s.Name)
		}
	}
}

// restoreGlobalProvider restores the global provider of OpenTelemetry after the test.
func restoreGlobalProvider(t *testing.T) {
	t.Cleanup(func() { otel.SetTracerProvider(noop.NewTracerProvider()) })
}

// traceFailure records a failed reconciliation, which emits a span.
func traceFailure(ctx context.Context) {
	_, traced := tracing.Start(ctx, tracing.Work{Name: "plan", App: &v1alpha1.AppService{}})
	traced.End(errors.New("on purpose"))
}

func TestTracing_is_off_without_the_flag(t *testing.T) {
	got := &collectedSpans{}
	collector := httptest.NewServer(got)
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	before := otel.GetTracerProvider()
	o := &options{kubeconfig: hubAt(t, "https://127.0.0.1:1")}
	flush, err := o.traces.start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	traceFailure(t.Context())
	flush()
	hub, err := o.hubConfig()
	if err != nil {
		t.Fatal(err)
	}
	// Only the check of resumed watches is around the transport of the hub.
	outer, ok := hub.WrapTransport(http.DefaultTransport).(utilnet.RoundTripperWrapper)
	untraced := ok && outer.WrappedRoundTripper() == http.DefaultTransport
	if len(got.all()) > 0 || otel.GetTracerProvider() != before || o.traces.wrap() != nil || !untraced {
		t.Error("something is traced")
	}
}

func TestCollector_is_configured_by_the_environment(t *testing.T) {
	sends := func(t *testing.T, endpoint string) {
		t.Helper()
		restoreGlobalProvider(t)
		flush, err := (&traces{endpoint: endpoint, sample: 1}).start(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		traceFailure(t.Context())
		flush()
	}
	t.Run("with the variables of OpenTelemetry", func(t *testing.T) {
		got := &collectedSpans{}
		collector := httptest.NewTLSServer(got)
		defer collector.Close()
		authority := filepath.Join(t.TempDir(), "ca.crt")
		if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: collector.Certificate().Raw}), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", authority)
		t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=other")
		t.Setenv("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "authorization=Bearer%20abc, x-tenant=shop")
		t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
		for _, path := range []string{"", "/", "/v1/traces"} {
			sends(t, collector.URL+path)
		}
		headers := []string{got.header.Get("Authorization"), got.header.Get("X-Tenant"), attributeValue(got.resource, "deployment.environment.name"), attributeValue(got.resource, "service.name")}
		if want := []string{"Bearer abc", "shop", "test", "fleetwright"}; len(got.all()) != 3 || !slices.Equal(headers, want) {
			t.Errorf("%d spans, with %q", len(got.all()), headers)
		}
	})
	t.Run("which fails for invalid resource attributes", func(t *testing.T) {
		t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "nothing")
		restoreGlobalProvider(t)
		_, err := (&traces{endpoint: "http://127.0.0.1:1", sample: 1}).start(t.Context())
		if err == nil || !strings.HasPrefix(err.Error(), "OTEL_RESOURCE_ATTRIBUTES: ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("got error %v", err)
		}
	})
}

func TestSampler_makes_the_same_decision_for_an_edit_in_every_replica(t *testing.T) {
	one, other := (&traces{sample: 0.25}).sampler(), (&traces{sample: 0.25}).sampler()
	var sampled int
	for generation := range int64(2000) {
		edit := tracing.TraceForGeneration("uid", generation)
		ask := sdktrace.SamplingParameters{ParentContext: trace.ContextWithRemoteSpanContext(t.Context(), edit), TraceID: edit.TraceID()}
		decision := one.ShouldSample(ask).Decision
		if decision != other.ShouldSample(ask).Decision {
			t.Errorf("the decisions for generation %d differ", generation)
		}
		if decision == sdktrace.RecordAndSample {
			sampled++
		}
	}
	if sampled < 400 || sampled > 600 {
		t.Errorf("%d of 2000 edits are traced", sampled)
	}
}

func TestRateLimitedErrorHandler_logs_and_counts_lost_spans(t *testing.T) {
	var lines []string
	s := &rateLimitedErrorHandler{log: funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})}
	for range 5 {
		s.Handle(errors.New("away"))
	}
	s.lastLog = s.lastLog.Add(-errorLogInterval)
	s.Handle(errors.New("away"))
	if len(lines) != 2 || !strings.Contains(lines[1], `"count"=5`) {
		t.Errorf("%d lines: %q", len(lines), lines)
	}
}
