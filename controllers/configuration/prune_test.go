package configuration_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
)

// A snapshot of an earlier content is old, and nothing names it.
func TestPrune(t *testing.T) {
	for name, c := range map[string]struct {
		change func(h *hub, old *configuration.Snapshot)
		keeps  bool
	}{
		"nothing names it":  {change: func(*hub, *configuration.Snapshot) {}},
		"of another source": {change: func(h *hub, old *configuration.Snapshot) { *old = snapshotOf(h, configMap("other"), "a") }},
		"it is young": {keeps: true, change: func(h *hub, old *configuration.Snapshot) {
			old.CreationTime = metav1.NewTime(h.Now.Add(time.Second - 10*time.Minute))
		}},
		"another owner":  {keeps: true, change: func(_ *hub, old *configuration.Snapshot) { old.Owner = "another" }},
		"no owner":       {keeps: true, change: func(_ *hub, old *configuration.Snapshot) { old.Owner = "" }},
		"no digest":      {keeps: true, change: func(_ *hub, old *configuration.Snapshot) { old.Digest = configuration.Digest{} }},
		"another digest": {keeps: true, change: func(_ *hub, old *configuration.Snapshot) { old.Digest[0]++ }},
		"another source": {keeps: true, change: func(_ *hub, old *configuration.Snapshot) { old.From = "other" }},
		"a kept revision names it": {keeps: true, change: func(h *hub, old *configuration.Snapshot) {
			h.Revisions = append(h.Revisions, configuration.Revision{Number: 9, Configuration: []configuration.Named{{Kind: old.Kind, From: old.From, Snapshot: old.Name}}})
		}},
		"the revision of the spec is not known": {keeps: true, change: func(h *hub, _ *configuration.Snapshot) { h.Revisions = nil }},
		"a revision in use is not known":        {keeps: true, change: func(h *hub, _ *configuration.Snapshot) { h.InUse = []int64{1, 7} }},
		"the status is lost":                    {keeps: true, change: func(h *hub, _ *configuration.Snapshot) { h.Revision = 0 }},
		"the source has no content in the status": {keeps: true, change: func(h *hub, old *configuration.Snapshot) {
			h.Spec.Entries = append(h.Spec.Entries, entry(configMap("other")))
			*old = snapshotOf(h, configMap("other"), "a")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			h := running(t, entry(settings), entry(tls, inPlace))
			old := snapshotOf(h, settings, "old")
			c.change(h, &old)
			h.Snapshots = append(h.Snapshots, old)
			want := []configuration.Snapshot{old}
			if c.keeps {
				want = nil
			}
			if diff := cmp.Diff(want, h.decide().Prune); diff != "" {
				t.Errorf("to delete (-want +got):\n%s", diff)
			}
		})
	}
}

// snapshotOf returns an old snapshot of a source.
func snapshotOf(h *hub, ref configuration.Ref, value string) configuration.Snapshot {
	digest := configuration.DigestOf(h.key, h.identity(ref), text(value))
	return configuration.Snapshot{Ref: ref, Name: configuration.Name(h.identity(ref), digest), Owner: owner, Digest: digest, CreationTime: metav1.NewTime(start)}
}

// Of a source that is updated in place, only the newest content is kept.
func TestPruneInPlace(t *testing.T) {
	h := newHub(entry(tls, inPlace))
	for _, value := range []string{"a", "b", "c"} {
		h.put(tls, text(value))
		h.settle()
	}
	h.pass(10 * time.Minute)
	h.settle()
	if status := h.status(t, tls); len(h.Snapshots) != 1 || h.Snapshots[0].Name != status.Snapshot || status.Serial != 3 {
		t.Errorf("%+v of %+v", h.Snapshots, status)
	}
	h.Spec.Entries = []v1alpha1.ConfigurationSource{}
	h.settle()
	h.InUse = []int64{h.Revision}
	if h.settle(); len(h.Snapshots) != 0 {
		t.Errorf("after its entry was removed: %+v", h.Snapshots)
	}
}
