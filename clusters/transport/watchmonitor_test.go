package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
)

func TestPersistentError_reports_watches_that_fail_for_long(t *testing.T) {
	const second, cleared = time.Second, -1
	type seconds = []time.Duration
	tests := map[string]struct {
		failed seconds // when watches failed
		now    time.Duration
		want   string
	}{
		"never failed":                       {nil, 1000, ""},
		"failed once":                        {seconds{0}, 0, ""},
		"failed once, a minute ago":          {seconds{0}, 60, ""},
		"failed twice":                       {seconds{0, 20}, 20, ""},
		"failed twice, several watches each": {seconds{0, 0, 0, 0, 20, 20, 20}, 20, ""},
		"failing for less than the window":   {seconds{0, 10, 14}, 14, ""},
		"failing for the window":             {seconds{0, 10, 15}, 15, "the watches fail: at 15s"},
		"failing, with rare retries":         {seconds{0, 75, 150}, 150, "the watches fail: at 2m30s"},
		"failing, before the next retry":     {seconds{0, 10, 30}, 105, "the watches fail: at 30s"},
		"failed, and recovered":              {seconds{0, 10, 30}, 106, ""},
		"recovered, and failed once":         {seconds{0, 10, 30, 106}, 106, ""},
		"recovered, and failed twice":        {seconds{0, 10, 30, 106, 136}, 136, ""},
		"recovered, and failing again":       {seconds{0, 10, 30, 106, 136, 140}, 140, "the watches fail: at 2m20s"},
		"failed a few times within a day":    {seconds{0, 1000, 2000, 86400}, 86400, ""},
		"twice within a minute, every hour":  {seconds{0, 50, 3600, 3650, 7200, 7250}, 7250, ""},
		"failed before the caches synced":    {seconds{0, 10, 20, cleared, 21}, 21, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var health WatchHealth
			start := time.Now()
			for _, at := range test.failed {
				if at == cleared {
					health.Reset()
					continue
				}
				health.recordFailure("pods", fmt.Errorf("at %s", at*second), start.Add(at*second))
			}
			got := ""
			if err := health.PersistentError(start.Add(test.now * second)); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestHandleError_ignores_normal_ends_of_watches(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	tests := map[string]struct {
		err               error
		recorded, refused bool
	}{
		"the end of a watch":    {io.EOF, false, false},
		"an expired version":    {apierrors.NewResourceExpired("old"), false, false},
		"a failed connection":   {errors.New("refused"), true, false},
		"a truncated response":  {io.ErrUnexpectedEOF, true, false},
		"too large an event":    {errEventTooLarge, true, true},
		"too large a list":      {fmt.Errorf("read: %w", listTooLarge(1<<30)), true, true},
		"an expensive quantity": {ErrQuantityTooExpensive, true, true},
		"forbidden":             {apierrors.NewForbidden(pods, "", nil), true, true},
		"unauthorized":          {apierrors.NewUnauthorized(""), true, true},
		"forbidden, wrapped":    {fmt.Errorf("list: %w", apierrors.NewForbidden(pods, "", nil)), true, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			refused := false
			health := WatchHealth{OnRefused: func() { refused = true }}
			reflector := toolscache.NewReflector(&toolscache.ListWatch{}, &corev1.Pod{}, toolscache.NewStore(toolscache.MetaNamespaceKeyFunc), 0)
			health.HandleError(WithRequiredKind(t.Context(), "pods"), reflector, test.err)
			if recorded := health.LastError() != nil; recorded != test.recorded || refused != test.refused {
				t.Errorf("recorded %t, refused %t; want %t, %t", recorded, refused, test.recorded, test.refused)
			}
		})
	}
}

// During a rolling restart of a control plane, watches fail several times within minutes, but
// deliver events in between. An event at the very beginning of a watch does not reset the count,
// because a server that ends each watch as too old sends an event too. An event of another kind
// does not reset it either.
func TestEvent_between_failures_resets_their_count(t *testing.T) {
	for name, test := range map[string]struct {
		kind     string
		after    time.Duration
		persists bool
	}{
		"of a watch that has lasted":     {"pods", 2 * shortWatch, false},
		"of a watch that has just begun": {"pods", shortWatch / 2, true},
		"of a watch of another kind":     {"services", 2 * shortWatch, true},
		"that is incomplete":             {"", 2 * shortWatch, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				health := WatchHealth{Silence: time.Hour}
				server := newSilentBody()
				o := &WatchMonitor{Health: &health, Next: respond(func() *http.Response {
					return &http.Response{StatusCode: http.StatusOK, Body: server}
				})}
				request := newWatchRequest(t, true)
				if test.kind != "" {
					request = request.WithContext(WithRequiredKind(t.Context(), test.kind))
				}
				persisted := false
				for range 4 {
					health.recordFailure("pods", errShortWatch, time.Now())
					persisted = persisted || health.PersistentError(time.Now()) != nil
					response, err := o.RoundTrip(request)
					if err != nil {
						t.Fatal(err)
					}
					time.Sleep(test.after)
					text := "{}\n"
					if test.kind == "" {
						text = "{}"
					}
					go server.send(text)
					if n, err := response.Body.Read(make([]byte, 10)); n != len(text) || err != nil {
						t.Fatal(n, err)
					}
					time.Sleep(20 * time.Second)
				}
				if persisted != test.persists {
					t.Errorf("the failures persist: %t, want %t", persisted, test.persists)
				}
			})
		})
	}
}

