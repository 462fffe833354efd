// Package snapshots reads the content of snapshots from the hub. Delivery needs it for each copy that
// a member lacks.
//
//	reader := snapshots.NewReader(hub.GetAPIReader(), snapshots.MaxInUse, sources)
//	content, err := reader.Content(ctx, app, v1alpha1.ConfigurationSecret, "web-db-5hc9dk2m7t.snapshot")
//	if snapshots.IsMissing(err) { … } // the cluster keeps what it runs
//	defer content.Release()
//
// Snapshots are immutable, but whoever may write ConfigMaps or Secrets in a namespace may delete
// one, and create another with its name. One without the content of its digest counts as missing.
// Each is read live and encoded once for all members, and kept while there is memory for it. All
// members that need a content at the same time share it, and the contents that are in use at the
// same time take a limited amount of memory: further ones wait. So a member that receives slowly
// delays other members only if many do, with as many different large contents. The content of a
// Secret never gets into an error, a log or a text of this package.
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
	"golang.org/x/sync/semaphore"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
)

const (
	// MaxInUse is how many bytes of contents may be on their way to members at a time: some 45 of the
	// largest.
	MaxInUse = 64 << 20
	// maxSize is how many bytes of content are kept.
	maxSize = 32 << 20
	// entrySize is added to the size of each content, for what it takes beside its bytes.
	entrySize = 512
	// missingTime is how long a snapshot that is missing is not read again.
	missingTime = 10 * time.Second
	// readTimeout bounds a read.
	readTimeout = 10 * time.Second
	// maxReads is how many snapshots are read at a time: a read takes several times the size of the
	// content, until it is encoded.
	maxReads = 4
	// maxWait is how long a caller waits for a content, so that it can do something else meanwhile.
	maxWait = 10 * time.Second
)

// errBusy is returned when a content did not get memory within maxWait.
var errBusy = errors.New("the contents that are on their way to slow clusters take up the memory for that; it is tried again")

// errMissing is the cause of an error that [IsMissing] reports.
var errMissing = errors.New("the snapshot is missing")

// IsMissing reports whether a snapshot does not exist, or is no snapshot of the AppService.
func IsMissing(err error) bool { return errors.Is(err, errMissing) }

// Content is the content of a snapshot while it is in use. It is shared, and never printed.
type Content struct {
	fields []byte
	// Release ends the use. It may be called repeatedly.
	Release func()
}

// Fields returns the fields of the object as JSON, each with a comma before it: "type", "data" and
// "binaryData". They must not be modified, and not be used after the release.
func (c Content) Fields() []byte { return c.fields }

// String hides the content.
func (Content) String() string { return "(content)" }

// GoString hides the content.
func (Content) GoString() string { return "(content)" }

// Verifier tells a snapshot from another object with its name. It must be safe for concurrent use.
type Verifier interface {
	// HasDigest reports whether a content has the digest of the snapshot. It is also true for a
	// snapshot that may be older than the key for digests.
	HasDigest(ctx context.Context, id configuration.Identity, snapshot configuration.Snapshot, content configuration.Content) (bool, error)
}

// Reader reads snapshots. It is safe for concurrent use.
type Reader struct {
	live     client.Reader
	verifier Verifier
	// reads counts the reads at a time, and memory the bytes of the contents that are in use.
	reads, memory *semaphore.Weighted
	maxInUse      int64

	mu    sync.Mutex
	uses  map[key]*use
	known map[key]*list.Element // of *result
	// recent has the results that were used most recently in front.
	recent *list.List
	size   int // of all results
}

// use is a content that is in use, by any number of callers.
type use struct {
	callers int                // guarded by the mutex of the Reader
	end     context.CancelFunc // called when there is no caller any more
	// loaded is closed when found or err is set.
	loaded chan struct{}
	found  *result
	err    error
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
	fields   []byte
	missing  error     // nil if the snapshot exists
	readTime time.Time // when it was missing
}

func (r *result) size() int { return len(r.fields) + entrySize }

// NewReader returns a Reader that reads from the API server of the hub. The contents that are in use at
// a time have at most maxInUse bytes.
func NewReader(live client.Reader, maxInUse int64, verifier Verifier) *Reader {
	return &Reader{
		live: live, verifier: verifier, reads: semaphore.NewWeighted(maxReads), memory: semaphore.NewWeighted(maxInUse), maxInUse: maxInUse,
		uses: map[key]*use{}, known: map[key]*list.Element{}, recent: list.New(),
	}
}

