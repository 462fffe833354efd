// Package snapshots reads the content of snapshots from the hub. Delivery needs it for each copy that
// a member lacks.
//
//	reader := snapshots.NewReader(hub.GetAPIReader())
//	content, err := reader.Content(ctx, app, v1alpha1.ConfigurationSecret, "web-db-5hc9dk2m7t.snapshot")
//	if snapshots.IsMissing(err) { … } // the cluster keeps what it runs
//
// Snapshots are immutable. Each is read live, once for all members, and kept while there is memory
// for it. The content of a Secret never gets into an error, a log or a text of this package.
package snapshots

import (
	"container/list"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
)

const (
	// maxSize is how many bytes of content are kept.
	maxSize = 32 << 20
	// entrySize is added to the size of each content, for what it takes beside its bytes.
	entrySize = 512
	// missingTime is how long a snapshot that is missing is not read again.
	missingTime = 10 * time.Second
	// readTimeout bounds a read.
	readTimeout = 10 * time.Second
)

// errMissing is the cause of an error that [IsMissing] reports.
var errMissing = errors.New("the snapshot is missing")

// IsMissing reports whether a snapshot does not exist, or is no snapshot of the AppService.
func IsMissing(err error) bool { return errors.Is(err, errMissing) }

// Content is the content of a snapshot. It shares memory with others, and must not be modified. It is
// never printed.
type Content struct{ fields []byte }

// Fields returns the fields of the object as JSON, without the braces around them: "type", "data",
// "binaryData" and "immutable" with the value of isImmutable.
func (c Content) Fields(isImmutable bool) []byte {
	return fmt.Appendf(make([]byte, 0, len(c.fields)+20), `"immutable":%t%s`, isImmutable, c.fields)
}

// String hides the content.
func (Content) String() string { return "(content)" }

// GoString hides the content.
func (Content) GoString() string { return "(content)" }

// Reader reads snapshots. It is safe for concurrent use.
type Reader struct {
	live  client.Reader
	reads singleflight.Group

	mu    sync.Mutex
	known map[key]*list.Element // of *result
	// recent has the results that were used most recently in front.
	recent *list.List
	size   int // of all results
}

// key identifies a snapshot. The UID is that of the AppService.
type key struct {
	app             types.UID
	kind            v1alpha1.ConfigurationKind
	namespace, name string
}

// result is what a read of a snapshot found.
type result struct {
	key      key
	content  Content
	missing  error     // nil if the snapshot exists
	readTime time.Time // when it was missing
}

func (r *result) size() int { return len(r.content.fields) + entrySize }

// NewReader returns a Reader that reads from the API server of the hub.
func NewReader(live client.Reader) *Reader {
	return &Reader{live: live, known: map[key]*list.Element{}, recent: list.New()}
}

// Content returns the content of a snapshot of an AppService.
func (r *Reader) Content(ctx context.Context, app *v1alpha1.AppService, kind v1alpha1.ConfigurationKind, name string) (Content, error) {
	of := key{app.UID, kind, app.Namespace, name}
	if found := r.lookUp(of); found != nil {
		return found.content, found.missing
	}
	read, err, _ := r.reads.Do(fmt.Sprint(of), func() (any, error) {
		shared, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout) // others wait for it too
		defer cancel()
		found, err := r.read(shared, of)
		if err == nil {
			r.keep(found)
		}
		return found, err
	})
	if err != nil {
		return Content{}, err
	}
	found := read.(*result)
	return found.content, found.missing
}

// lookUp returns the result of an earlier read, or nil. A snapshot that was missing is read again
// after a while.
func (r *Reader) lookUp(of key) *result {
	r.mu.Lock()
	defer r.mu.Unlock()
	element := r.known[of]
	if element == nil {
		return nil
	}
	found := element.Value.(*result)
	if found.missing != nil && time.Since(found.readTime) >= missingTime {
		return nil
	}
	r.recent.MoveToFront(element)
	return found
}

