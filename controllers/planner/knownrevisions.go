package planner

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/revision"
)

// knownRevisions remembers the configurations of the stored revisions of AppServices with
// configuration. Each plan of such an AppService needs them, and at rest no plan sends a request. An
// AppService without configuration is not remembered. It is safe for concurrent use.
type knownRevisions struct {
	mu   sync.Mutex
	apps map[types.NamespacedName]revisionsOfApp
}

// revisionsOfApp is what is remembered of the revisions of one AppService. It is never changed.
type revisionsOfApp struct {
	uid       types.UID
	revisions []configuration.Revision
	// hasTemplate reports whether the revision with this number has the template of the AppService
	// at this generation.
	hasTemplate        bool
	generation, number int64
}

func newKnownRevisions() *knownRevisions {
	return &knownRevisions{apps: map[types.NamespacedName]revisionsOfApp{}}
}

// of returns what is remembered of an AppService. It reports false if the revisions must be listed:
// the AppService was edited, another revision is that of the spec, or nothing is remembered.
func (k *knownRevisions) of(app *v1alpha1.AppService) (revisionsOfApp, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	known := k.apps[client.ObjectKeyFromObject(app)]
	isValid := known.uid == app.UID && known.generation == app.Generation && known.number == app.Status.Rollout.Revision
	return known, isValid
}

// remember records the revisions that were listed, or that are stored now, and compares the template
// of the AppService with that of the revision that the status has, or is about to get.
func (k *knownRevisions) remember(app *v1alpha1.AppService, history revision.History, number int64) revisionsOfApp {
	known := revisionsOfApp{uid: app.UID, generation: app.Generation, number: number}
	for _, stored := range history.All() {
		known.revisions = append(known.revisions, configuration.Revision{
			Number: stored.Number, Configuration: stored.Configuration, Template: configuration.TemplateOf(stored.Template),
		})
	}
	if current := history.Find(number); current != nil {
		known.hasTemplate = revision.HasTemplate(app.Spec, current.Template)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.apps[client.ObjectKeyFromObject(app)] = known
	return known
}

// isLost reports whether a revision names one of the snapshots that are lost.
func (r revisionsOfApp) isLost(number int64, lost []configuration.Named) bool {
	return slices.ContainsFunc(r.revisions, func(r configuration.Revision) bool {
		return r.Number == number && slices.ContainsFunc(r.Configuration, func(n configuration.Named) bool { return slices.Contains(lost, n) })
	})
}

// forget drops what is remembered of an AppService, because a write of a revision failed, or the
// AppService is gone.
func (k *knownRevisions) forget(app types.NamespacedName) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.apps, app)
}
