package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/fleetwright/fleetwright/internal/environment/front"
)

// delayed returns a kubeconfig whose server is that of another one, further away: every round trip
// takes longer. It works until the context ends.
func delayed(ctx context.Context, kubeconfig []byte, to string, roundTrip time.Duration) ([]byte, error) {
	listener, err := front.Listen(ctx)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go forward(ctx, connection, to, roundTrip/2)
		}
	}()
	config, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	for _, cluster := range config.Clusters {
		cluster.Server = "https://" + listener.Addr().String()
	}
	return clientcmd.Write(*config)
}

// forward connects a client with a server, with a delay in each direction.
func forward(ctx context.Context, client net.Conn, to string, delay time.Duration) {
	defer func() { _ = client.Close() }()
	server, err := new(net.Dialer).DialContext(ctx, "tcp", to)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	defer context.AfterFunc(ctx, func() { _, _ = client.Close(), server.Close() })()
	done := make(chan struct{}, 2)
	copyUntilEnd := func(to, from net.Conn) {
		_ = copyLater(to, from, delay)
		done <- struct{}{}
	}
	go copyUntilEnd(server, client)
	go copyUntilEnd(client, server)
	<-done // a connection of HTTP/2 is of no use in one direction
}

// inFlight is the number of chunks that may be on their way.
const inFlight = 1024

// chunk is data with the time at which it arrives.
type chunk struct {
	data []byte
	at   time.Time
}

// copyLater copies data, each chunk after a delay. Later chunks do not wait for earlier ones, as on
// a long wire.
func copyLater(to io.Writer, from io.Reader, delay time.Duration) error {
	wire, written := make(chan chunk, inFlight), make(chan error, 1)
	go func() {
		var err error
		for c := range wire {
			if err == nil {
				time.Sleep(time.Until(c.at))
				_, err = to.Write(c.data)
			}
		}
		written <- err
	}()
	for {
		data := make([]byte, 32<<10)
		n, err := from.Read(data)
		if n > 0 {
			wire <- chunk{data[:n], time.Now().Add(delay)}
		}
		if err != nil {
			close(wire)
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return errors.Join(err, <-written)
		}
	}
}
