// Package transport is the HTTP client of one member. It treats everything that the member sends as
// hostile, and connects only to addresses that a member may have.
//
// # Usage
//
//	client := transport.New(config, options) // connects to nothing yet
//	defer client.Close()
//	err := client.GetJSON(ctx, path, &object) // small objects, such as a probe
//	client.Rotate(config)                     // other credentials for the same server
//
// A cluster.Cluster on the member is made with client.Config, and with an http.Client whose
// transport is a [WatchMonitor] around client.HTTP.Transport. The [WatchHealth] of the monitor then
// tells why caches do not sync, or no longer follow the member.
//
// # Layers
//
// Each is a RoundTripper in a file of its own; a request passes them in this order:
//
//   - [WatchMonitor] (watchmonitor.go) records failures that client-go retries silently, and ends
//     lists and watches that hang;
//   - authTransport (auth.go) adds the bearer token, and redacts it from error responses;
//   - responseLimiter (limit.go) throttles responses and refuses those that are too large;
//     quantityScanner (quantities.go) finds numbers that are expensive to parse;
//   - transports (client.go) send lists over a connection of their own, so that the other one keeps
//     small buffers;
//   - checkAddress (address.go) decides on each address when it is dialled.
//
// # Invariants
//
//   - No environment variable and no redirect changes where a request goes. Link-local, metadata
//     and reserved addresses are never dialled, and loopback addresses only if the options permit
//     it.
//   - A member that sends much is throttled: reading is delayed, and TCP passes the delay on. Its
//     timers are held meanwhile. Only a response that would take too much memory at once is ended,
//     with a [LimitError].
//   - A probe is not throttled.
//   - No address, name or token of a member gets into an error of [SafeMessage], a metric or a log.
package transport
