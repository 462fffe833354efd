package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
)

// staticServer returns the body for a request, or the error.
type staticServer struct {
	body io.Reader
	err  error
}

func (a staticServer) RoundTrip(*http.Request) (*http.Response, error) {
	if a.err != nil {
		return nil, a.err
	}
	header := http.Header{"Content-Type": {"application/json; charset=utf-8"}}
	return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(a.body)}, nil
}

const testRate, testBurst, testMaxList = 1 << 20, 4 << 20, 64 << 20

func newTestLimiter(next http.RoundTripper) *responseLimiter {
	return newResponseLimiter(next, rate.NewLimiter(testRate, testBurst), testMaxList)
}

// newRequest returns a request with a method and a query.
func newRequest(ctx context.Context, method, query string) *http.Request {
	request, err := http.NewRequestWithContext(ctx, method, "https://member/apis/apps/v1/deployments?"+query, http.NoBody)
	if err != nil {
		panic(err)
	}
	return request
}

// body returns the limited body of a response.
func (l *responseLimiter) body(t testing.TB, request *http.Request) io.ReadCloser {
	t.Helper()
	response, err := l.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	return response.Body
}

func filler(size int) string { return strings.Repeat("x", size) }

func TestLimitedBody_is_throttled_and_never_truncated(t *testing.T) {
	event := `{"type":"ADDED","object":{"data":"` + filler(1<<20) + `"}}` + "\n"
	list := func(size int) string { return `{"data":"` + filler(size) + `","items":[]}` }
	tests := map[string]struct {
		method, query, body string
		extra               int // the cost in addition to the bytes
	}{
		"a list within the burst":    {method: http.MethodGet, query: "limit=500", body: list(testBurst - 100)},
		"a list over the burst":      {method: http.MethodGet, query: "limit=500", body: list(3 * testBurst)},
		"a watch far over the burst": {method: http.MethodGet, query: "watch=true", body: strings.Repeat(event, 20), extra: 20 * eventCost},
		"many small events":          {method: http.MethodGet, query: "watch=true", body: strings.Repeat(`{"a":{}}`, 10_000), extra: 10_000 * eventCost},
		"a list of many elements":    {method: http.MethodGet, query: "limit=500", body: `{"items":[{"a":{"b":[` + strings.Repeat("{},", 20_000) + `null]}}]}`, extra: 20_001*elementCost + itemCost},
		"a list of many items":       {method: http.MethodGet, query: "limit=500", body: `{"items":[` + strings.Repeat("{},", 20_000) + `null]}`, extra: 20_001 * itemCost},
		"JSON in a string":           {method: http.MethodGet, query: "limit=500", body: `{"last":"` + strings.Repeat(`[{\"a\":{}},{}]`, 100_000) + `"}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, begun := newTestLimiter(staticServer{body: strings.NewReader(test.body)}), time.Now()
				read, err := io.ReadAll(l.body(t, newRequest(t.Context(), test.method, test.query)))
				if string(read) != test.body || err != nil {
					t.Errorf("read %d bytes of %d, then %v", len(read), len(test.body), err)
				}
				owed := max(0, len(test.body)+test.extra-testBurst)
				want := time.Duration(owed) * time.Second / testRate
				if took := time.Since(begun); took < want-time.Second/10 || took > want+time.Second/10 {
					t.Errorf("reading took %s, want %s", took, want)
				}
			})
		})
	}
}

func TestLimitedBody_over_a_size_is_refused(t *testing.T) {
	object := func(size int) string { return `{"type":"ADDED","object":{"data":"` + filler(size) + `"}}` }
	items := func(count int) string { return `{"items":[` + strings.Repeat("{},", count) + `{}]}` }
	elements := func(count int) string { return `{"items":[{"a":[` + strings.Repeat("{},", count) + `{}]}]}` }
	number := `{"cpu":"1e-9999999"}`
	tests := map[string]struct {
		method, query, body string
		want                error
	}{
		"an event of nearly 4 MiB":                   {http.MethodGet, "watch=true", object(MaxEventBytes - 100), nil},
		"an event of 4 MiB after another":            {http.MethodGet, "watch=true", object(1<<20) + object(MaxEventBytes), errEventTooLarge},
		"events of more than 4 MiB in total":         {http.MethodGet, "watch=true", strings.Repeat(object(1<<20), 8), nil},
		"a large event that contains braces":         {http.MethodGet, "watch=true", object(100) + `{"a":"` + strings.Repeat("}{", MaxEventBytes/2) + `"}`, errEventTooLarge},
		"an event of many objects":                   {http.MethodGet, "watch=true", `{"a":[` + strings.Repeat("{},", maxEventMemory/elementCost), errEventTooLarge},
		"a watch of a string":                        {http.MethodGet, "watch=true", `"` + filler(MaxEventBytes), ErrNotAPIServer},
		"an event with a long key":                   {http.MethodGet, "watch=true", `{"` + filler(MaxEventBytes), errEventTooLarge},
		"a list of zeros":                            {http.MethodGet, "limit=500", strings.Repeat("\x00", 100), ErrNotAPIServer},
		"a watch with unbalanced braces":             {http.MethodGet, "watch=true", "{}" + strings.Repeat("}{}", MaxEventBytes/3+1), errEventTooLarge},
		"a response of 4 MiB to a write":             {http.MethodPatch, "", object(MaxEventBytes), errEventTooLarge},
		"a list of 4 MiB":                            {http.MethodGet, "limit=500", object(MaxEventBytes), nil},
		"a list over the limit":                      {http.MethodGet, "limit=500", object(testMaxList), listTooLarge(testMaxList)},
		"a list of items over the limit":             {http.MethodGet, "limit=500", items(testMaxList / itemCost), listTooLarge(testMaxList)},
		"a list of items within the limit":           {http.MethodGet, "limit=500", items(testMaxList / (itemCost + 4)), nil},
		"a list of elements over the limit":          {http.MethodGet, "limit=500", elements(testMaxList / elementCost), listTooLarge(testMaxList)},
		"a list of elements within the limit":        {http.MethodGet, "limit=500", elements(testMaxList / (elementCost + 4)), nil},
		"a list of two expensive numbers":            {http.MethodGet, "limit=500", `{"a":[` + strings.Repeat(number+",", 2), nil},
		"a list of three expensive numbers":          {http.MethodGet, "limit=500", `{"a":[` + strings.Repeat(number+",", 3), ErrQuantityTooExpensive},
		"a watch of expensive numbers in each event": {http.MethodGet, "watch=true", strings.Repeat(`{"a":`+number+`}`, 10), nil},
		"a watch of expensive numbers in one event":  {http.MethodGet, "watch=true", `{"a":[` + strings.Repeat(number+",", 3), ErrQuantityTooExpensive},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				body := newTestLimiter(staticServer{body: strings.NewReader(test.body)}).body(t, newRequest(t.Context(), test.method, test.query))
				_, err := io.ReadAll(body)
				if fmt.Sprint(err) != fmt.Sprint(test.want) {
					t.Errorf("got %v, want %v", err, test.want)
				}
				if n, again := body.Read(make([]byte, 1)); test.want != nil && (n != 0 || again == nil) {
					t.Errorf("the next read returns %d, %v", n, again)
				}
			})
		})
	}
}

