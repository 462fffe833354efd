package status_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/observation"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	. "github.com/fleetwright/fleetwright/controllers/rollout/rollouttest"
	"github.com/fleetwright/fleetwright/controllers/status"
)

// withConfiguration sets the decision about the configuration.
func withConfiguration(changes ...func(*configuration.Decision)) func(*rollout.Input) {
	return func(in *rollout.Input) {
		decision := &configuration.Decision{
			Status:     []v1alpha1.ConfigurationStatus{{Kind: v1alpha1.ConfigurationConfigMap, From: "settings", Snapshot: "web-settings-1.snapshot"}},
			Configured: &metav1.Condition{Type: v1alpha1.ConditionConfigured, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConfigured},
		}
		for _, change := range changes {
			change(decision)
		}
		in.Configuration, in.IsSpecPending = decision, decision.Blocker != nil
	}
}

// because sets the reason of the source.
func because(d *configuration.Decision, reason, message string) {
	d.Status[0].Reason, d.Status[0].Message = reason, message
	d.Configured.Status, d.Configured.Reason, d.Configured.Message = metav1.ConditionFalse, reason, message
}

func collecting(d *configuration.Decision) {
	because(d, v1alpha1.ReasonConfigurationChanged, "ConfigMap settings has changed")
	d.IsCollecting = true
}

func missing(d *configuration.Decision) {
	d.Status[0].Snapshot = ""
	d.Blocker = &configuration.Problem{Reason: v1alpha1.ReasonConfigurationMissing, Message: "ConfigMap settings does not exist: create it"}
	because(d, d.Blocker.Reason, d.Blocker.Message)
}

func deleted(d *configuration.Decision) {
	because(d, v1alpha1.ReasonSourceDeleted, "ConfigMap settings was deleted: create it again")
}

// withChangedSources makes the next revision change only the configuration.
func withChangedSources(names ...string) func(*rollout.Input) {
	return func(in *rollout.Input) {
		withConfiguration()(in)
		in.ChangedSources = names
	}
}

// The first revision waits: the clusters have nothing to run, and say why.
func TestConditions_of_an_AppService_that_waits_for_its_configuration(t *testing.T) {
	in := NewInput(Chosen("east"), withConfiguration(missing))
	next := StatusOf(in)
	want := current(
		placed("placed on 1 cluster of 1"),
		notReady(v1alpha1.ReasonConfigurationMissing, "ConfigMap settings does not exist: create it; 1 of 1 cluster not ready: east (ConfigurationMissing)"),
		condition(v1alpha1.ConditionReconciling, metav1.ConditionTrue, v1alpha1.ReasonConfigurationMissing, "ConfigMap settings does not exist: create it; 1 of 1 cluster not ready: east (ConfigurationMissing)"),
		condition(v1alpha1.ConditionConfigured, metav1.ConditionFalse, v1alpha1.ReasonConfigurationMissing, "ConfigMap settings does not exist: create it"),
	)
	if diff := cmp.Diff(want, next.Conditions); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	if entry := next.Clusters[0]; entry.Revision != 0 || entry.Phase != v1alpha1.ClusterPending || entry.Reason != v1alpha1.ReasonConfigurationMissing {
		t.Errorf("the entry is %+v", entry)
	}
	next = StatusOf(Next(in, withConfiguration(), AtRevision(1), func(in *rollout.Input) { in.IsSpecPending = false }))
	if entry := next.Clusters[0]; entry.Revision != 1 || entry.Reason != v1alpha1.ReasonPending || entry.Message != "" {
		t.Errorf("the entry is %+v, and the source exists", entry)
	}
	next = StatusOf(Next(in, Deleting))
	for _, c := range next.Conditions {
		if c.Type == v1alpha1.ConditionConfigured && in.Configuration == nil {
			t.Errorf("an AppService that is being deleted has %+v", c)
		}
	}
}

