package configuration_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
)

const (
	labelSettings   = "kubectl label configmap settings -n shop fleetwright.dev/propagate=true"
	labelTLS        = "kubectl label secret tls -n shop fleetwright.dev/propagate=true"
	keeps           = "; until then, clusters keep its last content"
	blocks          = "; there is no new revision until then"
	typesThatTravel = "Opaque, kubernetes.io/tls, kubernetes.io/dockerconfigjson, kubernetes.io/dockercfg, kubernetes.io/basic-auth, kubernetes.io/ssh-auth"
)

// outcome is what a user sees of a source.
type outcome struct {
	Reason, Message string
	// HasContent is set if clusters can get a content.
	HasContent bool
	// IsBlocked is set if there must not be a new revision.
	IsBlocked bool
	// Revisions is the number of revisions.
	Revisions int
}

// Each source is in this state from the beginning, or after it had content.
func TestStates(t *testing.T) {
	unlabelled := func(s *configuration.Source) { s.IsLabelled = false }
	present := func(presence configuration.Presence) func(*configuration.Source) {
		return func(s *configuration.Source) { s.Presence = presence }
	}
	for name, c := range map[string]struct {
		ref    configuration.Ref
		happen func(h *hub)
		reason string
		first  string // message without content
		after  string // message after there was content; as first by default
	}{
		"deleted": {ref: settings, happen: func(h *hub) { h.remove(settings) }, reason: v1alpha1.ReasonSourceDeleted,
			after: "ConfigMap settings was deleted in namespace shop: create it again, or remove it from spec.configuration to withdraw its content"},
		"unlabelled": {ref: settings, happen: func(h *hub) { h.change(settings, unlabelled) }, reason: v1alpha1.ReasonNotPropagated,
			first: "ConfigMap settings may not leave the hub: its owner can allow it with " + labelSettings},
		"forbidden": {ref: tls, happen: func(h *hub) { h.change(tls, present(configuration.PresenceForbidden)) }, reason: v1alpha1.ReasonConfigurationForbidden,
			first: "Fleetwright has no permission for Secrets in namespace shop: ask an administrator to grant config/propagation there"},
		"disabled": {ref: tls, happen: func(h *hub) { h.change(tls, present(configuration.PresenceDisabled)) }, reason: v1alpha1.ReasonPropagationDisabled,
			first: "nothing may leave namespace shop of the hub: ask an administrator to add it to the flag --propagate-from of Fleetwright"},
		"the token of a ServiceAccount": {ref: tls, happen: func(h *hub) { h.put(tls, ofType(text("b"), corev1.SecretTypeServiceAccountToken)) }, reason: v1alpha1.ReasonTypeRefused,
			first: "Secret tls has the type kubernetes.io/service-account-token, which must not leave the hub: use one of the types " + typesThatTravel + ", or remove it from spec.configuration"},
		"a bootstrap token": {ref: tls, happen: func(h *hub) { h.put(tls, ofType(text("b"), corev1.SecretTypeBootstrapToken)) }, reason: v1alpha1.ReasonTypeRefused,
			first: "Secret tls has the type bootstrap.kubernetes.io/token, which must not leave the hub: use one of the types " + typesThatTravel + ", or remove it from spec.configuration"},
		"a release of Helm": {ref: tls, happen: func(h *hub) { h.put(tls, ofType(text("b"), "helm.sh/release.v1")) }, reason: v1alpha1.ReasonTypeRefused,
			first: "Secret tls has the type helm.sh/release.v1, which must not leave the hub: use one of the types " + typesThatTravel + ", or remove it from spec.configuration"},
		"the kubeconfig of a member": {ref: tls, happen: func(h *hub) {
			h.put(tls, text("b"))
			h.change(tls, func(s *configuration.Source) { s.IsKubeconfig = true })
		}, reason: v1alpha1.ReasonTypeRefused, first: "Secret tls has the kubeconfig of a member, and must not leave the hub: remove it from spec.configuration"},
		"the namespace of Fleetwright": {ref: tls, happen: func(h *hub) { h.OperatorNamespace = "shop" }, reason: v1alpha1.ReasonTypeRefused,
			first: "nothing may leave namespace shop, because it is that of Fleetwright: create the AppService in another namespace"},
		"what the hub refuses": {ref: tls, happen: func(h *hub) {
			h.change(tls, func(s *configuration.Source) {
				s.Problem = &configuration.Problem{Reason: v1alpha1.ReasonConfigurationForbidden, Message: "the quota is used up"}
			})
		}, reason: v1alpha1.ReasonConfigurationForbidden, first: "the quota is used up"},
		"larger than allowed": {ref: settings, happen: func(h *hub) { h.put(settings, text(strings.Repeat("x", configuration.MaxSize+1))) }, reason: v1alpha1.ReasonTooLarge,
			first: "with ConfigMap settings, the configuration would have 2097153 bytes, and 2097152 are allowed: make it smaller, or divide the AppService"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.first != "" {
				h := newHub(entry(c.ref, optional))
				h.put(c.ref, text("a"))
				c.happen(h)
				check(t, h, c.ref, outcome{Reason: c.reason, Message: c.first + blocks, IsBlocked: true})
			}
			if c.after == "" {
				c.after = c.first
			}
			h := newHub(entry(c.ref))
			h.put(c.ref, text("a"))
			h.settle()
			before := h.status(t, c.ref).Snapshot
			c.happen(h)
			check(t, h, c.ref, outcome{Reason: c.reason, Message: c.after + keeps, HasContent: true, Revisions: 1})
			if after := h.status(t, c.ref).Snapshot; after != before {
				t.Errorf("the snapshot changed from %s to %s", before, after)
			}
		})
	}
}

