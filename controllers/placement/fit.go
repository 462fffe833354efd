package placement

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// Matcher is a compiled ClusterMatch.
type Matcher struct {
	listed       map[string]bool // nil matches every name
	selector     labels.Selector
	requirements []requirement // of the selector
}

// requirement is one requirement of a selector, with its text in selector syntax.
type requirement struct {
	labels.Requirement
	text string
}

// CompileMatch compiles a ClusterMatch of the AppService. An error names path, which is the path of
// its field.
func CompileMatch(path string, match v1alpha1.ClusterMatch) (Matcher, error) {
	selector, err := match.ClusterSelector.AsSelector()
	if err != nil {
		return Matcher{}, fmt.Errorf("%s.clusterSelector: %w", path, err)
	}
	m := Matcher{selector: selector}
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		m.requirements = append(m.requirements, requirement{r, r.String()})
	}
	if len(match.ClusterNames) > 0 {
		m.listed = make(map[string]bool, len(match.ClusterNames))
	}
	for _, name := range match.ClusterNames {
		m.listed[name] = true
	}
	return m, nil
}

// Matches reports whether the ClusterMatch matches a cluster.
func (m Matcher) Matches(member *v1alpha1.MemberCluster) bool {
	return m.names(member) && m.selects(member)
}

func (m Matcher) names(member *v1alpha1.MemberCluster) bool {
	return m.listed == nil || m.listed[member.Name]
}

func (m Matcher) selects(member *v1alpha1.MemberCluster) bool {
	return m.selector.Matches(labels.Set(member.Labels))
}

// unmet returns the requirements of the selector that the member does not meet, in selector syntax.
func (m Matcher) unmet(member *v1alpha1.MemberCluster) string {
	var unmet []string
	for i := range m.requirements {
		if r := &m.requirements[i]; !r.Matches(labels.Set(member.Labels)) {
			unmet = append(unmet, r.text)
		}
	}
	return bounded(strings.Join(unmet, ","))
}

// criteria decide which clusters fit a Placement.
type criteria struct {
	Matcher
	tolerations []v1alpha1.Toleration
}

func compile(p *v1alpha1.Placement) (criteria, error) {
	if p == nil {
		p = &v1alpha1.Placement{}
	}
	match, err := CompileMatch("spec.placement", p.ClusterMatch)
	return criteria{Matcher: match, tolerations: p.Tolerations}, err
}

// reason returns why a cluster does not fit, or why it accepts no new AppService, and the
// requirement that it does not meet. Both are empty if the cluster fits.
//
// Only labels and taints are requirements. Why a cluster is not Ready is in its MemberCluster: if it
// were repeated here, each change of it would write the status of every AppService that could be
// placed there.
func (c criteria) reason(of candidate) (reason, requirement string) {
	member := of.member
	switch {
	case !c.names(member):
		return v1alpha1.ReasonNotNamed, ""
	case !c.selects(member):
		return v1alpha1.ReasonSelectorMismatch, c.unmet(member)
	case !member.HasSecret():
		return v1alpha1.ReasonSecretMissing, ""
	}
	if taint := c.untolerated(member, v1alpha1.TaintNoExecute); taint != "" {
		return v1alpha1.ReasonTaintNotTolerated, taint
	}
	switch {
	case of.entry != nil:
		return "", ""
	case !member.DeletionTimestamp.IsZero():
		return v1alpha1.ReasonClusterDeleting, ""
	case member.Spec.Unschedulable:
		return v1alpha1.ReasonUnschedulable, ""
	}
	if taint := c.untolerated(member, v1alpha1.TaintNoSchedule); taint != "" {
		return v1alpha1.ReasonTaintNotTolerated, taint
	}
	if !member.IsReady() {
		return v1alpha1.ReasonClusterNotReady, ""
	}
	return "", ""
}

// untolerated returns the first taint with this effect that the placement does not tolerate, in the
// notation of kubectl. It returns "" if there is none.
func (c criteria) untolerated(member *v1alpha1.MemberCluster, effect v1alpha1.TaintEffect) string {
	for _, taint := range member.Spec.Taints {
		if taint.Effect != effect || c.tolerates(taint) {
			continue
		}
		text := taint.Key
		if taint.Value != "" {
			text += "=" + taint.Value
		}
		return bounded(text + ":" + string(taint.Effect))
	}
	return ""
}

func (c criteria) tolerates(taint v1alpha1.Taint) bool {
	for _, toleration := range c.tolerations {
		if toleration.Tolerates(taint) {
			return true
		}
	}
	return false
}

// missing returns a decision for each name in clusterNames that no member has.
func (c criteria) missing(members []v1alpha1.MemberCluster) []Decision {
	if c.listed == nil {
		return nil
	}
	known := make(map[string]bool, len(members))
	for i := range members {
		known[members[i].Name] = true
	}
	var missing []Decision
	for name := range c.listed {
		if !known[name] {
			missing = append(missing, Decision{Cluster: name, Reason: v1alpha1.ReasonNoSuchCluster})
		}
	}
	return missing // unsorted, because Decide sorts the plan
}
