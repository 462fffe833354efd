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

	"github.com/fleetwright/fleetwright/e2e/environment"
)

// quiet is how long the new release is watched once it has looked at everything.
const quiet = 5 * time.Second

// explained is what this release changes on a hub that was the recorded one's, with the reason of each: requests, such as
// "patch appservices/status", and fields that say something else, such as "AppService .status.clusters[].message". It is emptied at each
// recording. On members nothing can be explained: there it would be a rollout that nobody has asked for.
var explained = map[string]string{
	"patch appservices/status":                "status.placement.excluded has the requirements that clusters do not meet, and condition Placed names them",
	"AppService .status.conditions[].message": "condition Placed names the requirements that clusters do not meet",
}

// wantQuiet starts the operator.
func (f *upgraded) wantQuiet(t *testing.T) {
	operator := f.startOperator(t)
	eventually(t, "the operator to look at each AppService on each member", func(ctx context.Context) error { return f.looked(ctx, operator) })
	time.Sleep(quiet)
	for _, c := range append(slices.Collect(maps.Values(f.members)), f.hub) {
		all, err := c.Requests(t.Context())
		if err != nil || len(all) == 0 {
			t.Fatalf("of what the operator has asked of %s, %d requests are logged (%v)", c.Name(), len(all), err)
		}
		written := slices.DeleteFunc(all, func(r environment.Request) bool {
			return !changes(&r) || c == f.hub && explained[kindOf(&r)] != ""
		})
		for i := range written[:min(len(written), 3)] {
			t.Errorf("%d requests change something on %s: %s %s", len(written), c.Name(), &written[i], written[i].Body)
		}
	}
	f.wantKept(t, f.hub, kindsOfHub)
	for _, member := range f.members {
		f.wantKept(t, member, kindsOfMember)
	}
}

// changes tells whether a request was to change something. An apply that is in conflict was not: by it the operator learns of a
// stranger's object of that name.
func changes(r *environment.Request) bool {
	return r.Writes() && r.Response.Code != http.StatusConflict
}

// kindOf is what [explained] calls a request.
func kindOf(r *environment.Request) string {
	return r.Verb + " " + r.Object.Resource + "/" + r.Object.Subresource
}

var (
	looks = regexp.MustCompile(`(?m)^controller_runtime_reconcile_total\{controller="delivery",result="(?:success|requeue_after)"\} (\d+)$`)
	queue = regexp.MustCompile(`(?m)^fleetwright_delivery_queue_depth\{member="[^"]+"\} (\d+)$`)
)

// looked is nil when the operator has delivered as often as there are rows, and has none to look at any more.
func (f *upgraded) looked(ctx context.Context, operator environment.Operator) error {
	replicas, err := operator.Replicas(ctx)
	if err != nil || len(replicas) != 1 {
		return fmt.Errorf("%d operators run (%w)", len(replicas), err)
	}
	metrics, err := replicas[0].Metrics(ctx)
	if err != nil {
		return err
	}
	if n := len(queue.FindAll(metrics, -1)); n != len(f.members) {
		return fmt.Errorf("%d members are engaged", n)
	}
	if done, rows, waiting := sum(looks, metrics), f.rows(), sum(queue, metrics); done < rows || waiting > 0 {
		return fmt.Errorf("it has looked %d times, at %d rows, and %d are queued", done, rows, waiting)
	}
	return nil
}

// sum adds up all values of a metric.
func sum(metric *regexp.Regexp, metrics []byte) (sum int) {
	for _, line := range metric.FindAllSubmatch(metrics, -1) {
		value, _ := strconv.Atoi(string(line[1])) // digits
		sum += value
	}
	return sum
}

// rows is how many rows the recorded AppServices have on the members.
func (f *upgraded) rows() (n int) {
	for _, was := range f.were["hub"] {
		rows, _, _ := unstructured.NestedSlice(was.Object, "status", "clusters") // none in other kinds
		for _, row := range rows {
			if name, _ := row.(map[string]any)["name"].(string); f.members[name] != nil {
				n++
			}
		}
	}
	return n
}
