package revise

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/placement"
	"github.com/fleetwright/fleetwright/controllers/revision"
	"github.com/fleetwright/fleetwright/controllers/rollout/stages"
)

var (
	baseline   = &v1alpha1.PodSecurity{Level: v1alpha1.PodSecurityBaseline, Version: "v1.36"}
	restricted = &v1alpha1.PodSecurity{Level: v1alpha1.PodSecurityRestricted, Version: "v1.36"}
	everything = &Policy{}
	errQuota   = errors.New("exceeded quota")
	settings   = []configuration.Named{{Kind: v1alpha1.ConfigurationConfigMap, From: "settings", Snapshot: "settings-2"}}
)

const violation = `violates PodSecurity "baseline:v1.36": host namespaces (hostNetwork=true)`

// atRest returns the facts about an AppService whose revision 1 runs on east and west.
func atRest() Facts {
	app := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "uid-1", Generation: 5}}
	app.Spec.Image = "web:1"
	app.Status.ObservedGeneration = 5
	app.Status.Rollout = v1alpha1.RolloutStatus{Revision: 1, LatestRevision: 1, PodSecurity: restricted}
	facts := Facts{App: app, Members: map[string]*v1alpha1.MemberCluster{}}
	for _, name := range []string{"east", "west"} {
		facts.Plan = append(facts.Plan, placement.Decision{Cluster: name, Replicas: 1})
		facts.Members[name] = &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		app.Status.Clusters = append(app.Status.Clusters, v1alpha1.ClusterStatus{Name: name, Revision: 1, ObservedGeneration: 5})
	}
	return facts
}

// edit makes an edit that was not planned yet.
func edit(image string) func(*Facts) {
	return func(f *Facts) {
		f.App.Generation++
		f.App.Spec.Image = image
	}
}

// onHostNetwork makes pods violate the level baseline, on some clusters or on all.
func onHostNetwork(clusters ...string) func(*Facts) {
	return func(f *Facts) {
		f.App.Spec.Overrides = []v1alpha1.Override{{
			Name: "net", ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: clusters},
			Patches: []v1alpha1.Patch{{Target: v1alpha1.PatchDeployment, Operations: []v1alpha1.PatchOperation{
				{Op: "add", Path: "/spec/template/spec/hostNetwork", Value: &v1alpha1.JSON{Raw: []byte("true")}},
			}}},
		}}
	}
}

// stored returns a revision of the history. Its policy is restricted.
func stored(t *testing.T, number int64, image string, snapshots ...configuration.Named) appsv1.ControllerRevision {
	t.Helper()
	facts := atRest()
	facts.App.Spec.Image = image
	object, err := revision.New(facts.App, number, snapshots, restricted)
	if err != nil {
		t.Fatal(err)
	}
	return *object
}

// history makes the facts have a history.
func history(objects ...appsv1.ControllerRevision) func(*Facts) {
	return func(f *Facts) { f.History = new(revision.HistoryOf(f.App, objects)) }
}

func policy(policy *Policy) func(*Facts) { return func(f *Facts) { f.Policy = policy } }

// content makes the AppService have configuration, with the template of its revision.
func content(changes ...func(*Content)) func(*Facts) {
	return func(f *Facts) {
		f.Content = &Content{Decision: configuration.Decision{Configuration: settings}, HasTemplate: true}
		for _, change := range changes {
			change(f.Content)
		}
	}
}

func otherTemplate(c *Content) { c.HasTemplate = false }

func missingSource(c *Content) {
	c.Blocker = &configuration.Problem{Reason: v1alpha1.ReasonConfigurationMissing}
}

func collecting(c *Content) { c.IsCollecting = true }

func otherContent(c *Content) { c.NeedsRevision = true }

func lost(c *Content) { c.IsRevisionLost, c.IsStableLost = true, true }

func status(change func(*v1alpha1.RolloutStatus)) func(*Facts) {
	return func(f *Facts) { change(&f.App.Status.Rollout) }
}

func refusedSpec(s *v1alpha1.RolloutStatus) { s.SpecRefused = true }

func hubRefuses(f *Facts) { f.Refused = errQuota }

func remembered(f *Facts) { f.IsRemembered = true }

// retry asks for the failed revision again.
func retry(f *Facts) {
	f.App.Annotations = map[string]string{v1alpha1.AnnotationRetry: "1"}
	f.App.Status.Rollout.Phase, f.App.Status.Rollout.FailedRevision = v1alpha1.RolloutHalted, 1
}

