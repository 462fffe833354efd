// Package transport is the HTTP client of one member. It treats everything that the member sends as
// hostile, and connects only to addresses that a member may have.
//
// # Usage
//
//	client := transport.New(config, options) // connects to nothing yet
//	defer client.Close()
//	err := client.GetJSON(ctx, path, &object) // small objects, such as a probe
//	err = client.PostJSON(ctx, path, &object, &response)
//	client.Rotate(config)                     // other credentials for the same server
//
// A cluster.Cluster on the member is made with client.Config, and with an http.Client whose
// transport is a [WatchMonitor] around client.HTTP.Transport. The [WatchHealth] of the monitor then
// reports why caches do not sync, or no longer follow the member.
//
// # Layers
//
// Each layer is a RoundTripper in a separate file. A request passes the layers in this order:
//
//   - the caller's own layers, around client.HTTP.Transport: package clusters takes the bodies of
//     watches there, to decode them itself (contain.go), and puts the monitor below;
//   - [WatchMonitor] (watchmonitor.go) records failures that client-go retries silently, and ends
//     lists and watches that hang;
//   - the user agent, and the Wrap of the options: the operator recognizes a restored member there
//     (package rewind), traces requests if there is an endpoint for that, and stops writes without the
//     Lease if there is leader election (package leasefence), in this order;
//   - authTransport (auth.go) adds the bearer token, and redacts it from error responses;
//   - responseLimiter (limit.go) throttles responses and refuses those that are too large;
//     quantityScanner (quantities.go) finds numbers that are expensive to parse;
//   - transports (transports.go) sends lists over a separate connection, so that the other connection
//     keeps small buffers;
//   - checkAddress (address.go) accepts or rejects each address when it is dialled.
//
// # Invariants
//
//   - No environment variable and no redirect changes where a request goes. Link-local, metadata
//     and reserved addresses are never dialled, and loopback addresses only if the options permit
//     it.
//   - A member that sends much data is throttled: the hub delays reading, and TCP passes the delay
//     on. The timers of the request are held meanwhile. The hub ends only a response that would
//     take too much memory at once, with a [LimitError].
//   - A probe is not throttled.
//   - No address, name or token of a member gets into an error of [SafeMessage], a metric or a log.
package transport
