package configuration_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
)

// marker is in each content, and in nothing that is decided.
const marker = "geheim"

var (
	someRefs = []configuration.Ref{settings, tls, configMap("flags"), {Kind: tls.Kind, From: "registry"}}

	anySomeRef  = rapid.SampledFrom(someRefs)
	someContent = rapid.Custom(func(t *rapid.T) configuration.Content {
		content := text(marker + rapid.SampledFrom([]string{"a", "b", "c", ""}).Draw(t, "value"))
		if rapid.IntRange(0, 9).Draw(t, "is large") == 0 {
			content = text(marker + strings.Repeat("x", 1_000_000))
		}
		content.Type = rapid.SampledFrom([]corev1.SecretType{"", "", "", corev1.SecretTypeTLS, "refused"}).Draw(t, "type")
		return content
	})
	someEntries = rapid.Custom(func(t *rapid.T) []v1alpha1.ConfigurationSource {
		var entries []v1alpha1.ConfigurationSource
		for _, ref := range someRefs {
			switch rapid.IntRange(0, 5).Draw(t, "entry") {
			case 0: // not listed
			case 1:
				entries = append(entries, entry(ref, inPlace))
			case 2:
				entries = append(entries, entry(ref, optional))
			default:
				entries = append(entries, entry(ref))
			}
		}
		return entries
	})
)

// newAnyHub returns a hub with any entries and sources.
func newAnyHub(t *rapid.T) *hub {
	h := newHub(someEntries.Draw(t, "entries")...)
	for _, ref := range someRefs {
		if rapid.IntRange(0, 3).Draw(t, "exists") == 0 {
			h.remove(ref)
			continue
		}
		h.putAny(t, ref)
	}
	return h
}

func (h *hub) putAny(t *rapid.T, ref configuration.Ref) {
	content := someContent.Draw(t, "content")
	if ref.Kind == v1alpha1.ConfigurationConfigMap {
		content.Type = ""
	}
	h.put(ref, content)
}

// vanish makes a source unusable in any way.
func (h *hub) vanish(t *rapid.T, ref configuration.Ref) {
	if h.Sources[ref].Presence != configuration.PresenceFound {
		return
	}
	switch rapid.SampledFrom([]string{"deleted", "unlabelled", "forbidden", "disabled", "unknown", "kubeconfig", "type", "failed"}).Draw(t, "how") {
	case "deleted":
		h.remove(ref)
	case "unlabelled":
		h.change(ref, func(s *configuration.Source) { s.IsLabelled = false })
	case "forbidden":
		h.Sources[ref] = configuration.Source{Presence: configuration.PresenceForbidden}
	case "disabled":
		h.Sources[ref] = configuration.Source{Presence: configuration.PresenceDisabled}
	case "unknown":
		delete(h.Sources, ref)
	case "kubeconfig":
		h.change(ref, func(s *configuration.Source) { s.IsKubeconfig = true })
	case "failed":
		h.change(ref, func(s *configuration.Source) {
			s.Failure = &configuration.Problem{Reason: v1alpha1.ReasonConfigurationUnavailable, Message: "it is tried again"}
		})
	case "type":
		if ref.Kind == v1alpha1.ConfigurationSecret {
			h.put(ref, ofType(text(marker), "refused"))
		}
	}
}

// happen is one event, after which the hub decides.
func (h *hub) happen(t *rapid.T) {
	ref := anySomeRef.Draw(t, "source")
	switch rapid.SampledFrom([]string{"put", "put", "put", "touch", "vanish", "restart", "edit", "lose", "tamper", "key", "time", "time", "serial", "promote"}).Draw(t, "event") {
	case "put":
		h.putAny(t, ref)
	case "touch":
		if source, found := h.Sources[ref]; found && source.Presence == configuration.PresenceFound {
			h.put(ref, h.contents[ref])
		}
	case "vanish":
		h.vanish(t, ref)
	case "restart":
		h.restart()
	case "edit":
		h.Spec.Entries = someEntries.Draw(t, "entries")
	case "lose":
		if len(h.Snapshots) > 0 {
			h.loseSnapshot(rapid.SampledFrom(h.Snapshots).Draw(t, "snapshot").Name)
		}
	case "tamper":
		h.tamper(t)
	case "key":
		h.key = keyOf(rapid.SampledFrom([]string{"k", "n"}).Draw(t, "key"))
		h.restart()
	case "time":
		h.pass(time.Duration(rapid.Int64Range(0, int64(15*time.Minute)).Draw(t, "time")))
	case "serial":
		h.Serials[ref] = rapid.Int64Range(0, 20).Draw(t, "serial")
	case "promote": // the rollout has ended, and older revisions are deleted
		if h.Revision > 0 {
			h.InUse = []int64{h.Revision}
			h.Revisions = slices.Clone(h.Revisions[max(0, len(h.Revisions)-1):])
		}
	}
}

