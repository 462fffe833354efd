package delivery

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// traffic records the requests to an API server except the lists and watches of caches. A request
// is recorded as "VERB resource/name", or as "GET resource" for a list in a namespace. A dry run is
// a "DRY-RUN".
type traffic struct {
	mu       sync.Mutex
	requests []string
	answer   func(request string) (*http.Response, error) // replaces the response of the server
}

func (f *traffic) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		request := line(r)
		if request == "" {
			return next.RoundTrip(r)
		}
		f.mu.Lock()
		f.requests = append(f.requests, request)
		answer := f.answer
		f.mu.Unlock()
		if answer != nil {
			if response, err := answer(request); response != nil || err != nil {
				return response, err
			}
		}
		return next.RoundTrip(r)
	})
}

// line returns the request as a line, or "" for a list or a watch of all namespaces, which only a
// cache sends.
func line(r *http.Request) string {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	parts = parts[min(len(parts), map[string]int{"api": 2, "apis": 3}[parts[0]]):]
	namespaced := len(parts) > 2 && parts[0] == "namespaces"
	if namespaced {
		parts = parts[2:]
	}
	if r.Method == http.MethodGet && len(parts) < 2 && !namespaced {
		return ""
	}
	verb := r.Method
	if r.URL.Query().Has("dryRun") {
		verb = "DRY-RUN"
	}
	return verb + " " + strings.Join(parts, "/")
}

func (f *traffic) all() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests)
}

// writes returns the requests that may change something, without repetitions: while the cache lags
// behind, a request may be sent again.
func (f *traffic) writes() []string {
	var writes []string
	for _, request := range f.all() {
		isEvent := strings.HasSuffix(request, " events") // events arrive at any time
		if !strings.HasPrefix(request, http.MethodGet) && !isEvent && !slices.Contains(writes, request) {
			writes = append(writes, request)
		}
	}
	return writes
}

// count returns how often exactly this request was sent.
func (f *traffic) count(request string) int {
	return len(slices.DeleteFunc(f.all(), func(r string) bool { return r != request }))
}

func (f *traffic) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.requests = nil
}

// answers makes the function answer requests in place of the server, if it returns a response.
func (f *traffic) answers(answer func(request string) (*http.Response, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answer = answer
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// refuse answers requests that begin with this text with a Status, in place of the member.
func refuse(request string, code int32, message string) func(string) (*http.Response, error) {
	return func(got string) (*http.Response, error) {
		if !strings.HasPrefix(got, request) {
			return nil, nil
		}
		status := metav1.Status{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
			Status:   metav1.StatusFailure,
			Code:     code,
			Message:  message,
		}
		if code == http.StatusTooManyRequests {
			status.Reason, status.Details = metav1.StatusReasonTooManyRequests, &metav1.StatusDetails{RetryAfterSeconds: 7}
		}
		body, err := json.Marshal(status)
		return &http.Response{
			StatusCode: int(code),
			Header:     http.Header{"Content-Type": {"application/json"}},
			Body:       io.NopCloser(strings.NewReader(string(body))),
		}, err
	}
}
