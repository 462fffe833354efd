package explain

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/placement"
)

// Cluster explains the decision for one cluster.
type Cluster struct {
	// Name is the name of the MemberCluster, or a name in spec.placement that no MemberCluster has.
	Name string `json:"name"`
	// Chosen is set if the placement chooses the cluster.
	Chosen bool `json:"chosen"`
	// Reason is the reason why the cluster is not chosen, as in status.placement.excluded.
	Reason string `json:"reason,omitempty"`
	// Because says in words why the cluster is chosen or not.
	Because string `json:"because"`
	// Replicas is the number of pods that the plan gives the cluster.
	Replicas int32 `json:"replicas"`
	// ReplicasBecause says where the number comes from.
	ReplicasBecause string `json:"replicasBecause,omitempty"`
	// Overrides are the overrides that apply to the cluster, in their order.
	Overrides []Override `json:"overrides,omitempty"`
	// Entry is what the operator has planned and observed there, if anything.
	Entry *v1alpha1.ClusterStatus `json:"status,omitempty"`
}

// Override is an override that applies to a cluster.
type Override struct {
	// Name is the name of the override.
	Name string `json:"name"`
	// Changes are the fields of the override, such as image, and the sources of the configuration that
	// it replaces.
	Changes []string `json:"changes"`
}

// Placement explains the decision for each cluster, sorted by name: for all members, and for clusters
// that only have an entry.
// docs/decisions/the-plugin-uses-the-operators-code.md says why.
func Placement(app *v1alpha1.AppService, members []v1alpha1.MemberCluster) ([]Cluster, error) {
	plan, err := placement.Decide(app, members)
	if err != nil {
		return nil, err
	}
	byName := make(map[string]*v1alpha1.MemberCluster, len(members))
	for i := range members {
		byName[members[i].Name] = &members[i]
	}
	clusters := make([]Cluster, 0, len(plan))
	chosen := listChosen(plan)
	for _, decision := range plan {
		clusters = append(clusters, explainer{app, byName[decision.Cluster], chosen}.explain(decision))
	}
	for i := range app.Status.Clusters {
		entry := &app.Status.Clusters[i]
		if _, isDecided := slices.BinarySearchFunc(plan, entry.Name, func(d placement.Decision, name string) int { return strings.Compare(d.Cluster, name) }); !isDecided {
			clusters = append(clusters, Cluster{Name: entry.Name, Reason: v1alpha1.ReasonClusterDetached, Because: becauseDetached, Entry: entry})
		}
	}
	slices.SortFunc(clusters, func(a, b Cluster) int { return strings.Compare(a.Name, b.Name) })
	return clusters, nil
}

// explainer explains the decision for one cluster. member is nil if there is no MemberCluster.
type explainer struct {
	app    *v1alpha1.AppService
	member *v1alpha1.MemberCluster
	chosen string // the names of the first clusters of the plan
}

func (e explainer) explain(decision placement.Decision) Cluster {
	c := Cluster{Name: decision.Cluster, Chosen: decision.Chosen(), Reason: decision.Reason, Entry: e.app.Status.Cluster(decision.Cluster)}
	if !c.Chosen {
		c.Because = e.whyNot(decision)
		return c
	}
	c.Because = e.whyChosen()
	c.Overrides = e.overrides()
	c.Replicas, c.ReplicasBecause = decision.Replicas, e.whyReplicas(decision)
	return c
}

const (
	becauseDetached = "its MemberCluster is deleted; what runs there is left running"
	becauseOfTaint  = "spec.placement.tolerations do not tolerate its taint "
)

// becauseOf says why a cluster is not chosen, by reason. The other reasons have a requirement.
var becauseOf = map[string]string{
	v1alpha1.ReasonNotNamed:        "spec.placement.clusterNames does not list it",
	v1alpha1.ReasonNoSuchCluster:   "spec.placement.clusterNames lists it, and there is no MemberCluster of this name",
	v1alpha1.ReasonSecretMissing:   "its kubeconfig Secret is missing",
	v1alpha1.ReasonClusterDeleting: "its MemberCluster is being deleted",
	v1alpha1.ReasonUnschedulable:   "it is cordoned (spec.unschedulable), and the AppService does not run there yet",
	v1alpha1.ReasonClusterNotReady: "it is not Ready, and the AppService does not run there yet",
}

// whyNot says why a cluster is not chosen.
func (e explainer) whyNot(decision placement.Decision) string {
	switch decision.Reason {
	case v1alpha1.ReasonSelectorMismatch:
		return strings.Join(Unmet(e.app.Spec.Placement.ClusterSelector, e.member.Labels), ", ")
	case v1alpha1.ReasonTaintNotTolerated:
		return becauseOfTaint + decision.Requirement
	case v1alpha1.ReasonLimitReached:
		return fmt.Sprintf("spec.placement.limit is %d, and these are chosen: %s", *e.app.Spec.Placement.Limit, e.chosen)
	}
	if text, isKnown := becauseOf[decision.Reason]; isKnown {
		return text
	}
	return decision.Reason
}

// listChosen returns the names of the first clusters of a plan.
func listChosen(plan placement.Plan) string {
	var names []string
	for _, decision := range plan {
		if decision.Chosen() {
			names = append(names, decision.Cluster)
		}
	}
	const listed = 5
	if len(names) > listed {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:listed], ", "), len(names)-listed)
	}
	return strings.Join(names, ", ")
}

