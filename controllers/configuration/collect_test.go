package configuration_test

import (
	"fmt"
	"strings"
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
			status.Message != "ConfigMap settings has changed, and is used when no change has followed for a second" || h.reads != 2 {
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
		if h.settle(); h.revisions != 2 || h.reads != 2+2*2 {
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

// An annotation of a source changes every second. That is no reason to wait for the AppService, and
// the source is not read each time.
func TestTheSameContentChangesOften(t *testing.T) {
	h := running(t, entry(settings))
	var changes []string
	h.reads = 0
	for range 600 {
		h.put(settings, text("a"))
		decision := h.decide()
		h.apply(decision)
		if decision.IsCollecting || decision.Blocker != nil || decision.Delayed != nil {
			t.Fatalf("Ready would be False: %+v", decision)
		}
		if status := h.status(t, settings); len(changes) == 0 || changes[len(changes)-1] != fmt.Sprint(status.Reason, status.Since) {
			changes = append(changes, fmt.Sprint(status.Reason, status.Since))
		}
		h.pass(time.Second)
	}
	if len(changes) != 2 || !strings.HasPrefix(changes[1], v1alpha1.ReasonConfigurationChangesOften) {
		t.Errorf("the status changes too often: %q", changes)
	}
	if h.revisions != 1 || h.reads > 10+20 || h.reads < 10+18 {
		t.Errorf("%d revisions, %d reads", h.revisions, h.reads)
	}
	t.Run("and then its content", func(t *testing.T) {
		h.put(settings, text("b"))
		changed := h.Now
		for h.revisions == 1 {
			if h.apply(h.decide()); h.Now.Sub(changed) > 30*time.Second {
				t.Fatalf("it is not used: %+v", h.status(t, settings))
			}
			h.pass(time.Second)
		}
	})
	t.Run("and then nothing", func(t *testing.T) {
		before := h.reads
		h.settle()
		h.pass(time.Minute)
		h.settle()
		if status := h.status(t, settings); status.Reason != "" || h.reads != before {
			t.Errorf("%d reads, and %+v", h.reads-before, status)
		}
	})
}

// A source that changes its content all the time keeps its reason, so that an alert can fire.
func TestAReasonDoesNotFlap(t *testing.T) {
	h := running(t, entry(settings))
	reasons := map[string]int{}
	for second := range 1200 {
		h.put(settings, text(fmt.Sprint(second)))
		h.apply(h.decide())
		if second > 120 {
			status := h.status(t, settings)
			reasons[fmt.Sprint(status.Reason, status.Since)]++
		}
		h.pass(time.Second)
	}
	if len(reasons) != 1 {
		t.Errorf("%v", reasons)
	}
}

// An annotation that changes all the time does not delay the content of another source, and takes part
// in nothing that is collected.
func TestASourceThatWaitsDelaysNoOther(t *testing.T) {
	h := running(t, entry(settings), entry(tls))
	for range 60 {
		h.put(settings, text("a"))
		h.apply(h.decide())
		h.pass(time.Second)
	}
	h.put(tls, text("b"))
	for second := range 3 {
		h.put(settings, text("a"))
		decision := h.decide()
		h.apply(decision)
		if want := []int{1, 2, 2}[second]; decision.IsCollecting != (second == 0) || h.revisions != want {
			t.Errorf("after %d s: collecting %t, %d revisions, want %d", second, decision.IsCollecting, h.revisions, want)
		}
		h.pass(time.Second)
	}
}

// A request about a source fails: it is visible, it is tried again, and nothing else waits.
func TestFailures(t *testing.T) {
	failure := &configuration.Problem{Reason: v1alpha1.ReasonConfigurationUnavailable, Message: "the webhook is down"}
	fails := func(s *configuration.Source) { s.Failure = failure }
	t.Run("of a new source", func(t *testing.T) {
		h := newHub(entry(settings))
		h.put(settings, text("a"))
		h.change(settings, fails)
		decision := h.settle()
		if diff := cmp.Diff(&configuration.Problem{Reason: failure.Reason, Message: "the webhook is down; there is no new revision until then"}, decision.Blocker); diff != "" || decision.IsCollecting {
			t.Errorf("collecting %t, blocker (-want +got):\n%s", decision.IsCollecting, diff)
		}
		h.pass(10 * time.Minute)
		if decision := h.decide(); !decision.IsStalled {
			t.Error("nobody has to act after ten minutes")
		}
		h.change(settings, func(s *configuration.Source) { s.Failure = nil })
		if decision := h.settle(); decision.Blocker != nil || h.revisions != 1 {
			t.Errorf("%d revisions, %+v", h.revisions, decision)
		}
	})
	t.Run("of a change", func(t *testing.T) {
		h := running(t, entry(settings), entry(tls))
		h.put(settings, text("b"))
		h.change(settings, fails)
		decision := h.settle()
		if diff := cmp.Diff(&configuration.Problem{Reason: failure.Reason, Message: "the webhook is down; until then, clusters keep its last content"}, decision.Delayed); diff != "" || decision.Blocker != nil {
			t.Errorf("blocker %+v, delayed (-want +got):\n%s", decision.Blocker, diff)
		}
		h.put(tls, text("b"))
		if h.settle(); h.revisions != 2 {
			t.Errorf("%d revisions: another source waits", h.revisions)
		}
		h.change(settings, func(s *configuration.Source) { s.Failure = nil })
		if decision := h.settle(); decision.Delayed != nil || h.revisions != 3 {
			t.Errorf("%d revisions, %+v", h.revisions, decision)
		}
	})
	t.Run("although nothing has changed", func(t *testing.T) {
		h := running(t, entry(settings))
		h.Sources[settings] = configuration.Source{Failure: failure} // it could not be looked up
		if decision := h.settle(); decision.Delayed != nil || decision.Blocker != nil || h.status(t, settings).Reason != failure.Reason {
			t.Errorf("delayed %+v, blocker %+v, %+v", decision.Delayed, decision.Blocker, h.status(t, settings))
		}
	})
}

// After a restart, it is not known at first whether the snapshots exist.
func TestUnlistedSnapshots(t *testing.T) {
	h := running(t, entry(settings), entry(tls, inPlace))
	for kind, want := range map[v1alpha1.ConfigurationKind]bool{settings.Kind: true, tls.Kind: false} { // only those of revisions
		h.Unlisted = []v1alpha1.ConfigurationKind{kind}
		if decision := h.decide(); decision.AreUnlisted != want || len(decision.Lost) > 0 || len(decision.Prune) > 0 {
			t.Errorf("%s: %+v", kind, decision)
		}
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
