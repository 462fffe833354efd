package rewind

import (
	"encoding/json"
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
	const list = "/api/v1/services?limit=1"
	tests := map[string]struct {
		method, request string
		version         string // of the server; 100 by default
		code            int    // of the response to the list; 200 by default
		want            []string
		wantCode        int
	}{
		"a watch at the current version": {
			request: "/api/v1/services?resourceVersion=100&watch=true",
			want:    []string{list, "/api/v1/services?resourceVersion=100&watch=true"}, wantCode: http.StatusOK,
		},
		"a watch at an earlier version": {
			request: "/api/v1/services?labelSelector=a%3Db&resourceVersion=7&timeoutSeconds=300&watch=1",
			want:    []string{"/api/v1/services?labelSelector=a%3Db&limit=1", "/api/v1/services?labelSelector=a%3Db&resourceVersion=7&timeoutSeconds=300&watch=1"}, wantCode: http.StatusOK,
		},
		"a watch at a later version": {
			request: "/api/v1/services?resourceVersion=101&watch=true",
			want:    []string{list}, wantCode: http.StatusGone,
		},
		"a version with more digits": {
			request: "/api/v1/services?resourceVersion=1000&watch=true",
			want:    []string{list}, wantCode: http.StatusGone,
		},
		"a server whose versions are not numbers": {
			request: "/api/v1/services?resourceVersion=101&watch=true", version: "abc",
			want: []string{list, "/api/v1/services?resourceVersion=101&watch=true"}, wantCode: http.StatusOK,
		},
		"a list that is refused": {
			request: "/api/v1/services?resourceVersion=100&watch=true", code: http.StatusForbidden,
			want: []string{list}, wantCode: http.StatusForbidden,
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

// A watch that follows a list cannot have lost its version.
func TestFirst_watch_after_a_list_is_not_checked(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.URL.RequestURI())
		_, _ = fmt.Fprint(w, `{"metadata":{"resourceVersion":"100"},"items":[]}`)
	}))
	defer server.Close()
	const list, otherList, watch = "/api/v1/services?resourceVersion=0", "/api/v1/services?labelSelector=a%3Db", "/api/v1/services?resourceVersion=100&watch=true"
	checked := Wrap(http.DefaultTransport)
	for _, uri := range []string{list, watch, watch, list, watch, otherList, watch} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+uri, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := checked.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
	}
	const check = "/api/v1/services?limit=1"
	if diff := cmp.Diff([]string{list, watch, check, watch, list, watch, otherList, check, watch}, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

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