// check settles and compares what a user sees.
func check(t *testing.T, h *hub, ref configuration.Ref, want outcome) {
	t.Helper()
	decision := h.settle()
	status := h.status(t, ref)
	got := outcome{Reason: status.Reason, Message: status.Message, HasContent: status.Snapshot != "", IsBlocked: decision.Blocker != nil, Revisions: h.revisions}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
	isTrue := decision.Configured != nil && decision.Configured.Status == metav1.ConditionTrue
	if isTrue != (want.Reason == "") {
		t.Errorf("Configured is %+v with reason %q", decision.Configured, want.Reason)
	}
	if want.IsBlocked && decision.Blocker != nil && decision.Blocker.Reason != want.Reason {
		t.Errorf("revisions wait because of %+v; want %s", decision.Blocker, want.Reason)
	}
}

func TestMissing(t *testing.T) {
	missing := outcome{Reason: v1alpha1.ReasonConfigurationMissing, IsBlocked: true,
		Message: "ConfigMap settings does not exist in namespace shop: create it, then " + labelSettings + blocks}
	t.Run("stalls after ten minutes", func(t *testing.T) {
		h := newHub(entry(settings))
		h.remove(settings)
		check(t, h, settings, missing)
		decision := h.decide()
		if decision.IsStalled || decision.RecheckAfter != 10*time.Minute {
			t.Errorf("at first: stalled %t, again after %s", decision.IsStalled, decision.RecheckAfter)
		}
		h.pass(10 * time.Minute)
		h.restart()
		if decision = h.decide(); !decision.IsStalled || decision.RecheckAfter != 0 {
			t.Errorf("after ten minutes: stalled %t, again after %s", decision.IsStalled, decision.RecheckAfter)
		}
	})
	t.Run("begins when it is created", func(t *testing.T) {
		h := newHub(entry(settings))
		h.remove(settings)
		h.settle()
		h.put(settings, text("a"))
		check(t, h, settings, outcome{HasContent: true, Revisions: 1})
	})
	t.Run("does not hold up an optional entry", func(t *testing.T) {
		h := newHub(entry(settings, optional))
		h.remove(settings)
		check(t, h, settings, outcome{HasContent: true, Revisions: 1})
		absent := h.status(t, settings).Snapshot
		if !configuration.IsAbsent(absent) || h.Revisions[0].Configuration[0].Snapshot != absent {
			t.Errorf("the revision names %+v", h.Revisions[0].Configuration)
		}
		h.put(settings, text("a"))
		check(t, h, settings, outcome{HasContent: true, Revisions: 2})
		h.remove(settings)
		h.settle()
		if status := h.status(t, settings); status.Reason != v1alpha1.ReasonSourceDeleted || configuration.IsAbsent(status.Snapshot) {
			t.Errorf("it keeps no content: %+v", status)
		}
	})
	t.Run("holds up an entry that is no longer optional", func(t *testing.T) {
		h := newHub(entry(settings, optional))
		h.remove(settings)
		h.settle()
		h.Spec.Entries = []v1alpha1.ConfigurationSource{entry(settings)}
		want := missing
		want.Revisions = 1
		check(t, h, settings, want)
	})
	t.Run("an optional source that exists is not absent", func(t *testing.T) {
		h := newHub(entry(settings, optional))
		h.remove(settings)
		h.settle()
		h.put(settings, text("a"))
		h.change(settings, func(s *configuration.Source) { s.IsLabelled = false })
		check(t, h, settings, outcome{Reason: v1alpha1.ReasonNotPropagated, HasContent: true, Revisions: 1,
			Message: "ConfigMap settings may not leave the hub: its owner can allow it with " + labelSettings + keeps})
	})
	t.Run("of another entry, the first content of the others is not held up in place", func(t *testing.T) {
		h := newHub(entry(settings), entry(tls, inPlace))
		h.remove(settings)
		h.put(tls, text("a"))
		h.settle()
		if status := h.status(t, tls); status.Serial != 1 || h.revisions != 0 {
			t.Errorf("serial %d, %d revisions", status.Serial, h.revisions)
		}
	})
}

