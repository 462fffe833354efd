package configuration_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
)

// running returns a hub whose AppService has both sources since long.
func running(t *testing.T, entries ...v1alpha1.ConfigurationSource) *hub {
	t.Helper()
	h := newHub(entries...)
	h.put(settings, text("a"))
	h.put(tls, text("a"))
	h.settle()
	h.pass(time.Hour)
	return h
}

func TestCollecting(t *testing.T) {
	t.Run("waits a second, and says so at once", func(t *testing.T) {
		h := running(t, entry(settings))
		h.put(settings, text("b"))
		decision := h.decide()
		h.apply(decision)
		status := h.status(t, settings)
		if !decision.IsCollecting || decision.RecheckAfter != time.Second || status.Reason != v1alpha1.ReasonConfigurationChanged ||
			status.Message != "ConfigMap settings has changed, and is used when no change has followed for a second" || h.reads != 1 {
			t.Errorf("at first: again after %s, %d reads, %+v", decision.RecheckAfter, h.reads, status)
		}
		h.pass(time.Second)
		h.apply(h.decide())
		if status := h.status(t, settings); status.Reason != "" || status.Since != nil || h.revisions != 2 || h.reads != 2 {
			t.Errorf("after a second: %d revisions, %d reads, %+v", h.revisions, h.reads, status)
		}
	})
	t.Run("one commit is one revision", func(t *testing.T) {
		h := running(t, entry(settings), entry(tls))
		for i := range 5 {
			h.put([]configuration.Ref{settings, tls}[i%2], text(fmt.Sprint(i)))
			h.apply(h.decide())
			h.pass(900 * time.Millisecond)
		}
		if h.settle(); h.revisions != 2 || h.reads != 4 {
			t.Errorf("%d revisions, %d reads", h.revisions, h.reads)
		}
	})
	t.Run("lasts ten seconds at most", func(t *testing.T) {
		h := running(t, entry(settings))
		for i := 0; h.revisions < 2; i++ {
			if i > 20 {
				t.Fatal("no revision")
			}
			h.put(settings, text(fmt.Sprint(i)))
			h.apply(h.decide())
			h.pass(500 * time.Millisecond)
		}
		if waited := h.Now.Sub(start.Add(time.Hour + time.Second)); waited != 10500*time.Millisecond { // the last half after the revision
			t.Errorf("it took %s", waited)
		}
	})
	t.Run("begins again after a restart", func(t *testing.T) {
		h := running(t, entry(settings))
		h.put(settings, text("b"))
		h.apply(h.decide())
		h.pass(900 * time.Millisecond)
		h.restart()
		if decision := h.decide(); decision.RecheckAfter != time.Second {
			t.Errorf("again after %s", decision.RecheckAfter)
		}
	})
	t.Run("does not wait longer if the clock is set back", func(t *testing.T) {
		h := running(t, entry(settings))
		h.put(settings, text("b"))
		h.apply(h.decide())
		h.pass(-time.Hour)
		if decision := h.decide(); decision.RecheckAfter != time.Second {
			t.Errorf("again after %s", decision.RecheckAfter)
		}
	})
	t.Run("a refused source does not keep others from being collected", func(t *testing.T) {
		h := running(t, entry(settings), entry(tls))
		h.put(tls, ofType(text("b"), "unknown"))
		h.settle()
		h.pass(time.Hour)
		h.put(settings, text("b"))
		if decision := h.decide(); decision.RecheckAfter != time.Second {
			t.Errorf("again after %s", decision.RecheckAfter)
		}
		h.settle()
		if h.revisions != 2 || h.reads != 4 {
			t.Errorf("%d revisions, %d reads", h.revisions, h.reads)
		}
	})
	t.Run("an edit of the entries waits for it", func(t *testing.T) {
		h := running(t, entry(settings))
		h.put(settings, text("b"))
		h.Spec.Entries = append(h.Spec.Entries, entry(tls))
		if decision := h.decide(); decision.NeedsRevision || !decision.IsCollecting {
			t.Errorf("a revision before the changes are collected: %+v", decision)
		}
		if h.settle(); h.revisions != 2 {
			t.Errorf("%d revisions", h.revisions)
		}
	})
}

// A source that changes every second.
func TestChangesOften(t *testing.T) {
	h := running(t, entry(settings))
	var throttled v1alpha1.ConfigurationStatus
	minutes := map[int]int{}
	for second := range 600 {
		h.put(settings, text(fmt.Sprint(second)))
		before := h.revisions
		h.apply(h.decide())
		minutes[second/60] += h.revisions - before
		if status := h.status(t, settings); status.Reason == v1alpha1.ReasonConfigurationChangesOften {
			throttled = status
		}
		h.pass(time.Second)
	}
	if diff := cmp.Diff("ConfigMap settings has changed too often, and changes are used once a minute: find out what changes it", throttled.Message); diff != "" {
		t.Error(diff)
	}
	if minutes[0] != 5 || h.revisions-1 > 5+10 || h.revisions-1 < 5+8 {
		t.Errorf("%d revisions: %v", h.revisions-1, minutes)
	}
	h.pass(10 * time.Minute)
	h.settle()
	h.pass(10 * time.Minute)
	before := h.revisions
	for i := range 6 {
		h.put(settings, text(fmt.Sprint("again", i)))
		h.apply(h.decide())
		h.pass(time.Second)
		h.apply(h.decide())
	}
	if burst := h.revisions - before; burst != 5 {
		t.Errorf("a burst of %d after a pause", burst)
	}
}

func TestTheSameContentIsNotThrottled(t *testing.T) {
	h := running(t, entry(settings))
	for range 20 {
		h.put(settings, text("a"))
		h.apply(h.decide())
		h.pass(time.Second)
		h.apply(h.decide())
		if status := h.status(t, settings); status.Reason != "" {
			t.Fatalf("%+v", status)
		}
	}
	if h.revisions != 1 {
		t.Errorf("%d revisions", h.revisions)
	}
}

// While one source is throttled, another that keeps its content is not.
func TestTheSameContentIsUsedBesideOneThatChangesOften(t *testing.T) {
	h := running(t, entry(settings), entry(tls))
	for i := range 6 {
		h.put(settings, text(fmt.Sprint(i)))
		h.put(tls, text("a"))
		h.apply(h.decide())
		h.pass(time.Second)
		h.apply(h.decide())
	}
	if status := h.status(t, settings); status.Reason != v1alpha1.ReasonConfigurationChangesOften {
		t.Errorf("the one that changes: %+v", status)
	}
	if status := h.status(t, tls); status.Reason != "" || status.ObservedVersion != h.Sources[tls].Version {
		t.Errorf("the other: %+v", status)
	}
	if _, isCollected := h.Memory.Versions[tls]; isCollected {
		t.Errorf("it is still collected: %+v", h.Memory)
	}
}
