package leasefence

import (
	"context"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// NewLock returns a lock on a Lease for the leader election. It opens the fence when the Lease is
// acquired or renewed, and closes it when the Lease is released or held by another replica. The
// configuration must not pass the fence. The lock sets the labels whenever it acquires or renews the
// Lease. It records no Event, because the log names the leader.
func (f *Fence) NewLock(hub *rest.Config, namespace, name string, labels map[string]string) (resourcelock.Interface, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	config := rest.AddUserAgent(rest.CopyConfig(hub), "leader-election")
	config.Timeout = f.renewDeadline / 2 // leaves time for a second attempt
	leases, err := coordinationv1client.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	lease, err := resourcelock.NewWithLabels(resourcelock.LeasesResourceLock, namespace, name, nil, leases,
		resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())}, labels)
	if err != nil {
		return nil, err
	}
	return &lock{Interface: lease, fence: f}, nil
}

// lock opens and closes the fence as the Lease changes hands. Only the goroutine of the election
// uses it.
type lock struct {
	resourcelock.Interface
	fence *Fence
}

// Get reads who holds the Lease. If another replica holds it, the fence is closed even if the last
// renewal seems recent: both clocks may have stopped.
func (l *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if err == nil && record.HolderIdentity != l.Identity() {
		l.fence.close()
	}
	return record, raw, err
}

// Create creates the Lease.
func (l *lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Create)
}

// Update acquires, renews or releases the Lease.
func (l *lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.write(ctx, record, l.Interface.Update)
}

func (l *lock) write(
	ctx context.Context,
	record resourcelock.LeaderElectionRecord,
	send func(context.Context, resourcelock.LeaderElectionRecord) error,
) error {
	if record.HolderIdentity != l.Identity() {
		return l.release(ctx, record, send)
	}
	started := time.Now()
	if err := send(ctx, record); err != nil {
		return err
	}
	l.fence.open(started)
	return nil
}

// release closes the fence before it releases the Lease, because another replica may acquire the
// Lease before the response arrives. It keeps a Lease that was not renewed in time: writes may
// still be in flight, so the successor must wait until the Lease expires.
func (l *lock) release(
	ctx context.Context,
	record resourcelock.LeaderElectionRecord,
	send func(context.Context, resourcelock.LeaderElectionRecord) error,
) error {
	closed := l.fence.check()
	l.fence.close()
	if closed != nil {
		return fmt.Errorf("keep the lease until it expires: %w", closed)
	}
	return send(ctx, record)
}
