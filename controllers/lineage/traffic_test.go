package lineage_test

import (
	"net/http"
	"slices"
	"strings"
	"sync"
)

// traffic records the requests to a member, each as "VERB path".
type traffic struct {
	mu       sync.Mutex
	requests []string
}

func (t *traffic) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		t.mu.Lock()
		t.requests = append(t.requests, r.Method+" "+r.URL.Path)
		t.mu.Unlock()
		return next.RoundTrip(r)
	})
}

// has reports whether there was a request with this verb for an object of this name.
func (t *traffic) has(verb, name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.requests, func(r string) bool { return strings.HasPrefix(r, verb+" ") && strings.HasSuffix(r, "/"+name) })
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