// tamper changes what the hub says about a snapshot.
func (h *hub) tamper(t *rapid.T) {
	if len(h.Snapshots) == 0 {
		return
	}
	h.Snapshots = slices.Clone(h.Snapshots)
	snapshot := &h.Snapshots[rapid.IntRange(0, len(h.Snapshots)-1).Draw(t, "snapshot")]
	switch rapid.SampledFrom([]string{"owner", "digest", "source", "revision"}).Draw(t, "what") {
	case "owner":
		snapshot.Owner = "another"
	case "digest":
		snapshot.Digest = configuration.Digest{1}
	case "source":
		snapshot.From = "another"
	case "revision": // a revision in use cannot be read
		h.Revisions = slices.Clone(h.Revisions[:max(0, len(h.Revisions)-1)])
	}
}

// checkHistory lets events happen, and checks each decision before it is carried out.
func checkHistory(t *testing.T, check func(t *rapid.T, h *hub, decision configuration.Decision)) {
	rapid.Check(t, func(t *rapid.T) {
		h := newAnyHub(t)
		for range rapid.IntRange(1, 12).Draw(t, "events") {
			for range rapid.IntRange(1, 3).Draw(t, "decisions") {
				decision := h.decide()
				check(t, h, decision)
				h.apply(decision)
				h.pass(min(decision.RecheckAfter, time.Minute))
			}
			h.happen(t)
		}
	})
}

func TestDecide_prunes_nothing_that_is_named(t *testing.T) {
	checkHistory(t, func(t *rapid.T, h *hub, decision configuration.Decision) {
		if len(decision.Prune) == 0 {
			return
		}
		for _, number := range append([]int64{h.Revision}, h.InUse...) {
			if !slices.ContainsFunc(h.Revisions, func(r configuration.Revision) bool { return r.Number == number }) {
				t.Fatalf("revision %d cannot be read, and may name any of %+v", number, decision.Prune)
			}
		}
		var named []string
		for _, revision := range h.Revisions {
			for _, snapshot := range revision.Configuration {
				named = append(named, snapshot.Snapshot)
			}
		}
		for _, snapshot := range decision.Configuration {
			named = append(named, snapshot.Snapshot)
		}
		for _, status := range decision.Status {
			named = append(named, status.Snapshot)
		}
		for _, pruned := range decision.Prune {
			if slices.Contains(named, pruned.Name) || pruned.Owner != owner || h.Now.Sub(pruned.CreationTime.Time) < 10*time.Minute {
				t.Fatalf("%+v is deleted; named: %v", pruned, named)
			}
		}
	})
}

// Each snapshot is deleted in the end.
func TestDecide_prunes_everything_that_is_not_named(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newAnyHub(t)
		for range rapid.IntRange(0, 8).Draw(t, "changes") {
			h.putAny(t, anySomeRef.Draw(t, "source"))
			h.settle()
		}
		h.Spec.Entries = nil
		h.settle()
		h.InUse = []int64{h.Revision}
		if h.Revision > 0 {
			h.Revisions = h.Revisions[len(h.Revisions)-1:]
		}
		h.pass(10 * time.Minute)
		if h.settle(); len(h.Snapshots) > 0 && h.Revision > 0 {
			t.Fatalf("these stay: %+v", h.Snapshots)
		}
	})
}

func TestDecide_twice_is_deciding_once(t *testing.T) {
	checkHistory(t, func(t *rapid.T, h *hub, decision configuration.Decision) {
		if diff := cmp.Diff(decision, configuration.Decide(h.Input)); diff != "" {
			t.Fatalf("the same input is decided in another way (-first +second):\n%s", diff)
		}
		after := *h
		after.apply(decision)
		again := after.decide()
		want := decision
		// These were carried out.
		want.Create, want.Prune, want.NeedsRevision = nil, nil, false
		// The revisions in use may be others now, and what they name.
		want.Lost, again.Lost = nil, nil
		if after.Revision != h.Revision {
			want.Memory.Reads, again.Memory.Reads, want.RecheckAfter, again.RecheckAfter = nil, nil, 0, 0
			want.Status, again.Status, want.Configured, again.Configured, again.Prune = nil, nil, nil, nil, nil
		}
		if diff := cmp.Diff(want, again); diff != "" {
			t.Fatalf("(-first +second):\n%s", diff)
		}
	})
}

