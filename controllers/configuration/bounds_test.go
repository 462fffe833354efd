package configuration_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
)

func sized(size int) configuration.Content { return text(strings.Repeat("x", size)) }

func configMap(name string) configuration.Ref {
	return configuration.Ref{Kind: v1alpha1.ConfigurationConfigMap, From: name}
}

func TestSize(t *testing.T) {
	const mib = 1 << 20
	a, b, c := configMap("a"), configMap("b"), configMap("c")
	newHubOf := func(t *testing.T) *hub {
		h := newHub(entry(a), entry(b), entry(c))
		h.put(a, sized(mib))
		h.put(b, sized(mib-100))
		h.put(c, sized(100))
		if decision := h.settle(); decision.Blocker != nil {
			t.Fatalf("two MiB are refused: %+v", decision.Blocker)
		}
		return h
	}
	t.Run("is counted over all sources", func(t *testing.T) {
		h := newHubOf(t)
		h.put(c, sized(101))
		check(t, h, c, outcome{Reason: v1alpha1.ReasonTooLarge, HasContent: true, Revisions: 1,
			Message: "with ConfigMap c, the configuration would have 2097153 bytes, and 2097152 are allowed: make it smaller, or divide the AppService" + keeps})
	})
	t.Run("one that shrinks makes place for others", func(t *testing.T) {
		h := newHubOf(t)
		h.put(a, sized(mib-1)) // a is before b, but also after it in another order
		h.put(c, sized(101))
		check(t, h, c, outcome{HasContent: true, Revisions: 2})
	})
	t.Run("one that is refused is used when there is place", func(t *testing.T) {
		h := newHubOf(t)
		h.put(c, sized(101))
		h.settle()
		reads := h.reads
		h.put(b, sized(mib-101))
		check(t, h, c, outcome{HasContent: true, Revisions: 2})
		if h.reads != reads+1 {
			t.Errorf("%d reads instead of one", h.reads-reads)
		}
	})
	t.Run("what is in use is not replaced by what is new", func(t *testing.T) {
		h := newHubOf(t)
		h.Spec.Entries = append([]v1alpha1.ConfigurationSource{entry(configMap("first"))}, h.Spec.Entries...)
		h.put(configMap("first"), sized(1))
		check(t, h, configMap("first"), outcome{Reason: v1alpha1.ReasonTooLarge, IsBlocked: true, Revisions: 1,
			Message: "with ConfigMap first, the configuration would have 2097153 bytes, and 2097152 are allowed: make it smaller, or divide the AppService" + blocks})
		for _, ref := range []configuration.Ref{a, b, c} {
			if status := h.status(t, ref); status.Reason != "" {
				t.Errorf("%+v", status)
			}
		}
	})
}

func TestNumberOfSources(t *testing.T) {
	h := newHub(entry(configMap("first")))
	h.put(configMap("first"), text("a"))
	for i := range 63 {
		ref := configMap(fmt.Sprintf("from-%02d", i))
		h.put(ref, text("a"))
		h.Spec.Overrides = append(h.Spec.Overrides, []v1alpha1.ConfigurationOverride{{Kind: ref.Kind, Name: "first", From: ref.From}})
	}
	// An override of an entry that does not exist concerns only its clusters.
	h.Spec.Overrides = append(h.Spec.Overrides, []v1alpha1.ConfigurationOverride{{Kind: tls.Kind, Name: "first", From: "other"}})
	if decision := h.settle(); decision.Blocker != nil || len(decision.Configuration) != 64 {
		t.Fatalf("64 sources: %+v, %d snapshots", decision.Blocker, len(decision.Configuration))
	}
	h.Spec.Overrides = append([][]v1alpha1.ConfigurationOverride{{{Kind: settings.Kind, Name: "first", From: "new"}}}, h.Spec.Overrides...)
	decision := h.settle()
	want := &configuration.Problem{Reason: v1alpha1.ReasonTooLarge,
		Message: "spec.configuration and the overrides have 65 sources, and 64 are allowed: remove some, or divide the AppService; there is no new revision until then"}
	if diff := cmp.Diff(want, decision.Blocker); diff != "" || !decision.IsStalled || decision.Configured.Status != metav1.ConditionFalse {
		t.Errorf("65 sources: stalled %t, %+v (-want +got):\n%s", decision.IsStalled, decision.Configured, diff)
	}
	for _, status := range decision.Status {
		if status.From == "new" || status.Snapshot == "" {
			t.Errorf("a source in use gives way: %+v", status)
		}
	}
}

// A message must fit into the schema.
func TestMessagesAreBounded(t *testing.T) {
	long := strings.Repeat("a", 253)
	for _, kind := range []v1alpha1.ConfigurationKind{v1alpha1.ConfigurationConfigMap, v1alpha1.ConfigurationSecret} {
		ref := configuration.Ref{Kind: kind, From: long}
		for name, happen := range map[string]func(h *hub){
			"lost":    func(h *hub) { h.loseSnapshot(h.Status[0].Snapshot); h.remove(ref) },
			"behind":  func(h *hub) { h.Serials[ref] = 1_000_000_000 },
			"refused": func(h *hub) { h.put(ref, ofType(text("a"), "x.example/"+"y")) },
			"taken": func(h *hub) {
				h.put(ref, text("b"))
				content := h.contents[ref]
				taken := configuration.Name(h.identity(ref), configuration.DigestOf(h.key, h.identity(ref), content))
				h.Snapshots = append(h.Snapshots, configuration.Snapshot{Ref: ref, Name: taken})
				h.loseSnapshot(h.Status[0].Snapshot)
			},
			"without its label and its snapshot": func(h *hub) {
				h.change(ref, func(s *configuration.Source) { s.IsLabelled = false })
				h.loseSnapshot(h.Status[0].Snapshot)
			},
		} {
			h := newHub(entry(ref, inPlace))
			h.App.Namespace, h.App.Name = strings.Repeat("n", 63), strings.Repeat("w", 63)
			h.put(ref, text("a"))
			h.settle()
			happen(h)
			h.settle()
			if status := h.status(t, ref); len(status.Message) > 1024 || len(status.Message) < 300 && name != "refused" {
				t.Errorf("%s: %d characters: %s", name, len(status.Message), status.Message)
			}
		}
	}
}
