package main

import (
	"testing"

	"github.com/fleetwright/fleetwright/internal/environment"
)

func TestCountReads_tells_sources_from_snapshots(t *testing.T) {
	requests, err := environment.Requests([]byte(`{"auditID":"1","verb":"get","objectRef":{"resource":"configmaps","namespace":"bench","name":"shared"}}
{"auditID":"2","verb":"get","objectRef":{"resource":"configmaps","namespace":"bench","name":"b13-001-shared-5hc9dk2m7t.snapshot"}}
{"auditID":"3","verb":"get","objectRef":{"resource":"secrets","namespace":"bench","name":"b13-002-tls-k2x7m9q4ta.snapshot"}}
`))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := countReads(requests), (contentReads{sources: 1, snapshots: 2}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
