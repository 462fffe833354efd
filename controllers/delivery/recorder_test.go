package delivery

import (
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/controllers/observation"
)

// recorder receives reports in place of the planner.
type recorder struct {
	mu        sync.Mutex
	seen      map[recorderKey][]observation.Observation
	forgotten []string
}

func newRecorder() *recorder { return &recorder{seen: map[recorderKey][]observation.Observation{}} }

type recorderKey struct {
	app     types.NamespacedName
	cluster string
}

func (r *recorder) Report(app types.NamespacedName, cluster string, seen observation.Observation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := recorderKey{app, cluster}
	seen.Look = observation.Look{} // it differs in each process
	r.seen[at] = append(r.seen[at], seen)
}

func (r *recorder) ForgetCluster(cluster string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forgotten = append(r.forgotten, cluster)
	for at := range r.seen {
		if at.cluster == cluster {
			delete(r.seen, at)
		}
	}
}

func (r *recorder) all(app types.NamespacedName, cluster string) []observation.Observation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.seen[recorderKey{app, cluster}])
}

// last returns the newest report, or a zero one.
func (r *recorder) last(app types.NamespacedName, cluster string) observation.Observation {
	all := append([]observation.Observation{{}}, r.all(app, cluster)...)
	return all[len(all)-1]
}

func (r *recorder) forgottenClusters() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.forgotten)
}
