package delivery

import (
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/observation"
)

// looks knows since when this process knows what the hub has of each AppService: since it leads, or
// since the hub went back to an earlier state. Each such time is a look. A workload that is missing
// at the first look may have been moved by an edit that the hub has lost, so it is not created before
// the planner has answered for this look. What is new since then is created at once. It is safe for
// concurrent use.
type looks struct {
	// start returns the first look. It begins when it is first used, because a process that waits for
	// the Lease does not see what another leader does.
	start func() observation.Look

	mu sync.Mutex
	// rewound has the look of each AppService that went back to an earlier state.
	rewound map[types.UID]observation.Look
	rewinds int
	// newApps were created since the look, and newEntries were placed on a cluster since then.
	newApps    map[types.UID]bool
	newEntries map[types.UID]map[string]bool
}

// lookIDLength makes it improbable that two processes have the same look.
const lookIDLength = 10

func newLooks() *looks {
	return &looks{
		start: sync.OnceValue(func() observation.Look {
			return observation.Look{ID: rand.String(lookIDLength), Since: metav1.Now().Rfc3339Copy()}
		}),
		rewound: map[types.UID]observation.Look{}, newApps: map[types.UID]bool{}, newEntries: map[types.UID]map[string]bool{},
	}
}

// of returns the current look at an AppService.
func (l *looks) of(app types.UID) observation.Look {
	l.mu.Lock()
	defer l.mu.Unlock()
	if look, found := l.rewound[app]; found {
		return look
	}
	return l.start()
}

// isNew reports whether an AppService, or its entry for a cluster, is new since the current look.
func (l *looks) isNew(app types.UID, cluster string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.newApps[app] || l.newEntries[app][cluster]
}

// noteAdded records an AppService that has appeared on the hub. It is new if nobody has planned it
// yet. Otherwise a restore has brought it back.
func (l *looks) noteAdded(app *v1alpha1.AppService) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if app.Status.ObservedGeneration <= 0 && len(app.Status.Clusters) == 0 && app.Status.ClustersIn == "" {
		l.newApps[app.UID] = true
		return
	}
	l.rewind(app.UID)
}

// noteRewound records that an AppService went back to an earlier state.
func (l *looks) noteRewound(app types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rewind(app)
}

func (l *looks) rewind(app types.UID) {
	l.rewinds++
	l.rewound[app] = observation.Look{ID: fmt.Sprintf("%s-%d", l.start().ID, l.rewinds), Since: metav1.NewTime(time.Now()).Rfc3339Copy()}
	delete(l.newApps, app)
	delete(l.newEntries, app)
}

// noteEntries records the entries that an AppService did not have before.
func (l *looks) noteEntries(app types.UID, before, after []v1alpha1.ClusterStatus) {
	known := make(map[string]bool, len(before))
	for i := range before {
		known[before[i].Name] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range after {
		if known[after[i].Name] {
			continue
		}
		if l.newEntries[app] == nil {
			l.newEntries[app] = map[string]bool{}
		}
		l.newEntries[app][after[i].Name] = true
	}
}

// forgetEntry drops an entry whose workload was seen or created.
func (l *looks) forgetEntry(app types.UID, cluster string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.newEntries[app], cluster)
	if len(l.newEntries[app]) == 0 {
		delete(l.newEntries, app)
	}
}

// forget drops an AppService that is gone.
func (l *looks) forget(app types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.rewound, app)
	delete(l.newApps, app)
	delete(l.newEntries, app)
}
