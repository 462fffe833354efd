package main

import (
	"io"
	"net"
	"testing"
	"time"
)

func TestForward_delays_a_round_trip_once_for_many_chunks(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	go func() { // an echo
		connection, err := server.Accept()
		if err == nil {
			_, _ = io.Copy(connection, connection)
		}
	}()
	near, far := net.Pipe()
	go forward(t.Context(), far, server.Addr().String(), 50*time.Millisecond)

	const chunks = 20
	begin := time.Now()
	go func() {
		for range chunks {
			_, _ = near.Write([]byte("x"))
		}
	}()
	if _, err := io.ReadFull(near, make([]byte, chunks)); err != nil {
		t.Fatal(err)
	}
	took := time.Since(begin)
	_ = near.Close()
	if took < 100*time.Millisecond {
		t.Errorf("took %s, want at least the round trip of 100ms", took)
	}
	if took > time.Second {
		t.Errorf("took %s: the chunks wait for each other", took)
	}
}
