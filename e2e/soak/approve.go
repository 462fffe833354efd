package main

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// approve approves the removals from members that have lost their Secret and got it again, as
// docs/operations.md says. Other removals need no approval, because the script edits the placement.
func (f *fleet) approve(ctx context.Context) error {
	stored := &v1alpha1.AppServiceList{}
	if err := f.Hub.Client.List(ctx, stored, client.InNamespace(namespace)); err != nil {
		return err
	}
	for i := range stored.Items {
		app, err := f.ReadApp(ctx, &stored.Items[i])
		if err != nil {
			return client.IgnoreNotFound(err) // deleted meanwhile
		}
		value := approval(app)
		if value == "" || app.Annotations[v1alpha1.AnnotationAcceptRemovals] == value {
			continue
		}
		f.approvals++
		patch := client.MergeFrom(stored.Items[i].DeepCopy())
		metav1.SetMetaDataAnnotation(&stored.Items[i].ObjectMeta, v1alpha1.AnnotationAcceptRemovals, value)
		if err := f.Hub.Client.Patch(ctx, &stored.Items[i], patch); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// approval returns the value that the condition Ready prints, if a removal waits because a member
// has rejoined, or nothing.
func approval(app *v1alpha1.AppService) string {
	rejoined := false
	for i := range app.Status.Clusters {
		t := app.Status.Clusters[i].Transition
		rejoined = rejoined || t.Type == v1alpha1.TransitionRemovalNeedsApproval && t.Cause == v1alpha1.CauseRejoined
	}
	ready := meta.FindStatusCondition(app.Status.Conditions, v1alpha1.ConditionReady)
	if !rejoined || ready == nil {
		return ""
	}
	_, printed, _ := strings.Cut(ready.Message, v1alpha1.AnnotationAcceptRemovals+"=")
	value, _, _ := strings.Cut(printed, " ")
	return strings.TrimRight(value, ".,;")
}
