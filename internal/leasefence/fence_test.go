package leasefence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

const testRenewDeadline = 10 * time.Second

var (
	reads  = []string{http.MethodGet, http.MethodHead, http.MethodOptions}
	writes = []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, "FROBNICATE"}
)

func TestFence(t *testing.T) {
	tests := map[string]struct {
		prepare func(f *Fence)
		closed  string // part of the error of a write; empty if the fence is open
	}{
		"is closed before the election":          {func(*Fence) {}, "does not hold the lease"},
		"is open after a renewal":                {func(f *Fence) { f.open(time.Now()) }, ""},
		"is open until the renew deadline":       {func(f *Fence) { f.open(time.Now().Add(time.Second - testRenewDeadline)) }, ""},
		"is closed after the renew deadline":     {func(f *Fence) { f.open(time.Now().Add(-testRenewDeadline)) }, "has not renewed the lease of the leader election for 10s"},
		"is open after a renewal that came late": {func(f *Fence) { f.open(time.Now().Add(-time.Minute)); f.open(time.Now()) }, ""},
		"is closed after the Lease was released": {func(f *Fence) { f.open(time.Now()); f.close() }, "does not hold the lease"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var received atomic.Int32
			server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
				if slices.Contains(writes, request.Method) {
					received.Add(1)
				}
			}))
			t.Cleanup(server.Close)
			f := New(testRenewDeadline)
			test.prepare(f)
			c := &http.Client{Transport: f.Wrap(server.Client().Transport)}
			for _, method := range reads {
				if err := send(c, method, server.URL); err != nil {
					t.Errorf("%s: %v", method, err)
				}
			}
			for _, method := range writes {
				err := send(c, method, server.URL)
				if test.closed == "" && err != nil || test.closed != "" && !isFenced(err, test.closed) {
					t.Errorf("%s: got %v, want %q", method, err, test.closed)
				}
			}
			if n := received.Load(); (n > 0) != (test.closed == "") {
				t.Errorf("the server received %d writes", n)
			}
		})
	}
}

// isFenced reports whether the fence refused a request for a reason, in the way that delivery
// detects it.
func isFenced(err error, reason string) bool {
	var refusal interface{ Fenced() bool }
	return errors.As(err, &refusal) && refusal.Fenced() && strings.Contains(err.Error(), reason)
}

// send sends a request with a body, as client-go does for a write.
func send(c *http.Client, method, url string) error {
	request, err := http.NewRequest(method, url, strings.NewReader(`{"kind": "Lease"}`))
	if err != nil {
		return err
	}
	response, err := c.Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

func TestFence_refuses_a_write_that_waited_for_its_connection(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		t.Run(fmt.Sprintf("http2=%t", http2), func(t *testing.T) {
			received := make(chan string, 1)
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, request *http.Request) {
				if body, err := io.ReadAll(request.Body); err == nil {
					received <- string(body)
				}
			}))
			server.EnableHTTP2 = http2
			server.StartTLS()
			f := New(testRenewDeadline)
			f.open(time.Now())
			transport := server.Client().Transport.(*http.Transport)
			transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
				f.close() // as if dialing took longer than the renew deadline
				return (&net.Dialer{}).DialContext(ctx, network, address)
			}
			err := send(&http.Client{Transport: f.Wrap(transport)}, http.MethodPost, server.URL)
			if !isFenced(err, "does not hold the lease") {
				t.Errorf("got %v", err)
			}
			server.Close() // waits for the handler
			select {
			case body := <-received:
				t.Errorf("the server received %s", body)
			default:
			}
		})
	}
}
