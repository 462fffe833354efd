package clusters

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
	"github.com/fleetwright/fleetwright/clusters/transport"
)

// throttledOptions returns options that throttle from the first byte.
func throttledOptions() transport.Options {
	return transport.Options{ReadRate: 1, ReadBurst: transport.MinReadBurst, MaxListBytes: 1 << 30, AllowLoopback: true}
}

// A stream that the operator does not read uses the flow-control window of its HTTP/2 connection.
// The window of the connection is much larger than the windows of all possible streams, so probes
// on the same connection get through. With HTTP/1.1, each request has a connection of its own.
func TestProbe_succeeds_next_to_throttled_watches(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/2": true, "HTTP/1.1": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const watches = 16
			var sent atomic.Int64
			event := []byte(`{"type":"ADDED","object":{"data":"` + strings.Repeat("x", 1<<20) + `"}}` + "\n")
			member := newTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == identityPath {
					respondWithIdentity(w, r)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				for {
					n, err := w.Write(event)
					sent.Add(int64(n))
					if err != nil {
						return
					}
				}
			}, func(server *httptest.Server, _ *kubeconfig.Config) { server.EnableHTTP2 = http2 })
			c := transport.New(member, throttledOptions())
			defer c.Close()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for range watches {
				request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Config.Host+"/api/v1/pods?watch=true", http.NoBody)
				if err != nil {
					t.Fatal(err)
				}
				response, err := c.HTTP.Do(request)
				if err != nil {
					t.Fatal(err)
				}
				go func() { _, _ = io.Copy(io.Discard, response.Body) }()
			}
			stalled := int64(-1)
			// Wait until the member can send no more.
			for now := sent.Load(); now != stalled || now < watches<<20; now = sent.Load() {
				stalled = now
				<-time.After(200 * time.Millisecond)
			}
			for range 5 {
				if id, err := probe(ctx, c); err != nil || id != "uid-1" {
					t.Fatalf("probe after %d MiB: %q, %v", sent.Load()>>20, id, err)
				}
			}
			t.Logf("the member has sent %d MiB", sent.Load()>>20)
		})
	}
}

// Headers are not part of the body, so the limit on the body does not cover them.
func TestResponse_with_large_headers_is_refused(t *testing.T) {
	const maxHeaderBytes = 64 << 10 // see package transport
	for name, http2 := range map[string]bool{"HTTP/2": true, "HTTP/1.1": false} {
		for _, size := range []int{maxHeaderBytes / 2, 2 * maxHeaderBytes} {
			t.Run(fmt.Sprintf("%s, %d bytes", name, size), func(t *testing.T) {
				t.Parallel()
				member := newTLSServer(t, func(w http.ResponseWriter, r *http.Request) {
					for i := range 16 {
						w.Header().Set("X-Large-"+string(rune('A'+i)), string(bytes.Repeat([]byte("x"), size/16)))
					}
					respondWithIdentity(w, r)
				}, func(server *httptest.Server, _ *kubeconfig.Config) { server.EnableHTTP2 = http2 })
				if _, err := probeOnce(t, member, true); (err != nil) != (size > maxHeaderBytes) {
					t.Errorf("the probe returns %v", err)
				}
			})
		}
	}
}