// A restart must not write.
func TestUnknownSourcesKeepTheirStatus(t *testing.T) {
	for name, happen := range map[string]func(h *hub){
		"in use":  func(h *hub) { h.put(settings, text("a")) },
		"missing": func(h *hub) { h.remove(settings) },
		"deleted": func(h *hub) { h.put(settings, text("a")); h.settle(); h.remove(settings) },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(entry(settings))
			happen(h)
			before := h.settle()
			h.restart()
			h.Sources = nil
			h.pass(5 * time.Minute)
			after := h.settle()
			if diff := cmp.Diff(before.Status, after.Status) + cmp.Diff(before.Blocker, after.Blocker) + cmp.Diff(before.Configured, after.Configured); diff != "" {
				t.Errorf("the restart changes (-before +after):\n%s", diff)
			}
		})
	}
	h := newHub(entry(settings))
	check(t, h, settings, outcome{Reason: v1alpha1.ReasonConfigurationChanged, Message: "ConfigMap settings was not looked up yet: wait", IsBlocked: true})
}

func TestSnapshotMissing(t *testing.T) {
	t.Run("is created again from the same content", func(t *testing.T) {
		h := newHub(entry(settings))
		h.put(settings, text("a"))
		h.settle()
		snapshot := h.status(t, settings).Snapshot
		h.loseSnapshot(snapshot)
		check(t, h, settings, outcome{HasContent: true, Revisions: 1})
		if h.status(t, settings).Snapshot != snapshot || len(h.stored) != 1 {
			t.Errorf("the snapshots are %v", h.stored)
		}
	})
	t.Run("and the source is deleted", func(t *testing.T) {
		h := newHub(entry(settings))
		h.put(settings, text("a"))
		h.settle()
		snapshot := h.status(t, settings).Snapshot
		h.loseSnapshot(snapshot)
		h.remove(settings)
		check(t, h, settings, outcome{Reason: v1alpha1.ReasonSnapshotMissing, HasContent: true, IsBlocked: true, Revisions: 1,
			Message: "ConfigMap settings was deleted in namespace shop: create it again, or remove it from spec.configuration to withdraw its content" +
				"; its snapshot " + snapshot + " was deleted too, so there is no new revision until then; clusters keep what they run"})
	})
	t.Run("if another owner has it", func(t *testing.T) {
		h := newHub(entry(settings))
		h.put(settings, text("a"))
		h.settle()
		h.Snapshots = slices.Clone(h.Snapshots)
		h.Snapshots[0].Owner = "another"
		if diff := cmp.Diff(h.Revisions[0].Configuration, h.decide().Lost); diff != "" {
			t.Errorf("lost (-want +got):\n%s", diff)
		}
	})
	t.Run("of an older revision in use", func(t *testing.T) {
		h := newHub(entry(settings))
		h.put(settings, text("a"))
		h.settle()
		lost := h.Revisions[0].Configuration[0]
		h.put(settings, text("b"))
		h.settle()
		h.loseSnapshot(lost.Snapshot)
		check(t, h, settings, outcome{Reason: v1alpha1.ReasonSnapshotMissing, HasContent: true, Revisions: 2,
			Message: "a snapshot of ConfigMap settings that a revision in use names was deleted: clusters with that revision keep what they run, and nothing rolls back to it; to end this, give the source its former content for a minute, or let the rollout end"})
		if diff := cmp.Diff([]configuration.Named{lost}, h.decide().Lost); diff != "" {
			t.Errorf("lost (-want +got):\n%s", diff)
		}
		h.put(settings, text("a"))
		h.settle()
		if lost := h.decide().Lost; len(lost) != 0 {
			t.Errorf("lost after the content is back: %v", lost)
		}
	})
}

func TestNameTaken(t *testing.T) {
	h := newHub(entry(settings))
	h.put(settings, text("a"))
	h.settle()
	next := configuration.Name(h.identity(settings), configuration.DigestOf(h.key, h.identity(settings), text("b")))
	for name, foreign := range map[string]configuration.Snapshot{
		"by another owner":   {Ref: settings, Name: next, Owner: "another", Digest: configuration.DigestOf(h.key, h.identity(settings), text("b"))},
		"by nobody":          {Ref: configuration.Ref{Kind: settings.Kind}, Name: next},
		"by other content":   {Ref: settings, Name: next, Owner: owner, Digest: configuration.Digest{1}},
		"without its digest": {Ref: settings, Name: next, Owner: owner},
	} {
		t.Run(name, func(t *testing.T) {
			taken := *h
			taken.Sources = map[configuration.Ref]configuration.Source{}
			taken.put(settings, text("b"))
			taken.Snapshots = append([]configuration.Snapshot{foreign}, h.Snapshots...)
			check(t, &taken, settings, outcome{Reason: v1alpha1.ReasonNameTaken, HasContent: true, Revisions: 1,
				Message: "ConfigMap " + next + " exists and is not a snapshot of this content: kubectl delete configmap " + next + " -n shop" + keeps})
		})
	}
}

