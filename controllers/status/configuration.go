package status

import (
	"fmt"
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/rollout"
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
		message := fmt.Sprintf("the configuration has changed (%s), and is used when no change has followed for a second", rollout.CapNames(in.changingSources()))
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
	inPlace := in.inPlaceSources()
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

// inPlaceSource is a source that the spec updates in place on some clusters.
type inPlaceSource struct {
	kind v1alpha1.ConfigurationKind
	name string
	from string
	// overrides are those that replace the source, in their order.
	overrides []inPlaceOverride
}

// inPlaceOverride replaces a source on the clusters that it matches.
type inPlaceOverride struct {
	matcher placement.Matcher
	from    string
}

// inPlaceSources returns the items of spec.configuration that are updated in place. An override whose
// selector is invalid is left out: delivery reports it.
func (in report) inPlaceSources() []inPlaceSource {
	var all []inPlaceSource
	for _, item := range in.App.Spec.Configuration {
		if configuration.UpdateOf(item, in.App.Spec.ImagePullSecrets) != v1alpha1.ConfigurationInPlace {
			continue
		}
		source := inPlaceSource{kind: item.Kind, name: item.Name, from: item.From}
		if source.from == "" {
			source.from = item.Name
		}
		for _, override := range in.App.Spec.Overrides {
			for _, changed := range override.Configuration {
				matcher, err := placement.CompileMatch("spec.overrides", override.ClusterMatch)
				if err == nil && changed.Kind == item.Kind && changed.Name == item.Name {
					source.overrides = append(source.overrides, inPlaceOverride{matcher, changed.From})
				}
			}
		}
		all = append(all, source)
	}
	return all
}

// fromOn returns the object of the hub whose content a cluster gets. The last override that matches
// the cluster decides.
func (s inPlaceSource) fromOn(member *v1alpha1.MemberCluster) string {
	from := s.from
	for _, override := range s.overrides {
		if member != nil && override.matcher.Matches(member) {
			from = override.from
		}
	}
	return from
}

// inPlaceUpToDate returns "clusters with the content/clusters" for a source that is updated in place,
// otherwise "". A cluster that cannot be reached does not count as up to date. While clusters have not
// been observed since the operator started, a count of the same content is kept: a restart writes
// nothing.
func (in report) inPlaceUpToDate(source v1alpha1.ConfigurationStatus, inPlace []inPlaceSource, entries []v1alpha1.ClusterStatus) string {
	var clusters, upToDate int
	isObserved := true
	ref := configuration.Ref{Kind: source.Kind, From: source.From}
	name := configuration.InPlaceCopy(configuration.Identity{Namespace: in.App.Namespace, AppService: in.App.Name, Ref: ref})
	for i := range entries {
		entry := &entries[i]
		gets := slices.ContainsFunc(inPlace, func(s inPlaceSource) bool {
			return s.kind == source.Kind && s.fromOn(in.Members[entry.Name]) == source.From
		})
		if !gets || !rollout.IsPlanned(*entry) || isLeaving(entry) {
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
