package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	shared "github.com/fleetwright/fleetwright/internal/environment/front"
)

// bookmarkInterval is how often a watch without changes gets a bookmark, as from an API server.
const bookmarkInterval = time.Minute

// standin stands in for the API server of a member. It keeps Deployments and Services in memory, as
// they are applied, and the metadata of copies, and every Deployment is ready at once. It serves
// what the operator asks for on a member that it delivers to, and nothing else. A thousand real API
// servers do not fit on one machine.
type standin struct {
	uid   types.UID
	token string

	mu       sync.Mutex
	version  int
	objects  map[string]stored   // by path
	watchers map[chan event]bool // each watches one resource
	isCut    bool                // nothing is answered
}

// stored is an object as JSON.
type stored struct {
	version  int
	resource string
	uid      types.UID
	image    string // of a Deployment
	revision string // of a Deployment
	content  []byte
}

// event is an event of a watch.
type event struct {
	resource string
	line     []byte
}

func newStandin() *standin {
	return &standin{
		uid: uuid.NewUUID(), token: token(), version: 1,
		objects: map[string]stored{}, watchers: map[chan event]bool{},
	}
}

// cut makes the member silent: it accepts requests and answers none, and its watches send nothing.
func (s *standin) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isCut = true
}

// isSilent reports whether the member answers nothing.
func (s *standin) isSilent() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isCut
}

// count returns the number of objects, and of those for which a function returns true.
func (s *standin) count(isWanted func(stored) bool) (objects, wanted int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.objects {
		if isWanted(o) {
			wanted++
		}
	}
	return len(s.objects), wanted
}

// lose drops the Deployments of a name. Nobody may watch them.
func (s *standin) lose(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.objects, func(path string, o stored) bool {
		return o.resource == "deployments" && strings.HasSuffix(path, "/"+name)
	})
}

// writes returns the number of writes so far that have changed an object.
func (s *standin) writes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.version
}

// ServeHTTP serves a request, whose path has no prefix.
func (s *standin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.isSilent() {
		<-r.Context().Done()
		return
	}
	if !shared.HasToken(r, s.token) {
		shared.Refuse(w, http.StatusUnauthorized, metav1.StatusReasonUnauthorized)
		return
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	resource, kind := resourceOf(parts)
	switch {
	case r.URL.Path == "/version":
		shared.Answer(w, http.StatusOK, map[string]string{"gitVersion": "v1.36.0"})
	case resource == "namespaces":
		shared.Answer(w, http.StatusOK, &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
			ObjectMeta: metav1.ObjectMeta{Name: parts[len(parts)-1], UID: s.uid},
		})
	case r.Method == http.MethodGet && r.URL.Query().Get("watch") == "true":
		s.watch(w, r, resource, kind)
	case r.Method == http.MethodGet && parts[len(parts)-1] == resource:
		s.list(w, resource, kind)
	case r.Method == http.MethodGet:
		s.get(w, r.URL.Path)
	case r.Method == http.MethodPatch && isCopy(resource) && r.Header.Get("Content-Type") == string(types.MergePatchType):
		s.get(w, r.URL.Path) // the patch is empty: it reads the metadata
	case r.Method == http.MethodPatch && r.URL.Query().Get("dryRun") == "":
		s.apply(w, r, resource)
	case r.Method == http.MethodDelete && isCopy(resource):
		s.remove(w, r.URL.Path)
	default:
		shared.Refuse(w, http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed)
	}
}

// kinds are the kinds of the resources that are served.
var kinds = map[string]metav1.TypeMeta{
	"deployments": {APIVersion: "apps/v1", Kind: "Deployment"},
	"services":    {APIVersion: "v1", Kind: "Service"},
	"pods":        {APIVersion: "v1", Kind: "Pod"},
	"nodes":       {APIVersion: "v1", Kind: "Node"},
	"configmaps":  {APIVersion: "v1", Kind: "ConfigMap"},
	"secrets":     {APIVersion: "v1", Kind: "Secret"},
}

// isCopy reports whether the objects of a resource are only written, never listed or watched.
func isCopy(resource string) bool { return resource == "configmaps" || resource == "secrets" }

// resourceOf returns the resource in the parts of a path, and its kind if it is served.
func resourceOf(parts []string) (string, metav1.TypeMeta) {
	for i := len(parts) - 1; i > 0; i-- {
		if kind, found := kinds[parts[i]]; found {
			return parts[i], kind
		}
	}
	if slices.Contains(parts, "namespaces") && len(parts) == 4 {
		return "namespaces", metav1.TypeMeta{}
	}
	return "", metav1.TypeMeta{}
}

func (s *standin) list(w http.ResponseWriter, resource string, kind metav1.TypeMeta) {
	s.mu.Lock()
	items := []json.RawMessage{}
	for _, path := range slices.Sorted(maps.Keys(s.objects)) {
		if o := s.objects[path]; o.resource == resource {
			items = append(items, o.content)
		}
	}
	version := s.version
	s.mu.Unlock()
	shared.Answer(w, http.StatusOK, map[string]any{
		"apiVersion": kind.APIVersion, "kind": kind.Kind + "List",
		"metadata": map[string]any{"resourceVersion": strconv.Itoa(version)}, "items": items,
	})
}

