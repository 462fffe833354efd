package config_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// monitoring is the API group of the Prometheus operator. The test API server has no CRDs of it.
const monitoring = "monitoring.coreos.com"

// metric is a line of a table in docs/metrics.md.
type metric struct {
	kind   string
	labels []string
}

var metricRow = regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([a-z, ]*) \\| (gauge|counter|histogram) \\| ")

// documentedMetrics returns the metrics in the tables of docs/metrics.md by name.
func documentedMetrics(t *testing.T) map[string]metric {
	t.Helper()
	content, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	metrics := map[string]metric{}
	for _, match := range metricRow.FindAllStringSubmatch(string(content), -1) {
		metrics[match[1]] = metric{kind: match[3], labels: strings.FieldsFunc(match[2], func(r rune) bool { return r == ',' || r == ' ' })}
	}
	return metrics
}

// Metrics are registered with literal names.
func TestDocumentedMetricsMatchTheCode(t *testing.T) {
	var written, inCode []string
	for name := range documentedMetrics(t) {
		if strings.HasPrefix(name, "fleetwright_") {
			written = append(written, name)
		}
	}
	literal := regexp.MustCompile(`"(fleetwright_[a-z_]+)"`)
	for _, root := range []string{"../clusters", "../controllers", "../cmd"} {
		if err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			content, err := os.ReadFile(path)
			for _, match := range literal.FindAllStringSubmatch(string(content), -1) {
				inCode = append(inCode, match[1])
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(written)
	slices.Sort(inCode)
	if diff := cmp.Diff(slices.Compact(inCode), written); diff != "" {
		t.Errorf("docs/metrics.md (-code +docs):\n%s", diff)
	}
}

var (
	quoted    = regexp.MustCompile(`"[^"]*"`)
	interval  = regexp.MustCompile(`\[[^\]]*\]`)
	matchers  = regexp.MustCompile(`\{([^}]*)\}`)
	grouping  = regexp.MustCompile(`\b(?:by|on)\s*\(([^)]*)\)`)
	labelName = regexp.MustCompile(`[a-z_]+`)
	word      = regexp.MustCompile(`[a-zA-Z_:][a-zA-Z0-9_:]*`)
	counted   = regexp.MustCompile(`\b(?:rate|increase)\(([a-z_]+)(?:\{[^}]*\})?\[\]\)`)
	promQL    = []string{"max", "min", "sum", "count", "topk", "sort", "rate", "increase", "max_over_time", "histogram_quantile", "time", "vector", "and", "or", "unless"}
)

// findProblems returns the metrics and labels of an expression that do not exist. It knows only the
// PromQL that we use, because a full parser is a large dependency. It also reports syntax that it
// does not know.
func findProblems(expression string, known map[string]metric) (problems []string) {
	bare := interval.ReplaceAllString(quoted.ReplaceAllString(expression, `""`), "[]")
	if strings.Count(bare, "(") != strings.Count(bare, ")") || strings.Count(expression, `"`)%2 != 0 {
		problems = append(problems, "its brackets or quotes do not match")
	}
	var asked []string
	for _, part := range append(matchers.FindAllStringSubmatch(bare, -1), grouping.FindAllStringSubmatch(bare, -1)...) {
		asked = append(asked, labelName.FindAllString(part[1], -1)...)
	}
	asCounter := map[string]bool{}
	for _, match := range counted.FindAllStringSubmatch(bare, -1) {
		asCounter[match[1]] = true
	}
	has := []string{"job", "pod", "instance"}
	for _, name := range word.FindAllString(grouping.ReplaceAllString(matchers.ReplaceAllString(bare, ""), ""), -1) {
		if slices.Contains(promQL, name) {
			continue
		}
		found, is := known[name]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if of, cut := strings.CutSuffix(name, suffix); cut && known[of].kind == "histogram" {
				found, is = metric{"counter", append(slices.Clone(known[of].labels), "le")}, true
			}
		}
		switch {
		case !is:
			problems = append(problems, name+" is not a metric in docs/metrics.md")
		case found.kind == "histogram":
			problems = append(problems, name+" is a histogram: it has _bucket, _sum and _count")
		case (found.kind == "counter") != asCounter[name]:
			problems = append(problems, name+" is a "+found.kind)
		}
		has = append(has, found.labels...)
	}
	for _, label := range asked {
		if !slices.Contains(has, label) {
			problems = append(problems, "none of its metrics has the label "+label)
		}
	}
	return problems
}

func TestFindProblems(t *testing.T) {
	known := map[string]metric{"up": {"gauge", []string{"member"}}, "changes_total": {"counter", nil}, "took_seconds": {"histogram", nil}}
	for expression, want := range map[string]string{
		`max by (member) (up{member=~"$member"}) == 0`:                                  "",
		`histogram_quantile(0.5, sum by (le) (rate(took_seconds_bucket[$__interval])))`: "",
		`max by (member) (down) == 0`:                                                   "down is not a metric",
		`max by (cluster) (up)`:                                                         "the label cluster",
		`up{name="x"}`:                                                                  "the label name",
		`rate(up[5m])`:                                                                  "up is a gauge",
		`changes_total > 1`:                                                             "changes_total is a counter",
		`rate(changes_total)`:                                                           "changes_total is a counter",
		`rate(changes_total{member="x"}[5m]) > 0`:                                       "the label member",
		`rate(took_seconds[5m])`:                                                        "took_seconds is a histogram",
		`max(up`:                                                                        "brackets",
		`up{member="x}`:                                                                 "quotes",
		`maxx(up)`:                                                                      "maxx is not a metric",
	} {
		if got := strings.Join(findProblems(expression, known), "; "); !strings.Contains(got, want) || (want == "") != (got == "") {
			t.Errorf("%s: got %q, want %q", expression, got, want)
		}
	}
}

// dashboard has the fields of a Grafana dashboard that the tests check.
type dashboard struct {
	UID, Title string
	Panels     []panel
	Templating struct {
		List []struct{ Name string }
	}
}

type panel struct {
	ID          int
	Title, Type string
	GridPos     struct{ X, Y, W, H int }
	Targets     []struct{ Expr, LegendFormat, RefID string }
}

func TestDashboard(t *testing.T) {
	config := findOne[corev1.ConfigMap](t, buildKustomization(t, "grafana"), "ConfigMap")
	var d dashboard
	if err := json.Unmarshal([]byte(config.Data["dashboard.json"]), &d); err != nil {
		t.Fatal(err)
	}
	if d.UID == "" || d.Title == "" || len(d.Panels) == 0 {
		t.Fatalf("the dashboard has UID %q, title %q and %d panels", d.UID, d.Title, len(d.Panels))
	}
	known, ids, cells := documentedMetrics(t), map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if p.Title == "" || ids[p.ID] || len(p.Targets) == 0 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %d %q has no title, a duplicate ID, no query, or is too wide", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				cell := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if cells[cell] != "" {
					t.Fatalf("panel %q overlaps %q", p.Title, cells[cell])
				}
				cells[cell] = p.Title
			}
		}
		for _, target := range p.Targets {
			for _, problem := range findProblems(target.Expr, known) {
				t.Errorf("panel %q: %s: %s", p.Title, target.Expr, problem)
			}
		}
	}
	for name := range known {
		if !strings.Contains(config.Data["dashboard.json"], name) {
			t.Errorf("no panel shows %s", name)
		}
	}
}

