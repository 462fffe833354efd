package ui

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/fleetwright/fleetwright/internal/servertest"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// TestServe_ends_at_once_while_the_hub_is_dead tests that the page ends although the watches wait before
// they try again, which takes longer after each attempt.
func TestServe_ends_at_once_while_the_hub_is_dead(t *testing.T) {
	var attempts atomic.Int32
	config := &rest.Config{Host: "http://" + servertest.FreeAddress(t), Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		attempts.Add(1)
		return new(net.Dialer).DialContext(ctx, network, address)
	}}
	server, err := Listen(Options{Config: config, Address: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- server.Serve(ctx) }()
	wait.Eventually(t, func() error { // each of three watches waits for seconds then
		if n := attempts.Load(); n < 9 {
			return fmt.Errorf("%d attempts", n)
		}
		return nil
	})
	start := time.Now()
	interrupt()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("it ends after %s", took)
	}
}