// holding makes the observations of clusters have the serial of a copy.
func holding(from string, serial int64, clusters ...string) func(*rollout.Input) {
	id := configuration.Identity{Namespace: "shop", AppService: "web", Ref: configuration.Ref{Kind: v1alpha1.ConfigurationSecret, From: from}}
	return func(in *rollout.Input) {
		for _, cluster := range clusters {
			seen := Observation(v1alpha1.ClusterReady)
			seen.Configuration = []observation.ConfigurationSerial{{Kind: v1alpha1.ConfigurationSecret, Copy: configuration.InPlaceCopy(id), Serial: serial}}
			in.Observations[cluster] = seen
		}
	}
}

func TestUpToDate_of_sources_that_are_updated_in_place(t *testing.T) {
	inPlace := func(serial int64, froms ...string) func(*rollout.Input) {
		return withConfiguration(func(d *configuration.Decision) {
			d.Status = nil
			for _, from := range froms {
				d.Status = append(d.Status, v1alpha1.ConfigurationStatus{Kind: v1alpha1.ConfigurationSecret, From: from, Serial: serial, Snapshot: "web-tls-1.snapshot"})
			}
		})
	}
	spec := func(in *rollout.Input) {
		in.App.Spec.Configuration = []v1alpha1.ConfigurationSource{{Kind: v1alpha1.ConfigurationSecret, Name: "tls", Update: v1alpha1.ConfigurationInPlace}}
	}
	overridden := func(in *rollout.Input) {
		in.App.Spec.Overrides = []v1alpha1.Override{{
			Name: "eu", ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: []string{"west"}},
			Configuration: []v1alpha1.ConfigurationOverride{{Kind: v1alpha1.ConfigurationSecret, Name: "tls", From: "tls-eu"}},
		}}
	}
	was := func(serial int64, upToDate string) func(*rollout.Input) {
		return func(in *rollout.Input) {
			in.App.Status.Configuration = []v1alpha1.ConfigurationStatus{{Kind: v1alpha1.ConfigurationSecret, From: "tls", Serial: serial, UpToDate: upToDate}}
		}
	}
	three := func(in *rollout.Input) {
		for _, cluster := range []string{"east", "north", "west"} {
			inPhase(cluster, v1alpha1.ClusterReady)(in)
			in.App.Status.Cluster(cluster).Revision = 6
		}
		AtRevision(6)(in)
		spec(in)
	}
	for name, c := range map[string]struct {
		changes []func(*rollout.Input)
		want    []string
	}{
		"all have it":                    {[]func(*rollout.Input){inPlace(2, "tls"), holding("tls", 2, "east", "north", "west")}, []string{"3/3"}},
		"one has the content before":     {[]func(*rollout.Input){inPlace(2, "tls"), holding("tls", 2, "east", "north"), holding("tls", 1, "west")}, []string{"2/3"}},
		"one has a later content":        {[]func(*rollout.Input){inPlace(2, "tls"), holding("tls", 2, "east", "north"), holding("tls", 3, "west")}, []string{"2/3"}},
		"another copy does not count":    {[]func(*rollout.Input){inPlace(2, "tls"), holding("other", 2, "east", "north", "west")}, []string{"0/3"}},
		"one cannot be reached":          {[]func(*rollout.Input){inPlace(2, "tls"), holding("tls", 2, "east", "north", "west"), Unreachable("west")}, []string{"2/3"}},
		"after a restart":                {[]func(*rollout.Input){inPlace(2, "tls"), was(2, "3/3"), holding("tls", 2, "east")}, []string{"3/3"}},
		"after a restart, a new content": {[]func(*rollout.Input){inPlace(3, "tls"), was(2, "3/3"), holding("tls", 2, "east")}, []string{"0/3"}},
		"an override":                    {[]func(*rollout.Input){overridden, inPlace(2, "tls", "tls-eu"), holding("tls", 2, "east", "north"), holding("tls-eu", 2, "west")}, []string{"2/2", "1/1"}},
		"an override that is invalid": {[]func(*rollout.Input){overridden, inPlace(2, "tls", "tls-eu"), holding("tls", 2, "east", "north"), func(in *rollout.Input) {
			in.App.Spec.Overrides[0].ClusterSelector = &v1alpha1.ClusterSelector{MatchExpressions: []v1alpha1.ClusterRequirement{{Key: "region", Operator: "Like"}}}
		}}, []string{"2/3", ""}},
		"a source that is versioned": {[]func(*rollout.Input){inPlace(2, "tls"), holding("tls", 2, "east"), func(in *rollout.Input) {
			in.App.Spec.Configuration[0].Update = v1alpha1.ConfigurationVersioned
		}}, []string{""}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, source := range StatusOf(NewInput(append([]func(*rollout.Input){three}, c.changes...)...)).Configuration {
				got = append(got, source.UpToDate)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("up to date (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConfigurationSteps(t *testing.T) {
	at := func(number int64) func(*rollout.Input) {
		return func(in *rollout.Input) {
			inPhase("east", v1alpha1.ClusterReady)(in)
			in.App.Status.Rollout = v1alpha1.RolloutStatus{Revision: number, StableRevision: number}
			AtRevision(number)(in)
			withConfiguration()(in)
		}
	}
	snapshot := func(name string) func(*rollout.Input) {
		return withConfiguration(func(d *configuration.Decision) { d.Status[0].Snapshot = name })
	}
	changed := status.ConfigurationStep{Reason: v1alpha1.ReasonConfigurationChanged, Subject: "revision 7", Message: "revision 7 has another content of settings"}
	gone := status.ConfigurationStep{Reason: v1alpha1.ReasonSourceDeleted, Message: "ConfigMap settings was deleted: create it again", Bad: true}
	back := status.ConfigurationStep{Reason: v1alpha1.ReasonConfigured}
	for name, c := range map[string]struct {
		before, after []func(*rollout.Input)
		want          []status.ConfigurationStep
	}{
		"nothing":                     {},
		"another content":             {after: []func(*rollout.Input){snapshot("web-settings-2.snapshot"), AtRevision(7)}, want: []status.ConfigurationStep{changed}},
		"a changed source":            {after: []func(*rollout.Input){withConfiguration(collecting)}},
		"a source that is gone":       {after: []func(*rollout.Input){withConfiguration(deleted)}, want: []status.ConfigurationStep{gone}},
		"a source that is still gone": {before: []func(*rollout.Input){withConfiguration(deleted)}, after: []func(*rollout.Input){withConfiguration(deleted)}},
		"a source that is back":       {before: []func(*rollout.Input){withConfiguration(deleted)}, after: []func(*rollout.Input){withConfiguration()}, want: []status.ConfigurationStep{back}},
	} {
		t.Run(name, func(t *testing.T) {
			in := Next(NewInput(append([]func(*rollout.Input){at(6)}, c.before...)...), append([]func(*rollout.Input){withConfiguration()}, c.after...)...)
			decision := rollout.Plan(in)
			got := status.ConfigurationSteps(in, decision, status.Compute(in, decision))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("steps (-want +got):\n%s", diff)
			}
		})
	}
}

// Without spec.rollout, the message says what reaches the clusters at once.
func TestReady_names_the_sources_that_have_changed(t *testing.T) {
	in := NewInput(inPhase("east", v1alpha1.ClusterProgressing), AtRevision(7), withChangedSources("settings"), func(in *rollout.Input) {
		in.App.Status.Rollout = v1alpha1.RolloutStatus{Revision: 6, StableRevision: 6}
		in.App.Status.Clusters[0].Revision = 6
	})
	for _, c := range StatusOf(in).Conditions {
		if want := "revision 7 (configuration: settings): 1 of 1 cluster not ready: east (RollingOut)"; c.Type == v1alpha1.ConditionReady && c.Message != want {
			t.Errorf("Ready says %q, want %q", c.Message, want)
		}
	}
}
