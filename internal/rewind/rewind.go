// Package rewind detects that the etcd of an API server was restored from a backup.
//
// A restore takes the resource versions of a cluster back. An informer that runs meanwhile resumes
// its watch at a version that the server has not reached again. The server accepts this watch and
// sends nothing until the version is reached, which may take as long as the time between the backup
// and the restore. The informer then has objects that do not exist any more, and later misses
// changes, without an error.
//
// # Contract
//
//   - Before a watch that resumes at a resource version, the round tripper lists the same resource,
//     with a limit of one object and metadata only. If the server is at an earlier version, the watch
//     is not sent, and the response is 410 with the reason Expired: an informer then lists
//     everything again.
//   - The first watch of a resource, and the first after a list of it, are not checked, because they
//     continue a list. So an informer that starts costs no additional request. A watch that begins with
//     all objects is such a list and its first watch, so the next one is checked.
//   - A watch that fails counts as well: the server may be restored before the informer tries again.
//   - If the list fails, its response or its error is that of the watch. An informer tries again.
//   - Resource versions that are not numbers are not compared.
//   - Other requests pass unchanged.
//   - When a watched resource is about to be listed again, another [Detector.Epoch] begins. What was read
//     in an earlier one may be from before a restore.
//
// A server that has passed the version before the informer resumes is not detected. To exclude this,
// restore with etcdutl snapshot restore --bump-revision --mark-compacted, or restart the client.
package rewind

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Detector detects restores of one API server. The zero value is ready to use. It is safe for concurrent
// use.
type Detector struct{ epoch atomic.Int64 }

// Epoch returns a number that rises whenever a watched resource is about to be listed again. Every restore
// that this package detects, and every one after which the versions of a watch have expired, raises it.
func (d *Detector) Epoch() int64 { return d.epoch.Load() }

// Wrap returns a round tripper that checks the watches that are sent through next. It is safe for
// concurrent use.
// docs/decisions/a-watch-does-not-resume-at-a-lost-version.md says why.
func (d *Detector) Wrap(next http.RoundTripper) http.RoundTripper {
	return &roundTripper{next: next, detector: d, mayResume: map[resource]bool{}}
}

// Wrap returns a round tripper that checks the watches that are sent through next, for a caller that needs
// no epochs. It is safe for concurrent use.
func Wrap(next http.RoundTripper) http.RoundTripper { return new(Detector).Wrap(next) }

// roundTripper checks watches.
type roundTripper struct {
	next     http.RoundTripper
	detector *Detector

	mu sync.Mutex
	// mayResume has the resources that were watched. It is false if the resource was listed since
	// then by a request of its own, so that the next watch continues the list.
	mayResume map[resource]bool
}

// resource is what an informer lists and watches.
type resource struct{ host, path, labelSelector, fieldSelector string }

func resourceOf(request *http.Request) resource {
	query := request.URL.Query()
	return resource{request.URL.Host, request.URL.Path, query.Get("labelSelector"), query.Get("fieldSelector")}
}

// WrappedRoundTripper lets client-go find the transport below.
func (t *roundTripper) WrappedRoundTripper() http.RoundTripper { return t.next }

// RoundTrip sends the request, unless it is a watch that the server cannot resume.
func (t *roundTripper) RoundTrip(request *http.Request) (*http.Response, error) {
	resumed, ok := resumedVersion(request)
	if !ok {
		t.beginEpoch(request)
		response, err := t.next.RoundTrip(request)
		t.noteList(request, response)
		return response, err
	}
	if t.continuesList(request) {
		return t.next.RoundTrip(request)
	}
	response, err := t.next.RoundTrip(listOne(request))
	if err != nil || response.StatusCode != http.StatusOK {
		return response, err
	}
	current, err := readVersion(response.Body)
	if err != nil {
		return nil, fmt.Errorf("read the current resource version of %s: %w", request.URL.Path, err)
	}
	if version, err := strconv.ParseUint(current, 10, 64); err == nil && version < resumed {
		return expired(request, resumed, version), nil
	}
	return t.next.RoundTrip(request)
}

// beginEpoch begins another epoch if the request lists a resource that was watched.
func (t *roundTripper) beginEpoch(request *http.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, wasWatched := t.mayResume[resourceOf(request)]; wasWatched && request.Method == http.MethodGet {
		t.detector.epoch.Add(1)
	}
}

// noteList records that a resource was listed. A list of its own is recorded only if the resource is
// watched.
func (t *roundTripper) noteList(request *http.Request, response *http.Response) {
	if request.Method != http.MethodGet || response == nil || response.StatusCode != http.StatusOK {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	of := resourceOf(request)
	if isWatch(request) {
		t.mayResume[of] = true
	} else if t.mayResume[of] {
		t.mayResume[of] = false
	}
}

// continuesList reports whether a watch is the first one of its resource since a list.
func (t *roundTripper) continuesList(watch *http.Request) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := resourceOf(watch)
	continues := !t.mayResume[of]
	t.mayResume[of] = true
	return continues
}

// resumedVersion returns the resource version that a watch resumes at, and false if the request is
// another one.
func resumedVersion(request *http.Request) (uint64, bool) {
	query := request.URL.Query()
	if !isWatch(request) || request.Method != http.MethodGet || query.Get("sendInitialEvents") == "true" {
		return 0, false
	}
	version, err := strconv.ParseUint(query.Get("resourceVersion"), 10, 64)
	return version, err == nil && version > 0
}

func isWatch(request *http.Request) bool {
	watches, err := strconv.ParseBool(request.URL.Query().Get("watch"))
	return err == nil && watches
}

// listOne returns a request for the metadata of one object of the watched resource. A list without
// a resource version is answered with the current one.
func listOne(request *http.Request) *http.Request {
	list := request.Clone(request.Context())
	query := url.Values{"limit": {"1"}}
	for _, selector := range []string{"labelSelector", "fieldSelector"} {
		if value := request.URL.Query().Get(selector); value != "" {
			query.Set(selector, value)
		}
	}
	list.URL.RawQuery = query.Encode()
	list.Header.Set("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json")
	return list
}

// readVersion reads the resource version of a list, and closes the body.
func readVersion(body io.ReadCloser) (string, error) {
	defer func() { _ = body.Close() }()
	var list struct {
		Metadata metav1.ListMeta `json:"metadata"`
	}
	if err := json.NewDecoder(body).Decode(&list); err != nil {
		return "", err
	}
	_, err := io.Copy(io.Discard, body) // so that the connection can be used again
	return list.Metadata.ResourceVersion, err
}

// expired returns the response of a server that no longer has a resource version.
func expired(request *http.Request, resumed, current uint64) *http.Response {
	content, err := json.Marshal(&metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: http.StatusGone, Reason: metav1.StatusReasonExpired,
		Message: fmt.Sprintf("the server is at resource version %d, before %d: its etcd was restored", current, resumed),
	})
	if err != nil {
		panic(err) // a Status can always be encoded
	}
	return &http.Response{
		Status: "410 Gone", StatusCode: http.StatusGone, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        http.Header{"Content-Type": {"application/json"}},
		Body:          io.NopCloser(bytes.NewReader(content)),
		ContentLength: int64(len(content)), Request: request,
	}
}
