package fleet

import (
	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
)

// deliver makes one member carry out its entry, and reports its state, as package delivery does. It
// returns false if that changes nothing.
func (c *config) deliver(s state, i int) (state, bool) {
	m := &s.members[i]
	if !m.isReachable() {
		return s, false
	}
	before := *m
	seen := s.carryOut(i)
	return s.report(i, seen, *m != before)
}

// deliverStale makes a member act on the AppService before its last change. What cannot be undone is
// verified by a live read of the hub.
func (c *config) deliverStale(s state, i int) (state, bool) {
	live := s.app
	if s.previous == live || !s.members[i].isReachable() {
		return s, false
	}
	now, entry := s.entry(clusterName(i)), s.previous.Status.Cluster(clusterName(i))
	isUndoable := now != nil && entry != nil && entry.Phase != v1alpha1.ClusterRemoving && entry.Replicas >= int32(s.members[i].replicas)
	if !isUndoable {
		return s, false
	}
	s.app = s.previous
	before := s.members[i]
	seen := s.carryOut(i)
	s.app = live
	return s.report(i, seen, s.members[i] != before)
}

// report records an observation.
func (s state) report(i int, seen *observation.Observation, isChanged bool) (state, bool) {
	known := s.process.seen[i]
	switch {
	case known == nil && seen == nil, known != nil && seen != nil && known.Same(*seen):
		return s, isChanged
	case known == nil:
		s.process.seenSince[i] = s.now
	}
	s.process.seen[i] = seen
	return s, true
}

// carryOut changes the member of its entry, and returns what is observed.
func (s *state) carryOut(i int) *observation.Observation {
	m, entry := &s.members[i], s.entry(clusterName(i))
	isDeleting := !s.app.DeletionTimestamp.IsZero()
	switch {
	case entry == nil || entry.Phase == v1alpha1.ClusterDetached:
		if m.object.IsAbandoned(uid) { // nothing is left, and the tombstone goes
			m.remove()
			*s = s.withMember(i, func(object *v1alpha1.MemberCluster) { object.Status.Abandoned = nil })
		}
		if !m.exists {
			return nil
		}
		return &observation.Observation{UID: uid, Found: true, Planned: int32(m.replicas), Revision: m.runs, Placement: m.placed}
	case entry.Phase == v1alpha1.ClusterRemoving && (isDeleting || !s.app.Spec.Suspend):
		seen := &observation.Observation{UID: uid, Generation: entry.Generation, Revision: entry.Revision, Planned: entry.Replicas, Phase: v1alpha1.ClusterRemoving}
		if m.exists {
			m.remove()
			seen.Message = "waiting for the member to finish deleting: Deployment"
		} else {
			seen.GoneSince = entry.LastTransitionTime
		}
		return seen
	case isDeleting, s.app.Spec.Suspend, entry.Generation != s.app.Generation, entry.Revision == 0:
		return m.observe(entry, entry.ObservedGeneration)
	}
	m.apply(entry)
	return m.observe(entry, s.app.Generation)
}

func (m *member) remove() {
	m.exists, m.runs, m.placed, m.replicas, m.ready, m.isUpdated, m.isFailing = false, 0, 0, 0, 0, false, false
}

// apply updates the Deployment. Pods of the revision before go on until those of the next one are ready.
func (m *member) apply(entry *v1alpha1.ClusterStatus) {
	replicas := entry.Replicas
	if entry.MaxReplicas > 0 && m.exists { // the autoscaler decides, within its bounds
		replicas = min(max(int32(m.replicas), entry.MinReplicas), entry.MaxReplicas)
	}
	if m.exists && m.runs == entry.Revision && m.replicas == int8(replicas) && m.placed == entry.Placement {
		return
	}
	if m.runs != entry.Revision || int8(replicas) > m.replicas {
		m.isUpdated, m.isFailing = false, false
	}
	m.exists, m.runs, m.placed = true, entry.Revision, entry.Placement
	m.replicas = int8(replicas)
	m.ready = min(m.ready, m.replicas)
	if m.replicas == 0 {
		m.isUpdated, m.isFailing = true, false
	}
}

// observe returns what is observed of the Deployment.
func (m *member) observe(entry *v1alpha1.ClusterStatus, applied int64) *observation.Observation {
	seen := &observation.Observation{
		UID: uid, Generation: entry.Generation, Revision: entry.Revision, Planned: entry.Replicas, Applied: applied,
		Phase: v1alpha1.ClusterReady, Replicas: int32(m.replicas), ReadyReplicas: int32(m.ready),
	}
	if m.exists && m.runs != entry.Revision {
		seen.StampedRevision = m.runs
	}
	switch {
	case !m.exists, !m.isUpdated && !m.isFailing, m.ready < m.replicas && !m.isFailing:
		seen.Phase, seen.Reason = v1alpha1.ClusterProgressing, v1alpha1.ReasonRollingOut
	case m.isFailing:
		seen.Phase, seen.Reason = v1alpha1.ClusterFailed, v1alpha1.ReasonCrashLoopBackOff
	}
	return seen
}

// entry returns the entry of a cluster, or nil.
func (s *state) entry(cluster string) *v1alpha1.ClusterStatus {
	if s.isGone {
		return nil
	}
	return s.app.Status.Cluster(cluster)
}
