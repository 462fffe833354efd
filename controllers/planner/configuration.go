package planner

import (
	"cmp"
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/rollout"
)

// hasConfiguration reports whether an AppService has configuration, or had it when its status was
// written, or has snapshots, which are deleted when no revision names them any more. All others are
// planned without any of this.
func (r *reviser) hasConfiguration(app *v1alpha1.AppService) bool {
	return app.HasConfiguration() || r.sources.HasSnapshots(app)
}

// serialsOnMembers returns the highest serials that members have reported for their copies of sources
// that are updated in place.
func serialsOnMembers(in rollout.Input) map[configuration.Ref]int64 {
	type copyOf struct {
		kind v1alpha1.ConfigurationKind
		name string
	}
	highest := map[copyOf]int64{}
	for cluster := range in.Observations {
		if seen := in.ObservationOf(cluster); seen != nil {
			for _, held := range seen.Configuration {
				of := copyOf{held.Kind, held.Copy}
				highest[of] = max(highest[of], held.Serial)
			}
		}
	}
	if len(highest) == 0 {
		return nil
	}
	serials := map[configuration.Ref]int64{}
	for _, ref := range refsOf(in.App) {
		id := configuration.Identity{Namespace: in.App.Namespace, AppService: in.App.Name, Ref: ref}
		if serial := highest[copyOf{ref.Kind, configuration.InPlaceCopy(id)}]; serial > 0 {
			serials[ref] = serial
		}
	}
	return serials
}

// refsOf returns the sources that the spec or the status of an AppService names. One may be named
// twice.
func refsOf(app *v1alpha1.AppService) []configuration.Ref {
	var refs []configuration.Ref
	for _, source := range app.Spec.Configuration {
		refs = append(refs, configuration.Ref{Kind: source.Kind, From: cmp.Or(source.From, source.Name)})
	}
	for _, override := range app.Spec.Overrides {
		for _, changed := range override.Configuration {
			refs = append(refs, configuration.Ref{Kind: changed.Kind, From: changed.From})
		}
	}
	for _, status := range app.Status.Configuration {
		refs = append(refs, configuration.Ref{Kind: status.Kind, From: status.From})
	}
	return refs
}

// awaitsFirstContent reports whether nothing is known yet about what the clusters are to run, because
// changes are collected for a moment. The status that follows says more.
func awaitsFirstContent(in rollout.Input) bool {
	return in.Revision == 0 && in.Configuration != nil && in.Configuration.IsCollecting
}

// finishConfiguration is called after the status with a decision was written, or if there was nothing
// to write. What cannot be deleted is tried again with the next plan.
func (r *reviser) finishConfiguration(ctx context.Context, in rollout.Input) {
	if in.Configuration == nil {
		return
	}
	if err := r.sources.Written(ctx, in.App, *in.Configuration); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Delete snapshots that nothing names; the next plan tries again")
	}
}

// afterDeletion is the time until another decision after revisions were deleted, which may leave
// snapshots that nothing names.
const afterDeletion = time.Second
