package main

import (
	"bytes"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

func TestLines_that_clients_cause_are_limited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		root := slog.New(newLineLimiter(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
				return slog.Attr{}
			}
			return a
		}})))
		derived := root.With("logger", "metrics").WithGroup("request")
		for range 3 {
			root.Error("Authentication failed")
			derived.Error("Authentication failed", "path", "/metrics")
			root.Warn("http: TLS handshake error from 192.0.2.1:1: EOF")
			root.Info("Readiness changed")
		}
		time.Sleep(clientLinePeriod)
		derived.Error("Authentication failed", "path", "/metrics")
		want := `msg="Authentication failed"
msg="http: TLS handshake error from 192.0.2.1:1: EOF"
msg="Readiness changed"
msg="Readiness changed"
msg="Readiness changed"
msg="Authentication failed" logger=metrics request.path=/metrics request.omitted=5
`
		if got := out.String(); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
}
