package ui

import (
	"context"
	"net"
	"sync"
	"syscall"
)

// link is the network between a server and its hub. A test can cut it, and it can go silent.
type link struct {
	mu    sync.Mutex
	conns map[*linkConn]struct{}
	isCut bool
	// up is closed while the link is not silent.
	up chan struct{}
}

func newLink() *link {
	up := make(chan struct{})
	close(up)
	return &link{conns: map[*linkConn]struct{}{}, up: up}
}

// cut closes all connections and refuses new ones.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = true
	for conn := range l.conns {
		_ = conn.Conn.Close()
	}
}

// silence delivers nothing any more, and closes nothing.
func (l *link) silence() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.up = make(chan struct{})
}

// restore ends cut and silence.
func (l *link) restore() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.isCut = false
	select {
	case <-l.up:
	default:
		close(l.up)
	}
}

func (l *link) state() (isCut bool, up chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isCut, l.up
}

// dial is the Dial of a rest.Config.
func (l *link) dial(ctx context.Context, network, address string) (net.Conn, error) {
	isCut, up := l.state()
	if isCut {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	select {
	case <-up:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	inner, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	conn := &linkConn{Conn: inner, link: l, closed: make(chan struct{})}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[conn] = struct{}{}
	return conn, nil
}

type linkConn struct {
	net.Conn
	link   *link
	once   sync.Once
	closed chan struct{}
}

// Read holds what it read while the link is silent.
func (c *linkConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	_, up := c.link.state()
	select {
	case <-up:
		return n, err
	case <-c.closed:
		return 0, net.ErrClosed
	}
}

func (c *linkConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