// The reader of a list that does not end also records its error, which does not count again.
func TestSlow_list_counts_as_two_failures(t *testing.T) {
	var health WatchHealth
	start := time.Now()
	slow := func(at time.Duration) error {
		health.recordFailures("pods", errSlowList, start.Add(at), slowListFailures)
		health.recordFailure("pods", context.DeadlineExceeded, start.Add(at))
		return health.PersistentError(start.Add(at))
	}
	if err := slow(0); err != nil {
		t.Error("after one list:", err)
	}
	if err := slow(40 * time.Second); !errors.Is(err, context.DeadlineExceeded) {
		t.Error("after two lists:", err)
	}
}

// client-go retries these status codes after Retry-After and calls no handler.
func TestWatchMonitor_records_status_codes_that_client_go_retries(t *testing.T) {
	for code, want := range map[int]bool{200: false, 400: false, 403: false, 410: true, 429: true, 500: true, 503: true, 599: true} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			var health WatchHealth
			health.Silence = time.Hour
			o := &WatchMonitor{Health: &health, Next: respond(func() *http.Response {
				return &http.Response{StatusCode: code, Body: http.NoBody}
			})}
			if _, err := o.RoundTrip(newWatchRequest(t, true)); err != nil {
				t.Fatal(err)
			}
			if recorded := health.LastError() != nil; recorded != want {
				t.Errorf("recorded: %t, want %t", recorded, want)
			}
		})
	}
}

// A silent watch of a kind whose informer was requested later ends without a recorded failure.
// Otherwise it would hang forever.
func TestOptional_watch_that_is_silent_ends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		health := WatchHealth{Silence: time.Minute}
		server := newSilentBody()
		o := &WatchMonitor{Health: &health, Next: respond(func() *http.Response {
			return &http.Response{StatusCode: http.StatusOK, Body: server}
		})}
		response, err := o.RoundTrip(newWatchRequest(t, false))
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			time.Sleep(50 * time.Second)
			server.send("{}\n")
		}()
		begun := time.Now()
		if _, err := io.ReadAll(response.Body); !errors.Is(err, io.ErrClosedPipe) || time.Since(begun) != 110*time.Second {
			t.Errorf("the watch ends with %v after %s", err, time.Since(begun))
		}
		if err := errors.Join(response.Body.Close(), health.LastError()); err != nil {
			t.Error(err)
		}
	})
}

// newWatchRequest returns a request for a watch.
func newWatchRequest(t *testing.T, required bool) *http.Request {
	ctx := t.Context()
	if required {
		ctx = WithRequiredKind(ctx, "pods")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://member/api/v1/pods?watch=true", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	return request
}

// silentBody is a body that returns its text and then does not end.
type silentBody struct {
	*io.PipeReader
	writer *io.PipeWriter
}

func newSilentBody() silentBody {
	r, w := io.Pipe()
	return silentBody{r, w}
}

func (s silentBody) send(text string) { _, _ = io.WriteString(s.writer, text) }

// A server or a proxy may close the connection after the last byte of a response, and before its end.
func TestError_response_is_read_if_the_connection_fails_after_it(t *testing.T) {
	for text, want := range map[string]string{
		`{"message": "no canary-token"}`: `{"message": "no (the token)"}`,
		`{"message": "no canary-tok`:     "",
		`"canary-tok"`:                   "",
	} {
		server := newSilentBody()
		go func() {
			server.send(text)
			_ = server.writer.CloseWithError(io.ErrUnexpectedEOF)
		}()
		body, err := io.ReadAll(redactBody("canary-token", server))
		if string(body) != want || err != nil {
			t.Errorf("of %s, got %q, %v, want %q", text, body, err, want)
		}
	}
}

func TestError_response_that_does_not_end_is_ended(t *testing.T) {
	for name, code := range map[string]int{"an error": 503, "a redirect": 307, "a status that no watch has": 206} {
		for _, token := range []string{"", "canary-token"} {
			t.Run(fmt.Sprintf("%s, token %q", name, token), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					server := newSilentBody()
					go server.send("canary-tok")
					s := &authTransport{credentials: &atomic.Pointer[kubeconfig.Config]{}, next: respond(func() *http.Response {
						return &http.Response{StatusCode: code, Header: http.Header{}, Body: server}
					})}
					s.credentials.Store(&kubeconfig.Config{Token: token})
					begun := time.Now()
					response, err := s.RoundTrip(newWatchRequest(t, true))
					if err != nil {
						t.Fatal(err)
					}
					body, err := io.ReadAll(response.Body)
					if response.StatusCode != code || len(body) > 0 || err != nil || time.Since(begun) != errorTimeout {
						t.Errorf("%d %q, %v after %s", response.StatusCode, body, err, time.Since(begun))
					}
				})
			})
		}
	}
}
