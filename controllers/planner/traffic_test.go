package planner

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// traffic records the writes that were sent to the hub.
type traffic struct {
	mu     sync.Mutex
	writes []write
	refuse string        // the path suffix of the writes that fail
	unread string        // the path suffix of the reads that fail
	lose   string        // the path suffix of the requests whose responses are lost
	held   chan struct{} // closed when writes may continue; nil while no write is blocked
	resets int
}

type write struct {
	line string // such as "PATCH appservices/web/status"
	body string
	at   time.Time
	code int // of the response; 0 if there is none

	inFlight bool // until the response arrives or the request fails
}

func (f *traffic) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet && f.isRefusedRead(r.URL.Path) {
			return nil, errors.New("refused by the test")
		}
		if r.Method == http.MethodGet || strings.HasPrefix(r.URL.Path, "/apis/events.k8s.io/") { // events arrive at any time
			return next.RoundTrip(r)
		}
		w := write{line: r.Method + " " + r.URL.Path, at: time.Now(), inFlight: true}
		if _, path, found := strings.Cut(r.URL.Path, "/namespaces/"); found {
			_, path, _ = strings.Cut(path, "/")
			w.line = r.Method + " " + path
		} else if _, path, found := strings.Cut(r.URL.Path, "/v1alpha1/"); found {
			w.line = r.Method + " " + path
		}
		if r.Body != nil {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			w.body, r.Body = string(body), io.NopCloser(bytes.NewReader(body))
		}
		f.mu.Lock()
		f.writes = append(f.writes, w)
		number := len(f.writes) - 1
		resets := f.resets
		refused := f.refuse != "" && strings.HasSuffix(r.URL.Path, f.refuse)
		lost := f.lose != "" && strings.HasSuffix(r.URL.Path, f.lose)
		held := f.held
		f.mu.Unlock()
		if held != nil {
			select {
			case <-held:
			case <-r.Context().Done():
			}
		}
		var response *http.Response
		err := errors.New("refused by the test")
		if !refused {
			response, err = next.RoundTrip(r)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if resets == f.resets {
			f.writes[number].inFlight = false
			if err == nil {
				f.writes[number].code = response.StatusCode
			}
		}
		if err == nil && lost {
			return nil, errors.Join(errors.New("lost by the test"), response.Body.Close())
		}
		return response, err
	})
}

// hold blocks every write until release.
func (f *traffic) hold() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = make(chan struct{})
}

func (f *traffic) release() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.held)
	f.held = nil
}

func (f *traffic) list() []write {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.writes)
}

// checkResponses returns an error while a write is in flight.
func (f *traffic) checkResponses() error {
	for _, w := range f.list() {
		if w.inFlight {
			return fmt.Errorf("%s has no response yet", w.line)
		}
	}
	return nil
}

func (f *traffic) lines() []string {
	var lines []string
	for _, w := range f.list() {
		lines = append(lines, w.line)
	}
	return lines
}

// count returns how often exactly this write was sent.
func (f *traffic) count(line string) int {
	return len(slices.DeleteFunc(f.lines(), func(l string) bool { return l != line }))
}

// refuseWrites makes writes to paths with this suffix fail. An empty suffix makes none fail.
func (f *traffic) refuseWrites(end string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse = end
}

// refuseReads makes reads of paths with this suffix fail. An empty suffix makes none fail.
func (f *traffic) refuseReads(end string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unread = end
}

func (f *traffic) isRefusedRead(path string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.unread != "" && strings.HasSuffix(path, f.unread)
}

// loseResponses makes writes to paths with this suffix fail after the hub has processed them. An
// empty suffix makes none fail.
func (f *traffic) loseResponses(end string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lose = end
}

func (f *traffic) reset() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.writes = nil
	f.resets++
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