// Content returns the content of a snapshot of an AppService. The caller must release it. If it is not
// available within some seconds, because too much other content is in use, that is an error.
func (r *Reader) Content(ctx context.Context, app *v1alpha1.AppService, kind v1alpha1.ConfigurationKind, name string) (Content, error) {
	of := key{app.UID, kind, app.Namespace, name}
	shared := r.join(of)
	release := sync.OnceFunc(func() { r.leave(of, shared) })
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	var err error
	select {
	case <-shared.loaded:
		if err = shared.err; err == nil {
			err = shared.found.missing
		}
	case <-timer.C:
		err = fmt.Errorf("content of %s %s: %w", kind, name, errBusy)
	case <-ctx.Done():
		err = fmt.Errorf("content of %s %s: %w", kind, name, ctx.Err())
	}
	if err != nil {
		release()
		return Content{}, err
	}
	return Content{shared.found.fields, release}, nil
}

// join adds a caller to those that use a content. The first one starts to load it.
func (r *Reader) join(of key) *use {
	r.mu.Lock()
	defer r.mu.Unlock()
	shared := r.uses[of]
	if shared == nil {
		ctx, end := context.WithCancel(context.Background()) // no caller's, because others wait for it too
		shared = &use{end: end, loaded: make(chan struct{})}
		r.uses[of] = shared
		go r.serve(ctx, of, shared)
	}
	shared.callers++
	return shared
}

// leave removes a caller. The last one ends the use.
func (r *Reader) leave(of key, shared *use) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if shared.callers--; shared.callers == 0 {
		delete(r.uses, of)
		shared.end()
	}
}

// serve loads a content, and holds memory for it until the use ends.
func (r *Reader) serve(ctx context.Context, of key, shared *use) {
	var held int64
	shared.found, held, shared.err = r.load(ctx, of)
	close(shared.loaded)
	<-ctx.Done()
	r.memory.Release(held)
}

// load returns a content, and how much memory it holds for it. While it waits for memory, it does not
// keep the content: then, the content may have to be read again.
func (r *Reader) load(ctx context.Context, of key) (found *result, held int64, err error) {
	if found, held, err = r.tryHold(ctx, of); found != nil || err != nil {
		return found, held, err
	}
	if err := r.memory.Acquire(ctx, held); err != nil {
		return nil, 0, err
	}
	if found, err = r.find(ctx, of); err != nil {
		r.memory.Release(held)
		return nil, 0, err
	}
	return found, held, nil
}

// tryHold returns a content, and how much memory it holds for it. If there is not enough memory now, it
// returns no content, and how much memory is needed.
func (r *Reader) tryHold(ctx context.Context, of key) (*result, int64, error) {
	found, err := r.find(ctx, of)
	if err != nil {
		return nil, 0, err
	}
	needed := min(int64(found.size()), r.maxInUse)
	if !r.memory.TryAcquire(needed) {
		return nil, needed, nil
	}
	return found, needed, nil
}

// find returns the result of an earlier read, or reads the snapshot.
func (r *Reader) find(ctx context.Context, of key) (*result, error) {
	if found := r.lookUp(of); found != nil {
		return found, nil
	}
	if err := r.reads.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer r.reads.Release(1)
	bounded, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	found, err := r.read(bounded, of)
	if err == nil {
		r.keep(found)
	}
	return found, err
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
	why, err := r.notSnapshot(ctx, of, object)
	if err != nil {
		return nil, fmt.Errorf("verify snapshot %s %s: %w", of.kind, of.name, err)
	}
	if why != "" {
		return missing(of, "%s %s %s", of.kind, of.name, why), nil
	}
	fields, err := encode(object)
	if err != nil {
		return nil, fmt.Errorf("encode snapshot %s %s", of.kind, of.name)
	}
	return &result{key: of, fields: fields}, nil
}

// notSnapshot returns why an object is no snapshot of the AppService, or "".
func (r *Reader) notSnapshot(ctx context.Context, of key, object configuration.Object) (string, error) {
	snapshot := configuration.SnapshotOf(of.kind, object)
	app := object.GetLabels()[v1alpha1.LabelAppService]
	id := configuration.Identity{Namespace: of.namespace, AppService: app, Ref: snapshot.Ref}
	const other = "has the digest of another content"
	switch {
	case snapshot.Owner != of.app:
		return "does not belong to this AppService", nil
	case configuration.Name(id, snapshot.Digest) != of.name:
		return other, nil
	}
	isSame, err := r.verifier.HasDigest(ctx, id, snapshot, contentOf(object))
	if err != nil || isSame {
		return "", err
	}
	return other + ": it was not created by the operator", nil
}

func contentOf(object configuration.Object) configuration.Content {
	if secret, isSecret := object.(*corev1.Secret); isSecret {
		return configuration.OfSecret(secret)
	}
	return configuration.OfConfigMap(object.(*corev1.ConfigMap))
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
