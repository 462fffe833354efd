package status

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/rollout/wording"
)

// kstatus returns Reconciling while work is in progress, Stalled when only failures are left, and
// no condition when all work is done. A cluster that cannot be observed counts as work in progress,
// because it may come back.
func kstatus(ready metav1.Condition, sum v1alpha1.ClusterSummary) []metav1.Condition {
	switch {
	case sum.Failed > 0 && sum.Progressing == 0 && sum.Unknown == 0:
		return []metav1.Condition{condition(v1alpha1.ConditionStalled, metav1.ConditionTrue, ready.Reason, ready.Message)}
	case ready.Status != metav1.ConditionTrue:
		return []metav1.Condition{condition(v1alpha1.ConditionReconciling, metav1.ConditionTrue, ready.Reason, ready.Message)}
	case sum.Removing > 0:
		return []metav1.Condition{condition(v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonRemoving, "removing it from "+wording.CountClusters(sum.Removing))}
	}
	return nil
}