// rules has the fields of a PrometheusRule that ours uses.
type rules struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Groups []struct {
			Name  string  `json:"name"`
			Rules []alert `json:"rules"`
		} `json:"groups"`
	} `json:"spec"`
}

type alert struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

func TestAlerts(t *testing.T) {
	groups := findOne[rules](t, buildKustomization(t, "prometheus"), "PrometheusRule").Spec.Groups
	if len(groups) != 1 || len(groups[0].Rules) != 11 {
		t.Fatalf("%d groups, the first with %d alerts", len(groups), len(groups[0].Rules))
	}
	known := documentedMetrics(t)
	docs, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile(`\$labels\.([a-z_]+)`)
	for _, a := range groups[0].Rules {
		t.Run(a.Alert, func(t *testing.T) {
			for _, problem := range findProblems(a.Expr, known) {
				t.Errorf("%s: %s", a.Expr, problem)
			}
			if duration, err := time.ParseDuration(a.For); err != nil || duration < time.Minute {
				t.Errorf("for is %q, want at least a minute", a.For)
			}
			if diff := cmp.Diff([]string{"description", "runbook_url", "summary"}, slices.Sorted(maps.Keys(a.Annotations))); diff != "" {
				t.Errorf("annotations (-want +got):\n%s", diff)
			}
			if severity := a.Labels["severity"]; severity != "warning" && severity != "critical" {
				t.Errorf("severity is %q", severity)
			}
			kept := grouping.FindStringSubmatch(a.Expr)
			for _, match := range shown.FindAllStringSubmatch(fmt.Sprint(a.Annotations), -1) {
				if len(kept) == 0 || !slices.Contains(labelName.FindAllString(kept[1], -1), match[1]) {
					t.Errorf("an annotation uses label %s, which the expression drops", match[1])
				}
			}
			if !isValidRunbook(a.Annotations["runbook_url"]) {
				t.Errorf("%s does not exist", a.Annotations["runbook_url"])
			}
			if !strings.Contains(string(docs), "| `"+a.Alert+"` |") {
				t.Error("docs/metrics.md does not list the alert")
			}
		})
	}
}