func TestLimit_is_shared_by_all_bodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, begun := newTestLimiter(respondWith(func() io.Reader { return strings.NewReader(`{"a":"` + filler(testBurst) + `"}`) })), time.Now()
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if n, err := io.Copy(io.Discard, l.body(t, newRequest(t.Context(), http.MethodGet, ""))); n < testBurst || err != nil {
					t.Errorf("read %d bytes, then %v", n, err)
				}
			})
		}
		all.Wait()
		if took := time.Since(begun); took < 16*time.Second || took > 17*time.Second {
			t.Errorf("20 MiB took %s, want 16 s", took)
		}
	})
}

func TestProbe_is_not_throttled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestLimiter(respondWith(func() io.Reader { return strings.NewReader(`{"a":"` + filler(2*testBurst) + `"}`) }))
		go func() { _, _ = io.ReadAll(l.body(t, newRequest(t.Context(), http.MethodGet, ""))) }()
		synctest.Wait()
		begun := time.Now()
		probe := newRequest(context.WithValue(t.Context(), unlimited{}, true), http.MethodGet, "")
		if _, err := io.ReadAll(l.body(t, probe)); err != nil || time.Since(begun) > 0 {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
	})
}

func TestThrottled_body_ends_with_its_request(t *testing.T) {
	for name, test := range map[string]struct {
		bound func(context.Context) (context.Context, context.CancelFunc)
		want  error
		after time.Duration
	}{
		"cancelled": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(2*time.Second, cancel)
			return ctx, cancel
		}, context.Canceled, 2 * time.Second},
		"with a deadline before the limiter permits the read": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 2*time.Second)
		}, context.DeadlineExceeded, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := test.bound(t.Context())
				defer cancel()
				begun := time.Now()
				body := newTestLimiter(staticServer{body: strings.NewReader(`{"a":"` + filler(4*testBurst) + `"}`)}).body(t, newRequest(ctx, http.MethodGet, ""))
				if _, err := io.ReadAll(body); !errors.Is(err, test.want) || time.Since(begun) > test.after {
					t.Errorf("%v after %s", err, time.Since(begun))
				}
			})
		})
	}
}

