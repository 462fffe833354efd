// Package difference computes what an edit of an AppService changes on each cluster, before it is
// saved. It is pure: it places and renders with the planner's and delivery's own code.
//
//	changes, err := difference.Between(before, after, memberClusters, history, contents, standard)
//
// It compares what the operator applies, not what is on the members: fields that others own there do
// not appear. ConfigMaps and Secrets of spec.configuration are compared by their content. Values of
// Secrets are not shown.
package difference

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/output"
	"github.com/fleetwright/fleetwright/controllers/configuration"
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
	// Refused: the pods violate the Pod Security Standard of the namespace. The cluster keeps what it
	// runs. If all clusters are Refused, the hub plans no part of the new pod template.
	Refused Kind = "Refused"
)

// Cluster is what changes on one cluster.
type Cluster struct {
	// Name is the name of the MemberCluster.
	Name string `json:"name"`
	// Kind says what happens.
	Kind Kind `json:"kind"`
	// Diff has the changes of the objects, as unified diffs of YAML. For Invalid and Refused, it is
	// the reason.
	Diff string `json:"diff"`
}

// Between returns the clusters on which an edit of an AppService changes something, sorted by name.
// The entries of before are in its status; before is nil for a new AppService. history has the
// revisions that are stored: a cluster that keeps an older revision is compared with that. contents
// reads the contents of the configuration, and is not used without spec.configuration. standard is
// what new pods must comply with.
// An error means that a selector of after is invalid.
func Between(before, after *v1alpha1.AppService, members []v1alpha1.MemberCluster, history []revision.Stored, contents Contents, standard Standard) ([]Cluster, error) {
	planned := withStatusOf(before, after)
	plan, err := placement.Decide(planned, members)
	if err != nil {
		return nil, err
	}
	return compare(before, planned, members, plan, history, contents, standard), nil
}

// withStatusOf returns a copy of an edited AppService with the status that it has before the edit.
func withStatusOf(before, after *v1alpha1.AppService) *v1alpha1.AppService {
	planned := after.DeepCopy()
	if before != nil {
		planned.Status = before.Status
	}
	return planned
}

// compare returns the members on which something changes, sorted by name.
func compare(before, planned *v1alpha1.AppService, members []v1alpha1.MemberCluster, plan placement.Plan, history []revision.Stored, contents Contents, standard Standard) []Cluster {
	security := newSecurity(planned, history, standard)
	changes := []Cluster{} // an empty list, not null, as JSON
	for i := range members {
		member := &members[i]
		was, isKnown := given(before, member, history, contents)
		is, err := wanted(planned, member, plan.Find(member.Name), contents)
		change := Cluster{Name: member.Name, Kind: Changed}
		switch {
		case err != nil:
			change.Kind, change.Diff = Invalid, err.Error()
		case !isKnown:
			change.Kind, change.Diff = Invalid, "the revision that the cluster runs is not stored any more"
		case len(was.objects) == 0 && len(is.objects) > 0:
			change.Kind = Added
		case len(was.objects) > 0 && len(is.objects) == 0:
			change.Kind = Removed
		}
		if change.Kind != Invalid {
			if change.Diff = diff(was, is); change.Diff == "" {
				continue
			}
			if refusal := security.refusal(member, len(is.objects) > 0); refusal != "" {
				change.Kind, change.Diff = Refused, refusal
			}
		}
		changes = append(changes, change)
	}
	slices.SortFunc(changes, func(a, b Cluster) int { return strings.Compare(a.Name, b.Name) })
	return changes
}

// desired is what a cluster is to have.
type desired struct {
	// objects are the objects of the AppService as YAML, by KIND/NAME.
	objects map[string]string
	// sources are the sources of the configuration, by KIND/NAME of the entry.
	sources map[string]source
}

// source is the content of an entry of spec.configuration on a cluster.
type source struct {
	configuration.Ref
	content Content
}

// given returns what the operator gives a cluster now. It returns false if the cluster's revision is
// not stored.
func given(app *v1alpha1.AppService, member *v1alpha1.MemberCluster, history []revision.Stored, contents Contents) (desired, bool) {
	if app == nil {
		return desired{}, true
	}
	entry := app.Status.Cluster(member.Name)
	if entry == nil || entry.Phase == v1alpha1.ClusterRemoving {
		return desired{}, true
	}
	composed, stored := app, revision.Stored{}
	// With configuration, the spec may have no revision yet: it waits for a source. If its pods are
	// refused, it has none either.
	mayHaveNone := app.HasConfiguration() || app.Status.Rollout.SpecRefused
	if entry.Revision != 0 && (entry.Revision != app.Status.Rollout.Revision || mayHaveNone) {
		i := slices.IndexFunc(history, func(s revision.Stored) bool { return s.Number == entry.Revision })
		if i < 0 {
			return desired{}, false
		}
		stored, composed = history[i], app.DeepCopy()
		composed.Spec = revision.Compose(app.Spec, stored.Template)
	}
	objects, err := render(composed, entry, member)
	if err != nil { // nothing was applied there
		return desired{}, true
	}
	snapshots := snapshotsOf(stored.Configuration)
	sources, err := sourcesOn(member, composed.Spec, func(ref configuration.Ref, entry v1alpha1.ConfigurationSource) Content {
		snapshot := snapshots[ref]
		if configuration.UpdateOf(entry, composed.Spec.ImagePullSecrets) == v1alpha1.ConfigurationInPlace {
			snapshot = inPlaceSnapshot(app, ref)
		}
		if snapshot == "" {
			return Content{}
		}
		return contents.Snapshot(ref, snapshot)
	})
	if err != nil { // nothing was applied there
		return desired{}, true
	}
	return desired{objects, sources}, true
}

