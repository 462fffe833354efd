package lineage_test

import (
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/lineage"
)

var created = metav1.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// planned returns an AppService of the given generation whose status has this history, newest
// first.
func planned(generation int64, history ...v1alpha1.PlannedSpec) *v1alpha1.AppService {
	app := &v1alpha1.AppService{}
	app.UID, app.Generation, app.CreationTimestamp = "uid-1", generation, created
	app.Spec.Image = "web:1"
	app.Status.PlannedSpecs, app.Status.ObservedGeneration = history, generation
	return app
}

// unplanned returns an AppService without a history whose status has observed the given generation.
func unplanned(generation, observed int64) *v1alpha1.AppService {
	app := planned(generation)
	app.Status.ObservedGeneration = observed
	return app
}

func plannedSpec(generation int64, hash string) v1alpha1.PlannedSpec {
	return v1alpha1.PlannedSpec{Generation: generation, Hash: hash}
}

// fullHistory returns a history of the generations 37 to 100 with the hash "h".
func fullHistory() (history []v1alpha1.PlannedSpec) {
	for generation := int64(100); generation > 36; generation-- {
		history = append(history, plannedSpec(generation, "h"))
	}
	return history
}

func TestIsAhead(t *testing.T) {
	now := planned(5, plannedSpec(5, "e"), plannedSpec(4, "d"), plannedSpec(2, "b"))
	tests := map[string]struct {
		app   *v1alpha1.AppService
		stamp lineage.Stamp
		want  bool
	}{
		"the current spec":                                         {now, lineage.Stamp{Generation: 5, SpecHash: "e"}, false},
		"a spec that was planned before":                           {now, lineage.Stamp{Generation: 2, SpecHash: "b"}, false},
		"a later generation":                                       {now, lineage.Stamp{Generation: 6, SpecHash: "f"}, true},
		"a later generation with a spec that was planned":          {now, lineage.Stamp{Generation: 6, SpecHash: "d"}, true},
		"the current generation with another spec":                 {now, lineage.Stamp{Generation: 5, SpecHash: "x"}, true},
		"an earlier generation that this hub never planned":        {now, lineage.Stamp{Generation: 3, SpecHash: "c"}, true},
		"an edit that was lost, of a spec before it":               {now, lineage.Stamp{Generation: 5, SpecHash: "d"}, true},
		"an earlier generation with the same spec":                 {now, lineage.Stamp{Generation: 4, SpecHash: "e"}, false},
		"a generation before a history that was started again":     {now, lineage.Stamp{Generation: 1, SpecHash: "a"}, false},
		"a generation before a full history":                       {planned(100, fullHistory()...), lineage.Stamp{Generation: 36, SpecHash: "x"}, false},
		"a generation within a full history with another spec":     {planned(100, fullHistory()...), lineage.Stamp{Generation: 37, SpecHash: "x"}, true},
		"of an older version, an earlier generation":               {now, lineage.Stamp{Generation: 3}, false},
		"of an older version, the current generation":              {now, lineage.Stamp{Generation: 5}, false},
		"of an older version, a later generation":                  {now, lineage.Stamp{Generation: 6}, true},
		"without a generation":                                     {now, lineage.Stamp{}, false},
		"a status of an older version":                             {planned(5), lineage.Stamp{Generation: 5, SpecHash: "e"}, false},
		"a status of an older version, a later generation":         {planned(5), lineage.Stamp{Generation: 6, SpecHash: "f"}, true},
		"a status of an older version, before its edit is planned": {unplanned(6, 5), lineage.Stamp{Generation: 6, SpecHash: "f"}, true},
		"a status that is lost":                                    {unplanned(6, -1), lineage.Stamp{Generation: 5, SpecHash: "e"}, false},
		"a status that is lost, a later generation":                {unplanned(6, -1), lineage.Stamp{Generation: 7, SpecHash: "g"}, true},
		"a history of an older version, before it":                 {planned(7, plannedSpec(7, "g"), plannedSpec(5, "")), lineage.Stamp{Generation: 5, SpecHash: "e"}, false},
		"a history of an older version, an edit that was lost":     {planned(7, plannedSpec(7, "g"), plannedSpec(5, "")), lineage.Stamp{Generation: 6, SpecHash: "f"}, true},
		"an edit that was lost, as edited after the restore":       {planned(7, plannedSpec(7, "g"), plannedSpec(6, "f")), lineage.Stamp{Generation: 6, SpecHash: "g"}, false},
		"another AppService that was created before":               {now, lineage.Stamp{UID: "uid-0", Generation: 9, SpecHash: "x", Created: created.Add(-time.Second)}, false},
		"another AppService that was created later":                {now, lineage.Stamp{UID: "uid-2", Generation: 1, SpecHash: "e", Created: created.Add(time.Second)}, true},
		"another AppService of an older version":                   {now, lineage.Stamp{UID: "uid-2", Generation: 9}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.stamp.UID == "" {
				test.stamp.UID = "uid-1"
			}
			if got := lineage.IsAhead(test.app, nil, test.stamp); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
			accepted := test.app.DeepCopy()
			accepted.Annotations = map[string]string{v1alpha1.AnnotationAcceptHub: "1-00000000, " + test.stamp.Token()}
			if lineage.IsAhead(accepted, nil, test.stamp) {
				t.Error("an accepted stamp is still ahead")
			}
			for _, other := range []lineage.Stamp{
				{UID: test.stamp.UID, Generation: test.stamp.Generation + 1, SpecHash: test.stamp.SpecHash},
				{UID: test.stamp.UID, Generation: test.stamp.Generation, SpecHash: test.stamp.SpecHash + "0"},
				{UID: test.stamp.UID + "0", Generation: test.stamp.Generation, SpecHash: test.stamp.SpecHash},
			} {
				accepted.Annotations[v1alpha1.AnnotationAcceptHub] = other.Token()
				if got := lineage.IsAhead(accepted, nil, test.stamp); got != test.want {
					t.Errorf("%+v is accepted: got %v, want %v", other, got, test.want)
				}
			}
		})
	}
}

