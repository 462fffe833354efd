package clusters_test

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fleetwright/fleetwright/internal/wait"
)

// mode determines what a networkLink does with connections.
type mode int

const (
	modePass     mode = iota // passes everything on unchanged
	modeRefuse               // refuses new connections and resets open ones
	modeSilent               // accepts connections and holds all data until the mode changes
	modeSlow                 // delays each chunk
	modeDropSYN              // answers no SYN, as a firewall does; open connections are silent
	modeTruncate             // passes only the first bytes of the server: part of its TLS hello
)

// truncateAfter is how many bytes pass in the mode halfway.
const truncateAfter = 100

// networkLink is a TCP proxy with faults between the operator and one member. Its address stays the
// same in all modes.
type networkLink struct {
	address string

	mu       sync.Mutex
	server   string
	mode     mode
	delay    time.Duration
	changed  chan struct{} // closed and replaced with each change of the mode
	listener net.Listener
	dropping []int                 // the sockets of a listener whose queue is full
	open     map[net.Conn]struct{} // the operator's connections
	accepted int
}

// newNetworkLink returns a networkLink that passes connections to a server. It ends with the test.
func newNetworkLink(t testing.TB, server string) *networkLink {
	t.Helper()
	address, release, err := reserveAddress(serverAddresses)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(release)
	l := &networkLink{address: address, server: server, changed: make(chan struct{}), open: map[net.Conn]struct{}{}}
	memberAddresses.add(l.address)
	l.setMode(t, modePass)
	t.Cleanup(func() { l.setMode(t, modeRefuse) })
	return l
}

// reserveAddress returns an address at which no other process can listen until it is released,
// because a socket is bound to it. It is none of the addresses that are taken, even if nothing
// listens there anymore: an address is either always a member's or always an API server's.
func reserveAddress(taken *forbiddenTexts) (address string, release func(), err error) {
	socket, err := newSocket()
	if err != nil {
		return "", nil, err
	}
	release = func() { _ = syscall.Close(socket) }
	err = errors.Join(
		syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1),
		syscall.Bind(socket, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}),
	)
	name, nameErr := syscall.Getsockname(socket)
	if err := errors.Join(err, nameErr); err != nil {
		release()
		return "", nil, err
	}
	address = net.JoinHostPort("127.0.0.1", strconv.Itoa(name.(*syscall.SockaddrInet4).Port))
	if len(taken.foundIn(address)) > 0 {
		defer release() // after another one is reserved
		return reserveAddress(taken)
	}
	return address, release, nil
}

// setMode changes the mode, for open connections too.
func (l *networkLink) setMode(t testing.TB, to mode) {
	t.Helper()
	if err := l.setModeWithDelay(to, 0); err != nil {
		t.Fatal(err)
	}
}

func (l *networkLink) setModeWithDelay(to mode, delay time.Duration) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if (to == modeRefuse || to == modeDropSYN) && l.listener != nil {
		_ = l.listener.Close()
		l.listener = nil
	}
	for _, socket := range l.dropping {
		_ = syscall.Close(socket)
	}
	l.dropping = nil
	var err error
	switch {
	case to == modeRefuse:
		l.closeConnections()
	case to == modeDropSYN:
		l.dropping, err = listenWithFullQueue(l.address)
	case l.listener == nil:
		err = l.listen()
	}
	if err != nil {
		return err
	}
	l.mode, l.delay = to, delay
	close(l.changed)
	l.changed = make(chan struct{})
	return nil
}

// newSocket returns a TCP socket that no child process inherits. macOS has no SOCK_CLOEXEC.
func newSocket() (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	socket, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(socket)
	}
	return socket, err
}

// listenWithFullQueue listens at an address with a queue of one, and fills the queue. Linux then
// drops every further SYN.
func listenWithFullQueue(address string) (sockets []int, err error) {
	at, err := net.ResolveTCPAddr("tcp4", address)
	if err != nil {
		return nil, err
	}
	name := &syscall.SockaddrInet4{Port: at.Port, Addr: [4]byte(at.IP.To4())}
	for range 2 {
		socket, err := newSocket()
		if err != nil {
			return sockets, err
		}
		sockets = append(sockets, socket)
	}
	return sockets, errors.Join(
		syscall.SetsockoptInt(sockets[0], syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1),
		syscall.Bind(sockets[0], name),
		syscall.Listen(sockets[0], 0),
		syscall.Connect(sockets[1], name),
	)
}

// setServer directs new connections to another server.
func (l *networkLink) setServer(server string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.server = server
}

// serverAddress returns the address of the server.
func (l *networkLink) serverAddress() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.server
}

// resetConnections resets all open connections. New connections are served as before.
func (l *networkLink) resetConnections() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closeConnections()
}

// connectionCounts returns the number of connections accepted so far, and the number that are open.
func (l *networkLink) connectionCounts() (accepted, open int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.accepted, len(l.open)
}

