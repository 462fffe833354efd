package crash

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// A request that is not counted is one that is never killed at.
func TestDescribe(t *testing.T) {
	tests := map[string]struct {
		line, body string
		want       request
	}{
		"an apply": {
			line: "PATCH /apis/apps/v1/namespaces/life-1/deployments/web?force=true&fieldManager=fleetwright",
			want: request{verb: "PATCH", resource: "deployments", namespace: "life-1", name: "web", changes: true},
		},
		"a dry run": {
			line: "PATCH /apis/apps/v1/namespaces/life-1/deployments/web?dryRun=All",
			want: request{verb: "PATCH", resource: "deployments", namespace: "life-1", name: "web"},
		},
		"a status": {
			line: "PATCH /apis/fleetwright.dev/v1alpha1/namespaces/life-1/appservices/web/status",
			want: request{verb: "PATCH", resource: "appservices", sub: "status", namespace: "life-1", name: "web", changes: true},
		},
		"the status of what has no namespace": {
			line: "PATCH /apis/fleetwright.dev/v1alpha1/memberclusters/east/status",
			want: request{verb: "PATCH", resource: "memberclusters", sub: "status", name: "east", changes: true},
		},
		"a namespace": {
			line: "POST /api/v1/namespaces", body: `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "life-1"}}`,
			want: request{verb: "POST", resource: "namespaces", namespace: "life-1", name: "life-1", changes: true},
		},
		"a namespace's end": {
			line: "DELETE /api/v1/namespaces/life-1",
			want: request{verb: "DELETE", resource: "namespaces", namespace: "life-1", name: "life-1", changes: true},
		},
		"all of a kind": {
			line: "DELETE /api/v1/namespaces/life-1/services",
			want: request{verb: "DELETE", resource: "services", namespace: "life-1", changes: true},
		},
		"an event": {
			line: "POST /apis/events.k8s.io/v1/namespaces/life-1/events",
			want: request{verb: "POST", resource: "events", namespace: "life-1"},
		},
		"a review": {
			line: "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
			want: request{verb: "POST", resource: "selfsubjectaccessreviews"},
		},
		"a watch": {
			line: "GET /apis/apps/v1/deployments?watch=true",
			want: request{verb: "WATCH", resource: "deployments"},
		},
		"what is no object": {
			line: "GET /version",
			want: request{verb: "GET", resource: "/version"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			method, path, _ := strings.Cut(test.line, " ")
			test.want.cluster = "east"
			got := describe("east", httptest.NewRequest(method, path, nil), []byte(test.body))
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(request{}), cmpopts.IgnoreFields(request{}, "at")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
