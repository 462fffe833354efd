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
	entries, err := entriesFor(app, member)
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

// entriesFor returns the entries of spec.configuration, each with the source that it has for a member.
func entriesFor(app *v1alpha1.AppService, member *v1alpha1.MemberCluster) ([]v1alpha1.ConfigurationSource, error) {
	entries := slices.Clone(app.Spec.Configuration)
	overrides, err := matching(app.Spec.Overrides, member)
	if err != nil {
		return nil, err
	}
	for _, override := range overrides {
		for _, changed := range override.Configuration {
			i := slices.IndexFunc(entries, func(entry v1alpha1.ConfigurationSource) bool {
				return entry.Kind == changed.Kind && entry.Name == changed.Name
			})
			if i < 0 {
				return nil, &OverrideError{Override: override.Name, Err: fmt.Errorf("configuration: spec.configuration has no %s %q: add it there", changed.Kind, changed.Name)}
			}
			entries[i].From = changed.From
		}
	}
	for i := range entries {
		entries[i].From = cmp.Or(entries[i].From, entries[i].Name)
	}
	return entries, nil
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