func (l *networkLink) closeConnections() {
	for c := range l.open {
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	}
}

func (l *networkLink) listen() error {
	listener, err := net.Listen("tcp", l.address)
	if err != nil {
		return err
	}
	l.listener = listener
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go l.serve(c)
		}
	}()
	return nil
}

// serve carries one connection until either side ends it.
func (l *networkLink) serve(operator net.Conn) {
	l.mu.Lock()
	l.accepted++
	l.open[operator] = struct{}{}
	l.mu.Unlock()
	ended := make(chan struct{})
	defer func() {
		_ = operator.Close()
		l.mu.Lock()
		delete(l.open, operator)
		l.mu.Unlock()
	}()
	server, err := net.Dial("tcp", l.serverAddress())
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	var once sync.Once
	end := func() { once.Do(func() { close(ended); _ = operator.Close(); _ = server.Close() }) }
	var both sync.WaitGroup
	both.Go(func() { defer end(); l.copyData(server, operator, false, ended) })
	both.Go(func() { defer end(); l.copyData(operator, server, true, ended) })
	both.Wait()
}

func (l *networkLink) copyData(to, from net.Conn, toOperator bool, ended <-chan struct{}) {
	buffer := make([]byte, 32<<10)
	for sent := 0; ; {
		n, err := from.Read(buffer)
		if n > 0 {
			if l.hasMode(modeTruncate) && toOperator && sent == 0 {
				sent, _ = to.Write(buffer[:min(n, truncateAfter)])
				copy(buffer, buffer[sent:n])
				n -= sent
			}
			l.waitWhileHeld(toOperator, ended)
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (l *networkLink) hasMode(m mode) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mode == m
}

// waitWhileHeld blocks until the mode lets data pass, or the connection has ended.
func (l *networkLink) waitWhileHeld(toOperator bool, ended <-chan struct{}) {
	for {
		l.mu.Lock()
		mode, delay, changed := l.mode, l.delay, l.changed
		l.mu.Unlock()
		switch {
		case mode == modeSilent, mode == modeDropSYN, mode == modeTruncate && toOperator:
			select {
			case <-changed:
				continue
			case <-ended:
			}
		case mode == modeSlow:
			select {
			case <-time.After(delay):
			case <-ended:
			}
		}
		return
	}
}

func TestNetworkLink_modes(t *testing.T) {
	t.Parallel()
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = echo.Close() })
	go func() {
		for {
			c, err := echo.Accept()
			if err != nil {
				return
			}
			go func() {
				buffer := make([]byte, 1)
				for {
					if _, err := c.Read(buffer); err != nil {
						return
					}
					_, _ = c.Write(buffer)
				}
			}()
		}
	}()
	l := newNetworkLink(t, echo.Addr().String())
	dial := func() net.Conn {
		c, err := net.Dial("tcp", l.address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	answers := func(c net.Conn, within time.Duration) error {
		_ = c.SetDeadline(time.Now().Add(within))
		if _, err := c.Write([]byte("x")); err != nil {
			return err
		}
		_, err := c.Read(make([]byte, 1))
		return err
	}
	var timeout net.Error
	first := dial()
	if err := answers(first, wait.Patience); err != nil {
		t.Errorf("pass: %v", err)
	}
	l.setMode(t, modeSilent)
	if err := answers(first, 100*time.Millisecond); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("silent, an old connection: %v", err)
	}
	second := dial()
	if err := answers(second, 100*time.Millisecond); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("silent, a new connection: %v", err)
	}
	l.setMode(t, modePass)
	if err := answers(second, wait.Patience); err != nil {
		t.Errorf("pass again: %v", err)
	}
	_ = l.setModeWithDelay(modeSlow, 60*time.Millisecond)
	third := dial()
	if begun := time.Now(); answers(third, wait.Patience) != nil || time.Since(begun) < 100*time.Millisecond {
		t.Errorf("slow: answered after %s", time.Since(begun))
	}
	l.setMode(t, modeDropSYN)
	if _, err := net.DialTimeout("tcp", l.address, 100*time.Millisecond); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("drop: %v", err)
	}
	l.setMode(t, modeRefuse)
	if err := answers(third, wait.Patience); err == nil {
		t.Error("refuse: an old connection works")
	}
	if _, err := net.Dial("tcp", l.address); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("refuse: %v", err)
	}
	l.setMode(t, modePass)
	fourth := dial()
	if err := answers(fourth, wait.Patience); err != nil {
		t.Errorf("pass after refuse: %v", err)
	}
	l.resetConnections()
	if err := answers(fourth, wait.Patience); err == nil {
		t.Error("after resetConnections: an old connection works")
	}
	wait.Eventually(t, func() error {
		if accepted, open := l.connectionCounts(); accepted != 4 || open != 0 {
			return fmt.Errorf("%d connections were made and %d are open, want 4 and 0", accepted, open)
		}
		return nil
	})
}
