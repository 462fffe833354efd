package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/internal/environment"
	"github.com/fleetwright/fleetwright/internal/environment/kwok"
)

// metrics returns the metrics of the leader.
func (f *fleet) metrics(t *testing.T) map[string]*dto.MetricFamily {
	t.Helper()
	leader, _ := f.leader(t)
	served, err := leader.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(served))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// documentedMetric matches a line of a table in docs/metrics.md: name, labels, type.
var documentedMetric = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([a-z, ]*) \\| (gauge|counter|histogram) \\| ")

// TestMetrics tests that the operator serves exactly the metrics of docs/metrics.md, with their
// labels and types.
func TestMetrics(t *testing.T) {
	f := testFleet(t)
	app := f.createApp(t, "measured", func(s *v1alpha1.AppServiceSpec) {
		s.Rollout = &v1alpha1.Rollout{RolloutPace: v1alpha1.RolloutPace{MinReadySeconds: new(int32(0))}}
	})
	f.awaitReady(t, app, "north", "south", "east")
	// Some metrics need pods that cannot run, a source that does not exist, credentials that expire and
	// are to be renewed, and drift.
	f.createApp(t, "measured-image", framework.Image("web:doesnotexist"))
	f.createApp(t, "measured-source", func(s *v1alpha1.AppServiceSpec) {
		s.Configuration = []v1alpha1.ConfigurationSource{{Kind: v1alpha1.ConfigurationConfigMap, Name: "missing"}}
	})
	f.renewToken(t, "north", time.Hour)
	f.annotateSecret(t, "north", map[string]string{v1alpha1.AnnotationRenewToken: "true"})
	t.Cleanup(func() {
		f.annotateSecret(t, "north", nil)
		f.rejoin(t, "north")
	})
	deployment, err := f.Members["south"].Deployment(t.Context(), app)
	if err != nil {
		t.Fatal(err)
	}
	patch := client.MergeFrom(deployment.DeepCopy())
	deployment.Spec.Template.Spec.Containers[0].Image = "web:2"
	if err := f.Members["south"].Client.Patch(t.Context(), deployment, patch, client.FieldOwner("other-manager")); err != nil {
		t.Fatal(err)
	}

	content, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for _, line := range documentedMetric.FindAllStringSubmatch(string(content), -1) {
		labels := strings.FieldsFunc(line[2], func(r rune) bool { return r == ',' || r == ' ' })
		slices.Sort(labels)
		want[line[1]] = fmt.Sprintf("%s %v", line[3], labels)
	}
	f.Eventually(t, "the metrics to be those of docs/metrics.md", func(context.Context) error {
		got := map[string]string{}
		for name, family := range f.metrics(t) {
			if _, known := want[name]; known || strings.HasPrefix(name, "fleetwright_") {
				got[name] = typeAndLabels(family)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("(-documented +served):\n%s", diff)
		}
		return nil
	})
}

// typeAndLabels returns the type of a metric and its labels.
func typeAndLabels(family *dto.MetricFamily) string {
	var labels []string
	for _, pair := range family.GetMetric()[0].GetLabel() {
		labels = append(labels, pair.GetName())
	}
	slices.Sort(labels)
	return fmt.Sprintf("%s %v", strings.ToLower(family.GetType().String()), labels)
}

// seriesValue returns the value of a gauge or a counter, of the series with these labels, each
// followed by its value.
func seriesValue(family *dto.MetricFamily, labels ...string) (float64, error) {
	for _, metric := range family.GetMetric() {
		got := map[string]string{}
		for _, pair := range metric.GetLabel() {
			got[pair.GetName()] = pair.GetValue()
		}
		matches := true
		for i := 0; i < len(labels); i += 2 {
			matches = matches && got[labels[i]] == labels[i+1]
		}
		if matches {
			return metric.GetGauge().GetValue() + metric.GetCounter().GetValue(), nil
		}
	}
	return 0, fmt.Errorf("%s has no series with %q", family.GetName(), labels)
}

// TestMetricsAreProtected tests the metrics server with its default flags, on a third replica, which
// does not lead. The other replicas serve metrics by HTTP.
func TestMetricsAreProtected(t *testing.T) {
	f := testFleet(t)
	address := f.startProtectedReplica(t)
	reader, stranger := f.accountToken(t, "metrics-reader"), f.accountToken(t, "stranger")
	f.grantMetrics(t, "metrics-reader")
	for _, test := range []struct {
		name, scheme, token string
		want                int
	}{
		{"refused by HTTP", "http", reader, http.StatusBadRequest},
		{"refused without a token", "https", "", http.StatusUnauthorized},
		{"refused without the permission", "https", stranger, http.StatusForbidden},
		{"served with the permission", "https", reader, http.StatusOK},
	} {
		t.Run("are "+test.name, func(t *testing.T) {
			f.Eventually(t, "a response with code "+strconv.Itoa(test.want), func(ctx context.Context) error {
				code, body, err := scrape(ctx, test.scheme+"://"+address+"/metrics", test.token)
				if err != nil {
					return err
				}
				if hasMetrics := bytes.Contains(body, []byte("leader_election_master_status")); code != test.want || hasMetrics != (code == http.StatusOK) {
					return fmt.Errorf("the code is %d, and the response has metrics: %v", code, hasMetrics)
				}
				return nil
			})
		})
	}
}

// startProtectedReplica starts one more replica of the operator until the end of the test, and
// returns the address of its metrics server.
func (f *fleet) startProtectedReplica(t *testing.T) string {
	t.Helper()
	kubeconfig, err := environment.RequestAccountKubeconfig(t.Context(), f.Hub.Kubeconfig(), environment.OperatorAccount)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(file, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	ports, err := kwok.FreePorts(dir, 1)
	if err != nil {
		t.Fatal(err)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0]))
	replica := exec.Command(filepath.Join(*binFlag, "fleetwright"), "--kubeconfig="+file, "--allow-loopback-members",
		"--metrics-bind-address="+address, "--health-probe-bind-address=0")
	var log bytes.Buffer
	replica.Stdout, replica.Stderr = &log, &log
	if err := replica.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = replica.Process.Signal(syscall.SIGTERM)
		if err := replica.Wait(); err != nil || t.Failed() {
			t.Errorf("the replica exits with: %v; its log:\n%s", err, log.String())
		}
	})
	return address
}

