package clusters_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
)

// engagement is one call of Engage.
type engagement struct {
	ctx     context.Context
	cluster cluster.Cluster
	at      time.Time
	// synced is true if the caches were synced. overlapping is true if the previous engagement of
	// this name had not ended.
	synced, overlapping bool
}

// recorder is the Aware that the operator engages with each member. It records the engagements. As
// for a controller of multicluster-runtime, an engagement that continues is not another one.
type recorder struct {
	mu     sync.Mutex
	byName map[multicluster.ClusterName][]engagement
	// refuse makes Engage fail for a name.
	refuse multicluster.ClusterName
	// blocked makes the next Engage for a name wait.
	blocked map[multicluster.ClusterName]*blockedEngage
}

// blockedEngage is a call of Engage that waits: called is closed when it is called, the test closes
// resume, and returned is closed when it returns.
type blockedEngage struct{ called, resume, returned chan struct{} }

// blockNext makes the next Engage for a name wait.
func (r *recorder) blockNext(name string) *blockedEngage {
	r.mu.Lock()
	defer r.mu.Unlock()
	b := &blockedEngage{make(chan struct{}), make(chan struct{}), make(chan struct{})}
	if r.blocked == nil {
		r.blocked = map[multicluster.ClusterName]*blockedEngage{}
	}
	r.blocked[multicluster.ClusterName(name)] = b
	return b
}

// wait waits if Engage is to wait for this name. It returns a function to call at the end of
// Engage.
func (r *recorder) wait(name multicluster.ClusterName) (end func()) {
	r.mu.Lock()
	b := r.blocked[name]
	delete(r.blocked, name)
	r.mu.Unlock()
	if b == nil {
		return func() {}
	}
	close(b.called)
	<-b.resume
	return func() { close(b.returned) }
}

func (r *recorder) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (r *recorder) Engage(ctx context.Context, name multicluster.ClusterName, member cluster.Cluster) error {
	defer r.wait(name)()
	if ctx.Err() != nil {
		return nil // an Aware may miss that the session has ended; the Provider must not
	}
	e := engagement{ctx: ctx, cluster: member, at: time.Now(), synced: true, overlapping: true}
	for _, object := range watchedKinds() {
		informer, err := member.GetCache().GetInformer(ctx, object, cache.BlockUntilSynced(false))
		e.synced = e.synced && err == nil && informer.HasSynced()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if before := r.byName[name]; len(before) > 0 {
		newest := before[len(before)-1]
		e.overlapping = newest.ctx.Err() == nil
		if e.overlapping && newest.cluster == member {
			return nil
		}
	}
	if r.refuse == name {
		return errors.New("refused by the test")
	}
	if r.byName == nil {
		r.byName = map[multicluster.ClusterName][]engagement{}
	}
	r.byName[name] = append(r.byName[name], e)
	return nil
}

// engagements returns the engagements of a member, oldest first.
func (r *recorder) engagements(name string) []engagement {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.byName[multicluster.ClusterName(name)])
}

func (r *recorder) setRefuse(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = multicluster.ClusterName(name)
}
