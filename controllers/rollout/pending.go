package rollout

import (
	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// explainPending sets the reason of clusters that have no revision yet, because the first one waits
// for the configuration. What to do is in the condition Ready, for all clusters together.
func (in Input) explainPending(plans []entryPlan) {
	reason := in.pendingReason()
	if reason == "" {
		return
	}
	for i := range plans {
		if entry := &plans[i].entry; entry.Revision == 0 && entry.Phase == v1alpha1.ClusterPending {
			entry.Reason, entry.Message = reason, "waits for the configuration: the condition Ready says what is missing"
		}
	}
}

// pendingReason returns why clusters without a revision get none, or "" if it is not because of the
// configuration.
func (in Input) pendingReason() string {
	isFirst := in.IsSpecPending && in.Revision == 0
	switch {
	case in.Configuration == nil:
		return ""
	case isFirst && in.Configuration.Blocker != nil:
		return in.Configuration.Blocker.Reason
	case isFirst:
		return v1alpha1.ReasonConfigurationChanged
	case in.IsRevisionMissing:
		return v1alpha1.ReasonSnapshotMissing
	}
	return ""
}
