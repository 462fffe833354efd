package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/transport"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/fleetwright/fleetwright/clusters"
)

// Times of the election. A standby takes over when it has seen no renewal for the leaseDuration; the fence closes at the
// renewDeadline. What was sent in between has the rest to arrive. The leader renews each retryPeriod; a standby looks each retryPeriod
// to 2.2 of them, as client-go has it, and so takes over from a leader that dies after 14 to 19.4 seconds: at worst it has just looked when the
// lease is renewed last, and looks again just before that runs out. A write a second is what ten kubelets cost the hub.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = time.Second
)

// fenceOff has this replica change something, on the hub or on a member, only while it holds the lease. It returns the hub's
// configuration for all but the election itself. Without an election there is no fence.
func (o *options) fenceOff(hub *rest.Config, hubOptions *manager.Options, members *clusters.Options) (*rest.Config, error) {
	if !o.leaderElect {
		return hub, nil
	}
	f := &fence{}
	lock, err := f.newLock(hub, hubOptions.LeaderElectionNamespace, hubOptions.LeaderElectionID)
	if err != nil {
		return nil, fmt.Errorf("make the lock of the election: %w", err)
	}
	hubOptions.LeaderElectionResourceLockInterface = lock
	// Whatever else is put around what sends the requests, the fence is the last that they pass.
	members.Wrap = transport.Wrappers(f.wrap, members.Wrap)
	fenced := rest.CopyConfig(hub)
	fenced.WrapTransport = transport.Wrappers(f.wrap, hub.WrapTransport)
	return fenced, nil
}

// fence stands between this replica and all that it can change. It is open while the lease was renewed a short time ago: a process
// that was stopped, or a machine that was, wakes with writes that were decided on before, and another replica leads by now.
// It is safe for concurrent use.
type fence struct {
	renewed atomic.Pointer[time.Time] // the moment before the request that did; nil when the lease is not held
}

func (f *fence) renew(at time.Time) { f.renewed.Store(&at) }

func (f *fence) shut() { f.renewed.Store(nil) }

// refusal is why nothing may be changed now.
type refusal string

// Error says so.
func (r refusal) Error() string { return "fenced: this replica " + string(r) }

// Fenced tells it from the errors of what the request was for: delivery asks for it.
func (refusal) Fenced() bool { return true }

// check says why nothing may be changed now.
func (f *fence) check() error {
	renewed := f.renewed.Load()
	if renewed == nil {
		return refusal("does not hold the lease of the leader election")
	}
	// The monotonic clock stands still while a machine sleeps, and the wall clock may be set back: the greater age counts.
	if age := max(time.Since(*renewed), time.Since(renewed.Round(0))); age >= renewDeadline {
		return refusal(fmt.Sprintf("has not renewed the lease of the leader election for %s", age.Round(time.Second)))
	}
	return nil
}

// wrap puts the fence before what sends requests.
func (f *fence) wrap(next http.RoundTripper) http.RoundTripper { return &fenced{fence: f, next: next} }

// fenced refuses requests that can change something while the fence is closed.
type fenced struct {
	fence *fence
	next  http.RoundTripper
}

// RoundTrip sends the request. A connection may have to be made first, which takes time: so the fence is asked again when the body is sent.
func (t *fenced) RoundTrip(request *http.Request) (*http.Response, error) {
	switch request.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return t.next.RoundTrip(request)
	}
	if err := t.fence.check(); err != nil {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, err
	}
	sent := request.WithContext(request.Context())
	sent.Body = t.fence.guard(request.Body)
	if request.GetBody != nil {
		sent.GetBody = func() (io.ReadCloser, error) {
			body, err := request.GetBody()
			return t.fence.guard(body), err
		}
	}
	return t.next.RoundTrip(sent)
}

// WrappedRoundTripper lets client-go find the transport below.
func (t *fenced) WrappedRoundTripper() http.RoundTripper { return t.next }

func (f *fence) guard(body io.ReadCloser) io.ReadCloser {
	if body == nil || body == http.NoBody {
		return body
	}
	return &guarded{ReadCloser: body, fence: f}
}

// guarded is a body that breaks off when the fence is closed. A server does nothing by half a body.
type guarded struct {
	io.ReadCloser
	fence *fence
}

// Read reads what is sent next.
func (g *guarded) Read(p []byte) (int, error) {
	if err := g.fence.check(); err != nil {
		return 0, err
	}
	return g.ReadCloser.Read(p)
}

// newLock is the lock that controller-runtime would make, but for an Event that says who leads: the log says it too.
func (f *fence) newLock(hub *rest.Config, namespace, name string) (resourcelock.Interface, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	own := rest.AddUserAgent(rest.CopyConfig(hub), "leader-election")
	own.Timeout = renewDeadline / 2 // one answer that does not come is not the end
	leases, err := coordinationv1client.NewForConfig(own)
	if err != nil {
		return nil, err
	}
	lease, err := resourcelock.New(resourcelock.LeasesResourceLock, namespace, name, nil, leases,
		resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())})
	if err != nil {
		return nil, err
	}
	return &lock{Interface: lease, fence: f}, nil
}

// lock tells the fence what becomes of the lease. One goroutine uses it, the election's.
type lock struct {
	resourcelock.Interface
	fence *fence
}

// Get reads who holds the lease. When that is another, a renewal that seems fresh is not: the clocks stood still.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil && record.HolderIdentity != l.Identity() {
		l.fence.shut()
	}
	return record, raw, err
}

// Create makes the lease.
func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Create)
}

// Update takes the lease, renews it, or gives it back.
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Update)
}

func (l *lock) write(ctx context.Context, record resourcelock.LeaderElectionRecord, send func(context.Context, resourcelock.LeaderElectionRecord) error) error {
	if record.HolderIdentity != l.Identity() {
		closed := l.fence.check()
		l.fence.shut() // before it is sent: another may take the lease before we know that it was given back
		if closed != nil {
			// It was not renewed in time. What was sent last may be under way still: who comes next waits until the lease runs out.
			return fmt.Errorf("keep the lease until it runs out: %w", closed)
		}
		return send(ctx, record)
	}
	began := time.Now()
	if err := send(ctx, record); err != nil {
		return err
	}
	l.fence.renew(began)
	return nil
}
