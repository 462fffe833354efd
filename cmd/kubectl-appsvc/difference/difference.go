// Package difference computes what an edit of an AppService changes on each cluster, before it is
// saved. It is pure: it places and renders with the planner's and delivery's own code.
//
//	changes, err := difference.Between(before, after, memberClusters, templates)
//
// It compares what the operator applies, not what is on the members: fields that others own there do
// not appear.
package difference

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/revision"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// Kind says what happens to an AppService on a cluster.
type Kind string

const (
	// Added: the AppService is placed on the cluster.
	Added Kind = "Added"
	// Removed: the AppService is no longer placed on the cluster.
	Removed Kind = "Removed"
	// Changed: objects on the cluster change.
	Changed Kind = "Changed"
	// Invalid: the AppService cannot be rendered for the cluster, which keeps what it runs.
	Invalid Kind = "Invalid"
)

// Cluster is what changes on one cluster.
type Cluster struct {
	// Name is the name of the MemberCluster.
	Name string `json:"name"`
	// Kind says what happens.
	Kind Kind `json:"kind"`
	// Diff has the changes of the objects, as unified diffs of YAML. For Invalid, it is the error.
	Diff string `json:"diff"`
}

// Between returns the clusters on which an edit of an AppService changes something, sorted by name.
// The entries of before are in its status; before is nil for a new AppService. templates has the
// revisions that are stored, by number: a cluster that keeps an older revision is compared with that.
// An error means that a selector of after is invalid.
func Between(before, after *v1alpha1.AppService, members []v1alpha1.MemberCluster, templates map[int64]v1alpha1.AppServiceSpec) ([]Cluster, error) {
	planned := after.DeepCopy()
	if before != nil {
		planned.Status = before.Status
	}
	plan, err := placement.Decide(planned, members)
	if err != nil {
		return nil, err
	}
	changes := []Cluster{} // an empty list, not null, as JSON
	for i := range members {
		member := &members[i]
		was, isKnown := given(before, member, templates)
		is, err := wanted(planned, member, plan.Find(member.Name))
		change := Cluster{Name: member.Name, Kind: Changed}
		switch {
		case err != nil:
			change.Kind, change.Diff = Invalid, err.Error()
		case !isKnown:
			change.Kind, change.Diff = Invalid, "the revision that the cluster runs is not stored any more"
		case len(was) == 0 && len(is) > 0:
			change.Kind = Added
		case len(was) > 0 && len(is) == 0:
			change.Kind = Removed
		}
		if change.Kind != Invalid {
			if change.Diff = diff(was, is); change.Diff == "" {
				continue
			}
		}
		changes = append(changes, change)
	}
	slices.SortFunc(changes, func(a, b Cluster) int { return strings.Compare(a.Name, b.Name) })
	return changes, nil
}

// given returns the objects that the operator gives a cluster now. It returns false if the template of
// the cluster's revision is not stored.
func given(app *v1alpha1.AppService, member *v1alpha1.MemberCluster, templates map[int64]v1alpha1.AppServiceSpec) (map[string]string, bool) {
	if app == nil {
		return nil, true
	}
	entry := app.Status.Cluster(member.Name)
	if entry == nil || entry.Phase == v1alpha1.ClusterRemoving {
		return nil, true
	}
	composed := app
	if entry.Revision != 0 && entry.Revision != app.Status.Rollout.Revision {
		template, isStored := templates[entry.Revision]
		if !isStored {
			return nil, false
		}
		composed = app.DeepCopy()
		composed.Spec = revision.Compose(app.Spec, template)
	}
	objects, err := render(composed, entry, member)
	if err != nil { // nothing was applied there
		return nil, true
	}
	return objects, true
}

// wanted returns the objects that the edited AppService has on a cluster, or none if it is not placed
// there.
func wanted(app *v1alpha1.AppService, member *v1alpha1.MemberCluster, decision placement.Decision) (map[string]string, error) {
	if !decision.Chosen() {
		return nil, nil
	}
	return render(app, &v1alpha1.ClusterStatus{
		Name: member.Name, Replicas: decision.Replicas, MinReplicas: decision.MinReplicas, MaxReplicas: decision.MaxReplicas,
	}, member)
}

// render returns the objects of an AppService on a cluster as YAML, by KIND/NAME.
func render(app *v1alpha1.AppService, entry *v1alpha1.ClusterStatus, member *v1alpha1.MemberCluster) (map[string]string, error) {
	rendered, err := workload.Render(app, entry, member, "", nil)
	if err != nil {
		return nil, err
	}
	texts := map[string]string{}
	for _, object := range []*unstructured.Unstructured{rendered.Deployment, rendered.Service, rendered.Autoscaler, rendered.DisruptionBudget} {
		if object == nil {
			continue
		}
		content, err := yaml.Marshal(withoutStamp(object).Object)
		if err != nil {
			return nil, fmt.Errorf("write %s as YAML: %w", object.GetKind(), err)
		}
		texts[object.GetKind()+"/"+object.GetName()] = string(content)
	}
	return texts, nil
}

// withoutStamp returns a copy of an object without the annotations that only the operator reads.
func withoutStamp(object *unstructured.Unstructured) *unstructured.Unstructured {
	stripped := object.DeepCopy()
	annotations := stripped.GetAnnotations()
	for key := range annotations {
		if strings.HasPrefix(key, "fleetwright.dev/") {
			delete(annotations, key)
		}
	}
	if len(annotations) == 0 {
		annotations = nil
	}
	stripped.SetAnnotations(annotations)
	return stripped
}

// diff returns the differences between objects, in the order of their names.
func diff(before, after map[string]string) string {
	var names []string
	for name := range before {
		names = append(names, name)
	}
	for name := range after {
		if _, was := before[name]; !was {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var b strings.Builder
	for _, name := range names {
		b.WriteString(udiff.Unified(name+" (now)", name+" (edited)", before[name], after[name]))
	}
	return b.String()
}
