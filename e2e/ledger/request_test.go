package ledger

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
		want       Request
	}{
		"an apply": {
			line: "PATCH /apis/apps/v1/namespaces/lifecycle-1/deployments/web?force=true&fieldManager=fleetwright",
			want: Request{Verb: "PATCH", Resource: "deployments", Namespace: "lifecycle-1", Name: "web", Changes: true},
		},
		"a dry run": {
			line: "PATCH /apis/apps/v1/namespaces/lifecycle-1/deployments/web?dryRun=All",
			want: Request{Verb: "PATCH", Resource: "deployments", Namespace: "lifecycle-1", Name: "web"},
		},
		"a status": {
			line: "PATCH /apis/fleetwright.dev/v1alpha1/namespaces/lifecycle-1/appservices/web/status",
			want: Request{Verb: "PATCH", Resource: "appservices", Sub: "status", Namespace: "lifecycle-1", Name: "web", Changes: true},
		},
		"the status of a cluster-scoped object": {
			line: "PATCH /apis/fleetwright.dev/v1alpha1/memberclusters/east/status",
			want: Request{Verb: "PATCH", Resource: "memberclusters", Sub: "status", Name: "east", Changes: true},
		},
		"the number of AppServices of a MemberCluster": {
			line: "PATCH /apis/fleetwright.dev/v1alpha1/memberclusters/east/status", body: `{"status": {"appServices": 3}}`,
			want: Request{Verb: "PATCH", Resource: "memberclusters", Sub: "status", Name: "east", Changes: true, Counts: true},
		},
		"the number of AppServices and more": {
			line: "PATCH /apis/fleetwright.dev/v1alpha1/memberclusters/east/status", body: `{"status": {"appServices": 3, "version": "v1"}}`,
			want: Request{Verb: "PATCH", Resource: "memberclusters", Sub: "status", Name: "east", Changes: true},
		},
		"a namespace": {
			line: "POST /api/v1/namespaces", body: `{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lifecycle-1"}}`,
			want: Request{Verb: "POST", Resource: "namespaces", Namespace: "lifecycle-1", Name: "lifecycle-1", Changes: true},
		},
		"a slice": {
			line: "POST /apis/fleetwright.dev/v1alpha1/namespaces/lifecycle-1/appserviceslices", body: `{"apiVersion": "fleetwright.dev/v1alpha1", "kind": "AppServiceSlice", "metadata": {"name": "web-7"}, "slot": 7}`,
			want: Request{Verb: "POST", Resource: "appserviceslices", Namespace: "lifecycle-1", Name: "web-7", Changes: true},
		},
		"a namespace is deleted": {
			line: "DELETE /api/v1/namespaces/lifecycle-1",
			want: Request{Verb: "DELETE", Resource: "namespaces", Namespace: "lifecycle-1", Name: "lifecycle-1", Changes: true},
		},
		"a collection is deleted": {
			line: "DELETE /api/v1/namespaces/lifecycle-1/services",
			want: Request{Verb: "DELETE", Resource: "services", Namespace: "lifecycle-1", Changes: true},
		},
		"an event": {
			line: "POST /apis/events.k8s.io/v1/namespaces/lifecycle-1/events",
			want: Request{Verb: "POST", Resource: "events", Namespace: "lifecycle-1"},
		},
		"a review": {
			line: "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
			want: Request{Verb: "POST", Resource: "selfsubjectaccessreviews"},
		},
		"a watch": {
			line: "GET /apis/apps/v1/deployments?watch=true",
			want: Request{Verb: "WATCH", Resource: "deployments"},
		},
		"a path without an object": {
			line: "GET /version",
			want: Request{Verb: "GET", Resource: "/version"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			method, path, _ := strings.Cut(test.line, " ")
			test.want.Cluster = "east"
			got := Describe("east", httptest.NewRequest(method, path, nil), []byte(test.body))
			if diff := cmp.Diff(test.want, got, cmpopts.IgnoreFields(Request{}, "At")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
