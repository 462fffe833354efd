package main

import (
	"context"
	"net/url"

	clientmetrics "k8s.io/client-go/tools/metrics"
)

// members takes the place of a member's host in the metrics of client-go.
const members = "members"

// hideMembers counts the requests to all members together: by host, rest_client_requests_total would have some series for each
// member, and its labels the addresses that the Secrets hold. It is called before the first request.
func hideMembers(hub string) {
	host := hub
	if at, err := url.Parse(hub); err == nil && at.Host != "" {
		host = at.Host
	}
	clientmetrics.RequestResult = &requestCount{next: clientmetrics.RequestResult, hub: host}
}

// requestCount passes on the results of requests, those to members under one name.
type requestCount struct {
	next clientmetrics.ResultMetric
	hub  string
}

// Increment counts one request.
func (r *requestCount) Increment(ctx context.Context, code, method, host string) {
	if host != r.hub {
		host = members
	}
	r.next.Increment(ctx, code, method, host)
}