func TestStamp_is_read_as_it_was_written(t *testing.T) {
	app := planned(5, plannedSpec(5, "e"))
	object := &corev1.Service{}
	object.Annotations = map[string]string{v1alpha1.AnnotationUID: "uid-1"}
	maps.Copy(object.Annotations, lineage.For(app, &v1alpha1.ClusterStatus{Placement: 7}).Annotations())
	want := lineage.Stamp{UID: "uid-1", Created: created.Time, Generation: 5, SpecHash: "e", Placement: 7}
	if diff := cmp.Diff(want, lineage.Of(object)); diff != "" {
		t.Errorf("stamp (-want +got):\n%s", diff)
	}
	object.Annotations[v1alpha1.AnnotationPlacement] = "seven"
	object.Annotations[v1alpha1.AnnotationGeneration], object.Annotations[v1alpha1.AnnotationCreated] = "five", "yesterday"
	if diff := cmp.Diff(lineage.Stamp{UID: "uid-1", SpecHash: "e"}, lineage.Of(object)); diff != "" {
		t.Errorf("malformed stamp (-want +got):\n%s", diff)
	}
	if got := lineage.For(planned(6, plannedSpec(5, "e")), &v1alpha1.ClusterStatus{}).SpecHash; got != "" {
		t.Errorf("the stamp has spec hash %q before the status has it", got)
	}
}