// While a body is throttled, the timers of its request are held: the member is not slow, and its
// watch is not silent.
func TestTimers_are_held_while_a_body_is_throttled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var expired atomic.Int64
		begun := time.Now()
		timer := NewTimer(nil, 5*time.Second, func() { expired.Store(int64(time.Since(begun))) })
		body := newTestLimiter(staticServer{body: strings.NewReader(`{"a":"` + filler(11*testBurst) + `"}`)}).body(t, newRequest(withTimers(t.Context(), timer), http.MethodGet, ""))
		if _, err := io.ReadAll(body); err != nil || expired.Load() > 0 {
			t.Errorf("%v, and it expired after %s", err, time.Duration(expired.Load()))
		}
		throttled := time.Since(begun)
		time.Sleep(time.Minute)
		if after := time.Duration(expired.Load()); throttled < 39*time.Second || after != throttled+5*time.Second {
			t.Errorf("throttled for %s, it expired after %s", throttled, after)
		}
	})
}

func TestLimiter_returns_the_errors_of_the_transport(t *testing.T) {
	refused := errors.New("refused")
	l := newTestLimiter(staticServer{err: refused})
	if response, err := l.RoundTrip(newRequest(t.Context(), http.MethodGet, "")); response != nil || !errors.Is(err, refused) {
		t.Errorf("got %v, %v", response, err)
	}
	if l.WrappedRoundTripper() != l.next {
		t.Error("the transport below is hidden")
	}
}

// A response that is not JSON is neither weighed nor decoded: a protobuf list can hold a thousand
// objects in two thousand bytes.
func TestLimiter_refuses_other_content_types_than_JSON(t *testing.T) {
	for _, kind := range []string{"", "application/vnd.kubernetes.protobuf", "application/yaml", "text/html", "application/json/x"} {
		answer := respond(func() *http.Response {
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(&bytes.Buffer{})}
		})
		if _, err := newTestLimiter(answer).RoundTrip(newRequest(t.Context(), http.MethodGet, "")); !errors.Is(err, ErrNotAPIServer) {
			t.Errorf("%q: %v", kind, err)
		}
	}
}

type respond func() *http.Response

func (r respond) RoundTrip(*http.Request) (*http.Response, error) { return r(), nil }

// respondWith returns a server that sends a new body for each request.
func respondWith(body func() io.Reader) respond {
	return func() *http.Response {
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(body())}
	}
}

func TestLimiter_requests_JSON_only(t *testing.T) {
	const metadata = ";as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
	for accept, want := range map[string]string{
		"":                 "application/json",
		"application/json": "application/json",
		"application/json, application/json" + metadata:                                            "application/json, application/json" + metadata,
		"application/vnd.kubernetes.protobuf" + metadata + ",application/json" + metadata + ",*/*": "application/json" + metadata,
		"application/cbor": "application/json",
	} {
		var got acceptRecorder
		l := newTestLimiter(&got)
		request := newRequest(t.Context(), http.MethodGet, "")
		request.Header.Set("Accept", accept)
		if err := l.body(t, request).Close(); err != nil {
			t.Fatal(err)
		}
		if got.accept != want {
			t.Errorf("Accept %q is sent as %q, want %q", accept, got.accept, want)
		}
		if kept := request.Header.Get("Accept"); kept != accept {
			t.Errorf("the caller's request was changed: Accept is %q, was %q", kept, accept)
		}
	}
}

// acceptRecorder records which formats a request accepts.
type acceptRecorder struct{ accept string }

func (r *acceptRecorder) RoundTrip(request *http.Request) (*http.Response, error) {
	r.accept = request.Header.Get("Accept")
	return staticServer{body: strings.NewReader("{}")}.RoundTrip(request)
}
