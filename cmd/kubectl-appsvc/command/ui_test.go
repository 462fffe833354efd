package command_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/command"
)

func TestUI(t *testing.T) {
	out, printed := io.Pipe()
	errOut := &strings.Builder{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int)
	go func() {
		ended <- command.Run(ctx, "test", []string{"--kubeconfig", hubKubeconfig, "ui"}, genericiooptions.IOStreams{In: strings.NewReader(""), Out: printed, ErrOut: errOut})
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`^(http://127\.0\.0\.1:(\d+)/)#token=([A-Z2-7]{26,})\n$`).FindStringSubmatch(line)
	if match == nil {
		t.Fatalf("got %q, want a URL with a token", line)
	}

	t.Run("the page and its stream answer", func(t *testing.T) {
		for path, want := range map[string]string{"": "<!doctype html>", "api/stream": `data: {"full":true`} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, match[1]+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Authorization", "Bearer "+match[3])
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if got, _ := bufio.NewReader(response.Body).Peek(len(want)); string(got) != want {
				t.Errorf("/%s: got status %d, %q", path, response.StatusCode, got)
			}
		}
	})
	t.Run("a port that is taken", func(t *testing.T) {
		got := run(t, "ui", "--port", match[2])
		if got.code != 1 || !strings.Contains(got.errOut, "address already in use: choose another port with --port") {
			t.Error(got)
		}
	})
	t.Run("it ends with its context", func(t *testing.T) {
		cancel()
		if code := <-ended; code != 0 {
			t.Errorf("got exit code %d: %s", code, errOut)
		}
	})
}
