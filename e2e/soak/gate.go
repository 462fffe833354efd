package main

import (
	"context"
	"net"
	"sync"

	"github.com/fleetwright/fleetwright/internal/environment/front"
)

// cutMode is what a gate does with connections.
type cutMode int

const (
	open     cutMode = iota
	refusing         // connections end at once, as those to a stopped server
	silent           // connections stay, and nothing passes, as with a broken network
)

func (m cutMode) String() string { return [...]string{"open", "refusing", "silent"}[m] }

// gate forwards the connections to a server, or cuts them.
type gate struct {
	address string // of the gate
	server  string

	mu          sync.Mutex
	mode        cutMode
	changed     chan struct{} // closed when the mode changes
	connections map[net.Conn]bool
}

// newGate returns a gate that forwards until the context ends.
func newGate(ctx context.Context, server string) (*gate, error) {
	listener, err := front.Listen(ctx)
	if err != nil {
		return nil, err
	}
	g := &gate{address: listener.Addr().String(), server: server, changed: make(chan struct{}), connections: map[net.Conn]bool{}}
	context.AfterFunc(ctx, func() {
		_ = listener.Close()
		g.drop()
	})
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go g.serve(ctx, connection)
		}
	}()
	return g, nil
}

// set changes the mode. It ends all connections, except those that become silent.
func (g *gate) set(mode cutMode) {
	g.mu.Lock()
	g.mode = mode
	close(g.changed)
	g.changed = make(chan struct{})
	g.mu.Unlock()
	if mode != silent {
		g.drop()
	}
}

// drop ends all connections.
func (g *gate) drop() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for connection := range g.connections {
		_ = connection.Close()
	}
}

// current returns the mode, and a channel that is closed when it changes.
func (g *gate) current() (cutMode, <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mode, g.changed
}

// track remembers a connection until the function that it returns is called.
func (g *gate) track(connection net.Conn) func() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.connections[connection] = true
	return func() {
		_ = connection.Close()
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.connections, connection)
	}
}

func (g *gate) serve(ctx context.Context, client net.Conn) {
	defer g.track(client)()
	if mode, _ := g.current(); mode == refusing {
		return
	}
	server, err := new(net.Dialer).DialContext(ctx, "tcp", g.server)
	if err != nil {
		return
	}
	defer g.track(server)()
	done := make(chan struct{}, 2)
	forward := func(to, from net.Conn) {
		g.copy(to, from)
		done <- struct{}{}
	}
	go forward(server, client)
	go forward(client, server)
	<-done // a connection of HTTP/2 is of no use in one direction
}

// copy copies until a connection ends. When a silent gate opens, the connection ends too, because
// its client has given up.
func (g *gate) copy(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if mode, changed := g.current(); mode != open {
			<-changed
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}
