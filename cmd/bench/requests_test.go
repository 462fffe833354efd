package main

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseRequests_counts_by_verb_without_the_background(t *testing.T) {
	got, err := parseRequests([]byte(`# TYPE apiserver_request_total counter
apiserver_request_total{code="200",resource="deployments",verb="APPLY"} 3
apiserver_request_total{code="409",resource="deployments",verb="APPLY"} 1
apiserver_request_total{code="200",resource="leases",verb="PUT"} 70
apiserver_request_total{code="201",resource="configmaps",verb="APPLY"} 2
apiserver_request_total{code="200",resource="configmaps",verb="GET"} 80
apiserver_request_total{code="201",resource="events",verb="POST"} 5
apiserver_request_total{code="200",resource="events",verb="LIST"} 2
apiserver_request_total{code="200",resource="",verb="GET"} 9
apiserver_request_total{code="201",resource="serviceaccounts",subresource="token",verb="POST"} 4
apiserver_request_total{code="201",resource="subjectaccessreviews",subresource="",verb="POST"} 4
apiserver_request_duration_seconds_count{verb="GET"} 4
`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(counts{"APPLY": 6, eventVerb: 5, "LIST": 2}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got.writes() != 6 || got.reads() != 2 {
		t.Errorf("got %d writes and %d reads, want 6 and 2", got.writes(), got.reads())
	}
}

func TestWriteCounter_counts_writes_as_the_metrics_do(t *testing.T) {
	counter := &writeCounter{}
	send := counter.wrap(roundTripper(func(*http.Request) (*http.Response, error) { return nil, nil }))
	for _, r := range []struct{ method, path, content string }{
		{"GET", "/api/v1/namespaces/x/services", ""},
		{"POST", "/apis/fleetwright.dev/v1alpha1/namespaces/x/appservices", ""},
		{"PATCH", "/apis/apps/v1/namespaces/x/deployments/y/status", "application/merge-patch+json"},
		{"PATCH", "/api/v1/namespaces/x/services/y", "application/apply-patch+yaml"},
		{"PUT", "/apis/coordination.k8s.io/v1/namespaces/x/leases/y", ""},
	} {
		request, err := http.NewRequest(r.method, "https://127.0.0.1"+r.path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", r.content)
		_, _ = send.RoundTrip(request)
	}
	if diff := cmp.Diff(counts{"POST": 1, "PATCH": 1, "APPLY": 1}, counter.read()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCounts_minus_leaves_out_what_is_equal(t *testing.T) {
	got := counts{"GET": 5, "PUT": 2}.minus(counts{"GET": 5, "PUT": 1})
	if diff := cmp.Diff(counts{"PUT": 1}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCheck_refuses_more_members_than_fit_into_memory(t *testing.T) {
	if err := (settings{members: 1000000}).checkMemory(); err == nil {
		t.Error("a million members are accepted")
	}
}

func TestParse_refuses(t *testing.T) {
	for _, args := range [][]string{{"-scenarios", "B99"}, {"-members", "0"}, {"-apps", "1"}, {"-repeat", "0"}, {"-rest", "0s"}, {"again"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%v is accepted", args)
		}
	}
}
