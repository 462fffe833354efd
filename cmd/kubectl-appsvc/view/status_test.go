package view_test

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/explain"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/view"
	"github.com/fleetwright/fleetwright/internal/golden"
)

// now is when the views are rendered.
var now = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// appFrom returns an AppService from YAML.
func appFrom(t *testing.T, content string) *v1alpha1.AppService {
	t.Helper()
	app := &v1alpha1.AppService{}
	if err := yaml.UnmarshalStrict([]byte(content), app); err != nil {
		t.Fatal(err)
	}
	return app
}

// checkGolden compares a view with a golden file, and fails if a line has more than 80 columns, unless
// the view is wide.
func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	for line := range strings.Lines(got) {
		if columns := utf8.RuneCountInString(strings.TrimRight(line, "\n")); columns > 80 && !strings.Contains(name, "wide") {
			t.Errorf("%d columns: %s", columns, line)
		}
	}
	golden.Check(t, name, got)
}

// rollingOut is an AppService of which a stage waits for approval, one cluster cannot be reached, and
// one has a bad image.
const rollingOut = `
metadata: {name: web, namespace: shop, generation: 3}
spec:
  image: nginx:1.29.1
  replicas: 3
  rollout: {stages: [{name: canary}, {name: eu, approval: Required}]}
status:
  observedGeneration: 3
  summary: {clusters: 4, ready: 2, replicas: 12, readyReplicas: 7}
  conditions:
  - type: Ready
    status: "False"
    reason: AwaitingApproval
    message: 'revision 3 waits for approval of stage eu (1 cluster): annotate the AppService with fleetwright.dev/approve=3/eu; 2 of 4 clusters not ready: north (ImagePullBackOff), south (ClusterUnreachable)'
    lastTransitionTime: "2026-01-02T11:50:00Z"
  - {type: Placed, status: "True", reason: Placed, message: placed on 4 clusters, lastTransitionTime: "2026-01-02T11:50:00Z"}
  rollout:
    revision: 3
    stableRevision: 2
    phase: Progressing
    since: "2026-01-02T11:58:30Z"
    stages:
    - {name: canary, phase: Completed, since: "2026-01-02T11:59:00Z", clusters: 1, upToDate: 1, available: 1}
    - {name: eu, phase: AwaitingApproval, since: "2026-01-02T11:59:00Z", clusters: 1}
    - {name: (rest), phase: Pending, since: "2026-01-02T11:58:30Z", clusters: 2, failed: 1}
  clusters:
  - {name: east, generation: 3, revision: 3, replicas: 3, readyReplicas: 3, phase: Ready, lastTransitionTime: "2026-01-02T11:58:40Z"}
  - {name: north, generation: 3, revision: 2, replicas: 3, readyReplicas: 1, phase: Progressing, lastTransitionTime: "2026-01-02T11:58:40Z", reason: ImagePullBackOff, message: '2 of 3 pods: container web: Back-off pulling image "registry.example/shop/web:doesnotexist": not found'}
  - {name: paris, generation: 3, revision: 2, replicas: 3, readyReplicas: 3, phase: Ready, lastTransitionTime: "2026-01-02T11:58:40Z", addresses: [192.0.2.1]}
  - {name: south, generation: 3, revision: 2, replicas: 3, readyReplicas: 3, phase: Unknown, lastTransitionTime: "2026-01-02T11:30:00Z", reason: ClusterUnreachable, message: 'MemberCluster south is not Ready; last known: Ready, 3 of 3 replicas ready'}
`