func TestDecide(t *testing.T) {
	one, two := stored(t, 1, "web:1"), stored(t, 2, "web:2")
	kept := Outcome{Revisions: stages.Revisions{Revision: 1, PodSecurity: restricted}}
	keptWith := func(change func(*Outcome)) Outcome { outcome := kept; change(&outcome); return outcome }
	pending := keptWith(func(o *Outcome) { o.IsSpecPending = true })
	refused := keptWith(func(o *Outcome) { o.IsSpecPending, o.SpecRefusal = true, violation })
	deferred := keptWith(func(o *Outcome) { o.IsSpecPending, o.Refused = true, errQuota })
	stillRefused := keptWith(func(o *Outcome) { o.WasSpecRefused = true })
	refusedAgain, stillPending, stillDeferred := refused, pending, deferred
	refusedAgain.WasSpecRefused, stillPending.WasSpecRefused, stillDeferred.WasSpecRefused = true, true, true
	revisionWith := func(number int64, policy *v1alpha1.PodSecurity) Outcome {
		return Outcome{Revisions: stages.Revisions{Revision: number, PodSecurity: policy}}
	}
	for name, c := range map[string]struct {
		facts []func(*Facts)
		want  Step
	}{
		"nothing is read at rest": {nil, Step{Action: Keep, Outcome: kept}},
		"the AppService is being deleted": {[]func(*Facts){edit("web:2"), func(f *Facts) { f.App.DeletionTimestamp = new(metav1.Now()) }},
			Step{Action: Keep, Outcome: kept}},
		"clusters have not reported what they run": {[]func(*Facts){edit("web:2"), func(f *Facts) { f.AwaitsReports = true }}, Step{Action: Keep, Outcome: kept}},

		"an edit needs the history": {[]func(*Facts){edit("web:1")}, Step{Action: ReadHistory, Outcome: kept}},
		"an edit of another field":  {[]func(*Facts){edit("web:1"), history(one, two)}, Step{Action: Use, Outcome: kept}},
		"a policy that allows more since the revision was stored": {[]func(*Facts){edit("web:1"), history(one), status(func(s *v1alpha1.RolloutStatus) { s.PodSecurity = nil })},
			Step{Action: Use, Outcome: revisionWith(1, nil)}},
		"a remembered revision may be gone": {[]func(*Facts){edit("web:1"), history(one, two), remembered}, Step{Action: ReadHistory, Outcome: kept}},
		"a new template after a remembered history": {[]func(*Facts){edit("web:3"), history(one, two), remembered, policy(&Policy{baseline})},
			Step{Action: Store, Outcome: revisionWith(3, baseline)}},
		"a revision without status":                 {[]func(*Facts){status(func(s *v1alpha1.RolloutStatus) { *s = v1alpha1.RolloutStatus{} })}, Step{Action: ReadHistory}},
		"a revision that was stored before a crash": {[]func(*Facts){edit("web:2"), history(one, two)}, Step{Action: Use, Outcome: revisionWith(2, restricted)}},
		"a new template needs the policy":           {[]func(*Facts){edit("web:3"), history(one, two)}, Step{Action: ReadPolicy, Outcome: kept}},
		"a new template": {[]func(*Facts){edit("web:3"), history(one, two), policy(&Policy{baseline})},
			Step{Action: Store, Outcome: revisionWith(3, baseline)}},
		"a new template where everything is allowed": {[]func(*Facts){edit("web:3"), onHostNetwork(), history(one, two), policy(everything)},
			Step{Action: Store, Outcome: revisionWith(3, nil)}},
		"a new template after members reported a higher revision": {[]func(*Facts){edit("web:3"), history(one), policy(everything), func(f *Facts) { f.HighestReported = 7 }},
			Step{Action: Store, Outcome: revisionWith(8, nil)}},
		"the previous template comes back": {[]func(*Facts){edit("web:2"), history(one, two), status(func(s *v1alpha1.RolloutStatus) { s.LatestRevision, s.PreviousRevision = 2, 2 })},
			Step{Action: Store, Outcome: Outcome{Revisions: stages.Revisions{Revision: 3, PodSecurity: restricted, Origin: stages.RevisionUndone}}}},
		"a retry": {[]func(*Facts){retry, history(one)},
			Step{Action: Store, Outcome: Outcome{Revisions: stages.Revisions{Revision: 2, PodSecurity: restricted, Origin: stages.RevisionRetried, SameRevisions: []int64{1}}}}},

		"pod security refuses every cluster": {[]func(*Facts){edit("web:3"), onHostNetwork(), history(one), policy(&Policy{baseline})}, Step{Action: Refuse, Outcome: refused}},
		"pod security refuses one cluster": {[]func(*Facts){edit("web:3"), onHostNetwork("east"), history(one), policy(&Policy{baseline})},
			Step{Action: Store, Outcome: revisionWith(2, baseline)}},
		"pod security refuses every cluster of the plan that is a member": {
			[]func(*Facts){edit("web:3"), onHostNetwork("east"), history(one), policy(&Policy{baseline}), func(f *Facts) { delete(f.Members, "west") }},
			Step{Action: Refuse, Outcome: refused}},
		"there is no cluster to check": {[]func(*Facts){edit("web:3"), onHostNetwork(), history(one), policy(&Policy{baseline}), func(f *Facts) { f.Plan = nil }},
			Step{Action: Store, Outcome: revisionWith(2, baseline)}},
		"an older version of Fleetwright applied it": {
			[]func(*Facts){onHostNetwork(), history(), policy(&Policy{baseline}), func(f *Facts) {
				f.App.Status.Rollout, f.App.Status.Clusters[0].Revision, f.App.Status.Clusters[1].Revision = v1alpha1.RolloutStatus{}, 0, 0
			}},
			Step{Action: Store, Outcome: revisionWith(1, nil)}},
		"a refused template is checked again": {[]func(*Facts){status(refusedSpec)}, Step{Action: ReadPolicy, Outcome: stillRefused}},
		"a refused template is refused again": {[]func(*Facts){status(refusedSpec), onHostNetwork(), policy(&Policy{baseline})}, Step{Action: Refuse, Outcome: refusedAgain}},
		"a refused template is allowed now":   {[]func(*Facts){status(refusedSpec), onHostNetwork(), policy(everything)}, Step{Action: ReadHistory, Outcome: stillRefused}},
		"a refused template is allowed now, and the hub refuses its revision": {
			[]func(*Facts){status(refusedSpec), policy(everything), hubRefuses}, Step{Action: Defer, Outcome: stillDeferred}},
		"a refused template is allowed now, and stored": {
			[]func(*Facts){status(refusedSpec), func(f *Facts) { f.App.Spec.Image = "web:3" }, history(one, two), policy(everything)},
			Step{Action: Store, Outcome: revisionWith(3, nil)}},
		"a refused template is edited": {[]func(*Facts){status(refusedSpec), edit("web:3")}, Step{Action: ReadHistory, Outcome: kept}},
		"a refused template is allowed, without a source": {
			[]func(*Facts){status(refusedSpec), content(otherTemplate, missingSource), policy(everything)}, Step{Action: Keep, Outcome: stillPending}},

		"the hub has just refused the revision":                  {[]func(*Facts){edit("web:3"), hubRefuses}, Step{Action: Defer, Outcome: deferred}},
		"the hub refused a revision that is not needed any more": {[]func(*Facts){hubRefuses}, Step{Action: Keep, Outcome: kept}},

		"the hub refuses the history, which the configuration needs": {[]func(*Facts){hubRefuses, func(f *Facts) { f.IsContentUnknown = true }},
			Step{Action: Defer, Outcome: deferred}},
		"the content is current": {[]func(*Facts){content()}, Step{Action: Keep, Outcome: kept}},
		"the content differs":    {[]func(*Facts){content(otherContent)}, Step{Action: ReadHistory, Outcome: kept}},
		"the content differs, and the template keeps its policy": {[]func(*Facts){content(otherContent), history(one)},
			Step{Action: Store, Snapshots: settings, Outcome: Outcome{Revisions: stages.Revisions{Revision: 2, PodSecurity: restricted, ChangedSources: []string{"settings"}}}}},
		"other content is collected":                        {[]func(*Facts){content(otherContent, collecting)}, Step{Action: Keep, Outcome: kept}},
		"a source is missing, and the template is the same": {[]func(*Facts){edit("web:1"), content(missingSource)}, Step{Action: Keep, Outcome: kept}},
		"a source is missing":                               {[]func(*Facts){edit("web:3"), content(otherTemplate, missingSource)}, Step{Action: Keep, Outcome: pending}},
		"a source came after the generation was planned":    {[]func(*Facts){content(otherTemplate)}, Step{Action: ReadHistory, Outcome: kept}},
		"the limit of the history is edited":                {[]func(*Facts){edit("web:1"), content(), history(stored(t, 1, "web:1", settings...))}, Step{Action: Use, Outcome: kept}},
		"snapshots are lost": {[]func(*Facts){content(lost)},
			Step{Action: Keep, Outcome: keptWith(func(o *Outcome) { o.IsRevisionMissing, o.IsStableMissing = true, true })}},
		"snapshots are lost, and the next revision has others": {[]func(*Facts){content(lost, otherContent), history(one)},
			Step{Action: Store, Snapshots: settings, Outcome: Outcome{Revisions: stages.Revisions{Revision: 2, PodSecurity: restricted, ChangedSources: []string{"settings"}, IsStableMissing: true}}}},
	} {
		t.Run(name, func(t *testing.T) {
			facts := atRest()
			for _, change := range c.facts {
				change(&facts)
			}
			if diff := cmp.Diff(c.want, Decide(facts), cmpopts.EquateErrors(), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("the step (-want +got):\n%s", diff)
			}
		})
	}
}

