package clusters

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	restwatch "k8s.io/client-go/rest/watch"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/fleetwright/fleetwright/clusters/transport"
)

// A panic ends the operator, with one exception: a panic while the hub decodes, transforms or indexes the
// data of a member ends only the session of that member. A member is hostile input, and one bad member must not
// affect the others. docs/decisions/a-panic-ends-the-operator.md says why.

// errUndecodable fails a session because the decoder panicked on the data of the member.
var errUndecodable = errors.New("the decoder panicked on the member's data; the operator's log has the stack trace")

// newDecoders returns the decoders of watch events for all members.
func newDecoders(scheme *runtime.Scheme) runtime.ClientNegotiator {
	return runtime.NewClientNegotiator(serializer.WithoutConversionCodecFactory{CodecFactory: serializer.NewCodecFactory(scheme)}, schema.GroupVersion{})
}

// containPanics returns a ListerWatcher that turns panics of the decoder into errors, refuses paged
// lists, and takes turns with the large lists of other members. client-go decodes a list in the
// caller's goroutine. It decodes watch events in its own goroutine, and that decoder cannot be
// replaced. So containPanics takes the body of a watch's response and decodes the events itself.
func (s *session) containPanics(lw toolscache.ListerWatcher, object runtime.Object) toolscache.ListerWatcher {
	inner := toolscache.ToListerWatcherWithContext(lw)
	contained := &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (list runtime.Object, err error) {
			defer s.recoverPanic(ctx, &err)
			ctx, end := s.largeLists.Begin(ctx)
			defer func() { err = end(err) }()
			options.Limit = 0
			list, err = inner.ListWithContext(ctx, options)
			if err != nil {
				return nil, err // client-go returns a nil list of metadata, which is not a nil interface
			}
			return list, refusePages(list)
		},
		WatchFuncWithContext: inner.WatchWithContext,
	}
	switch object.(type) {
	case runtime.Unstructured, *metav1.PartialObjectMetadata: // have separate decoders, which call no code of types
	default:
		contained.WatchFuncWithContext = func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			captured := &capturedBody{}
			started, err := inner.WatchWithContext(context.WithValue(ctx, capturedBody{}, captured), options)
			if captured.body == nil {
				return started, err
			}
			if err != nil {
				return nil, errors.Join(err, captured.body.Close())
			}
			started.Stop()
			return s.decode(ctx, captured.body)
		}
	}
	return contained
}

// errPages ends a list that a member sends in pages although the hub requested the whole list.
var errPages = &transport.LimitError{Message: "the member sends a page of a list although the whole list was requested; no API server does that"}

// refusePages returns an error if a list is incomplete. The limit on lists applies to one response,
// and client-go's pager would follow the pages without end and keep all of them in memory.
func refusePages(list runtime.Object) error {
	whole, err := meta.ListAccessor(list)
	if err == nil && whole.GetContinue() != "" {
		return errPages
	}
	return nil
}

// decode returns the events in the body of a watch.
func (s *session) decode(ctx context.Context, body io.ReadCloser) (watch.Interface, error) {
	// No response has any other type.
	decoder, events, framer, err := s.decoders.StreamDecoder(runtime.ContentTypeJSON, nil)
	if err != nil {
		return nil, errors.Join(err, body.Close())
	}
	source := restwatch.NewDecoder(streaming.NewDecoder(framer.NewFrameReader(body), events), decoder)
	reporter := apierrors.NewClientErrorReporter(http.StatusInternalServerError, "watch", "ClientWatchDecoding")
	return watch.NewStreamWatcherWithLogger(logr.FromContextOrDiscard(ctx), &recoveringDecoder{source, s, ctx}, reporter), nil
}

// recoveringDecoder decodes the events of a watch.
type recoveringDecoder struct {
	watch.Decoder
	session *session
	ctx     context.Context // of the watch
}

// Decode returns the next event, or an error instead of a panic.
func (d *recoveringDecoder) Decode() (action watch.EventType, object runtime.Object, err error) {
	defer d.session.recoverPanic(d.ctx, &err)
	return d.Decoder.Decode()
}

// recoverPanic is called by defer. It turns a panic into an error, and ends the session if the kind
// is required for the engagement.
func (s *session) recoverPanic(ctx context.Context, err *error) {
	if panicked := recover(); panicked != nil {
		s.contain(ctx, panicked, err)
	}
}

// errNotStored fails a session whose cache lacks an object, because a transform returned an error. The
// error is only in the log: it may quote the object.
var errNotStored = errors.New("an object of the member could not be transformed for the cache; the operator's log has the error")

// recoverStored is recoverPanic for transforms and for the functions of indexes. Without the object, the
// cache would be incomplete, so their error ends the session, too.
func (s *session) recoverStored(ctx context.Context, err *error) {
	if panicked := recover(); panicked != nil {
		s.contain(ctx, panicked, err)
	} else if *err != nil && transport.IsRequired(ctx) {
		s.logPanic.Do(func() { s.health.Log.Error(*err, "An object was not transformed") })
		s.endReason.Store(new(errNotStored))
		s.abandon()
	}
}

// contain turns a panic into an error, and ends the session if the kind is required.
func (s *session) contain(ctx context.Context, panicked any, err *error) {
	*err = errUndecodable
	s.logPanic.Do(func() { // only once, because client-go retries
		s.health.Log.Error(errors.New(transport.Sanitize(fmt.Sprint(panicked))), "The decoder panicked", "stack", string(debug.Stack()))
	})
	if transport.IsRequired(ctx) {
		s.undecodable.Store(true)
		s.abandon()
	}
}

// capturedBody receives the body of a response from bodyCapturer. It is also the context key for
// such a request.
type capturedBody struct{ body io.ReadCloser }

// bodyCapturer is a RoundTripper that passes the body of a watch's response to the capturedBody of
// the context, and an empty body to client-go.
type bodyCapturer struct{ next http.RoundTripper }

// RoundTrip sends the request.
func (t *bodyCapturer) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	if to, wanted := request.Context().Value(capturedBody{}).(*capturedBody); wanted && err == nil && response.StatusCode == http.StatusOK {
		to.body, response.Body = response.Body, http.NoBody
	}
	return response, err
}

// WrappedRoundTripper returns the next transport, so that client-go can find it.
func (t *bodyCapturer) WrappedRoundTripper() http.RoundTripper { return t.next }
