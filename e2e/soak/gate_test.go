package main

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"
)

// echo returns a gate before a server that sends back what it gets, and a client of the gate.
func echo(t *testing.T) (*gate, net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(connection, connection) }()
		}
	}()
	g, err := newGate(t.Context(), listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return g, dial(t, g)
}

func dial(t *testing.T, g *gate) net.Conn {
	t.Helper()
	connection, err := net.Dial("tcp", g.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return connection
}

// call sends a byte and waits for the response.
func call(connection net.Conn, timeout time.Duration) error {
	_ = connection.SetDeadline(time.Now().Add(timeout))
	if _, err := connection.Write([]byte("x")); err != nil {
		return err
	}
	_, err := io.ReadFull(connection, make([]byte, 1))
	return err
}

const patience = 10 * time.Second

func TestGate_forwards_refuses_is_silent_and_opens_again(t *testing.T) {
	g, first := echo(t)
	if err := call(first, patience); err != nil {
		t.Fatalf("an open gate: %v", err)
	}
	g.set(silent)
	if err := call(first, 100*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a silent gate responds: %v", err)
	}
	g.set(open)
	if err := call(first, patience); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection of a silent gate works after it opened: %v", err)
	}
	second := dial(t, g)
	if err := call(second, patience); err != nil {
		t.Errorf("a gate that was opened: %v", err)
	}
	g.set(refusing)
	if err := call(second, patience); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a refusing gate keeps a connection: %v", err)
	}
	if err := call(dial(t, g), patience); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a refusing gate takes a connection: %v", err)
	}
}

func TestFaults_are_one_percent_until_they_are_disabled(t *testing.T) {
	f := newFaults(1)
	for range 100_000 {
		f.choose(false)
		f.choose(true)
	}
	total, counts := f.figures()
	sum := 0
	for _, n := range counts {
		sum += n
	}
	if total != 200_000 || sum < 1_800 || sum > 2_200 || len(counts) != 6 {
		t.Errorf("%d requests with %d faults: %v", total, sum, counts)
	}
	f.disable()
	for range 10_000 {
		if chosen := f.choose(false); chosen != noFault {
			t.Fatalf("a fault after the end: %s", chosen)
		}
	}
}

func TestProxy_accepts_the_valid_tokens_only(t *testing.T) {
	p := &proxy{tokens: []string{"first"}}
	request := func(token string) *http.Request {
		r := httptest.NewRequest(http.MethodGet, "/version", http.NoBody)
		r.Header.Set("Authorization", "Bearer "+token)
		return r
	}
	p.addToken()
	second := p.tokens[1]
	if !p.isAuthenticated(request("first")) || !p.isAuthenticated(request(second)) {
		t.Error("a valid token is rejected")
	}
	p.revokeOld()
	if p.isAuthenticated(request("first")) || !p.isAuthenticated(request(second)) {
		t.Error("the old token is accepted, or the new one is rejected")
	}
}
