package rollout

import (
	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
)

// explainPending sets the reason of clusters that have no revision yet, because the first one waits
// for the configuration or is refused. What to do is in the condition Ready, for all clusters together.
func (in Input) explainPending(plans []entryplan.Plan) {
	reason := in.pendingReason()
	if reason == "" {
		return
	}
	isRefused := reason == v1alpha1.ReasonPodSecurityRefused
	for i := range plans {
		entry := &plans[i].Entry
		switch {
		case entry.Revision != 0:
		case isRefused && (entry.Phase == v1alpha1.ClusterPending || entry.Phase == v1alpha1.ClusterProgressing): // also if delivery has found nothing
			entry.Phase, entry.Reason, entry.Message = v1alpha1.ClusterPending, reason, "waits for another spec: the condition Ready says why"
		case entry.Phase == v1alpha1.ClusterPending:
			entry.Reason, entry.Message = reason, "waits for the configuration: the condition Ready says what is missing"
		}
	}
}

// pendingReason returns why clusters without a revision get none, or "" if it is neither because of
// the configuration nor because of pod security.
func (in Input) pendingReason() string {
	isFirst := in.IsSpecPending && in.Revision == 0
	switch {
	case isFirst && in.SpecRefusal != "":
		return v1alpha1.ReasonPodSecurityRefused
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
