package upgrade

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/internal/environment"
)

// quietPeriod is how long the new operator must not write after its first reconciles.
const quietPeriod = 5 * time.Second

// explained is what this release may change on the hub of the recorded release, with the reasons:
// requests, such as "patch appservices/status", and fields, such as
// "AppService .status.clusters[].message". Empty it at each recording. There is no such list for
// members, where a change would be a rollout without an edit.
var explained = map[string]string{
	"create controllerrevisions/":            "the template that runs becomes the first revision",
	"patch appservices/status":               "the status names it",
	"AppService .status.rollout":             "the revision of the spec",
	"AppService .status.rollout.revision":    "the revision of the spec",
	"AppService .status.clusters[].revision": "the revision on the cluster",
	"AppService .status.summary.upToDate":    "how many clusters have it",

	"AppService .status.conditions[].message": "Ready says why no cluster is chosen, and names the limit",
}

// expectQuiet starts the operator, and fails the test if it changes anything.
func (f *upgradedFleet) expectQuiet(t *testing.T) {
	f.startOperator(t)
	f.Eventually(t, "the operator to reconcile each AppService on each member", f.checkReconciled)
	time.Sleep(quietPeriod)
	for _, c := range append(slices.Collect(maps.Values(f.Members)), f.Hub) {
		all, err := c.Requests(t.Context())
		if err != nil || len(all) == 0 {
			t.Fatalf("the audit log of %s has %d requests of the operator (%v)", c.Name(), len(all), err)
		}
		written := slices.DeleteFunc(all, func(r environment.Request) bool {
			return !isChange(&r) || c == f.Hub && explained[kindOf(&r)] != ""
		})
		for i := range written[:min(len(written), 3)] {
			t.Errorf("%d requests change something on %s: %s %s", len(written), c.Name(), &written[i], written[i].Body)
		}
	}
	f.expectKept(t, f.Hub, hubKinds)
	for _, member := range f.Members {
		f.expectKept(t, member, memberKinds)
	}
}

// isChange reports whether a request changes something. An apply with a conflict does not: the
// operator learns that the object of that name has another owner.
func isChange(r *environment.Request) bool {
	return r.IsWrite() && r.Response.Code != http.StatusConflict
}

// kindOf returns the name of a request in [explained].
func kindOf(r *environment.Request) string {
	return r.Verb + " " + r.Object.Resource + "/" + r.Object.Subresource
}

var (
	reconcilesMetric = regexp.MustCompile(`(?m)^controller_runtime_reconcile_total\{controller="delivery",result="(?:success|requeue_after)"\} (\d+)$`)
	queueMetric      = regexp.MustCompile(`(?m)^fleetwright_delivery_queue_depth\{member="[^"]+"\} (\d+)$`)
)

// checkReconciled returns an error unless delivery has reconciled at least once for each entry, and
// its queues are empty.
func (f *upgradedFleet) checkReconciled(ctx context.Context) error {
	replicas, err := f.Operator.Replicas(ctx)
	if err != nil {
		return err
	}
	if len(replicas) != 1 {
		return fmt.Errorf("%d replicas run, want 1", len(replicas))
	}
	metrics, err := replicas[0].Metrics(ctx)
	if err != nil {
		return err
	}
	if n := len(queueMetric.FindAll(metrics, -1)); n != len(f.Members) {
		return fmt.Errorf("%d members are engaged", n)
	}
	if done, entries, queued := sum(reconcilesMetric, metrics), f.countEntries(), sum(queueMetric, metrics); done < entries || queued > 0 {
		return fmt.Errorf("%d reconciles for %d entries, %d are queued", done, entries, queued)
	}
	return nil
}

// sum returns the sum of all values of a metric.
func sum(metric *regexp.Regexp, metrics []byte) (sum int) {
	for _, line := range metric.FindAllSubmatch(metrics, -1) {
		value, _ := strconv.Atoi(string(line[1])) // digits
		sum += value
	}
	return sum
}

// countEntries returns how many entries the recorded AppServices have for the members.
func (f *upgradedFleet) countEntries() (n int) {
	for _, before := range f.before[framework.HubName] {
		entries, _, _ := unstructured.NestedSlice(before.Object, "status", "clusters") // none in other kinds
		for _, entry := range entries {
			if name, _ := entry.(map[string]any)["name"].(string); f.Members[name] != nil {
				n++
			}
		}
	}
	return n
}
