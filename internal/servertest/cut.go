package servertest

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
)

// Cut is a connection to an API server on which informers lose events of one resource. From Begin to
// End, the watches that run end, new ones have expired, and lists wait. So what happens to an object
// meanwhile is seen by no watch, and the next list shows only its result. All other requests pass.
//
// Sieve (OSDI 2022) calls this pattern "unobserved states". Its other two are tested by e2e/timetravel,
// "stale states", and e2e/crash, "intermediate states".
type Cut struct {
	// Resource is the last part of the path of its lists, for example "deployments".
	Resource string

	mu      sync.Mutex
	ended   chan struct{} // nil if no events are lost
	watches []*cutBody
}

// cutBody is the body of a watch.
type cutBody struct {
	io.ReadCloser
	isCut atomic.Bool
}

// Read returns the end of the watch after it was cut.
func (b *cutBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.isCut.Load() {
		return 0, io.EOF
	}
	return n, err
}

// Begin begins to lose events.
func (c *Cut) Begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended == nil {
		c.ended = make(chan struct{})
	}
	for _, w := range c.watches {
		w.isCut.Store(true)
		_ = w.Close()
	}
	c.watches = nil
}

// End lets everything pass. The next list shows the current state.
func (c *Cut) End() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended != nil {
		close(c.ended)
		c.ended = nil
	}
}

// Wrap returns a round tripper for the connection.
func (c *Cut) Wrap(next http.RoundTripper) http.RoundTripper { return &cutTripper{c, next} }

type cutTripper struct {
	*Cut
	next http.RoundTripper
}

// RoundTrip sends the request, unless it is cut.
func (t *cutTripper) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	if request.Method != http.MethodGet || !strings.HasSuffix(request.URL.Path, "/"+t.Resource) {
		return t.next.RoundTrip(request)
	}
	// A list that may be older than the present is sent again, because a cache of the API server may
	// answer it.
	isWatch, mayBeOld := query.Get("watch") != "", query.Get("resourceVersion") != ""
	if ended := t.isCut(); ended != nil {
		if !isWatch || query.Get("sendInitialEvents") == "true" {
			select {
			case <-ended:
			case <-request.Context().Done():
				return nil, request.Context().Err()
			}
		}
		if mayBeOld {
			return expired(request), nil
		}
	}
	response, err := t.next.RoundTrip(request)
	if isWatch && err == nil {
		response.Body = t.add(response.Body)
	}
	return response, err
}

// isCut returns a channel that is closed at the end, or nil if no events are lost.
func (c *Cut) isCut() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// add returns the body of a watch that can be cut.
func (c *Cut) add(body io.ReadCloser) io.ReadCloser {
	c.mu.Lock()
	defer c.mu.Unlock()
	added := &cutBody{ReadCloser: body}
	c.watches = append(c.watches, added)
	if c.ended != nil { // it began meanwhile
		added.isCut.Store(true)
		_ = added.Close()
	}
	return added
}

// expired returns the response of an API server that no longer has a resource version.
func expired(request *http.Request) *http.Response {
	const status = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}`
	return &http.Response{
		StatusCode: http.StatusGone, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(status)), Request: request,
	}
}
