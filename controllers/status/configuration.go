package status

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
	"github.com/fleetwright/fleetwright/controllers/rollout/wording"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// configurationWait returns what the conditions say while the spec, or a changed content, has no
// revision yet. It returns nil if it has one.
func (in report) configurationWait() *rolloutReport {
	switch decided := in.Configuration; {
	case decided == nil:
		return nil
	case in.IsSpecPending && decided.Blocker != nil:
		return &rolloutReport{reason: decided.Blocker.Reason, message: decided.Blocker.Message, needsUser: decided.IsStalled}
	case decided.Delayed != nil:
		return &rolloutReport{reason: decided.Delayed.Reason, message: decided.Delayed.Message}
	case decided.IsCollecting:
		message := fmt.Sprintf("the configuration has changed (%s), and is used when no change has followed for a second", wording.CapNames(in.changingSources()))
		return &rolloutReport{reason: v1alpha1.ReasonConfigurationChanged, message: message}
	}
	return nil
}

// changingSources returns the names of the sources whose changes are being collected.
func (in report) changingSources() []string {
	var names []string
	for _, source := range in.Configuration.Status {
		if source.Reason == v1alpha1.ReasonConfigurationChanged {
			names = append(names, source.From)
		}
	}
	return slices.Compact(names)
}

// configuration returns the next status.configuration. An AppService that is being deleted keeps it.
func (in report) configuration(entries []v1alpha1.ClusterStatus) []v1alpha1.ConfigurationStatus {
	if in.Configuration == nil {
		return in.App.Status.Configuration
	}
	next := slices.Clone(in.Configuration.Status)
	inPlace := in.inPlaceSources(entries)
	for i := range next {
		next[i].UpToDate = in.inPlaceUpToDate(next[i], inPlace, entries)
	}
	return next
}

// configurationSerial returns the next status.configurationSerial.
func (in report) configurationSerial() int64 {
	if in.Configuration == nil {
		return in.App.Status.ConfigurationSerial
	}
	return max(in.Configuration.Serial, in.App.Status.ConfigurationSerial)
}

// inPlaceSources returns the sources that each cluster with the AppService gets, if they are updated
// in place.
func (in report) inPlaceSources(entries []v1alpha1.ClusterStatus) map[string][]configuration.Ref {
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

// inPlaceUpToDate returns "clusters with the content/clusters" for a source that is updated in place,
// otherwise "". A cluster that cannot be reached does not count as up to date. While clusters have not
// been observed since the operator started, a count of the same content is kept: a restart writes
// nothing.
func (in report) inPlaceUpToDate(source v1alpha1.ConfigurationStatus, inPlace map[string][]configuration.Ref, entries []v1alpha1.ClusterStatus) string {
	var clusters, upToDate int
	isObserved := true
	ref := configuration.Ref{Kind: source.Kind, From: source.From}
	name := configuration.InPlaceCopy(configuration.Identity{Namespace: in.App.Namespace, AppService: in.App.Name, Ref: ref})
	for i := range entries {
		entry := &entries[i]
		if !slices.Contains(inPlace[entry.Name], ref) {
			continue
		}
		clusters++
		if entry.Phase == v1alpha1.ClusterUnknown {
			continue
		}
		seen := in.ObservationOf(entry.Name)
		isObserved = isObserved && (seen != nil || entry.Revision == 0)
		if seen != nil && slices.ContainsFunc(seen.Configuration, func(held observation.ConfigurationSerial) bool {
			return held.Kind == source.Kind && held.Copy == name && held.Serial == source.Serial
		}) {
			upToDate++
		}
	}
	switch previous := in.previousSource(ref); {
	case clusters == 0 || source.Serial == 0:
		return ""
	case !isObserved && previous != nil && previous.Serial == source.Serial && previous.UpToDate != "":
		return previous.UpToDate
	}
	return fmt.Sprintf("%d/%d", upToDate, clusters)
}

// previousSource returns the status of a source before the decision, or nil.
func (in report) previousSource(ref configuration.Ref) *v1alpha1.ConfigurationStatus {
	for i := range in.App.Status.Configuration {
		if source := &in.App.Status.Configuration[i]; source.Kind == ref.Kind && source.From == ref.From {
			return source
		}
	}
	return nil
}
