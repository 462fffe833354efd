package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
)

// authTransport sends each request to the server with the current bearer token, and redacts the
// token from error responses: a member that echoes it must not get it into a condition or a log.
type authTransport struct {
	next        http.RoundTripper
	host        string // of the server
	credentials *atomic.Pointer[kubeconfig.Config]
}

// RoundTrip sends the request.
func (t *authTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	request = utilnet.CloneRequest(request)
	at := *request.URL
	at.Host = t.host
	request.URL, request.Host = &at, t.host
	credentials := t.credentials.Load()
	if credentials.Token != "" {
		request.Header.Set("Authorization", "Bearer "+credentials.Token)
	}
	response, err := t.next.RoundTrip(request)
	if err != nil || response.StatusCode < http.StatusMultipleChoices && !isWatchError(request, response) {
		return response, err
	}
	capRetryAfter(response.Header)
	response.Body = redactBody(credentials.Token, response.Body)
	response.ContentLength = -1
	response.Header.Del("Content-Length")
	return response, nil
}

// isWatchError reports whether client-go treats the response to a watch as an error and reads it to
// its end.
func isWatchError(request *http.Request, response *http.Response) bool {
	return response.StatusCode != http.StatusOK && request.URL.Query().Has("watch")
}

// maxRetryAfter is the longest Retry-After that a member may send, because client-go obeys it.
const maxRetryAfter = 10 * time.Second

// capRetryAfter limits the Retry-After header of a response.
func capRetryAfter(header http.Header) {
	later := header.Get("Retry-After")
	if seconds, err := strconv.Atoi(later); later != "" && (err != nil || seconds > int(maxRetryAfter.Seconds())) {
		header.Set("Retry-After", strconv.Itoa(int(maxRetryAfter.Seconds())))
	}
}

// errorTimeout limits the time for reading an error response. If the request is a watch, no other
// timeout applies.
const errorTimeout = 10 * time.Second

// redactBody reads the beginning of an error response and redacts the token in it. It drops a body
// that is truncated or does not end within errorTimeout; the status code then remains as the
// explanation. An object of JSON is complete, even if the connection fails after it: the same failure
// must have the same text each time.
func redactBody(token string, from io.ReadCloser) io.ReadCloser {
	timer := time.AfterFunc(errorTimeout, func() { _ = from.Close() })
	body, err := io.ReadAll(io.LimitReader(from, maxAnswer))
	timer.Stop()
	if err := errors.Join(err, from.Close()); err != nil && !isCompleteObject(body) {
		body = nil
	}
	if token != "" {
		body = bytes.ReplaceAll(body, []byte(token), []byte("(the token)"))
	}
	return io.NopCloser(bytes.NewReader(body))
}

func isCompleteObject(body []byte) bool {
	return bytes.HasPrefix(body, []byte("{")) && json.Valid(body)
}

// WrappedRoundTripper returns the next transport, so that client-go can find it.
func (t *authTransport) WrappedRoundTripper() http.RoundTripper { return t.next }