// given returns what clusters are given of a source.
func given(h *hub, ref configuration.Ref) string {
	for _, status := range h.Status {
		if status.Kind == ref.Kind && status.From == ref.From {
			return fmt.Sprintf("%s@%d", status.Snapshot, status.Serial)
		}
	}
	return ""
}

func TestDecide_a_source_that_vanishes_changes_nothing_that_clusters_are_given(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newAnyHub(t)
		for range rapid.IntRange(0, 4).Draw(t, "events") {
			h.settle()
			h.happen(t)
		}
		h.settle()
		h.pass(time.Hour)
		h.settle()
		ref := anySomeRef.Draw(t, "vanishes")
		before, revisions := given(h, ref), h.revisions
		if strings.HasPrefix(before, "@") {
			return // clusters are given nothing
		}
		h.vanish(t, ref)
		isNamed := len(h.Revisions) > 0 && slices.ContainsFunc(h.Revisions[len(h.Revisions)-1].Configuration, func(n configuration.Named) bool { return n.Snapshot+"@0" == before })
		if isNamed && rapid.Bool().Draw(t, "the status is lost") {
			h.Status, h.Serial = nil, 0
			h.restart()
		}
		decision := h.settle()
		h.pass(time.Hour)
		h.settle()
		if after := given(h, ref); after != before {
			t.Fatalf("%+v changes from %s to %s", ref, before, after)
		}
		if h.revisions != revisions {
			t.Fatalf("a new revision: %+v", decision)
		}
		for _, snapshot := range decision.Prune {
			if strings.HasPrefix(before, snapshot.Name) {
				t.Fatalf("%s is deleted", snapshot.Name)
			}
		}
	})
}

// A new revision never names a snapshot that does not exist, and has all Versioned sources. No
// snapshot is created twice.
func TestDecide_revisions_are_complete(t *testing.T) {
	checkHistory(t, func(t *rapid.T, h *hub, decision configuration.Decision) {
		for _, created := range decision.Create {
			if slices.ContainsFunc(h.Snapshots, func(s configuration.Snapshot) bool { return s.Name == created.Name && s.Owner == owner }) {
				t.Fatalf("%+v exists", created)
			}
		}
		if !decision.NeedsRevision {
			return
		}
		if decision.Blocker != nil || decision.IsCollecting {
			t.Fatalf("a revision in spite of %+v", decision)
		}
		versioned := 0
		for _, entry := range h.Spec.Entries {
			if configuration.UpdateOf(entry, nil) == v1alpha1.ConfigurationVersioned {
				versioned++
			}
		}
		if versioned != len(decision.Configuration) {
			t.Fatalf("%d of %d sources have a snapshot", len(decision.Configuration), versioned)
		}
		for _, named := range decision.Configuration {
			isCreated := slices.ContainsFunc(decision.Create, func(c configuration.Creation) bool { return c.Name == named.Snapshot })
			exists := slices.ContainsFunc(h.Snapshots, func(s configuration.Snapshot) bool { return s.Name == named.Snapshot && s.Owner == owner })
			if !isCreated && !exists && !configuration.IsAbsent(named.Snapshot) {
				t.Fatalf("%s does not exist", named.Snapshot)
			}
		}
	})
}

// A serial never falls, and a content never changes without another serial.
func TestDecide_serials_count_contents(t *testing.T) {
	checkHistory(t, func(t *rapid.T, h *hub, decision configuration.Decision) {
		for _, next := range decision.Status {
			for _, status := range h.Status {
				if status.Kind != next.Kind || status.From != next.From || status.Serial == 0 || status.Snapshot == "" {
					continue
				}
				isSame := status.Snapshot == next.Snapshot
				if next.Serial < status.Serial || next.Serial == status.Serial && !isSame && !configuration.IsAbsent(status.Snapshot) {
					t.Fatalf("from %+v to %+v", status, next)
				}
				isBehind := h.Serials[configuration.Ref{Kind: next.Kind, From: next.From}] > status.Serial
				if isSame && next.Serial != status.Serial && !isBehind {
					t.Fatalf("the content did not change from %+v to %+v", status, next)
				}
			}
		}
	})
}

func TestDecide_is_rate_limited(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHub(entry(settings))
		var used []time.Time
		for i := range rapid.IntRange(10, 60).Draw(t, "changes") {
			h.put(settings, text(fmt.Sprint(i)))
			before := h.revisions
			for range 3 {
				decision := h.decide()
				h.apply(decision)
				h.pass(min(decision.RecheckAfter, time.Duration(rapid.IntRange(0, 20).Draw(t, "seconds"))*time.Second))
			}
			if h.revisions > before {
				used = append(used, h.Now)
			}
		}
		for i := range used {
			for j := range used[:i] {
				if count, minutes := i-j+1, used[i].Sub(used[j]).Minutes(); float64(count) > 5+minutes+1 {
					t.Fatalf("%d revisions in %.1f minutes", count, minutes)
				}
			}
		}
	})
}

