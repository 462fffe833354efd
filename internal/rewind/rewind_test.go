package rewind

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The server of these tests is at resource version 100, unless a case says another one. e2e/timetravel
// tests the same on API servers whose etcd is restored.
func TestRoundTrip(t *testing.T) {
	tests := map[string]struct {
		method, request string
		version         string // of the server; 100 by default
		code            int    // of the response to the list; 200 by default
		want            []string
		wantCode        int
	}{
		"a watch at the current version": {
			request: "/api/v1/services?resourceVersion=100&watch=true",
			want:    []string{check, watch}, wantCode: http.StatusOK,
		},
		"a watch at an earlier version": {
			request: "/api/v1/services?labelSelector=a%3Db&resourceVersion=7&timeoutSeconds=300&watch=1",
			want:    []string{"/api/v1/services?labelSelector=a%3Db&limit=1", "/api/v1/services?labelSelector=a%3Db&resourceVersion=7&timeoutSeconds=300&watch=1"}, wantCode: http.StatusOK,
		},
		"a watch at a later version": {
			request: "/api/v1/services?resourceVersion=101&watch=true",
			want:    []string{check}, wantCode: http.StatusGone,
		},
		"a version with more digits": {
			request: "/api/v1/services?resourceVersion=1000&watch=true",
			want:    []string{check}, wantCode: http.StatusGone,
		},
		"a server whose versions are not numbers": {
			request: "/api/v1/services?resourceVersion=101&watch=true", version: "abc",
			want: []string{check, "/api/v1/services?resourceVersion=101&watch=true"}, wantCode: http.StatusOK,
		},
		"a list that is refused": {
			request: "/api/v1/services?resourceVersion=100&watch=true", code: http.StatusForbidden,
			want: []string{check}, wantCode: http.StatusForbidden,
		},
		"a watch from the beginning": {
			request: "/api/v1/services?resourceVersion=0&watch=true",
			want:    []string{"/api/v1/services?resourceVersion=0&watch=true"}, wantCode: http.StatusOK,
		},
		"a watch that lists": {
			request: "/api/v1/services?resourceVersion=101&sendInitialEvents=true&watch=true",
			want:    []string{"/api/v1/services?resourceVersion=101&sendInitialEvents=true&watch=true"}, wantCode: http.StatusOK,
		},
		"a list": {
			request: "/api/v1/services?resourceVersion=101",
			want:    []string{"/api/v1/services?resourceVersion=101"}, wantCode: http.StatusOK,
		},
		"a write": {
			method: http.MethodDelete, request: "/api/v1/services?resourceVersion=101&watch=true",
			want: []string{"/api/v1/services?resourceVersion=101&watch=true"}, wantCode: http.StatusOK,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				got = append(got, r.URL.String())
				if version := test.version; r.URL.Query().Has("limit") {
					if version == "" {
						version = "100"
					}
					if test.code != 0 {
						w.WriteHeader(test.code)
					}
					_, _ = fmt.Fprintf(w, `{"metadata":{"resourceVersion":%q},"items":[]}`, version)
				}
			}))
			defer server.Close()
			method := test.method
			if method == "" {
				method = http.MethodGet
			}
			request, err := http.NewRequestWithContext(t.Context(), method, server.URL+test.request, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			checked := Wrap(http.DefaultTransport).(*roundTripper)
			checked.continuesList(request) // an earlier watch
			response, err := checked.RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = response.Body.Close() }()
			if response.StatusCode != test.wantCode {
				t.Errorf("the response is %s, want %d", response.Status, test.wantCode)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if response.StatusCode == http.StatusGone {
				checkExpired(t, response.Body)
			}
		})
	}
}

// requestsOf returns the requests that reach a server that is at version 100, when these are sent, and the
// epoch after each of these.
func requestsOf(t *testing.T, uris ...string) (got []string, epochs []int64) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.URL.RequestURI())
		_, _ = fmt.Fprint(w, `{"metadata":{"resourceVersion":"100"},"items":[]}`)
	}))
	defer server.Close()
	var detector Detector
	checked := detector.Wrap(http.DefaultTransport)
	for _, uri := range uris {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+uri, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := checked.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		epochs = append(epochs, detector.Epoch())
	}
	return got, epochs
}

const (
	list      = "/api/v1/services?resourceVersion=0"
	otherList = "/api/v1/services?labelSelector=a%3Db"
	watch     = "/api/v1/services?resourceVersion=100&watch=true"
	lostWatch = "/api/v1/services?resourceVersion=101&watch=true"
	stream    = "/api/v1/services?resourceVersion=&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&watch=true"
	check     = "/api/v1/services?limit=1"
)

// A watch that follows a list cannot have lost its version.
func TestFirst_watch_after_a_list_is_not_checked(t *testing.T) {
	got, epochs := requestsOf(t, list, watch, watch, list, watch, otherList, watch)
	if diff := cmp.Diff([]string{list, watch, check, watch, list, watch, otherList, check, watch}, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int64{0, 0, 0, 1, 1, 1, 1}, epochs); diff != "" {
		t.Errorf("epochs (-want +got):\n%s", diff)
	}
}

// The informers of the hub never list: their first request is a watch that begins with all objects and
// goes on. So each later watch resumes, also the first.
func TestFirst_watch_after_a_streamed_list_is_checked(t *testing.T) {
	got, epochs := requestsOf(t, stream, lostWatch, stream, watch, watch)
	if diff := cmp.Diff([]string{stream, check, stream, check, watch, check, watch}, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int64{0, 0, 1, 1, 1}, epochs); diff != "" {
		t.Errorf("epochs (-want +got):\n%s", diff)
	}
}

// The server is down when a watch is to continue a list. It may come back with an older etcd.
func TestWatch_is_checked_after_one_that_failed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, `{"metadata":{"resourceVersion":"100"},"items":[]}`)
	}))
	defer server.Close()
	isDown := true
	checked := Wrap(roundTrip(func(request *http.Request) (*http.Response, error) {
		if isDown {
			return nil, errors.New("connection refused")
		}
		return http.DefaultTransport.RoundTrip(request)
	}))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+lostWatch, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := checked.RoundTrip(request); err == nil {
		t.Fatal("the server is not down")
	}
	isDown = false
	response, err := checked.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusGone {
		t.Errorf("the response is %s", response.Status)
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(request *http.Request) (*http.Response, error) { return f(request) }

// checkExpired fails the test unless client-go takes the response for an expired version.
func checkExpired(t *testing.T, body io.Reader) {
	t.Helper()
	var status metav1.Status
	if err := json.NewDecoder(body).Decode(&status); err != nil {
		t.Fatal(err)
	}
	if status.Reason != metav1.StatusReasonExpired || status.Code != http.StatusGone {
		t.Errorf("the status is %+v", status)
	}
}