// inPlaceSnapshot returns the snapshot of a source that is updated in place, or "" if there is none.
func inPlaceSnapshot(app *v1alpha1.AppService, ref configuration.Ref) string {
	for _, status := range app.Status.Configuration {
		if status.Kind == ref.Kind && status.From == ref.From && !configuration.IsAbsent(status.Snapshot) {
			return status.Snapshot
		}
	}
	return ""
}

// sourcesOn returns the sources of the configuration that a cluster has, with their contents.
func sourcesOn(member *v1alpha1.MemberCluster, spec v1alpha1.AppServiceSpec, contentOf func(ref configuration.Ref, entry v1alpha1.ConfigurationSource) Content) (map[string]source, error) {
	entries, err := workload.SourcesFor(&spec, member)
	if err != nil {
		return nil, err
	}
	sources := map[string]source{}
	for _, entry := range entries {
		ref := configuration.Ref{Kind: entry.Kind, From: entry.From}
		sources[string(entry.Kind)+"/"+entry.Name] = source{ref, contentOf(ref, entry)}
	}
	return sources, nil
}

// wanted returns what the edited AppService has on a cluster, or nothing if it is not placed there.
func wanted(app *v1alpha1.AppService, member *v1alpha1.MemberCluster, decision placement.Decision, contents Contents) (desired, error) {
	if !decision.Chosen() {
		return desired{}, nil
	}
	objects, err := render(app, &v1alpha1.ClusterStatus{
		Name: member.Name, Replicas: decision.Replicas, MinReplicas: decision.MinReplicas, MaxReplicas: decision.MaxReplicas,
	}, member)
	if err != nil {
		return desired{}, err
	}
	sources, err := sourcesOn(member, app.Spec, func(ref configuration.Ref, entry v1alpha1.ConfigurationSource) Content {
		content := contents.Present(ref)
		if content.Name == "" && !(content.IsAbsent && entry.Optional) {
			content.Name, content.Problem = Resource(ref), content.Problem+", so a new revision waits for it"
		}
		return content
	})
	return desired{objects, sources}, err
}

// render returns the objects of an AppService on a cluster as YAML, by KIND/NAME. The pods refer to
// what travels with the AppService by the names in the spec, because the names of copies change with
// each content, which is compared by itself.
func render(app *v1alpha1.AppService, entry *v1alpha1.ClusterStatus, member *v1alpha1.MemberCluster) (map[string]string, error) {
	copies := workload.Copies{}
	for _, listed := range app.Spec.Configuration {
		copies[workload.Reference{Kind: workload.Kind(listed.Kind), Name: listed.Name}] = listed.Name
	}
	rendered, err := workload.Render(app, entry, member, "", copies)
	if err != nil {
		return nil, err
	}
	texts := map[string]string{}
	for _, object := range []*unstructured.Unstructured{rendered.Deployment, rendered.Service, rendered.Autoscaler, rendered.DisruptionBudget} {
		if object == nil {
			continue
		}
		content, err := output.MarshalYAML(withoutStamp(object).Object)
		if err != nil {
			return nil, fmt.Errorf("write %s as YAML: %w", object.GetKind(), err)
		}
		texts[object.GetKind()+"/"+object.GetName()] = content
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

// diff returns the differences between objects, and then between contents, in the order of their
// names.
func diff(before, after desired) string {
	var b strings.Builder
	for _, name := range namesOf(before.objects, after.objects) {
		b.WriteString(udiff.Unified(name+" (now)", name+" (edited)", before.objects[name], after.objects[name]))
	}
	for _, name := range namesOf(before.sources, after.sources) {
		was, is := before.sources[name], after.sources[name]
		b.WriteString(OfContent(name, was.label(name, "now"), is.label(name, "edited"), was.content, is.content))
	}
	return b.String()
}

// label returns a label of a content, with the source if that has another name than the entry.
func (s source) label(name, text string) string {
	if s.From != "" && !strings.HasSuffix(name, "/"+s.From) {
		return text + ", from " + s.From
	}
	return text
}

// namesOf returns the keys of two maps, sorted.
func namesOf[V any](before, after map[string]V) []string {
	names := slices.Sorted(maps.Keys(before))
	for name := range after {
		if _, was := before[name]; !was {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
