package revision

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
)

func newApp(image string) *v1alpha1.AppService {
	app := &v1alpha1.AppService{}
	app.Namespace, app.Name, app.UID, app.Spec.Image = "shop", "web", types.UID("uid-1"), image
	return app
}

// stored returns the ControllerRevision of an image.
func stored(t *testing.T, number int64, image string) appsv1.ControllerRevision {
	t.Helper()
	object, err := New(newApp(image), number, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return *object
}

func TestNextFor(t *testing.T) {
	one, two, three := stored(t, 1, "web:1"), stored(t, 2, "web:2"), stored(t, 3, "web:1")
	change := func(object appsv1.ControllerRevision, change func(*appsv1.ControllerRevision)) appsv1.ControllerRevision {
		changed := object.DeepCopy()
		change(changed)
		return *changed
	}
	for name, c := range map[string]struct {
		image     string
		revision  int64   // in the status
		entries   []int64 // revisions of the entries
		objects   []appsv1.ControllerRevision
		want      int64
		onMembers int64
		wantStore bool
	}{
		"the first revision":                         {image: "web:1", want: 1, wantStore: true},
		"an edit of other fields":                    {image: "web:2", revision: 2, entries: []int64{2, 1}, objects: []appsv1.ControllerRevision{one, two}, want: 2},
		"an edit of the template":                    {image: "web:3", revision: 2, entries: []int64{2}, objects: []appsv1.ControllerRevision{one, two}, want: 3, wantStore: true},
		"a template that comes back":                 {image: "web:1", revision: 2, entries: []int64{2}, objects: []appsv1.ControllerRevision{one, two}, want: 3, wantStore: true},
		"a crash before the status":                  {image: "web:2", revision: 1, entries: []int64{1}, objects: []appsv1.ControllerRevision{one, two}, want: 2},
		"a crash, and another edit":                  {image: "web:4", revision: 1, entries: []int64{1}, objects: []appsv1.ControllerRevision{one, two}, want: 3, wantStore: true},
		"a crash, and the edit is undone":            {image: "web:1", revision: 1, entries: []int64{1}, objects: []appsv1.ControllerRevision{one, two}, want: 1},
		"a crash, but an entry names the revision":   {image: "web:2", revision: 1, entries: []int64{2}, objects: []appsv1.ControllerRevision{one, two}, want: 3, wantStore: true},
		"the status is lost":                         {image: "web:1", objects: []appsv1.ControllerRevision{one, two, three}, want: 3},
		"the status is lost, and members run it":     {image: "web:2", entries: []int64{2, 1}, objects: []appsv1.ControllerRevision{one, two}, want: 2},
		"the status is lost, and the spec is edited": {image: "web:9", objects: []appsv1.ControllerRevision{one, two, three}, want: 4, wantStore: true},
		"the history is lost":                        {image: "web:2", revision: 2, entries: []int64{2}, want: 3, wantStore: true},
		"the revision of the status is lost":         {image: "web:2", revision: 2, entries: []int64{2}, objects: []appsv1.ControllerRevision{one}, want: 3, wantStore: true},
		"everything is lost but a member":            {image: "web:1", onMembers: 7, want: 8, wantStore: true},
		"another owner": {image: "web:2", objects: []appsv1.ControllerRevision{change(two, func(o *appsv1.ControllerRevision) { o.OwnerReferences[0].UID = "uid-2" })},
			want: 3, wantStore: true},
		"content that cannot be decoded": {image: "web:2", revision: 2, objects: []appsv1.ControllerRevision{change(two, func(o *appsv1.ControllerRevision) { o.Data.Raw = []byte("{") })},
			want: 3, wantStore: true},
		"another number than in the name": {image: "web:2", objects: []appsv1.ControllerRevision{change(two, func(o *appsv1.ControllerRevision) { o.Revision = 5 })},
			want: 3, wantStore: true},
		"names of others": {image: "web:1", objects: []appsv1.ControllerRevision{
			change(two, func(o *appsv1.ControllerRevision) { o.Name = "web-02" }), change(two, func(o *appsv1.ControllerRevision) { o.Name = "web-api-7" }),
			change(two, func(o *appsv1.ControllerRevision) { o.Name = "web--8" }), change(two, func(o *appsv1.ControllerRevision) { o.Name = "other-9" }),
		}, want: 1, wantStore: true},
	} {
		t.Run(name, func(t *testing.T) {
			app := newApp(c.image)
			app.Status.Rollout.Revision = c.revision
			for _, number := range c.entries {
				app.Status.Clusters = append(app.Status.Clusters, v1alpha1.ClusterStatus{Revision: number})
			}
			next := HistoryOf(app, c.objects).NextFor(app, nil, c.onMembers, false)
			if next.Number != c.want || next.IsStored == c.wantStore {
				t.Errorf("NextFor returns %+v; want %d, stored %t", next, c.want, !c.wantStore)
			}
		})
	}
}

func TestSuperfluous(t *testing.T) {
	var objects []appsv1.ControllerRevision
	for number := range int64(14) {
		objects = append(objects, stored(t, number+1, "web"))
	}
	for name, c := range map[string]struct {
		limit *int32
		want  []string
	}{
		"the default keeps ten": {want: []string{"web-1"}}, // 14 without the three in use, less ten
		"a limit":               {limit: new(int32(8)), want: []string{"web-4", "web-3", "web-1"}},
		"no history but the revisions that are used": {limit: new(int32(0)), want: []string{"web-12", "web-11", "web-10", "web-9", "web-8", "web-7", "web-6", "web-5", "web-4", "web-3", "web-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			app := newApp("web")
			app.Spec.RevisionHistoryLimit = c.limit
			app.Status.Rollout.Revision = 13
			app.Status.Clusters = []v1alpha1.ClusterStatus{{Name: "east", Revision: 13}, {Name: "west", Revision: 2}}
			var got []string
			for _, object := range HistoryOf(app, objects).Superfluous(app, 14) {
				got = append(got, object.Name)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("to delete (-want +got):\n%s", diff)
			}
		})
	}
}

// A number is used once, and the templates of the stable revisions are recognized.
func TestNextFor_in_a_rollout(t *testing.T) {
	objects := []appsv1.ControllerRevision{stored(t, 4, "web:4"), stored(t, 5, "web:5"), stored(t, 6, "web:6"), stored(t, 7, "web:7")}
	completed := v1alpha1.RolloutStatus{Revision: 6, StableRevision: 6, PreviousRevision: 5}
	canceled := v1alpha1.RolloutStatus{Revision: 6, LatestRevision: 7, StableRevision: 6, PreviousRevision: 5}
	failed := v1alpha1.RolloutStatus{Revision: 7, StableRevision: 6, PreviousRevision: 5, FailedRevision: 7}
	for name, c := range map[string]struct {
		image   string
		state   v1alpha1.RolloutStatus
		isRetry bool
		objects []appsv1.ControllerRevision
		want    Next
	}{
		"the stable template, in a rollout":           {"web:6", failed, false, objects, Next{Number: 6, IsStored: true}},
		"the stable template, whose revision is lost": {"web:6", failed, false, objects[:2], Next{Number: 8}},
		"an undo":                             {"web:5", failed, false, objects, Next{Number: 8, IsUndo: true}},
		"an undo, and a crash":                {"web:5", completed, false, append(objects[:3:3], stored(t, 7, "web:5")), Next{Number: 7, IsStored: true, IsUndo: true}},
		"an older template":                   {"web:4", failed, false, objects, Next{Number: 8}},
		"the failed template":                 {"web:7", failed, false, objects, Next{Number: 7, IsStored: true}},
		"the failed template, retried":        {"web:7", failed, true, objects, Next{Number: 8, IsRetry: true}},
		"a retry, and a crash":                {"web:7", failed, true, append(objects[:4:4], stored(t, 8, "web:7")), Next{Number: 8, IsStored: true, IsRetry: true}},
		"a retry, and the stable template":    {"web:6", failed, true, objects, Next{Number: 6, IsStored: true}},
		"a retry, and an undo":                {"web:5", failed, true, objects, Next{Number: 8, IsUndo: true}},
		"a canceled template that comes back": {"web:7", canceled, false, objects, Next{Number: 8}},
		"the same, and the history is short":  {"web:7", canceled, false, objects[2:3], Next{Number: 8}},
	} {
		t.Run(name, func(t *testing.T) {
			app := newApp(c.image)
			app.Status.Rollout = c.state
			app.Status.Clusters = []v1alpha1.ClusterStatus{{Name: "east", Revision: c.state.StableRevision}}
			if got := HistoryOf(app, c.objects).NextFor(app, nil, 0, c.isRetry); !cmp.Equal(got, c.want) {
				t.Errorf("NextFor returns %+v, want %+v", got, c.want)
			}
		})
	}
}

// A cluster that has the template already need not leave it.
func TestNextFor_names_the_revisions_in_use_with_the_same_template(t *testing.T) {
	objects := []appsv1.ControllerRevision{stored(t, 1, "web:1"), stored(t, 2, "web:2"), stored(t, 3, "web:2"), stored(t, 4, "web:2"), stored(t, 5, "web:5")}
	app := newApp("web:2")
	app.Status.Rollout = v1alpha1.RolloutStatus{Revision: 4, StableRevision: 1, FailedRevision: 4}
	for _, number := range []int64{1, 2, 4, 5} {
		app.Status.Clusters = append(app.Status.Clusters, v1alpha1.ClusterStatus{Revision: number})
	}
	if diff := cmp.Diff(Next{Number: 6, IsRetry: true, Same: []int64{4, 2}}, HistoryOf(app, objects).NextFor(app, nil, 0, true)); diff != "" {
		t.Errorf("a retry (-want +got):\n%s", diff)
	}
	objects = append(objects, stored(t, 6, "web:2"))
	if diff := cmp.Diff(Next{Number: 6, IsStored: true, IsRetry: true, Same: []int64{4, 2}}, HistoryOf(app, objects).NextFor(app, nil, 0, true)); diff != "" {
		t.Errorf("a retry, and a crash (-want +got):\n%s", diff)
	}
}

// named returns the snapshot of the ConfigMap with this name.
func named(from, snapshot string) configuration.Named {
	return configuration.Named{Kind: v1alpha1.ConfigurationConfigMap, From: from, Snapshot: snapshot}
}

// A content that comes back is an undo, as a template is.
func TestNextFor_compares_the_snapshots(t *testing.T) {
	list := func(snapshots ...configuration.Named) []configuration.Named { return snapshots }
	storedWith := func(number int64, image string, snapshots ...configuration.Named) appsv1.ControllerRevision {
		object, err := New(newApp(image), number, snapshots, nil)
		if err != nil {
			t.Fatal(err)
		}
		return *object
	}
	old, flags := named("settings", "web-settings-1.snapshot"), named("flags", "web-flags-1.snapshot")
	bad, last := named("settings", "web-settings-2.snapshot"), named("settings", "web-settings-0.snapshot")
	objects := []appsv1.ControllerRevision{
		storedWith(6, "web:1", last, flags), storedWith(7, "web:1", old, flags), storedWith(8, "web:1", flags, bad), storedWith(9, "web:2", flags, bad),
	}
	staged := v1alpha1.RolloutStatus{Revision: 8, StableRevision: 7, PreviousRevision: 6, FailedRevision: 8}
	for name, c := range map[string]struct {
		image     string
		snapshots []configuration.Named
		state     v1alpha1.RolloutStatus
		isRetry   bool
		objects   []appsv1.ControllerRevision
		want      Next
	}{
		"nothing has changed": {"web:1", list(bad, flags), staged, false, objects[:3], Next{Number: 8, IsStored: true, ChangedSources: []string{"settings"}}},
		"another content":     {"web:1", list(named("settings", "3"), flags), staged, false, objects[:3], Next{Number: 9, ChangedSources: []string{"settings"}}},
		"two other contents":  {"web:1", list(named("settings", "3"), named("flags", "2")), staged, false, objects[:3], Next{Number: 9, ChangedSources: []string{"flags", "settings"}}},
		"an optional source that exists now": {"web:1", list(old, flags, named("new", "1")), staged, false, objects[:3],
			Next{Number: 9, ChangedSources: []string{"new"}}},
		"another content and template": {"web:3", list(named("settings", "3"), flags), staged, false, objects[:3], Next{Number: 9}},
		"the stable content":           {"web:1", list(flags, old), staged, false, objects[:3], Next{Number: 7, IsStored: true}},
		"the content before that":      {"web:1", list(last, flags), staged, false, objects[:3], Next{Number: 9, IsUndo: true, ChangedSources: []string{"settings"}}},
		"a retry":                      {"web:1", list(bad, flags), staged, true, objects[:3], Next{Number: 9, IsRetry: true, ChangedSources: []string{"settings"}}},
		"a retry with another content": {"web:1", list(named("settings", "3"), flags), staged, true, objects[:3], Next{Number: 9, ChangedSources: []string{"settings"}}},
		"a crash before the status":    {"web:2", list(bad, flags), staged, false, objects, Next{Number: 9, IsStored: true}},
		"a crash, and another content": {"web:2", list(old, flags), staged, false, objects, Next{Number: 10}},
		"the status is lost":           {"web:1", list(bad, flags), v1alpha1.RolloutStatus{}, false, objects[:3], Next{Number: 8, IsStored: true}},
		"without a stable revision":    {"web:1", list(bad, flags), v1alpha1.RolloutStatus{Revision: 7}, false, objects[1:2], Next{Number: 8, ChangedSources: []string{"settings"}}},
	} {
		t.Run(name, func(t *testing.T) {
			app := newApp(c.image)
			app.Status.Rollout = c.state
			got := HistoryOf(app, c.objects).NextFor(app, c.snapshots, 0, c.isRetry)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("next (-want +got):\n%s", diff)
			}
		})
	}
}

