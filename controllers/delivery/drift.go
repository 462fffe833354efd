package delivery

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// isDrift tells whether an object holds less than is wanted although it was applied before: somebody else has changed it.
func isDrift(existing client.Object, want *unstructured.Unstructured) bool {
	return existing.GetAnnotations()[v1alpha1.AnnotationHash] == want.GetAnnotations()[v1alpha1.AnnotationHash]
}

// putBack applies what somebody else has changed, unless that was done too often, and says who it was.
func (r *reconciler) putBack(ctx context.Context, t task, existing client.Object, want *unstructured.Unstructured, changed *fieldpath.Set) error {
	who := whoChanged(existing, changed)
	what := fmt.Sprintf("%s changed %s of %s %s", who, fields(changed), kindOf(existing), existing.GetName())
	now := time.Now()
	if wait := t.memory.drift.wait(now); wait > 0 {
		return &obstacle{reason: v1alpha1.ReasonFieldConflict, retry: wait, message: what + " again and again; it is put back more rarely now"}
	}
	if err := r.change(ctx, t, existing, want); err != nil {
		return err
	}
	t.memory.drift.corrected(now)
	corrections.WithLabelValues(r.cluster).Inc()
	r.tell(t.app, existing, v1alpha1.ReasonDriftCorrected, "Correct", "%s; it was put back", what)
	return nil
}

// whoChanged names the managers of the fields, other than us.
func whoChanged(existing client.Object, changed *fieldpath.Set) string {
	var managers []string
	for _, entry := range withoutOurs(existing.GetManagedFields()) {
		if owned, err := held(entry); err == nil && !owned.Intersection(changed).Empty() && !slices.Contains(managers, entry.Manager) {
			managers = append(managers, entry.Manager)
		}
	}
	if len(managers) == 0 {
		return "somebody" // who has taken the fields away
	}
	return strings.Join(managers, ", ")
}

// withoutOurs are the entries of other managers.
func withoutOurs(entries []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	return slices.DeleteFunc(slices.Clone(entries), func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == v1alpha1.ManagedBy || e.Manager == replicasManager
	})
}

// held are the fields that an entry says its manager holds.
func held(entry metav1.ManagedFieldsEntry) (*fieldpath.Set, error) {
	fields := fieldpath.NewSet()
	if entry.FieldsV1 == nil {
		return fields, nil
	}
	if err := fields.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
		return nil, fmt.Errorf("read what manager %q holds: %w", entry.Manager, err)
	}
	return fields, nil
}

// holders are the entries of an object's managers when those fields become ours alone.
func holders(entries []metav1.ManagedFieldsEntry, ours *fieldpath.Set, apiVersion string) ([]metav1.ManagedFieldsEntry, error) {
	var all []metav1.ManagedFieldsEntry
	for _, entry := range entries {
		if entry.Subresource == "" {
			fields, err := held(entry)
			if err != nil {
				return nil, err
			}
			if fields = fields.Difference(ours); fields.Empty() || entry.Manager == v1alpha1.ManagedBy {
				continue
			}
			if entry.FieldsV1, err = fieldsV1(fields); err != nil {
				return nil, err
			}
		}
		all = append(all, entry)
	}
	fields, err := fieldsV1(ours)
	return append(all, metav1.ManagedFieldsEntry{
		Manager: v1alpha1.ManagedBy, Operation: metav1.ManagedFieldsOperationApply, APIVersion: apiVersion,
		Time: new(metav1.Now()), FieldsType: "FieldsV1", FieldsV1: fields,
	}), err
}

func fieldsV1(set *fieldpath.Set) (*metav1.FieldsV1, error) {
	raw, err := set.ToJSON()
	if err != nil {
		return nil, fmt.Errorf("write what a manager holds: %w", err)
	}
	return metav1.NewFieldsV1(string(raw)), nil
}

// maxFields is how many fields are named.
const maxFields = 3

// fields names the fields of a set.
func fields(set *fieldpath.Set) string {
	var paths []string
	set.Leaves().Iterate(func(path fieldpath.Path) {
		paths = append(paths, strings.TrimPrefix(path.String(), "."))
	})
	if len(paths) > maxFields {
		return fmt.Sprintf("%s and %d more", strings.Join(paths[:maxFields], ", "), len(paths)-maxFields)
	}
	return strings.Join(paths, ", ")
}

const (
	// A workload that is put back maxCorrections times within a minute is contended: somebody puts it back as well. Then it is
	// put back again only after minTruce, twice that, and at most maxTruce.
	maxCorrections     = 5
	contentionWindow   = time.Minute
	minTruce, maxTruce = time.Minute, 10 * time.Minute
)

// driftBackoff limits how often drift of one AppService is corrected.
type driftBackoff struct {
	corrections []time.Time // the last ones, at most maxCorrections
	truce       time.Duration
	until       time.Time
}

// wait returns how long drift must not be corrected.
func (b *driftBackoff) wait(now time.Time) time.Duration { return max(0, b.until.Sub(now)) }

// corrected records a correction.
func (b *driftBackoff) corrected(now time.Time) {
	if now.Sub(b.until) > b.truce+contentionWindow {
		b.truce = 0 // it has been peaceful since
	}
	b.corrections = append(b.corrections, now)
	if len(b.corrections) > maxCorrections {
		b.corrections = b.corrections[1:]
	}
	again := b.truce > 0
	often := len(b.corrections) == maxCorrections && now.Sub(b.corrections[0]) <= contentionWindow
	if again || often {
		b.truce = min(max(minTruce, 2*b.truce), maxTruce)
		b.until = now.Add(b.truce)
	}
}
