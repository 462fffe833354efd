package planner

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/lineage"
	"github.com/fleetwright/fleetwright/controllers/numbering"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/rollout/entryplan"
)

// outlier is a number that a member reports, and that the hub cannot have given.
type outlier struct {
	cluster string
	// what the number counts, and of what: "revision", "placement", or "serial of Secret web-tls".
	counted, of string
	number      int64
}

func (o outlier) String() string {
	what := fmt.Sprintf("the %s %d", o.counted, o.number)
	if o.of != "" {
		what += " of " + o.of
	}
	return fmt.Sprintf("%s: an object has %s, which is more than %d above the %ss of this hub: the number is ignored; find out who writes the annotations of the objects there",
		o.cluster, what, numbering.MaxLead, o.counted)
}

// withoutOutliers removes outliers from observations of an AppService, and returns them, sorted by
// cluster. It changes the map, and nothing that the observations share with others.
func withoutOutliers(app *v1alpha1.AppService, seen map[string]observation.Observation) []outlier {
	var outliers []outlier
	revision, serial, placement := givenRevision(app), app.Status.ConfigurationSerial, entryplan.HighestPlacement(app.Status.Placement.Count, app.Status.Clusters)
	for cluster, o := range seen {
		if o.UID != app.UID {
			continue
		}
		if stamped := max(o.Revision, o.StampedRevision); numbering.IsOutlier(stamped, revision) {
			outliers = append(outliers, outlier{cluster: cluster, counted: "revision", number: stamped})
			o.Revision, o.StampedRevision = plausible(o.Revision, revision), plausible(o.StampedRevision, revision)
		}
		if numbering.IsOutlier(o.Placement, placement) {
			outliers = append(outliers, outlier{cluster: cluster, counted: "placement", number: o.Placement})
			o.Placement = 0
		}
		isOutlier := func(held observation.ConfigurationSerial) bool { return numbering.IsOutlier(held.Serial, serial) }
		if slices.ContainsFunc(o.Configuration, isOutlier) {
			for _, held := range o.Configuration {
				if isOutlier(held) {
					outliers = append(outliers, outlier{cluster, "serial", fmt.Sprintf("%s %s", held.Kind, held.Copy), held.Serial})
				}
			}
			o.Configuration = slices.DeleteFunc(slices.Clone(o.Configuration), isOutlier)
		}
		seen[cluster] = o
	}
	slices.SortStableFunc(outliers, func(a, b outlier) int { return cmp.Compare(a.cluster, b.cluster) })
	return outliers
}

// plausible returns a number, or 0 if it is an outlier.
func plausible(reported, given int64) int64 {
	if numbering.IsOutlier(reported, given) {
		return 0
	}
	return reported
}

// givenRevision returns the highest revision that the status of an AppService names.
func givenRevision(app *v1alpha1.AppService) int64 {
	given := lineage.LatestRevision(app)
	for i := range app.Status.Clusters {
		given = max(given, app.Status.Clusters[i].Revision)
	}
	return given
}

// knownOutliers has the outliers that were announced, so that each is announced once while a member
// reports it. It is safe for concurrent use.
type knownOutliers struct {
	mu   sync.Mutex
	apps map[types.NamespacedName][]outlier
}

// replace replaces the outliers of an AppService, and returns those that are new.
func (k *knownOutliers) replace(app types.NamespacedName, outliers []outlier) []outlier {
	k.mu.Lock()
	defer k.mu.Unlock()
	known := k.apps[app]
	if len(outliers) == 0 {
		delete(k.apps, app)
		return nil
	}
	k.apps[app] = outliers
	return slices.DeleteFunc(slices.Clone(outliers), func(o outlier) bool { return slices.Contains(known, o) })
}

// announceOutliers emits an event for each outlier that is new.
func (a *announcer) announceOutliers(app *v1alpha1.AppService, outliers []outlier) {
	news := a.outliers.replace(client.ObjectKeyFromObject(app), outliers)
	for _, o := range news[:min(len(news), maxEvents)] {
		member := &v1alpha1.MemberCluster{}
		member.Name = o.cluster
		a.event(app, member, true, v1alpha1.ReasonImplausibleNumber, planAction+" "+o.counted, o.String())
	}
}