// These changes of a source are all that the API allows.
func TestChanges(t *testing.T) {
	two := func(first, second string) configuration.Content {
		return configuration.Content{Data: map[string][]byte{first: []byte("1"), second: []byte("2")}}
	}
	for name, c := range map[string]struct {
		before, after configuration.Content
		same          bool
	}{
		"nothing":                       {text("a"), text("a"), true},
		"a value":                       {text("a"), text("b"), false},
		"emptied":                       {text("a"), configuration.Content{}, false},
		"an empty value":                {text(""), configuration.Content{}, false},
		"empty in another way":          {configuration.Content{Data: map[string][]byte{}}, configuration.Content{}, true},
		"another order of keys":         {two("x", "y"), configuration.Content{Data: map[string][]byte{"y": []byte("2"), "x": []byte("1")}}, true},
		"values of other keys":          {two("x", "y"), two("y", "x"), false},
		"from data to binaryData":       {text("a"), configuration.Content{BinaryData: text("a").Data}, false},
		"a byte that is no text":        {configuration.Content{BinaryData: map[string][]byte{"key": {0xff}}}, configuration.Content{BinaryData: map[string][]byte{"key": {0xfe}}}, false},
		"one MiB":                       {text("a"), text(strings.Repeat("x", 1<<20)), false},
		"a key that takes over a value": {configuration.Content{Data: map[string][]byte{"a": []byte("bc")}}, configuration.Content{Data: map[string][]byte{"ab": []byte("c")}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(entry(settings))
			h.put(settings, c.before)
			h.settle()
			before := h.status(t, settings)
			h.put(settings, c.after)
			want := outcome{HasContent: true, Revisions: 2}
			if c.same {
				want.Revisions = 1
			}
			check(t, h, settings, want)
			after := h.status(t, settings)
			if same := before.Snapshot == after.Snapshot; same != c.same || before.ObservedVersion == after.ObservedVersion {
				t.Errorf("from %+v to %+v", before, after)
			}
		})
	}
}

func TestTypes(t *testing.T) {
	for _, travels := range strings.Split(typesThatTravel, ", ") {
		h := newHub(entry(tls))
		h.put(tls, ofType(text("a"), corev1.SecretType(travels)))
		check(t, h, tls, outcome{HasContent: true, Revisions: 1})
	}
	t.Run("a Versioned source may change its type", func(t *testing.T) {
		h := newHub(entry(tls))
		h.put(tls, text("a"))
		h.settle()
		h.put(tls, ofType(text("a"), corev1.SecretTypeTLS))
		check(t, h, tls, outcome{HasContent: true, Revisions: 2})
	})
	t.Run("an InPlace source may not", func(t *testing.T) {
		h := newHub(entry(tls, inPlace))
		h.put(tls, text("a"))
		h.settle()
		h.put(tls, ofType(text("a"), corev1.SecretTypeTLS))
		check(t, h, tls, outcome{Reason: v1alpha1.ReasonTypeRefused, HasContent: true, Revisions: 1,
			Message: "Secret tls has the type kubernetes.io/tls now, and a Secret on a member cannot change its type Opaque: create it again with that type, or as another Secret" + keeps})
	})
}

func TestConfigured(t *testing.T) {
	h := newHub()
	if decision := h.decide(); decision.Configured != nil || decision.Status != nil || decision.NeedsRevision {
		t.Errorf("without configuration: %+v", decision)
	}
	h = newHub(entry(settings), entry(tls))
	h.put(settings, text("a"))
	h.put(tls, text("a"))
	want := &metav1.Condition{Type: "Configured", Status: metav1.ConditionTrue, Reason: "Configured", Message: "the snapshots have the present content of all sources"}
	if diff := cmp.Diff(want, h.settle().Configured); diff != "" {
		t.Error(diff)
	}
	h.remove(settings)
	h.change(tls, func(s *configuration.Source) { s.IsLabelled = false })
	want = &metav1.Condition{Type: "Configured", Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNotPropagated,
		Message: "Secret tls may not leave the hub: its owner can allow it with " + labelTLS + keeps + "; also ConfigMap settings (SourceDeleted)"}
	if diff := cmp.Diff(want, h.settle().Configured); diff != "" {
		t.Error(diff)
	}
}
