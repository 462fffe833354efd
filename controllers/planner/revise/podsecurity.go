package revise

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/podsecurity"
	"github.com/fleetwright/fleetwright/controllers/revision"
	"github.com/fleetwright/fleetwright/controllers/rollout/stages"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// Candidates returns the revisions that clusters may get.
func (o Outcome) Candidates(app *v1alpha1.AppService) []int64 {
	if app.IsDeleting() || o.Revision == 0 {
		return nil
	}
	if o.MayReturn(app) {
		return []int64{o.Revision, app.Status.Rollout.StableRevision}
	}
	return []int64{o.Revision}
}

// MayReturn reports whether a rollout may return to the stable revision.
func (o Outcome) MayReturn(app *v1alpha1.AppService) bool {
	state := app.Status.Rollout
	isStaged := app.Spec.Rollout != nil || state.Phase != ""
	return isStaged && state.StableRevision != 0 && state.StableRevision != o.Revision && !o.IsStableMissing
}

// Recipient is a cluster that may get a revision.
type Recipient struct {
	Member *v1alpha1.MemberCluster
	// IsFirst is set if nothing of the AppService runs on the cluster.
	IsFirst bool
}

// Refusals are the clusters that must not get a revision.
type Refusals struct {
	ByCluster map[string]stages.Refusal
	// NeedsPresent is set if a cluster may get the revision of the spec only by the present policy.
	NeedsPresent bool
}

// Candidate is a revision that clusters may get.
type Candidate struct {
	pods   *podChecks
	policy *v1alpha1.PodSecurity
	// isOfSpec is set if it is the revision of the spec. The policy of any other revision does not
	// change.
	isOfSpec bool
}

// IsOfSpec reports whether a revision is that of the spec.
func (o Outcome) IsOfSpec(number int64) bool { return number == o.Revision && !o.IsSpecPending }

// OfSpec returns the revision of the spec as a candidate.
func (o Outcome) OfSpec(app *v1alpha1.AppService) *Candidate {
	return &Candidate{pods: newPodChecks(app), policy: o.PodSecurity, isOfSpec: true}
}

// OfHistory returns another revision of an AppService as a candidate.
func OfHistory(app *v1alpha1.AppService, stored revision.Stored) *Candidate {
	composed := *app // which must not be modified
	composed.Spec = revision.Compose(app.Spec, stored.Template)
	return &Candidate{pods: newPodChecks(&composed), policy: stored.PodSecurity}
}

// Refusals returns which clusters must not get the revision, under the policy of the revision and the
// present one of the namespace.
func (c *Candidate) Refusals(recipients []Recipient, present *v1alpha1.PodSecurity) Refusals {
	var refusals Refusals
	for _, to := range recipients {
		byOwn, byPresent := c.pods.refusal(to.Member, c.policy), c.pods.refusal(to.Member, present)
		refusal := stages.Refusal{Violation: podsecurity.Decisive(to.IsFirst, byOwn, byPresent), IsByLaterPolicy: byOwn == ""}
		if isByPresent := refusal.Violation == "" && byOwn != ""; isByPresent && c.isOfSpec {
			refusals.NeedsPresent = true
		} else if isByPresent {
			refusal.Violation = byOwn
		}
		if refusal.Violation == "" {
			continue
		}
		if refusals.ByCluster == nil {
			refusals.ByCluster = map[string]stages.Refusal{}
		}
		refusals.ByCluster[to.Member.Name] = refusal
	}
	return refusals
}

// podChecks checks the pod templates of one AppService for many members. Members that share a
// template share the result.
type podChecks struct {
	templates *workload.PodTemplates
	results   map[podCheck]string
}

type podCheck struct {
	template *corev1.PodTemplateSpec
	policy   v1alpha1.PodSecurity
}

func newPodChecks(app *v1alpha1.AppService) *podChecks {
	return &podChecks{templates: workload.PodTemplatesOf(app), results: map[podCheck]string{}}
}

// refusal returns why a policy forbids the pods of a member, or "". It forbids nothing that cannot be
// rendered: delivery reports that as InvalidOverride.
func (c *podChecks) refusal(member *v1alpha1.MemberCluster, policy *v1alpha1.PodSecurity) string {
	if policy == nil {
		return ""
	}
	template, err := c.templates.For(member)
	if err != nil {
		return ""
	}
	check := podCheck{template, *policy}
	result, isKnown := c.results[check]
	if !isKnown {
		result = podsecurity.Refusal(template, policy)
		c.results[check] = result
	}
	return result
}