// configured is an AppService of which one source was deleted, and one is updated in place.
const configured = `
metadata: {name: web, namespace: shop, generation: 3}
spec:
  image: nginx:1.29.1
  configuration: [{kind: ConfigMap, name: settings}, {kind: Secret, name: tls, update: InPlace}]
status:
  observedGeneration: 3
  summary: {clusters: 1, ready: 1, replicas: 3, readyReplicas: 3}
  conditions:
  - {type: Ready, status: "True", reason: Ready, message: "", lastTransitionTime: "2026-01-02T11:50:00Z"}
  - {type: Configured, status: "False", reason: SourceDeleted, message: "ConfigMap settings was deleted; its last content stays in use: create it again", lastTransitionTime: "2026-01-02T11:50:00Z"}
  configuration:
  - {kind: ConfigMap, from: other, snapshot: web-other-5hc9dk2m7t.snapshot}
  - {kind: ConfigMap, from: settings, snapshot: web-settings-5hc9dk2m7t.snapshot, reason: SourceDeleted, message: "ConfigMap settings was deleted; its last content stays in use: create it again", since: "2026-01-02T11:50:00Z"}
  - {kind: Secret, from: tls, snapshot: web-tls-k2x7m9q4ta.snapshot, serial: 12, upToDate: 38/40}
`

func TestStatus(t *testing.T) {
	tooLarge := appFrom(t, configured)
	tooLarge.Status.Configuration = nil
	tooLarge.Status.Conditions[1].Reason, tooLarge.Status.Conditions[1].Message = v1alpha1.ReasonTooLarge, "spec.configuration and the overrides have 65 sources, and 64 are allowed"
	inPlace := appFrom(t, configured)
	inPlace.Status.Conditions, inPlace.Status.Configuration = inPlace.Status.Conditions[:1], inPlace.Status.Configuration[2:]
	many := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	for i := range 10_000 {
		many.Status.Clusters = append(many.Status.Clusters, v1alpha1.ClusterStatus{Name: fmt.Sprintf("cluster-%05d", i), Replicas: 1, ReadyReplicas: 1, Phase: v1alpha1.ClusterReady})
	}
	failed := &many.Status.Clusters[7000]
	failed.Phase, failed.Reason, failed.Message = v1alpha1.ClusterFailed, v1alpha1.ReasonCrashLoopBackOff, "1 of 1 pods: container web exited with code 1"
	for name, test := range map[string]struct {
		app     *v1alpha1.AppService
		options view.Options
	}{
		"rolling-out": {app: appFrom(t, rollingOut)},
		"colored":     {app: appFrom(t, rollingOut), options: view.Options{Color: true}},
		"wide":        {app: appFrom(t, rollingOut), options: view.Options{Width: 160}},
		"stale":       {app: appFrom(t, rollingOut), options: view.Options{Notes: []string{"the operator has not renewed its Lease for 5m, so what you see may be old: see kubectl get pods -n fleetwright-system"}}},
		"new":         {app: appFrom(t, "{metadata: {name: web, namespace: shop}, spec: {image: nginx}}")},
		"many":        {app: many},
		"available": {app: appFrom(t, `
metadata: {name: web, namespace: shop}
spec: {image: "nginx:1"}
status:
  availableReplicas: 4
  summary: {clusters: 2, ready: 1, replicas: 6, readyReplicas: 6}
  conditions:
  - {type: Ready, status: "False", reason: Progressing, message: "1 of 2 clusters not ready: east (RollingOut)", lastTransitionTime: "2026-01-02T11:50:00Z"}
  clusters:
  - {name: east, generation: 1, replicas: 3, readyReplicas: 3, observedAvailableReplicas: 1, phase: Progressing, reason: RollingOut, message: "Available: 1/3", lastTransitionTime: "2026-01-02T11:58:40Z"}
  - {name: west, generation: 1, replicas: 3, readyReplicas: 3, phase: Ready, lastTransitionTime: "2026-01-02T11:58:40Z"}`)},
		"configured": {app: appFrom(t, configured)},
		"too-large":  {app: tooLarge},
		"in-place":   {app: inPlace},
		"rolled-back": {app: appFrom(t, `
metadata: {name: web, namespace: shop}
spec: {image: "nginx:bad"}
status:
  summary: {clusters: 1, ready: 1, replicas: 3, readyReplicas: 3}
  conditions:
  - {type: Ready, status: "False", reason: RolledBack, message: "revision 4 failed in stage canary (east: ImagePullBackOff) and was rolled back to 3", lastTransitionTime: "2026-01-02T11:50:00Z"}
  - {type: Stalled, status: "True", reason: RolledBack, message: "", lastTransitionTime: "2026-01-02T11:50:00Z"}
  rollout:
    revision: 4
    stableRevision: 3
    failedRevision: 4
    phase: RolledBack
    since: "2026-01-02T10:00:00Z"
    stages: [{name: canary, phase: Pending, since: "2026-01-02T10:00:00Z", clusters: 1}]
  clusters: [{name: east, generation: 1, revision: 3, replicas: 3, readyReplicas: 3, phase: Ready, lastTransitionTime: "2026-01-02T11:58:40Z"}]`)},
	} {
		t.Run(name, func(t *testing.T) {
			test.options.Now = now
			if test.options.Width == 0 {
				test.options.Width = 80
			}
			got := view.Status(test.app, test.options)
			got = strings.ReplaceAll(got, "\x1b", "ESC")
			checkGolden(t, "status-"+name, got)
		})
	}
	t.Run("all clusters are listed if asked for", func(t *testing.T) {
		if got := strings.Count(view.Status(many, view.Options{Now: now, Width: 80, All: true}), "cluster-"); got != 10_000 {
			t.Errorf("%d clusters are listed", got)
		}
	})
}

