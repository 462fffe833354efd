package rollout

import (
	"fmt"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/lineage"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
	"github.com/fleetwright/fleetwright/controllers/rollout/wording"
)

// holdBehind marks the clusters that are ahead of the hub. On all other entries that need a change,
// it explains why they get none. The marks stay until all of them are accepted, so that one value
// of the annotation is enough, including for marks that were accepted before.
func holdBehind(app *v1alpha1.AppService, plans []entryplan.Plan) {
	var ahead []v1alpha1.ClusterStatus
	accepted := true
	for i := range plans {
		entry := &plans[i].Entry
		if entry.HubBehind = plans[i].HubBehind(); entry.HubBehind != nil {
			ahead = append(ahead, *entry)
			accepted = accepted && lineage.IsAccepted(app, entry.HubBehind)
		}
	}
	if accepted {
		for i := range plans {
			plans[i].Entry.HubBehind = nil
		}
		return
	}
	howToAccept := lineage.HowToAccept(ahead)
	elsewhere := fmt.Sprintf("nothing is changed here, because the hub is behind %s; %s", wording.ListClusters(wording.Names(ahead)), howToAccept)
	for i := range plans {
		entry := &plans[i].Entry
		if entry.HubBehind == nil && entry.Phase == v1alpha1.ClusterReady || !isHeldBehind(entry) {
			continue
		}
		if entry.Phase != v1alpha1.ClusterRemoving {
			entry.Phase = v1alpha1.ClusterFailed
		}
		entry.Reason, entry.Message = v1alpha1.ReasonHubBehind, wording.Bound(elsewhere)
		if entry.HubBehind != nil {
			entry.Message = wording.Bound(lineage.WhatIsAhead(entry.HubBehind) + howToAccept)
		}
	}
}

// isHeldBehind reports whether the message of an entry may say that the hub is behind. The entry of
// a cluster that cannot be observed keeps its message, and so does the entry of a pending removal.
func isHeldBehind(entry *v1alpha1.ClusterStatus) bool {
	return entry.Phase != v1alpha1.ClusterUnknown && entry.Phase != v1alpha1.ClusterDetached && !entryplan.AwaitsRemoval(*entry)
}
