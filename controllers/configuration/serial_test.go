package configuration_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
)

func TestUpdateOf(t *testing.T) {
	pull := []corev1.LocalObjectReference{{Name: "tls"}, {Name: "settings"}}
	for _, c := range []struct {
		entry v1alpha1.ConfigurationSource
		want  v1alpha1.ConfigurationUpdate
	}{
		{entry(settings), v1alpha1.ConfigurationVersioned}, // no ConfigMap is a pull secret
		{entry(tls), v1alpha1.ConfigurationInPlace},
		{entry(configuration.Ref{Kind: tls.Kind, From: "other"}), v1alpha1.ConfigurationVersioned},
		{entry(configuration.Ref{Kind: tls.Kind, From: "other"}, inPlace), v1alpha1.ConfigurationInPlace},
		{v1alpha1.ConfigurationSource{Kind: tls.Kind, Name: "other", From: "tls"}, v1alpha1.ConfigurationVersioned},
		{v1alpha1.ConfigurationSource{Kind: tls.Kind, Name: "tls", From: "other"}, v1alpha1.ConfigurationInPlace},
		{v1alpha1.ConfigurationSource{Kind: tls.Kind, Name: "tls", Update: v1alpha1.ConfigurationVersioned}, v1alpha1.ConfigurationVersioned},
	} {
		if got := configuration.UpdateOf(c.entry, pull); got != c.want {
			t.Errorf("%+v is %s; want %s", c.entry, got, c.want)
		}
	}
}

func checkSerial(t *testing.T, h *hub, want int64) {
	t.Helper()
	h.settle()
	if status := h.status(t, tls); status.Serial != want {
		t.Errorf("the serial is %d; want %d: %+v", status.Serial, want, status)
	}
}

func TestSerials(t *testing.T) {
	t.Run("count contents, and make no revision", func(t *testing.T) {
		h := running(t, entry(tls, inPlace))
		checkSerial(t, h, 1)
		h.put(tls, text("b"))
		checkSerial(t, h, 2)
		h.put(tls, text("b"))
		checkSerial(t, h, 2)
		h.put(tls, text("a"))
		checkSerial(t, h, 3)
		if h.revisions != 1 || len(h.Revisions[0].Configuration) != 0 {
			t.Errorf("%d revisions: %+v", h.revisions, h.Revisions)
		}
	})
	t.Run("are higher than those on members", func(t *testing.T) {
		h := running(t, entry(tls, inPlace))
		h.Serials[tls] = 12
		h.put(tls, text("b"))
		checkSerial(t, h, 13)
		if status := h.status(t, tls); status.Reason != "" {
			t.Errorf("%+v", status)
		}
	})
	t.Run("begin when the entry is updated in place", func(t *testing.T) {
		h := running(t, entry(tls))
		checkSerial(t, h, 0)
		h.Serials[tls] = 7 // of an earlier time
		h.Spec.Entries = []v1alpha1.ConfigurationSource{entry(tls, inPlace)}
		checkSerial(t, h, 8)
		h.Spec.Entries = []v1alpha1.ConfigurationSource{entry(tls)}
		h.put(tls, text("b"))
		checkSerial(t, h, 9) // clusters with the older revision get it in place
	})
	t.Run("rise after an entry is removed and added again", func(t *testing.T) {
		h := running(t, entry(tls, inPlace))
		h.put(tls, text("b"))
		checkSerial(t, h, 2)
		h.Spec.Entries = nil
		h.settle()
		h.InUse = []int64{h.Revision}
		h.pass(time.Hour)
		if h.settle(); len(h.Status)+len(h.Snapshots) > 0 {
			t.Fatalf("these stay: %+v, %+v", h.Status, h.Snapshots)
		}
		h.Spec.Entries = []v1alpha1.ConfigurationSource{entry(tls, inPlace)}
		checkSerial(t, h, 3)
		h.Serials[tls] = 2 // of a member that could not be reached
		checkSerial(t, h, 3)
		if status := h.status(t, tls); status.Reason != "" {
			t.Errorf("%+v", status)
		}
		h.Serials[tls] = 4 // the hub never gave this
		checkSerial(t, h, 3)
		if status := h.status(t, tls); status.Reason != v1alpha1.ReasonHubBehind {
			t.Errorf("%+v", status)
		}
	})
	for value, onMembers := range map[string]int64{"a": 2, "c": 0} { // the content before, or a new one that members cannot report
		t.Run("rise if an entry is removed and its last snapshot is lost: "+value, func(t *testing.T) {
			h := newHub(entry(tls, inPlace))
			for serial, text := range []configuration.Content{text("a"), text("b")} {
				h.put(tls, text)
				checkSerial(t, h, int64(serial+1))
			}
			h.loseSnapshot(h.status(t, tls).Snapshot)
			h.Status, h.Serials[tls] = nil, onMembers
			h.put(tls, text(value))
			checkSerial(t, h, 3)
			if status := h.status(t, tls); status.Reason != "" {
				t.Errorf("%+v", status)
			}
		})
	}
	t.Run("are higher than those of snapshots, if the status is older", func(t *testing.T) {
		h := running(t, entry(tls, inPlace))
		older, serial := slices.Clone(h.Status), h.Serial
		h.put(tls, text("b"))
		checkSerial(t, h, 2)
		h.Status, h.Serial = older, serial
		h.put(tls, text("c"))
		checkSerial(t, h, 3)
	})
	t.Run("of an entry that only a revision in use has", func(t *testing.T) {
		h := running(t, entry(tls, inPlace))
		h.Spec.Entries = []v1alpha1.ConfigurationSource{entry(settings)}
		h.settle()
		if h.InUse[0] != 2 || h.InUse[1] != 1 {
			t.Fatalf("in use: %v", h.InUse)
		}
		h.put(tls, text("b"))
		checkSerial(t, h, 2)
		h.remove(tls)
		if decision := h.settle(); decision.Blocker != nil || h.status(t, tls).Reason != v1alpha1.ReasonSourceDeleted {
			t.Errorf("%+v", decision)
		}
		h.InUse = []int64{2}
		if h.settle(); len(h.Status) != 1 {
			t.Errorf("the entry stays: %+v", h.Status)
		}
	})
}

