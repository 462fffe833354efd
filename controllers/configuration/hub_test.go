package configuration_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
)

// start is when each test begins.
var start = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

const owner types.UID = "uid-of-web"

var (
	settings = configuration.Ref{Kind: v1alpha1.ConfigurationConfigMap, From: "settings"}
	tls      = configuration.Ref{Kind: v1alpha1.ConfigurationSecret, From: "tls"}
)

func keyOf(letter string) configuration.Key {
	key, err := configuration.NewKey([]byte(strings.Repeat(letter, configuration.KeySize)))
	if err != nil {
		panic(err)
	}
	return key
}

// text returns a content with one key.
func text(value string) configuration.Content {
	return configuration.Content{Data: map[string][]byte{"key": []byte(value)}}
}

// ofType returns the same content of a Secret.
func ofType(content configuration.Content, secretType corev1.SecretType) configuration.Content {
	content.Type = secretType
	return content
}

// hub is a hub that carries out decisions as the planner does. It is a model of the planner, so that
// tests read as stories.
type hub struct {
	configuration.Input
	key configuration.Key
	// contents are those of the sources, and stored are those of the snapshots by name.
	contents map[configuration.Ref]configuration.Content
	stored   map[string]configuration.Content
	// versions counts the writes.
	versions int
	// reads and revisions count what was done.
	reads, revisions int
}

// newHub returns a hub with the AppService web, which has these entries.
func newHub(entries ...v1alpha1.ConfigurationSource) *hub {
	return &hub{
		Input: configuration.Input{
			App: types.NamespacedName{Namespace: "shop", Name: "web"}, UID: owner,
			OperatorNamespace: "fleetwright-system",
			Spec:              configuration.Template{Entries: entries},
			Sources:           map[configuration.Ref]configuration.Source{},
			Serials:           map[configuration.Ref]int64{},
			Now:               start,
		},
		key:      keyOf("k"),
		contents: map[configuration.Ref]configuration.Content{},
		stored:   map[string]configuration.Content{},
	}
}

func entry(ref configuration.Ref, changes ...func(*v1alpha1.ConfigurationSource)) v1alpha1.ConfigurationSource {
	source := v1alpha1.ConfigurationSource{Kind: ref.Kind, Name: ref.From}
	for _, change := range changes {
		change(&source)
	}
	return source
}

func optional(source *v1alpha1.ConfigurationSource) { source.Optional = true }
func inPlace(source *v1alpha1.ConfigurationSource)  { source.Update = v1alpha1.ConfigurationInPlace }

// put creates or changes a source.
func (h *hub) put(ref configuration.Ref, content configuration.Content) {
	if ref.Kind == v1alpha1.ConfigurationSecret && content.Type == "" {
		content.Type = corev1.SecretTypeOpaque
	}
	h.versions++
	h.contents[ref] = content
	h.Sources[ref] = configuration.Source{Presence: configuration.PresenceFound, Version: fmt.Sprintf("uid/%d", h.versions), IsLabelled: true}
}

// remove deletes a source.
func (h *hub) remove(ref configuration.Ref) {
	h.Sources[ref] = configuration.Source{Presence: configuration.PresenceAbsent}
}

// change changes what is known about a source.
func (h *hub) change(ref configuration.Ref, change func(*configuration.Source)) {
	source := h.Sources[ref]
	change(&source)
	h.Sources[ref] = source
}

func (h *hub) pass(duration time.Duration) { h.Now = h.Now.Add(duration) }

// restart loses what the process remembers.
func (h *hub) restart() {
	h.Memory = configuration.Memory{}
	for ref := range h.Sources {
		h.change(ref, func(s *configuration.Source) {
			s.Digest, s.EqualTo, s.Type, s.Size = configuration.Digest{}, "", "", 0
		})
	}
}

// decide reads what the decision needs, and decides.
func (h *hub) decide() configuration.Decision {
	for {
		decision := configuration.Decide(h.Input)
		if len(decision.Read) == 0 {
			return decision
		}
		for _, ref := range decision.Read {
			h.read(ref)
		}
	}
}

func (h *hub) read(ref configuration.Ref) {
	h.reads++
	content := h.contents[ref]
	h.change(ref, func(s *configuration.Source) {
		s.Digest, s.Type, s.Size = configuration.DigestOf(h.key, h.identity(ref), content), content.Type, content.Size()
		for _, snapshot := range h.Snapshots { // the status may be lost
			isOther := snapshot.Name != configuration.Name(h.identity(ref), s.Digest)
			if snapshot.Ref == ref && snapshot.Owner == owner && isOther && h.stored[snapshot.Name].Equal(content) {
				s.EqualTo = snapshot.Name
			}
		}
	})
}

func (h *hub) identity(ref configuration.Ref) configuration.Identity {
	return configuration.Identity{Namespace: h.App.Namespace, AppService: h.App.Name, Ref: ref}
}

// apply carries out a decision.
func (h *hub) apply(decision configuration.Decision) {
	for _, created := range decision.Create {
		source := h.Sources[created.Ref]
		h.stored[created.Name] = h.contents[created.Ref]
		h.Snapshots = append(h.Snapshots, configuration.Snapshot{
			Ref: created.Ref, Name: created.Name, UID: types.UID("uid-of-" + created.Name), Owner: owner,
			CreationTime: metav1.NewTime(h.Now), Digest: source.Digest, Type: source.Type, Size: source.Size, Serial: created.Serial,
		})
	}
	if decision.NeedsRevision || !h.hasTemplate() && decision.Blocker == nil && !decision.IsCollecting {
		h.revisions++
		h.Revision++
		h.Revisions = append(slices.Clone(h.Revisions), configuration.Revision{Number: h.Revision, Configuration: decision.Configuration, Template: h.Spec})
		h.InUse = []int64{h.Revision, max(1, h.Revision-1)} // a rollout is in progress
	}
	h.Status, h.Serial = decision.Status, decision.Serial
	for _, pruned := range decision.Prune {
		h.loseSnapshot(pruned.Name)
	}
	h.Memory = decision.Memory
}

// hasTemplate reports whether the revision of the spec has its template.
func (h *hub) hasTemplate() bool {
	return slices.ContainsFunc(h.Revisions, func(r configuration.Revision) bool {
		return r.Number == h.Revision && reflect.DeepEqual(r.Template, h.Spec)
	})
}

// loseSnapshot deletes a snapshot.
func (h *hub) loseSnapshot(name string) {
	delete(h.stored, name)
	h.Snapshots = slices.DeleteFunc(slices.Clone(h.Snapshots), func(s configuration.Snapshot) bool { return s.Name == name })
}

// settle decides until only a change, or ten minutes, lead to another decision.
func (h *hub) settle() configuration.Decision {
	for {
		decision := h.decide()
		h.apply(decision)
		if decision.RecheckAfter == 0 || decision.RecheckAfter > time.Minute {
			return decision
		}
		h.pass(decision.RecheckAfter)
	}
}

// status returns the status of a source.
func (h *hub) status(t *testing.T, ref configuration.Ref) v1alpha1.ConfigurationStatus {
	t.Helper()
	for _, status := range h.Status {
		if status.Kind == ref.Kind && status.From == ref.From {
			return status
		}
	}
	t.Fatalf("status.configuration lacks %+v: %+v", ref, h.Status)
	return v1alpha1.ConfigurationStatus{}
}