// whyChosen says what chooses the cluster.
func (e explainer) whyChosen() string {
	p := e.app.Spec.Placement
	if p == nil {
		p = &v1alpha1.Placement{}
	}
	var reasons []string
	if len(p.ClusterNames) > 0 {
		reasons = append(reasons, "clusterNames lists it")
	}
	if p.ClusterSelector != nil {
		if selector, err := p.ClusterSelector.AsSelector(); err == nil && !selector.Empty() {
			reasons = append(reasons, "its labels match "+selector.String())
		}
	}
	if len(reasons) == 0 {
		reasons = append(reasons, "no placement excludes it")
	}
	if p.Limit != nil {
		reasons = append(reasons, fmt.Sprintf("it is within the limit of %d", *p.Limit))
	}
	switch entry := e.app.Status.Cluster(e.member.Name); {
	case entry == nil:
	case e.member.Spec.Unschedulable:
		reasons = append(reasons, "it is cordoned, and keeps what already runs there")
	case !e.member.IsReady():
		reasons = append(reasons, "it is not Ready, and keeps what already runs there")
	}
	return strings.Join(reasons, "; ")
}

// whyReplicas says where the number of replicas comes from.
func (e explainer) whyReplicas(decision placement.Decision) string {
	spec := &e.app.Spec
	switch {
	case e.app.DividesReplicas():
		share := fmt.Sprintf("its share of spec.replicas (%d)", e.app.DesiredReplicas())
		if decision.Weight != 0 {
			share += fmt.Sprintf(" by its allocatable CPU of %dm", decision.Weight)
		}
		return share + e.describeRule() + describeBounds(decision)
	case spec.Autoscaling != nil:
		return "the initial number of its autoscaler" + describeBounds(decision)
	}
	because := "spec.replicas"
	for i := range spec.Overrides {
		if o := &spec.Overrides[i]; o.Replicas != nil && e.matches(o.ClusterMatch) {
			because = "override " + o.Name
		}
	}
	return because
}

// describeBounds describes the bounds of the autoscaler of a cluster, if it has one.
func describeBounds(decision placement.Decision) string {
	if decision.MaxReplicas == 0 {
		return ""
	}
	return fmt.Sprintf(", autoscaled from %d to %d", decision.MinReplicas, decision.MaxReplicas)
}

// describeRule describes the first rule of spec.replicaPolicy that matches the cluster, which decides.
func (e explainer) describeRule() string {
	for i := range e.app.Spec.ReplicaPolicy.Rules {
		rule := &e.app.Spec.ReplicaPolicy.Rules[i]
		if !e.matches(rule.ClusterMatch) {
			continue
		}
		text := ", rule " + rule.Name
		if rule.Weight != nil {
			text += fmt.Sprintf(", weight %d", *rule.Weight)
		}
		if rule.MinReplicas != nil {
			text += fmt.Sprintf(", at least %d", *rule.MinReplicas)
		}
		if rule.MaxReplicas != nil {
			text += fmt.Sprintf(", at most %d", *rule.MaxReplicas)
		}
		return text
	}
	return ""
}

// overrides returns the overrides that match the cluster.
func (e explainer) overrides() []Override {
	var matching []Override
	for i := range e.app.Spec.Overrides {
		if o := &e.app.Spec.Overrides[i]; e.matches(o.ClusterMatch) {
			matching = append(matching, Override{Name: o.Name, Changes: changesOf(o)})
		}
	}
	return matching
}

// changesOf names the fields that an override changes.
func changesOf(o *v1alpha1.Override) []string {
	var changes []string
	for _, field := range []struct {
		name  string
		isSet bool
	}{
		{"image", o.Image != ""}, {"imageRegistry", o.ImageRegistry != ""}, {"imageTag", o.ImageTag != ""},
		{"env", len(o.Env) > 0}, {"resources", o.Resources != nil}, {"replicas", o.Replicas != nil},
		{"serviceType", o.ServiceType != ""}, {"patches", len(o.Patches) > 0},
	} {
		if field.isSet {
			changes = append(changes, field.name)
		}
	}
	for _, changed := range o.Configuration {
		changes = append(changes, fmt.Sprintf("%s/%s from %s", strings.ToLower(string(changed.Kind)), changed.Name, changed.From))
	}
	return changes
}

// matches reports whether a ClusterMatch of the AppService matches the cluster. Placement has found
// before that all selectors are valid.
func (e explainer) matches(match v1alpha1.ClusterMatch) bool {
	matcher, err := placement.CompileMatch("", match)
	return err == nil && matcher.Matches(e.member)
}

// Unmet says for each requirement of a selector that labels do not meet what they are, and what is
// wanted: "region is us, wanted eu".
func Unmet(selector *v1alpha1.ClusterSelector, of map[string]string) []string {
	compiled, err := selector.AsSelector()
	if err != nil {
		return nil
	}
	requirements, _ := compiled.Requirements()
	var unmet []string
	for i := range requirements {
		if r := &requirements[i]; !r.Matches(labels.Set(of)) {
			unmet = append(unmet, describeLabel(r.Key(), of)+", "+describeWanted(r))
		}
	}
	return unmet
}

func describeLabel(key string, of map[string]string) string {
	if value, has := of[key]; has {
		return fmt.Sprintf("%s is %s", key, orEmpty(value))
	}
	return "it has no label " + key
}

func orEmpty(value string) string {
	if value == "" {
		return "empty"
	}
	return value
}

// describeWanted describes the value that a requirement wants.
func describeWanted(r *labels.Requirement) string {
	values := r.ValuesUnsorted()
	slices.Sort(values)
	for i := range values {
		values[i] = orEmpty(values[i])
	}
	switch list := strings.Join(values, " or "); r.Operator() {
	case selection.NotIn, selection.NotEquals:
		return "wanted not " + list
	case selection.Exists:
		return "wanted any value"
	case selection.DoesNotExist:
		return "wanted no such label"
	default:
		return "wanted " + list
	}
}