func TestWhy(t *testing.T) {
	app := appFrom(t, `
metadata: {name: web, namespace: shop}
spec:
  image: nginx
  replicas: 3
  placement:
    clusterSelector: {matchLabels: {region: eu}, matchExpressions: [{key: tier, operator: NotIn, values: [test]}]}
  overrides:
  - {name: large, clusterNames: [paris], replicas: 9, image: "nginx:large", configuration: [{kind: ConfigMap, name: settings, from: settings-large}]}
status:
  clusters:
  - {name: oslo, generation: 1, replicas: 3, readyReplicas: 3, phase: Ready, lastTransitionTime: "2026-01-02T11:58:40Z"}
  - {name: paris, generation: 1, replicas: 3, readyReplicas: 3, phase: Failed, reason: CrashLoopBackOff, message: container web exited with code 1, lastTransitionTime: "2026-01-02T11:58:40Z"}
  - {name: tokyo, generation: 1, replicas: 3, readyReplicas: 3, phase: Progressing, reason: RemovalPending, message: the removal waits, transition: {type: RemovalPending, cause: ClustersChanged}, lastTransitionTime: "2026-01-02T11:58:40Z"}
  - {name: vanished, generation: 1, replicas: 3, phase: Detached, reason: ClusterDetached, lastTransitionTime: "2026-01-02T11:58:40Z"}`)
	ready := []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	var members []v1alpha1.MemberCluster
	add := func(name string, labels map[string]string, change func(*v1alpha1.MemberCluster)) {
		member := v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}, Status: v1alpha1.MemberClusterStatus{Conditions: ready}}
		if change != nil {
			change(&member)
		}
		members = append(members, member)
	}
	add("oslo", map[string]string{"region": "eu"}, nil)
	add("paris", map[string]string{"region": "eu"}, nil)
	add("rome", map[string]string{"region": "eu"}, func(m *v1alpha1.MemberCluster) { m.Spec.Unschedulable = true })
	add("berlin", map[string]string{"region": "eu", "tier": "test"}, nil)
	add("tokyo", map[string]string{"region": "ap"}, nil)
	for i := range 12 {
		add(fmt.Sprintf("us-%d", i), map[string]string{"region": "us"}, nil)
	}
	add("unlabelled", nil, nil)
	clusters, err := explain.Placement(app, members)
	if err != nil {
		t.Fatal(err)
	}
	checkGolden(t, "why", view.Why(app, clusters, view.Options{Now: now, Width: 80}))
}