// keep keeps a result, and forgets those that were not used for the longest time.
func (r *Reader) keep(found *result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(r.known[found.key])
	r.known[found.key] = r.recent.PushFront(found)
	for r.size += found.size(); r.size > maxSize; {
		r.forget(r.recent.Back())
	}
}

func (r *Reader) forget(element *list.Element) {
	if element == nil {
		return
	}
	old := r.recent.Remove(element).(*result)
	delete(r.known, old.key)
	r.size -= old.size()
}

// read reads a snapshot from the hub.
func (r *Reader) read(ctx context.Context, of key) (*result, error) {
	var object configuration.Object = &corev1.ConfigMap{}
	if of.kind == v1alpha1.ConfigurationSecret {
		object = &corev1.Secret{}
	}
	silent := logr.NewContext(ctx, logr.Discard()) // client-go logs responses at a high verbosity
	err := r.live.Get(silent, client.ObjectKey{Namespace: of.namespace, Name: of.name}, object)
	switch {
	case apierrors.IsNotFound(err):
		return missing(of, "there is no %s %s", of.kind, of.name), nil
	case apierrors.IsForbidden(err):
		return missing(of, "the operator must not read %s %s: grant the permissions in config/propagation", of.kind, of.name), nil
	case err != nil:
		return nil, fmt.Errorf("read snapshot %s %s: %w", of.kind, of.name, withoutContent(err))
	}
	if why := notSnapshot(of, object); why != "" {
		return missing(of, "%s %s %s", of.kind, of.name, why), nil
	}
	fields, err := encode(object)
	if err != nil {
		return nil, fmt.Errorf("encode snapshot %s %s", of.kind, of.name)
	}
	return &result{key: of, content: Content{fields}}, nil
}

// notSnapshot returns why an object is no snapshot of the AppService, or "".
func notSnapshot(of key, object configuration.Object) string {
	snapshot := configuration.SnapshotOf(of.kind, object)
	app := object.GetLabels()[v1alpha1.LabelAppService]
	id := configuration.Identity{Namespace: of.namespace, AppService: app, Ref: snapshot.Ref}
	switch {
	case snapshot.Owner != of.app:
		return "does not belong to this AppService"
	case configuration.Name(id, snapshot.Digest) != of.name:
		return "has the digest of another content"
	}
	return ""
}

func missing(of key, format string, args ...any) *result {
	return &result{key: of, missing: fmt.Errorf("%w: %s", errMissing, fmt.Sprintf(format, args...)), readTime: time.Now()}
}

// withoutContent returns an error of a read without texts that a server sent.
func withoutContent(err error) error {
	if reason := configuration.KnownReason(apierrors.ReasonForError(err)); reason != "" {
		return fmt.Errorf("the hub answered %s", reason)
	}
	var network interface{ Timeout() bool }
	if errors.As(err, &network) && network.Timeout() {
		return errors.New("the request timed out")
	}
	return errors.New("the request failed")
}

// encode returns the fields of an object that are its content, each with a comma before it.
func encode(object configuration.Object) ([]byte, error) {
	var fields []byte
	add := func(name string, value any) error {
		text, err := json.Marshal(value)
		fields = fmt.Appendf(fields, `,%q:%s`, name, text)
		return err
	}
	switch object := object.(type) {
	case *corev1.ConfigMap:
		var errs error
		if len(object.Data) > 0 {
			errs = add("data", object.Data)
		}
		if len(object.BinaryData) > 0 {
			errs = errors.Join(errs, add("binaryData", object.BinaryData))
		}
		return fields, errs
	case *corev1.Secret:
		errs := add("type", object.Type)
		if len(object.Data) > 0 {
			errs = errors.Join(errs, add("data", object.Data))
		}
		return fields, errs
	}
	return nil, fmt.Errorf("%T is neither a ConfigMap nor a Secret", object)
}
