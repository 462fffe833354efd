package transport

import "net/http"

// transports sends lists over one connection and everything else over another. A connection keeps
// its read buffers at the size of the largest read: after a list, 16 KiB for HTTP/2 frames and up
// to 40 KiB for TLS records; after the small events of idle watches, little. The connection for
// lists is closed soon after the last list, so an idle member holds only the other connection.
type transports struct {
	lists, rest *http.Transport
}

// RoundTrip sends the request.
func (t transports) RoundTrip(request *http.Request) (*http.Response, error) {
	if isList(request) {
		return t.lists.RoundTrip(request)
	}
	return t.rest.RoundTrip(request)
}

// isList reports whether a request is a list: a GET with a query that is no watch. A list has a
// resource version, a limit or a selector; probes, the version and GETs of objects have no query.
// A mistake costs memory, and nothing else.
func isList(request *http.Request) bool {
	return request.Method == http.MethodGet && request.URL.RawQuery != "" && !isWatch(request)
}

// closeIdle closes the connections that carry no request.
func (t transports) closeIdle() {
	t.lists.CloseIdleConnections()
	t.rest.CloseIdleConnections()
}
