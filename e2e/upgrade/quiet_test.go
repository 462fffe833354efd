package upgrade

import (
	"maps"
	"net/http"
	"slices"
	"testing"

	"github.com/fleetwright/fleetwright/internal/environment"
)

// explained is what this release may change on the hub of the recorded release, with the reasons:
// requests, such as "patch appservices/status", and fields, such as
// "AppService .status.clusters[].message". Empty it at each recording. There is no such list for
// members, where a change would be a rollout without an edit.
var explained = map[string]string{
	"create controllerrevisions/":            "the template that runs becomes the first revision",
	"patch appservices/status":               "the status names it",
	"AppService .status.availableReplicas":   "the available pods of all clusters",
	"AppService .status.rollout":             "the revision of the spec",
	"AppService .status.rollout.revision":    "the revision of the spec",
	"AppService .status.clusters[].revision": "the revision on the cluster",
	"AppService .status.summary.upToDate":    "how many clusters have it",

	"AppService .status.conditions[].message": "Ready says why no cluster is chosen, and names the limit",
}

// expectQuiet starts the operator, and fails the test if it changes anything.
func (f *upgradedFleet) expectQuiet(t *testing.T) {
	f.startOperator(t)
	f.AwaitLook(t)
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