func TestPlanned(t *testing.T) {
	fresh := planned(1)
	fresh.Status.ObservedGeneration = -1
	hash := lineage.Planned(fresh)[0].Hash
	tests := map[string]struct {
		app  *v1alpha1.AppService
		want []v1alpha1.PlannedSpec
	}{
		"the first plan":                         {fresh, []v1alpha1.PlannedSpec{plannedSpec(1, hash)}},
		"the same generation":                    {planned(5, plannedSpec(5, "e"), plannedSpec(4, "d")), []v1alpha1.PlannedSpec{plannedSpec(5, "e"), plannedSpec(4, "d")}},
		"the next generation":                    {planned(7, plannedSpec(5, "e"), plannedSpec(4, "d")), []v1alpha1.PlannedSpec{plannedSpec(7, hash), plannedSpec(5, "e"), plannedSpec(4, "d")}},
		"no more than 64":                        {planned(101, fullHistory()...), append([]v1alpha1.PlannedSpec{plannedSpec(101, hash)}, fullHistory()[:63]...)},
		"a status of an older version stays":     {planned(5), nil},
		"a status that is ahead of its spec":     {planned(5, plannedSpec(6, "f"), plannedSpec(5, "x"), plannedSpec(4, "d")), []v1alpha1.PlannedSpec{plannedSpec(5, hash), plannedSpec(4, "d")}},
		"an edit after a status of an older one": {unplanned(5, 4), []v1alpha1.PlannedSpec{plannedSpec(5, hash), plannedSpec(4, "")}},
		"the status was lost":                    {unplanned(5, -1), []v1alpha1.PlannedSpec{plannedSpec(5, hash)}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := lineage.Planned(test.app)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("history (-want +got):\n%s", diff)
			}
			again := test.app.DeepCopy()
			again.Status.PlannedSpecs, again.Status.ObservedGeneration = got, test.app.Generation
			if diff := cmp.Diff(got, lineage.Planned(again)); diff != "" {
				t.Errorf("the next history (-want +got):\n%s", diff)
			}
		})
	}
	other := planned(6, plannedSpec(5, hash))
	other.Spec.Image = "web:2"
	if got := lineage.Planned(other)[0].Hash; got == hash {
		t.Error("another spec has the same hash")
	}
}

// A change of the configuration is a new revision of the same spec.
func TestIsAhead_of_a_revision(t *testing.T) {
	withConfiguration := func(rollout v1alpha1.RolloutStatus) *v1alpha1.AppService {
		app := planned(5, plannedSpec(5, "e"))
		app.Spec.Configuration = []v1alpha1.ConfigurationSource{{Kind: v1alpha1.ConfigurationConfigMap, Name: "settings"}}
		app.Status.Rollout = rollout
		return app
	}
	without := withConfiguration(v1alpha1.RolloutStatus{Revision: 7})
	without.Spec.Configuration = nil
	staged := without.DeepCopy()
	staged.Spec.Rollout = &v1alpha1.Rollout{}
	left := without.DeepCopy()
	left.Status.Configuration = []v1alpha1.ConfigurationStatus{{Kind: v1alpha1.ConfigurationConfigMap, From: "settings"}}
	stamp := lineage.Stamp{UID: "uid-1", Generation: 5, SpecHash: "e", Revision: 8}
	for name, c := range map[string]struct {
		app  *v1alpha1.AppService
		want bool
	}{
		"a later revision":                               {withConfiguration(v1alpha1.RolloutStatus{Revision: 7, StableRevision: 6}), true},
		"a later revision, with sources of old ones":     {left, true},
		"the revision":                                   {withConfiguration(v1alpha1.RolloutStatus{Revision: 8}), false},
		"a revision before the spec returned to another": {withConfiguration(v1alpha1.RolloutStatus{Revision: 7, LatestRevision: 8}), false},
		"a revision that failed":                         {withConfiguration(v1alpha1.RolloutStatus{Revision: 7, FailedRevision: 9}), false},
		"the status was lost":                            {withConfiguration(v1alpha1.RolloutStatus{}), false},
		"without configuration and stages":               {without, false},
		"a retry":                                        {staged, true},
	} {
		if got := lineage.IsAhead(c.app, nil, stamp); got != c.want {
			t.Errorf("%s: ahead %t, want %t", name, got, c.want)
		}
	}

	app := withConfiguration(v1alpha1.RolloutStatus{Revision: 7})
	behind := lineage.Behind(app, nil, map[string]lineage.Stamp{"Deployment": stamp})
	if diff := cmp.Diff(&v1alpha1.HubBehind{Kind: "Deployment", Generation: 5, Revision: 8, Accept: behind.Accept}, behind); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if behind.Accept == stamp.Token() {
		t.Error("accepting the generation accepts each later revision of it")
	}
	app.Annotations = map[string]string{v1alpha1.AnnotationAcceptHub: behind.Accept}
	if lineage.IsAhead(app, nil, stamp) || !lineage.IsAccepted(app, behind) {
		t.Error("the revision is not accepted")
	}
	if lineage.IsPlanned(app, stamp) {
		t.Error("the stamp is not replaced after it was accepted")
	}
	stamp.Revision = 9
	if !lineage.IsAhead(app, nil, stamp) {
		t.Error("a later revision is accepted too")
	}
}