func TestHubBehind(t *testing.T) {
	restored := func(t *testing.T) *hub {
		h := running(t, entry(tls, inPlace))
		h.Serials[tls] = 12
		h.settle()
		return h
	}
	snapshotOf := func(t *testing.T, h *hub) string { return h.status(t, tls).Snapshot }
	t.Run("leaves the content alone, and says how to continue", func(t *testing.T) {
		h := restored(t)
		check(t, h, tls, outcome{Reason: v1alpha1.ReasonHubBehind, HasContent: true, Revisions: 1,
			Message: "members have a later content of Secret tls than this hub, so it is left alone: if the hub was restored, bring the source up to date; to overwrite the members, " +
				"kubectl annotate appservice web -n shop fleetwright.dev/accept-configuration=" + snapshotOf(t, h) + "@12"})
		checkSerial(t, h, 1)
	})
	t.Run("does not end because another source has a later content", func(t *testing.T) {
		h := restored(t)
		h.Spec.Entries = append(h.Spec.Entries, entry(settings, inPlace))
		for _, value := range []string{"a", "b", "c"} {
			h.put(settings, text(value))
			h.settle()
		}
		checkSerial(t, h, 1)
		if status := h.status(t, tls); status.Reason != v1alpha1.ReasonHubBehind || h.status(t, settings).Serial != 4 {
			t.Errorf("%+v", h.Status)
		}
	})
	t.Run("ends when it is accepted", func(t *testing.T) {
		h := restored(t)
		for _, wrong := range []string{"", "true", snapshotOf(t, h), snapshotOf(t, h) + "@11", "other.snapshot@12"} {
			h.Accepted = wrong
			checkSerial(t, h, 1)
		}
		h.Accepted = "other.snapshot@3, " + snapshotOf(t, h) + "@12"
		checkSerial(t, h, 13)
		h.Serials[tls] = 13
		checkSerial(t, h, 13)
		h.Serials[tls] = 14
		checkSerial(t, h, 13) // the annotation accepts no later restore
	})
	t.Run("ends with new content", func(t *testing.T) {
		h := restored(t)
		h.put(tls, text("b"))
		checkSerial(t, h, 13)
		if status := h.status(t, tls); status.Reason != "" {
			t.Errorf("%+v", status)
		}
	})
	t.Run("after the status and the snapshots were lost", func(t *testing.T) {
		h := restored(t)
		h.Status, h.Serial, h.Snapshots = nil, 0, nil
		h.restart()
		checkSerial(t, h, 1) // it may be an older content
		if status := h.status(t, tls); status.Reason != v1alpha1.ReasonHubBehind {
			t.Errorf("%+v", status)
		}
	})
	t.Run("not after only the status was lost", func(t *testing.T) {
		h := running(t, entry(tls, inPlace))
		h.put(tls, text("b"))
		checkSerial(t, h, 2)
		h.Serials[tls] = 2
		h.Status, h.Serial, h.Revision = nil, 0, 0
		h.restart()
		checkSerial(t, h, 2)
		if status := h.status(t, tls); status.Reason != "" {
			t.Errorf("%+v", status)
		}
	})
}

// The status is lost: what clusters run is found again.
func TestLostStatus(t *testing.T) {
	h := running(t, entry(settings))
	before := h.status(t, settings)
	h.Status, h.Revision = nil, 0
	h.restart()
	h.remove(settings)
	revision := h.decide()
	h.Revision = 1
	if diff := cmp.Diff(h.Revisions[0].Configuration, revision.Configuration); diff != "" {
		t.Errorf("the revision names (-before +after):\n%s", diff)
	}
	check(t, h, settings, outcome{Reason: v1alpha1.ReasonSourceDeleted, HasContent: true, Revisions: 1,
		Message: "ConfigMap settings was deleted in namespace shop: create it again, or remove it from spec.configuration to withdraw its content" + keeps})
	if after := h.status(t, settings); after.Snapshot != before.Snapshot {
		t.Errorf("from %s to %s", before.Snapshot, after.Snapshot)
	}
}

// The key is lost: no name of a content in use changes.
func TestLostKey(t *testing.T) {
	h := running(t, entry(settings), entry(tls, inPlace), entry(configuration.Ref{Kind: settings.Kind, From: "flags"}, optional))
	h.remove(configuration.Ref{Kind: settings.Kind, From: "flags"})
	h.settle()
	before := h.Revisions[len(h.Revisions)-1].Configuration
	revisions := h.revisions
	h.key = keyOf("n")
	h.restart()
	h.put(settings, text("a")) // it is touched, and keeps its content
	h.put(tls, text("a"))
	h.settle()
	if h.revisions != revisions {
		t.Errorf("from %+v to %+v", before, h.Revisions[len(h.Revisions)-1].Configuration)
	}
	checkSerial(t, h, 1)
	h.put(settings, text("b"))
	h.pass(time.Hour)
	h.settle()
	if h.revisions != revisions+1 {
		t.Errorf("new content: %d revisions", h.revisions-revisions)
	}
}
