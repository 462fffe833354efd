package copies

import (
	"bytes"
	"io"
	"net/http"
	"strings"
)

// closing is the end of the body of a copy.
const closing = "}"

// body is the body of a request for a copy. The content in it belongs to all members: it is sent from
// where it is, because a copy of it for each request would take too much memory.
type body struct {
	io.Reader
	head, content []byte
}

func newBody(head, content []byte) *body {
	return &body{io.MultiReader(bytes.NewReader(head), bytes.NewReader(content), strings.NewReader(closing)), head, content}
}

// Close does nothing.
func (b *body) Close() error { return nil }

// bodyTransport sets what http.NewRequest sets only for the readers that it knows: the length, without
// which some proxies refuse a request, and how to send the body again.
type bodyTransport struct{ next http.RoundTripper }

// RoundTrip sends the request.
func (t bodyTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if b, ok := request.Body.(*body); ok {
		request = request.WithContext(request.Context()) // a request must not be modified
		request.ContentLength = int64(len(b.head) + len(b.content) + len(closing))
		request.GetBody = func() (io.ReadCloser, error) { return newBody(b.head, b.content), nil }
	}
	return t.next.RoundTrip(request)
}

// WrappedRoundTripper returns the next transport, so that client-go can find it.
func (t bodyTransport) WrappedRoundTripper() http.RoundTripper { return t.next }