func TestDecide_tells_no_content(t *testing.T) {
	checkHistory(t, func(t *rapid.T, _ *hub, decision configuration.Decision) {
		status, err := json.Marshal(decision.Status)
		if err != nil {
			t.Fatal(err)
		}
		if printed := fmt.Sprintf("%+v", decision) + string(status); strings.Contains(printed, marker) {
			t.Fatalf("content in %s", printed)
		}
		for _, status := range decision.Status {
			if (status.Reason == "") != (status.Message == "") || (status.Reason == "") != (status.Since == nil) || len(status.Message) > 1024 {
				t.Fatalf("%+v", status)
			}
		}
	})
}

// copyOnMember is what a member has of a source that is updated in place.
type copyOnMember struct {
	serial   int64
	snapshot string
}

// Members that are cut off, while sources are removed and added again, never make a hub that was not
// restored look as if it had been, and get the present content when they return.
func TestDecide_serials_on_members_that_are_cut_off(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHub(entry(settings, inPlace), entry(tls, inPlace))
		h.put(settings, text("a"))
		h.put(tls, text("a"))
		members := []map[configuration.Ref]copyOnMember{{}, {}, {}}
		isCutOff := make([]bool, len(members))
		for range rapid.IntRange(1, 25).Draw(t, "events") {
			decision := h.settle()
			clear(h.Serials)
			for i, copies := range members {
				if isCutOff[i] {
					continue
				}
				deliver(t, copies, h.Status)
				for ref, held := range copies {
					h.Serials[ref] = max(h.Serials[ref], held.serial)
				}
			}
			for _, status := range h.Status {
				if status.Reason == v1alpha1.ReasonHubBehind {
					t.Fatalf("a false alarm: %+v; the members have %+v", status, members)
				}
			}
			if decision.Serial < h.Serial {
				t.Fatalf("the highest serial falls from %d to %d", h.Serial, decision.Serial)
			}
			ref := rapid.SampledFrom([]configuration.Ref{settings, tls}).Draw(t, "source")
			switch rapid.SampledFrom([]string{"put", "put", "remove", "remove", "add", "add", "cut", "return", "promote", "restart", "lose"}).Draw(t, "event") {
			case "put":
				h.put(ref, text(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "value")))
			case "remove":
				h.Spec.Entries = slices.DeleteFunc(slices.Clone(h.Spec.Entries), func(e v1alpha1.ConfigurationSource) bool { return e.Name == ref.From })
			case "add":
				if !slices.ContainsFunc(h.Spec.Entries, func(e v1alpha1.ConfigurationSource) bool { return e.Name == ref.From }) {
					h.Spec.Entries = append(slices.Clone(h.Spec.Entries), entry(ref, inPlace))
				}
			case "cut":
				isCutOff[rapid.IntRange(0, len(members)-1).Draw(t, "member")] = true
			case "return":
				isCutOff[rapid.IntRange(0, len(members)-1).Draw(t, "member")] = false
			case "promote":
				if h.Revision > 0 {
					h.InUse, h.Revisions = []int64{h.Revision}, slices.Clone(h.Revisions[len(h.Revisions)-1:])
					h.pass(20 * time.Minute) // so that the snapshots are deleted
				}
			case "restart":
				h.restart()
			case "lose":
				if len(h.Snapshots) > 0 {
					h.loseSnapshot(rapid.SampledFrom(h.Snapshots).Draw(t, "snapshot").Name)
				}
			}
		}
	})
}

// deliver gives a member the contents that the hub has, as delivery does: only with a higher serial.
func deliver(t *rapid.T, copies map[configuration.Ref]copyOnMember, given []v1alpha1.ConfigurationStatus) {
	listed := map[configuration.Ref]bool{}
	for _, status := range given {
		ref := configuration.Ref{Kind: status.Kind, From: status.From}
		listed[ref] = true
		held := copies[ref]
		if status.Serial > held.serial {
			copies[ref] = copyOnMember{status.Serial, status.Snapshot}
		} else if status.Serial == held.serial && status.Serial > 0 && status.Snapshot != held.snapshot {
			t.Fatalf("serial %d of %s stands for %s and for %s", status.Serial, status.From, held.snapshot, status.Snapshot)
		}
	}
	for ref := range copies {
		if !listed[ref] {
			delete(copies, ref)
		}
	}
}