// isValidRunbook reports whether the file and the heading of a link to our docs exist.
func isValidRunbook(link string) bool {
	path, ours := strings.CutPrefix(link, "https://github.com/fleetwright/fleetwright/blob/main/")
	file, anchor, _ := strings.Cut(path, "#")
	return ours && hasHeading(filepath.Join("..", file), anchor)
}

// monitor has the fields of a ServiceMonitor that ours uses.
type monitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Selector  metav1.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port            string `json:"port"`
			Path            string `json:"path"`
			Scheme          string `json:"scheme"`
			BearerTokenFile string `json:"bearerTokenFile"`
			TLSConfig       struct {
				InsecureSkipVerify bool   `json:"insecureSkipVerify"`
				ServerName         string `json:"serverName"`
				CA                 struct {
					Secret corev1.SecretKeySelector `json:"secret"`
				} `json:"ca"`
			} `json:"tlsConfig"`
			Interval          string `json:"interval"`
			HonorLabels       bool   `json:"honorLabels"`
			MetricRelabelings []struct {
				Action       string   `json:"action"`
				SourceLabels []string `json:"sourceLabels"`
				Regex        string   `json:"regex"`
			} `json:"metricRelabelings"`
		} `json:"endpoints"`
	} `json:"spec"`
}

func TestServiceMonitor(t *testing.T) {
	objects := buildKustomization(t, "prometheus")
	m, service := findOne[monitor](t, objects, "ServiceMonitor"), findOne[corev1.Service](t, objects, "Service")
	selector, err := metav1.LabelSelectorAsSelector(&m.Spec.Selector)
	if err != nil {
		t.Fatal(err)
	}
	if m.Namespace != service.Namespace || selector.Empty() || !selector.Matches(labels.Set(service.Labels)) {
		t.Error("the ServiceMonitor does not select the metrics Service")
	}
	if len(m.Spec.Endpoints) != 1 || m.Spec.Endpoints[0].Port != service.Spec.Ports[0].Name {
		t.Errorf("endpoints: %+v", m.Spec.Endpoints)
	}
	if e := m.Spec.Endpoints[0]; e.Scheme != "https" || e.BearerTokenFile == "" || !e.TLSConfig.InsecureSkipVerify {
		t.Errorf("the operator serves metrics by HTTPS with its own certificate, to clients with a token: %+v", e)
	}
	if !m.Spec.Endpoints[0].HonorLabels {
		t.Error("the label `namespace` of an AppService's metrics would be exported_namespace")
	}
}

// The example in docs/metrics.md must build, and its names must match.
func TestMetricsCertificate(t *testing.T) {
	objects := buildExample(t, "../docs/metrics.md")
	pod := findOne[appsv1.Deployment](t, objects, "Deployment").Spec.Template.Spec
	service := findOne[corev1.Service](t, objects, "Service")
	tls := findOne[monitor](t, objects, "ServiceMonitor").Spec.Endpoints[0].TLSConfig
	mounts, volumes := pod.Containers[0].VolumeMounts, pod.Volumes
	if len(mounts) != 1 || len(volumes) != 1 || mounts[0].Name != volumes[0].Name {
		t.Fatalf("mounts %+v of volumes %+v", mounts, volumes)
	}
	if !slices.Contains(pod.Containers[0].Args, "--metrics-cert-path="+mounts[0].MountPath) {
		t.Errorf("the operator has the arguments %v, and the certificate is at %s", pod.Containers[0].Args, mounts[0].MountPath)
	}
	if tls.InsecureSkipVerify || tls.ServerName != service.Name+"."+service.Namespace+".svc" || tls.CA.Secret.Name != volumes[0].Secret.SecretName {
		t.Errorf("Prometheus verifies the certificate with %+v", tls)
	}
}

func TestMetricsReaderMayOnlyReadMetrics(t *testing.T) {
	path := findOne[monitor](t, buildKustomization(t, "prometheus"), "ServiceMonitor").Spec.Endpoints[0].Path
	role := findOne[rbacv1.ClusterRole](t, buildKustomization(t, "rbac"), "ClusterRole", "fleetwright-metrics-reader")
	want := []rbacv1.PolicyRule{{NonResourceURLs: []string{path}, Verbs: []string{"get"}}}
	if diff := cmp.Diff(want, role.Rules); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
