package ui

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

func TestServer_has_the_timeline_and_the_revisions_with_what_they_changed(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	app := newApp(namespace, "web", newEntry("east", "Ready"))
	app.Spec.Rollout = &v1alpha1.Rollout{}
	app.Status.Rollout = v1alpha1.RolloutStatus{Revision: 3, StableRevision: 2, Phase: v1alpha1.RolloutProgressing, Since: &noon,
		Stages: []v1alpha1.RolloutStageStatus{{Name: "(rest)", Phase: v1alpha1.StageCompleted, Since: noon, Clusters: 1}}}
	create(t, app)
	storeRevision(t, app, 3, func(spec *v1alpha1.AppServiceSpec) { spec.Image = "web:3" })
	storeRevision(t, app, 2, func(*v1alpha1.AppServiceSpec) {})
	began := metav1.NewTime(noon.Add(-time.Hour))
	record(t, app, 1, "StageStarted", "(rest)", "revision 3: the rollout begins on 1 cluster", began)
	other := app.DeepCopy()
	other.UID = "of-an-earlier-appservice"
	record(t, other, 2, "StageStarted", "(rest)", "revision 3: not of this AppService", began)
	server, address := serve(t, Options{Config: hubConfig, Namespace: namespace})
	openStream(t, server, address).until(t, hasCell(namespace+"/web", "east", "Ready"))

	var detail Detail
	query := "?namespace=" + namespace + "&name=web"
	if err := json.NewDecoder(get(t, server, address+"/api/app"+query).Body).Decode(&detail); err != nil {
		t.Fatal(err)
	}
	if detail.Timeline == nil || detail.Timeline.Image != "web:3" {
		t.Fatalf("got timeline %+v", detail.Timeline)
	}
	moments := detail.Timeline.Steps[1].Moments
	if len(moments) != 2 || moments[0].Text != "the rollout begins on 1 cluster" || !moments[0].Time.Equal(&began) {
		t.Errorf("got moments %+v", moments)
	}
	var rows []string
	for _, r := range detail.Revisions {
		rows = append(rows, fmt.Sprintf("%d %s %v against %d on %d %v", r.Revision, r.Image, r.Changed, r.Before, r.Clusters, r.States))
	}
	want := []string{"3 web:3 [image] against 2 on 0 [current]", "2 web:1 [] against 0 on 0 [stable]", "1  [] against 0 on 1 []"}
	if !slices.Equal(rows, want) {
		t.Errorf("got revisions %q, want %q", rows, want)
	}
	var changes Changes
	if err := json.NewDecoder(get(t, server, address+"/api/changes"+query+"&revision=3").Body).Decode(&changes); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(changes.Diff, "-image: web:1\n+image: web:3\n") {
		t.Errorf("got diff %s", changes.Diff)
	}
	response := get(t, server, address+"/api/changes"+query+"&revision=9")
	if body, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusNotFound || string(body) != "revision 9 is not stored: there are 2, 3\n" {
		t.Errorf("got %d %s", response.StatusCode, body)
	}
}

func TestCutDiff_ends_at_a_line(t *testing.T) {
	t.Parallel()
	if got := cutDiff(strings.Repeat("+ line\n", maxDiff)); !got.IsCut || len(got.Diff) > maxDiff || !strings.HasSuffix(got.Diff, "line\n") {
		t.Errorf("a long diff has %d bytes", len(got.Diff))
	}
}
