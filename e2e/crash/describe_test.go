package crash

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestDescribe tests how the proxy describes requests. The operator is never killed at a request
// that does not count as a change.
func TestDescribe(t *testing.T) {
	tests := map[string]struct {
		line, body string
		want       request
	}{
		"an apply": {
			line: "PATCH /apis/apps/v1/namespaces/lifecycle-1/deployments/web?force=true&fieldManager=fleetwright",
			want: request{verb: "PATCH", resource: "deployments", namespace: "lifecycle-1", name: "web", changes: true},
		},
		"a dry run": {
			line: "PATCH /apis/apps/v1/namespaces/lifecycle-1/deployments/web?dryRun=All",
			want: request{verb: "PATCH", resource: "deployments", namespace: "lifecycle-1", name: "web"},
		},
		"a status": {
			line: "PATCH /apis/fleetwright.dev/v1alpha1/namespaces/lifecycle-1/appservices/web/status",
			want: request{verb: "PATCH", resource: "appservices", sub: "status", namespace: "lifecycle-1", name: "web", changes: true},
		},
		"the status of a cluster-scoped object": {
			line: "PATCH /apis/fleetwright.dev/v1alpha1/memberclusters/east/status",
			want: request{verb: "PATCH", resource: "memberclusters", sub: "status", name: "east", changes: true},
		},
		"the number of AppServices of a MemberCluster": {
			line: "PATCH /apis/fleetwright.dev/v1alpha1/memberclusters/east/status", body: `{"status": {"appServices": 3}}`,
			want: request{verb: "PATCH", resource: "memberclusters", sub: "status", name: "east", changes: true, counts: true},
		},
		"the number of AppServices and more": {
			line: "PATCH /apis/fleetwright.dev/v1alpha1/memberclusters/east/status", body: `{"status": {"appServices": 3, "version": "v1"}}`,
			want: request{verb: "PATCH", resource: "memberclusters", sub: "status", name: "east", changes: true},
		},
		"a namespace": {
			line: "POST /api/v1/namespaces", body: `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lifecycle-1"}}`,
			want: request{verb: "POST", resource: "namespaces", namespace: "lifecycle-1", name: "lifecycle-1", changes: true},
		},
		"a slice": {
			line: "POST /apis/fleetwright.dev/v1alpha1/namespaces/lifecycle-1/appserviceslices", body: `{"apiVersion": "fleetwright.dev/v1alpha1", "kind": "AppServiceSlice", "metadata": {"name": "web-7"}, "slot": 7}`,
			want: request{verb: "POST", resource: "appserviceslices", namespace: "lifecycle-1", name: "web-7", changes: true},
		},
		"a namespace is deleted": {
			line: "DELETE /api/v1/namespaces/lifecycle-1",
			want: request{verb: "DELETE", resource: "namespaces", namespace: "lifecycle-1", name: "lifecycle-1", changes: true},
		},
		"a collection is deleted": {
			line: "DELETE /api/v1/namespaces/lifecycle-1/services",
			want: request{verb: "DELETE", resource: "services", namespace: "lifecycle-1", changes: true},
		},
		"an event": {
			line: "POST /apis/events.k8s.io/v1/namespaces/lifecycle-1/events",
			want: request{verb: "POST", resource: "events", namespace: "lifecycle-1"},
		},
		"a review": {
			line: "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
			want: request{verb: "POST", resource: "selfsubjectaccessreviews"},
		},
		"a watch": {
			line: "GET /apis/apps/v1/deployments?watch=true",
			want: request{verb: "WATCH", resource: "deployments"},
		},
		"a path without an object": {
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