func TestBehind_names_the_newest_and_accepts_all(t *testing.T) {
	app := planned(4, plannedSpec(4, "d"))
	deployment := lineage.Stamp{UID: "uid-1", Generation: 6, SpecHash: "f"}
	service := lineage.Stamp{UID: "uid-1", Generation: 5, SpecHash: "e"}
	got := lineage.Behind(app, nil, map[string]lineage.Stamp{"Deployment": deployment, "Service": service})
	want := &v1alpha1.HubBehind{Kind: "Deployment", Generation: 6, Accept: service.Token() + "," + deployment.Token()}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for value, want := range map[string]bool{
		got.Accept: true, "x," + got.Accept: true, service.Token(): false, deployment.Token(): false, "": false,
	} {
		app.Annotations = map[string]string{v1alpha1.AnnotationAcceptHub: value}
		if accepted := lineage.IsAccepted(app, got); accepted != want {
			t.Errorf("%q accepts it: %v, want %v", value, accepted, want)
		}
	}
	if got := lineage.Behind(app, nil, nil); got != nil {
		t.Errorf("no objects: %+v", got)
	}
	recreated := lineage.Behind(app, nil, map[string]lineage.Stamp{"Deployment": {UID: "uid-2", Generation: 1}})
	if recreated.UID != "uid-2" {
		t.Errorf("another AppService: %+v", recreated)
	}
}

// behindWith returns an AppService whose status has one cluster for each token, with the token as
// its stamp that is ahead.
func behindWith(tokens ...string) *v1alpha1.AppService {
	app := planned(4, plannedSpec(4, "d"))
	for i, token := range tokens {
		app.Status.Clusters = append(app.Status.Clusters, v1alpha1.ClusterStatus{
			Name: fmt.Sprint("c", i), HubBehind: &v1alpha1.HubBehind{Kind: "Deployment", Accept: token},
		})
	}
	return app
}

func TestAcceptValue_is_short_and_accepts_all(t *testing.T) {
	var stamps []lineage.Stamp
	var tokens []string
	for generation := range int64(100) {
		stamps = append(stamps, lineage.Stamp{UID: "uid-1", Generation: 5 + generation, SpecHash: "x"})
		tokens = append(tokens, stamps[generation].Token())
	}
	if got := lineage.AcceptValue(tokens[:2]); got != tokens[0]+","+tokens[1] {
		t.Errorf("two tokens: %s", got)
	}
	app := behindWith(tokens...)
	app.Annotations = map[string]string{v1alpha1.AnnotationAcceptHub: lineage.AcceptValue(tokens)}
	if value := app.Annotations[v1alpha1.AnnotationAcceptHub]; len(value) > 40 {
		t.Errorf("a hundred tokens: %s", value)
	}
	app.Status.AcceptedStamps = lineage.AcceptedStamps(app)
	app.Status.Clusters = nil // the entries no longer list the stamps that were ahead
	app.Status.AcceptedStamps = lineage.AcceptedStamps(app)
	for _, stamp := range stamps {
		if lineage.IsAhead(app, nil, stamp) {
			t.Errorf("%s is not accepted", stamp.Token())
		}
	}
	if !lineage.IsAhead(app, nil, lineage.Stamp{UID: "uid-1", Generation: 6, SpecHash: "y"}) {
		t.Error("another stamp is accepted")
	}
	app.Annotations[v1alpha1.AnnotationAcceptHub] = lineage.AcceptValue(tokens[1:])
	if !lineage.IsAhead(app, nil, stamps[1]) || lineage.AcceptedStamps(app) != nil {
		t.Error("the digest of other stamps accepts these")
	}
}
