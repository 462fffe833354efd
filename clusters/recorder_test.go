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
	// synced is set if the caches were in sync. seamless is set if the previous engagement of this
	// name had not ended.
	synced, overlapping bool
}

// recorder is engaged with every member, in place of delivery.
type recorder struct {
	mu     sync.Mutex
	byName map[multicluster.ClusterName][]engagement
	// refuse makes Engage fail for a name.
	refuse multicluster.ClusterName
	// holds make the next Engage for a name wait.
	holds map[multicluster.ClusterName]*hold
}

// hold signals reached when an Engage blocks, and the Engage continues after released.
type hold struct{ reached, released chan struct{} }

func (r *recorder) hold(name string) *hold {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := &hold{reached: make(chan struct{}), released: make(chan struct{})}
	if r.holds == nil {
		r.holds = map[multicluster.ClusterName]*hold{}
	}
	r.holds[multicluster.ClusterName(name)] = h
	return h
}

func (r *recorder) wait(name multicluster.ClusterName) {
	r.mu.Lock()
	h := r.holds[name]
	delete(r.holds, name)
	r.mu.Unlock()
	if h != nil {
		close(h.reached)
		<-h.released
	}
}

func (r *recorder) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (r *recorder) Engage(ctx context.Context, name multicluster.ClusterName, member cluster.Cluster) error {
	r.wait(name)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	e := engagement{ctx: ctx, cluster: member, at: time.Now(), synced: true, overlapping: true}
	for _, object := range watchedKinds() {
		informer, err := member.GetCache().GetInformer(ctx, object, cache.BlockUntilSynced(false))
		e.synced = e.synced && err == nil && informer.HasSynced()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse == name {
		return errors.New("not now")
	}
	if before := r.byName[name]; len(before) > 0 {
		e.overlapping = before[len(before)-1].ctx.Err() == nil
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