// Older versions stored progressDeadlineSeconds in a revision. It takes effect immediately now, so
// it makes no revision, whether it was stored or not.
func TestNextFor_ignores_an_immediate_field_that_an_older_version_stored(t *testing.T) {
	with, without := stored(t, 1, "web:1"), stored(t, 1, "web:1")
	with.Data.Raw = []byte(`{"apiVersion":"fleetwright.dev/v1alpha1","kind":"AppService","spec":{"image":"web:1","strategy":{},"resources":{},"progressDeadlineSeconds":600}}`)
	for name, object := range map[string]appsv1.ControllerRevision{"with it": with, "without it": without} {
		for _, deadline := range []*int32{nil, new(int32(600)), new(int32(10))} {
			app := newApp("web:1")
			app.Spec.ProgressDeadlineSeconds = deadline
			app.Status.Rollout.Revision = 1
			history := HistoryOf(app, []appsv1.ControllerRevision{object})
			if next := history.NextFor(app, nil, 0, false); next.Number != 1 || !next.IsStored {
				t.Errorf("stored %s, and the spec has %v: NextFor returns %+v", name, deadline, next)
			}
			if got := history.All()[0].Template.ProgressDeadlineSeconds; got != nil {
				t.Errorf("stored %s: the template has %v", name, *got)
			}
			if err := history.All()[0].CheckKnown(); err != nil {
				t.Errorf("stored %s: %v", name, err)
			}
		}
	}
}
