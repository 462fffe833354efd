package delivery

import (
	"context"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
)

// hangingProxy is a connection to a member that can hang on demand: it accepts requests, and no
// response arrives.
type hangingProxy struct {
	net.Listener
	silent atomic.Bool
}

// newHangingProxy returns a config that reaches the member through a hanging connection.
func newHangingProxy(t *testing.T, config *rest.Config) (*rest.Config, *hangingProxy) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &hangingProxy{Listener: listener}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); listener.Close() })
	server := strings.Trim(strings.TrimPrefix(config.Host, "https://"), "/")
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", server)
			if err != nil {
				near.Close()
				continue
			}
			context.AfterFunc(ctx, func() { near.Close(); far.Close() })
			go func() { _, _ = io.Copy(far, near) }()
			go func() { _, _ = io.Copy(&silencer{near, &h.silent}, far) }()
		}
	}()
	config = rest.CopyConfig(config)
	config.Host = "https://" + listener.Addr().String()
	return config, h
}

// silencer drops written data while it is silent.
type silencer struct {
	io.Writer
	silent *atomic.Bool
}

func (s *silencer) Write(p []byte) (int, error) {
	if s.silent.Load() {
		return len(p), nil
	}
	return s.Writer.Write(p)
}
