package view

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// Row is what a table of AppServices says about one of them.
type Row struct {
	// Revision is the number of the revision of the spec, or "".
	Revision string
	// Ready is "ready/clusters".
	Ready string
	// Status is the reason of the condition Ready, or NotProcessed.
	Status string
	// Stage is the stage whose turn it is with "updated/clusters", or the stage that failed, or "".
	Stage string
	// Available is the number of available pods, or "" if the operator does not report it.
	Available string
	Image     string
	// Next is the command that continues the rollout, or "".
	Next string
}

// NotProcessed is the Status of an AppService whose latest edit the operator has not processed.
const NotProcessed = "NotProcessed"

// isProcessed reports whether the status is that of the latest edit.
func isProcessed(app *v1alpha1.AppService) bool {
	return app.Status.ObservedGeneration >= app.Generation
}

// ByAttention returns AppServices with those first that need attention, and then by namespace and name.
func ByAttention(apps []*v1alpha1.AppService) []*v1alpha1.AppService {
	return slices.SortedFunc(slices.Values(apps), func(a, b *v1alpha1.AppService) int {
		return cmp.Or(cmp.Compare(attentionOf(a), attentionOf(b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

// RowOf returns the row of an AppService.
func RowOf(app *v1alpha1.AppService) Row {
	state, sum := &app.Status.Rollout, app.Status.Summary
	row := Row{
		Ready: fmt.Sprintf("%d/%d", sum.Ready, sum.Clusters), Status: "Unknown",
		Image: app.Spec.Image,
	}
	if available := app.Status.AvailableReplicas; available != nil {
		row.Available = strconv.Itoa(int(*available))
	}
	if ready := meta.FindStatusCondition(app.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		row.Status = ready.Reason
	}
	if isProcessed(app) {
		row.Next = NextCommand(app)
	} else {
		row.Status = NotProcessed
	}
	if state.Revision > 0 {
		row.Revision = strconv.FormatInt(state.Revision, 10)
	}
	switch stage := state.ActiveStage(); {
	case stage != nil && state.IsOpen():
		row.Stage = fmt.Sprintf("%s %d/%d", stage.Name, stage.UpToDate, stage.Clusters)
	case state.FailedRevision == state.Revision && state.Phase != v1alpha1.RolloutCompleted:
		row.Stage = state.FailedStage
	}
	return row
}

// attention is how much an AppService needs attention: the lowest value needs most.
type attention int

const (
	attentionFailed      attention = iota // somebody must correct something
	attentionNext                         // a command continues the rollout
	attentionUnknown                      // clusters cannot be observed, or the operator has not processed it
	attentionProgressing                  // it becomes Ready by itself
	attentionNone
)

func attentionOf(app *v1alpha1.AppService) attention {
	state, sum := &app.Status.Rollout, app.Status.Summary
	ready := meta.FindStatusCondition(app.Status.Conditions, v1alpha1.ConditionReady)
	switch {
	case sum.Failed > 0, state.IsHalted(), state.Phase == v1alpha1.RolloutRolledBack, meta.IsStatusConditionTrue(app.Status.Conditions, v1alpha1.ConditionStalled):
		return attentionFailed
	case isProcessed(app) && NextCommand(app) != "":
		return attentionNext
	case !isProcessed(app), ready == nil, sum.Unknown > 0, sum.Detached > 0:
		return attentionUnknown
	case ready.Status != metav1.ConditionTrue:
		return attentionProgressing
	}
	return attentionNone
}
