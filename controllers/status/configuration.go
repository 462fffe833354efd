package status

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
	"github.com/fleetwright/fleetwright/controllers/rollout/wording"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// configurationWait returns what the conditions say while the spec, or a changed content, has no
// revision yet. It returns nil if it has one.
func configurationWait(decided *configuration.Decision, isSpecPending bool) *rolloutReport {
	switch {
	case decided == nil:
		return nil
	case isSpecPending && decided.Blocker != nil:
		return &rolloutReport{reason: decided.Blocker.Reason, message: decided.Blocker.Message, needsUser: decided.IsStalled}
	case decided.Delayed != nil:
		return &rolloutReport{reason: decided.Delayed.Reason, message: decided.Delayed.Message}
	case decided.IsCollecting:
		message := fmt.Sprintf("the configuration has changed (%s), and is used when no change has followed for a second", wording.CapNames(changingSources(decided.Status)))
		return &rolloutReport{reason: v1alpha1.ReasonConfigurationChanged, message: message}
	}
	return nil
}

// changingSources returns the names of the sources whose changes are being collected.
func changingSources(sources []v1alpha1.ConfigurationStatus) []string {
	var names []string
	for _, source := range sources {
		if source.Reason == v1alpha1.ReasonConfigurationChanged {
			names = append(names, source.From)
		}
	}
	return slices.Compact(names)
}

// nextConfiguration returns the next status.configuration and status.configurationSerial. An AppService
// that is being deleted keeps them.
func nextConfiguration(in rollout.Input, entries []v1alpha1.ClusterStatus) (sources []v1alpha1.ConfigurationStatus, serial int64) {
	previous := &in.App.Status
	if in.Configuration == nil {
		return previous.Configuration, previous.ConfigurationSerial
	}
	sources = slices.Clone(in.Configuration.Status)
	updates := inPlaceUpdates{in, entries, inPlaceSources(in, entries)}
	for i := range sources {
		sources[i].UpToDate = updates.upToDate(sources[i])
	}
	return sources, max(in.Configuration.Serial, previous.ConfigurationSerial)
}

// inPlaceUpdates are the updates of sources that are updated in place.
type inPlaceUpdates struct {
	in      rollout.Input
	entries []v1alpha1.ClusterStatus
	// sources are those that each cluster gets, by the name of the cluster.
	sources map[string][]configuration.Ref
}

// inPlaceSources returns the sources that each cluster with the AppService gets, if they are updated
// in place.
func inPlaceSources(in rollout.Input, entries []v1alpha1.ClusterStatus) map[string][]configuration.Ref {
	isInPlace := func(item v1alpha1.ConfigurationSource) bool {
		return configuration.UpdateOf(item, in.App.Spec.ImagePullSecrets) == v1alpha1.ConfigurationInPlace
	}
	if !slices.ContainsFunc(in.App.Spec.Configuration, isInPlace) {
		return nil
	}
	byCluster := make(map[string][]configuration.Ref, len(entries))
	for i := range entries {
		entry := &entries[i]
		if !entryplan.IsPlanned(*entry) || isLeaving(entry) {
			continue
		}
		member := cmp.Or(in.Members[entry.Name], &v1alpha1.MemberCluster{})
		items, _ := workload.SourcesFor(&in.App.Spec, member) // delivery reports an override that is invalid
		for _, item := range items {
			if isInPlace(item) {
				byCluster[entry.Name] = append(byCluster[entry.Name], configuration.Ref{Kind: item.Kind, From: item.From})
			}
		}
	}
	return byCluster
}

// upToDate returns "clusters with the content/clusters" for a source that is updated in place,
// otherwise "". A cluster that cannot be reached does not count as up to date. While clusters have not
// been observed since the operator started, a count of the same content is kept: a restart writes
// nothing.
func (u inPlaceUpdates) upToDate(source v1alpha1.ConfigurationStatus) string {
	var clusters, upToDate int
	isObserved := true
	ref := configuration.Ref{Kind: source.Kind, From: source.From}
	name := configuration.InPlaceCopy(configuration.Identity{Namespace: u.in.App.Namespace, AppService: u.in.App.Name, Ref: ref})
	for i := range u.entries {
		entry := &u.entries[i]
		if !slices.Contains(u.sources[entry.Name], ref) {
			continue
		}
		clusters++
		if entry.Phase == v1alpha1.ClusterUnknown {
			continue
		}
		seen := u.in.ObservationOf(entry.Name)
		isObserved = isObserved && (seen != nil || entry.Revision == 0)
		if seen != nil && slices.ContainsFunc(seen.Configuration, func(held observation.ConfigurationSerial) bool {
			return held.Kind == source.Kind && held.Copy == name && held.Serial == source.Serial
		}) {
			upToDate++
		}
	}
	switch previous := previousSource(u.in.App, ref); {
	case clusters == 0 || source.Serial == 0:
		return ""
	case !isObserved && previous != nil && previous.Serial == source.Serial && previous.UpToDate != "":
		return previous.UpToDate
	}
	return fmt.Sprintf("%d/%d", upToDate, clusters)
}

// previousSource returns the status of a source before the decision, or nil.
func previousSource(app *v1alpha1.AppService, ref configuration.Ref) *v1alpha1.ConfigurationStatus {
	for i := range app.Status.Configuration {
		if source := &app.Status.Configuration[i]; source.Kind == ref.Kind && source.From == ref.From {
			return source
		}
	}
	return nil
}
