package transport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/time/rate"
)

const (
	// GetTimeout is how long a member may take to answer one GetJSON.
	GetTimeout = 5 * time.Second
	// maxAnswer is the number of bytes read of a GetJSON response or of an error.
	maxAnswer = 64 << 10
)

// GetJSON reads a small JSON object within GetTimeout, apart from stalls of this process. It
// bypasses the limits on requests and responses, because a busy member is not a dead one.
func (c *Client) GetJSON(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer NewTimer(c.clock, GetTimeout, func() { cancel(context.DeadlineExceeded) }).Stop()
	request, err := http.NewRequestWithContext(context.WithValue(ctx, unlimited{}, true), http.MethodGet, c.Config.Host+path, http.NoBody)
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	request.Header.Set("Accept", "application/json")
	response, err := c.HTTP.Do(request)
	for tries := 1; isUnexplained(err) && tries < 3; tries++ {
		response, err = c.HTTP.Do(request)
	}
	if err != nil {
		return fmt.Errorf("probe: %w", timeoutOr(ctx, err))
	}
	defer func() { _ = response.Body.Close() }() // read only
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("probe: %w", timeoutOr(ctx, err))
	}
	if response.StatusCode != http.StatusOK {
		return &StatusError{Code: response.StatusCode}
	}
	if json.Unmarshal(body, into) != nil { // its text may quote the response
		return ErrNotAPIServer
	}
	return nil
}

// isUnexplained reports whether the server closed the connection before the request was written.
// The cause, such as a TLS alert that demands a client certificate, is then in the unread response.
func isUnexplained(err error) bool {
	var request *url.Error
	if !errors.As(err, &request) {
		return false
	}
	var network *net.OpError
	return request.Err.Error() == "http2: client conn could not be established" || errors.As(err, &network) && network.Op == "write"
}

// PageLimit limits the pages of a list that GetPage reads. It is independent of the limits on other
// requests.
type PageLimit struct {
	limiter *responseLimiter
	// maxBytes and maxMemory apply to one page; tooLarge is the error for a larger page.
	maxBytes, maxMemory int64
	tooLarge            error
}

// NewPageLimit returns a PageLimit with this rate in bytes per second and burst in bytes. A page
// fails with tooLarge if it exceeds maxBytes, or if it exceeds maxMemory including the cost of its
// elements.
func NewPageLimit(limit rate.Limit, burst int, maxBytes, maxMemory int64, tooLarge error) *PageLimit {
	return &PageLimit{
		limiter: newResponseLimiter(nil, rate.NewLimiter(limit, burst), maxBytes), maxBytes: maxBytes, maxMemory: maxMemory, tooLarge: tooLarge,
	}
}

// GetPage reads one page of a list and passes it to read. The timeout limits the wait for the
// member, and excludes the time in which the hub throttles the member.
func (c *Client) GetPage(ctx context.Context, path string, limit *PageLimit, timeout time.Duration, read func(io.Reader) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := NewTimer(c.clock, timeout, func() { cancel(context.DeadlineExceeded) })
	defer timer.Stop()
	request, err := http.NewRequestWithContext(context.WithValue(ctx, unlimited{}, true), http.MethodGet, c.Config.Host+path, http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "application/json")
	response, err := c.HTTP.Do(request)
	if err != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	defer func() { _ = response.Body.Close() }() // read only
	if response.StatusCode != http.StatusOK {
		return &StatusError{Code: response.StatusCode}
	}
	body := &limitedBody{
		ReadCloser: response.Body, ctx: withTimers(ctx, timer), limiter: limit.limiter,
		maxBytes: limit.maxBytes, maxMemory: limit.maxMemory, tooLarge: limit.tooLarge,
	}
	if err := read(body); err != nil {
		return errors.Join(err, body.finalErr, context.Cause(ctx))
	}
	return nil
}