// Another process may have stored the revision before, with the policy of that time.
func TestRevision_that_was_stored_has_its_own_number_and_policy(t *testing.T) {
	step := Step{Action: Store, Outcome: Outcome{Revisions: stages.Revisions{Revision: 3, PodSecurity: baseline, SameRevisions: []int64{1}}}}
	want := Outcome{Revisions: stages.Revisions{Revision: 4, PodSecurity: restricted, SameRevisions: []int64{1}}}
	if diff := cmp.Diff(want, step.Stored(revision.Stored{Number: 4, PodSecurity: restricted})); diff != "" {
		t.Errorf("the outcome (-want +got):\n%s", diff)
	}
}

func TestRefusals(t *testing.T) {
	violates := atRest()
	onHostNetwork("east")(&violates)
	east, west := violates.Members["east"], violates.Members["west"]
	of := func(policy *v1alpha1.PodSecurity, isOfSpec bool) *Candidate {
		if isOfSpec {
			return Outcome{Revisions: stages.Revisions{PodSecurity: policy}}.OfSpec(violates.App)
		}
		return OfHistory(violates.App, revision.Stored{Template: revision.Template(violates.App.Spec), PodSecurity: policy})
	}
	refused := func(isByLaterPolicy bool) Refusals {
		return Refusals{ByCluster: map[string]stages.Refusal{"east": {Violation: violation, IsByLaterPolicy: isByLaterPolicy}}}
	}
	for name, c := range map[string]struct {
		candidate *Candidate
		isFirst   bool
		present   *v1alpha1.PodSecurity
		want      Refusals
	}{
		"everything is allowed":                                  {of(nil, true), true, nil, Refusals{}},
		"both policies refuse":                                   {of(baseline, true), false, baseline, refused(false)},
		"only the present policy, and it runs there":             {of(nil, true), false, baseline, Refusals{}},
		"only the present policy, and nothing runs there":        {of(nil, true), true, baseline, refused(true)},
		"the present policy allows the revision of the spec":     {of(baseline, true), false, nil, Refusals{NeedsPresent: true}},
		"the present policy cannot allow a revision of the past": {of(baseline, false), false, nil, refused(false)},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.candidate.Refusals([]Recipient{{Member: east, IsFirst: c.isFirst}, {Member: west, IsFirst: c.isFirst}}, c.present)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("the refusals (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCandidates(t *testing.T) {
	staged := func(stable int64) func(*Facts) {
		return func(f *Facts) {
			f.App.Spec.Rollout = &v1alpha1.Rollout{}
			f.App.Status.Rollout.StableRevision = stable
		}
	}
	for name, c := range map[string]struct {
		change  func(*Facts)
		outcome Outcome
		want    []int64
	}{
		"without stages":                    {status(func(s *v1alpha1.RolloutStatus) { s.StableRevision = 1 }), Outcome{Revisions: stages.Revisions{Revision: 2}}, []int64{2}},
		"a rollout may return":              {staged(1), Outcome{Revisions: stages.Revisions{Revision: 2}}, []int64{2, 1}},
		"the stages were removed meanwhile": {status(func(s *v1alpha1.RolloutStatus) { s.StableRevision, s.Phase = 1, v1alpha1.RolloutProgressing }), Outcome{Revisions: stages.Revisions{Revision: 2}}, []int64{2, 1}},
		"the revision is the stable one":    {staged(2), Outcome{Revisions: stages.Revisions{Revision: 2}}, []int64{2}},
		"the stable revision is missing":    {staged(1), Outcome{Revisions: stages.Revisions{Revision: 2, IsStableMissing: true}}, []int64{2}},
		"there is no revision":              {staged(1), Outcome{}, nil},
		"the AppService is being deleted":   {func(f *Facts) { f.App.DeletionTimestamp = new(metav1.Now()) }, Outcome{Revisions: stages.Revisions{Revision: 2}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			facts := atRest()
			c.change(&facts)
			if diff := cmp.Diff(c.want, c.outcome.Candidates(facts.App)); diff != "" {
				t.Errorf("the candidates (-want +got):\n%s", diff)
			}
		})
	}
}