func (s *standin) get(w http.ResponseWriter, path string) {
	s.mu.Lock()
	found, ok := s.objects[path]
	s.mu.Unlock()
	if !ok {
		shared.Refuse(w, http.StatusNotFound, metav1.StatusReasonNotFound)
		return
	}
	shared.Answer(w, http.StatusOK, json.RawMessage(found.content))
}

// remove deletes a copy. Nobody watches it.
func (s *standin) remove(w http.ResponseWriter, path string) {
	s.mu.Lock()
	delete(s.objects, path)
	s.mu.Unlock()
	shared.Answer(w, http.StatusOK, &metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusSuccess})
}

// watch sends the changes of a resource since a version, until the client or the timeout ends it.
// Nothing that is watched is ever deleted.
func (s *standin) watch(w http.ResponseWriter, r *http.Request, resource string, kind metav1.TypeMeta) {
	since, err := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	if err != nil {
		shared.Refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest)
		return
	}
	seconds, _ := strconv.Atoi(r.URL.Query().Get("timeoutSeconds")) // none is 0
	end := time.After(time.Duration(max(60, seconds)) * time.Second)
	changes := make(chan event, 1000)
	s.mu.Lock()
	var missed [][]byte
	for _, o := range s.objects {
		if o.resource == resource && o.version > since {
			missed = append(missed, lineOf("MODIFIED", o.content))
		}
	}
	s.watchers[changes] = true
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.watchers, changes)
		s.mu.Unlock()
	}()
	w.Header().Set("Content-Type", "application/json")
	send := func(lines ...[]byte) bool {
		for _, line := range lines {
			if _, err := w.Write(line); err != nil {
				return false
			}
		}
		return !s.isSilent() && http.NewResponseController(w).Flush() == nil
	}
	bookmarks := time.NewTicker(bookmarkInterval)
	defer bookmarks.Stop()
	for ok := send(missed...); ok; {
		select {
		case <-r.Context().Done():
			return
		case <-end:
			return
		case <-bookmarks.C:
			ok = send(s.bookmark(kind))
		case change, open := <-changes:
			ok = open && (change.resource != resource || send(change.line))
		}
	}
	if s.isSilent() {
		<-r.Context().Done()
	}
}

func (s *standin) bookmark(kind metav1.TypeMeta) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return lineOf("BOOKMARK", fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"%d"}}`, kind.APIVersion, kind.Kind, s.version))
}

func lineOf(event string, object []byte) []byte {
	return fmt.Appendf(nil, `{"type":%q,"object":%s}`+"\n", event, object)
}

// apply stores what is applied. The operator is the only manager, so that this is the object.
func (s *standin) apply(w http.ResponseWriter, r *http.Request, resource string) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(body); err != nil {
		shared.Refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest)
		return
	}
	s.mu.Lock()
	before, exists := s.objects[r.URL.Path]
	if expected := object.GetResourceVersion(); expected != "" && exists && expected != strconv.Itoa(before.version) {
		s.mu.Unlock()
		shared.Refuse(w, http.StatusConflict, metav1.StatusReasonConflict)
		return
	}
	s.version++
	o := stored{version: s.version, resource: resource, uid: before.uid}
	if !exists {
		o.uid = uuid.NewUUID()
	}
	if err = o.complete(object); err != nil {
		s.mu.Unlock()
		shared.Refuse(w, http.StatusBadRequest, metav1.StatusReasonBadRequest)
		return
	}
	s.objects[r.URL.Path] = o
	line := lineOf("MODIFIED", o.content)
	for changes := range s.watchers {
		select {
		case changes <- event{resource, line}:
		default: // the watch is behind: it ends, and begins again
			delete(s.watchers, changes)
			close(changes)
		}
	}
	s.mu.Unlock()
	code := http.StatusOK
	if !exists {
		code = http.StatusCreated
	}
	shared.Answer(w, code, json.RawMessage(o.content))
}

// complete sets the content to an applied object, with what an API server and its controllers add. Of a
// copy it keeps the metadata.
func (o *stored) complete(object *unstructured.Unstructured) (err error) {
	object.SetUID(o.uid)
	object.SetResourceVersion(strconv.Itoa(o.version))
	object.SetCreationTimestamp(metav1.Now())
	if isCopy(o.resource) {
		object.Object = map[string]any{"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": object.Object["metadata"]}
	}
	if o.resource == "deployments" {
		o.revision = object.GetAnnotations()[v1alpha1.AnnotationRevision]
		object.SetGeneration(int64(o.version))
		replicas, _, _ := unstructured.NestedInt64(object.Object, "spec", "replicas")
		object.Object["status"] = map[string]any{
			"observedGeneration": int64(o.version), "replicas": replicas, "readyReplicas": replicas,
			"availableReplicas": replicas, "updatedReplicas": replicas,
			"conditions": []any{
				map[string]any{"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable"},
				map[string]any{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"},
			},
		}
		containers, _, _ := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
		if len(containers) > 0 {
			o.image, _, _ = unstructured.NestedString(containers[0].(map[string]any), "image")
		}
	}
	o.content, err = object.MarshalJSON()
	return err
}
