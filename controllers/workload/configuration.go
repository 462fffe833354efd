package workload

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
)

// Copy is a ConfigMap or a Secret that travels with an AppService, as one cluster has it.
type Copy struct {
	Kind Kind
	// Name is its name on the member.
	Name string
	// Snapshot is the object of the hub with its content. It is empty if there must be no copy,
	// because the source is optional and has never existed.
	Snapshot string
	// Serial is the serial of the content of a copy that is updated in place; otherwise 0.
	Serial int64
}

// ErrNoSnapshot is the cause of an error of [Configuration] if the content of a source is not known.
var ErrNoSnapshot = errors.New("there is no snapshot")

// Configuration returns what travels with an AppService to a member: the name of the copy for each
// entry of spec.configuration, and the copies, sorted by kind and name, without duplicates. The
// snapshots are those of the revision that the cluster gets. They have the content of Versioned
// entries. The status has that of InPlace entries.
func Configuration(app *v1alpha1.AppService, member *v1alpha1.MemberCluster, snapshots []configuration.Named) (Copies, []Copy, error) {
	entries, err := SourcesFor(&app.Spec, member)
	if err != nil || len(entries) == 0 {
		return nil, nil, err
	}
	names, copies := make(Copies, len(entries)), make([]Copy, 0, len(entries))
	for _, entry := range entries {
		copied, err := copyOf(app, entry, snapshots)
		if err != nil {
			return nil, nil, err
		}
		names[Reference{copied.Kind, entry.Name}] = copied.Name
		if copied.Snapshot != "" {
			copies = append(copies, copied)
		}
	}
	slices.SortFunc(copies, func(a, b Copy) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	return names, slices.Compact(copies), nil // two entries may have one source
}

// SourcesFor returns the items of spec.configuration, each with the object of the hub from which a
// member gets its content: the last override that matches the member decides. The error is that of
// the first invalid override. The items then follow the others.
func SourcesFor(spec *v1alpha1.AppServiceSpec, member *v1alpha1.MemberCluster) ([]v1alpha1.ConfigurationSource, error) {
	items := slices.Clone(spec.Configuration)
	for i := range items {
		items[i].From = cmp.Or(items[i].From, items[i].Name)
	}
	var invalid error
	for i := range spec.Overrides {
		override := &spec.Overrides[i]
		if len(override.Configuration) == 0 {
			continue
		}
		isMatching, err := matches(override, member)
		if isMatching {
			err = changeSources(items, override)
		}
		invalid = cmp.Or(invalid, err)
	}
	return items, invalid
}

// changeSources gives items of spec.configuration the sources of an override.
func changeSources(items []v1alpha1.ConfigurationSource, override *v1alpha1.Override) error {
	for _, changed := range override.Configuration {
		i := slices.IndexFunc(items, func(item v1alpha1.ConfigurationSource) bool {
			return item.Kind == changed.Kind && item.Name == changed.Name
		})
		if i < 0 {
			return &OverrideError{Override: override.Name, Err: fmt.Errorf("configuration: spec.configuration has no %s %q: add it there", changed.Kind, changed.Name)}
		}
		items[i].From = changed.From
	}
	return nil
}

// copyOf returns the copy for an entry.
func copyOf(app *v1alpha1.AppService, entry v1alpha1.ConfigurationSource, snapshots []configuration.Named) (Copy, error) {
	copied := Copy{Kind: Kind(entry.Kind)}
	if configuration.UpdateOf(entry, app.Spec.ImagePullSecrets) == v1alpha1.ConfigurationInPlace {
		copied.Name = configuration.InPlaceCopy(configuration.Identity{
			Namespace: app.Namespace, AppService: app.Name, Ref: configuration.Ref{Kind: entry.Kind, From: entry.From},
		})
		i := slices.IndexFunc(app.Status.Configuration, func(s v1alpha1.ConfigurationStatus) bool {
			return s.Kind == entry.Kind && s.From == entry.From && s.Snapshot != ""
		})
		if i < 0 {
			return Copy{}, fmt.Errorf("%w of %s %s in status.configuration", ErrNoSnapshot, entry.Kind, entry.From)
		}
		copied.Snapshot, copied.Serial = app.Status.Configuration[i].Snapshot, app.Status.Configuration[i].Serial
	} else {
		i := slices.IndexFunc(snapshots, func(n configuration.Named) bool {
			return n.Kind == entry.Kind && n.From == entry.From && n.Snapshot != ""
		})
		if i < 0 {
			return Copy{}, fmt.Errorf("%w of %s %s in the revision", ErrNoSnapshot, entry.Kind, entry.From)
		}
		copied.Snapshot = snapshots[i].Snapshot
		copied.Name = configuration.VersionedCopy(copied.Snapshot)
	}
	if configuration.IsAbsent(copied.Snapshot) {
		copied.Snapshot, copied.Serial = "", 0
	}
	return copied, nil
}