// accountToken creates a ServiceAccount on the hub and returns a token of it.
func (f *fleet) accountToken(t *testing.T, name string) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: environment.SecretNamespace, Name: name}}
	if err := f.Hub.Client.Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Hub.Client.Delete(context.Background(), account) })
	request := &authenticationv1.TokenRequest{}
	if err := f.Hub.Client.SubResource("token").Create(t.Context(), account, request); err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

// grantMetrics binds a ServiceAccount of the hub to the shipped ClusterRole for those who read
// metrics.
func (f *fleet) grantMetrics(t *testing.T, account string) {
	t.Helper()
	if err := environment.ApplyFile(t.Context(), f.Hub.Client, filepath.Join(config, "rbac", "metrics_reader.yaml")); err != nil {
		t.Fatal(err)
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: account},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: environment.SecretNamespace, Name: account}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "fleetwright-metrics-reader"},
	}
	if err := f.Hub.Client.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Hub.Client.Delete(context.Background(), binding) })
}

// scrape returns the code and the body of a response. An HTTPS server may reset the connection of an
// HTTP client after its response, which is Bad Request.
func scrape(ctx context.Context, url, token string) (int, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, nil, err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}
	response, err := (&http.Client{Transport: transport}).Do(request)
	if errors.Is(err, syscall.ECONNRESET) {
		return http.StatusBadRequest, nil, nil
	} else if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if errors.Is(err, syscall.ECONNRESET) {
		err = nil
	}
	return response.StatusCode, body, err
}
