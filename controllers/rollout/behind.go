package rollout

import (
	"fmt"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/lineage"
)

// hubBehind returns the state on a cluster that this hub has never planned, or nil. The state is
// remembered while the cluster cannot be observed.
func hubBehind(e *entryPlan) *v1alpha1.HubBehind {
	switch {
	case e.seen != nil && e.seen.HubBehind != nil:
		return e.seen.HubBehind
	case e.previous != nil:
		return e.previous.HubBehind
	}
	return nil
}

// holdBehind marks the clusters that are ahead of the hub. On all other entries that need a change,
// it explains why they get none. The marks stay until all of them are accepted, so that one value
// of the annotation is enough, including for marks that were accepted before.
func (in Input) holdBehind(plans []entryPlan) {
	var ahead []v1alpha1.ClusterStatus
	accepted := true
	for i := range plans {
		entry := &plans[i].entry
		if entry.HubBehind = hubBehind(&plans[i]); entry.HubBehind != nil {
			ahead = append(ahead, *entry)
			accepted = accepted && lineage.IsAccepted(in.App, entry.HubBehind)
		}
	}
	if accepted {
		for i := range plans {
			plans[i].entry.HubBehind = nil
		}
		return
	}
	howToAccept := lineage.HowToAccept(ahead)
	elsewhere := fmt.Sprintf("nothing is changed here, because the hub is behind %s; %s", ListClusters(Names(ahead)), howToAccept)
	for i := range plans {
		entry := &plans[i].entry
		if entry.HubBehind == nil && entry.Phase == v1alpha1.ClusterReady || !isHeldBehind(entry) {
			continue
		}
		if entry.Phase != v1alpha1.ClusterRemoving {
			entry.Phase = v1alpha1.ClusterFailed
		}
		entry.Reason, entry.Message = v1alpha1.ReasonHubBehind, BoundMessage(elsewhere)
		if entry.HubBehind != nil {
			entry.Message = BoundMessage(lineage.WhatIsAhead(entry.HubBehind) + howToAccept)
		}
	}
}

// isHeldBehind reports whether the message of an entry may say that the hub is behind. The entry of
// a cluster that cannot be observed keeps its message, and so does the entry of a pending removal.
func isHeldBehind(entry *v1alpha1.ClusterStatus) bool {
	return entry.Phase != v1alpha1.ClusterUnknown && entry.Phase != v1alpha1.ClusterDetached && !awaitsRemoval(*entry)
}

// Names returns the names of the clusters of these entries.
func Names(entries []v1alpha1.ClusterStatus) []string {
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, entry.Name)
	}
	return names
}
