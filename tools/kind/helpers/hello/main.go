// Command hello is a test workload: a web server that answers every request on ports 80 and 8080
// with $GREETING (default hello) and its host name. If there is $GREETING_FILE, it answers with the
// present content of this file instead. Without permission to listen on port 80, it listens on 8080
// only. It handles SIGTERM, which the first process of a container ignores by
// default, and exits when it has answered all requests. It logs one line when it listens. It ignores
// its arguments.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "hello:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	greeting := cmp.Or(os.Getenv("GREETING"), "hello")
	server := &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			host, _ := os.Hostname()
			greeting := greeting
			if file := os.Getenv("GREETING_FILE"); file != "" {
				content, err := os.ReadFile(file)
				if err != nil {
					http.Error(w, err.Error(), http.StatusInternalServerError)
					return
				}
				greeting = string(content)
			}
			fmt.Fprintf(w, "%s from %s\n", greeting, host)
		}),
	}
	ended := make(chan error, 2)
	for _, address := range []string{":80", ":8080"} {
		listener, err := net.Listen("tcp", address)
		if errors.Is(err, os.ErrPermission) {
			continue
		} else if err != nil {
			return err
		}
		go func() { ended <- server.Serve(listener) }()
	}
	fmt.Println("hello: listening")
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	// Without the timeout, Shutdown would wait for connections without a request.
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = server.Shutdown(ctx) // The process exits in any case.
	return nil
}
