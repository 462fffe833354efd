package ui

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/contents"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/history"
	hubclient "github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
	"github.com/fleetwright/fleetwright/controllers/revision"
)

const (
	historyTimeout = 10 * time.Second
	// maxDiff is the largest number of bytes of a diff on the page.
	maxDiff = 128 << 10
)

// Revision is a revision of an AppService.
type Revision struct {
	Revision int64 `json:"revision"`
	// IsStored is set if the hub has the revision. The next four fields are of such a revision only.
	IsStored bool         `json:"stored,omitempty"`
	Image    string       `json:"image,omitempty"`
	Time     *metav1.Time `json:"time,omitempty"`
	// Before is the stored revision before this one, or 0, and Changed is what differs.
	Before  int64    `json:"before,omitempty"`
	Changed []string `json:"changed,omitempty"`
	// Clusters is the number of clusters that run the revision, or are to run it.
	Clusters int `json:"clusters"`
	// States are what the revision is in the rollout: current, stable, failed, previous.
	States []string `json:"states,omitempty"`
}

// Changes is what a revision changed.
type Changes struct {
	// Diff is a unified diff against the stored revision before, or the template of the oldest one.
	Diff string `json:"diff"`
	// IsCut is set if the diff is longer than the page shows.
	IsCut bool `json:"cut,omitempty"`
}

// revisionsOf returns the revisions that are stored, that clusters are to run, or that have a state,
// newest first.
func revisionsOf(state *v1alpha1.RolloutStatus, entries []v1alpha1.ClusterStatus, stored []revision.Stored) []Revision {
	var all []Revision
	for _, entry := range history.List(state, entries, stored) {
		all = append(all, Revision{
			Revision: entry.Number, IsStored: true, Image: entry.Template.Image, Time: &entry.Object.CreationTimestamp,
			Before: entry.Before, Changed: entry.Changed, Clusters: entry.Clusters, States: entry.States,
		})
	}
	add := func(number int64, clusters int) {
		at := slices.IndexFunc(all, func(r Revision) bool { return r.Revision == number })
		switch {
		case number == 0:
		case at < 0:
			all = append(all, Revision{Revision: number, Clusters: clusters, States: history.States(state, number)})
		case !all[at].IsStored:
			all[at].Clusters += clusters
		}
	}
	for _, number := range []int64{state.Revision, state.StableRevision, state.FailedRevision, state.PreviousRevision} {
		add(number, 0)
	}
	for i := range entries {
		add(entries[i].Revision, 1)
	}
	slices.SortFunc(all, func(a, b Revision) int { return cmp.Compare(b.Revision, a.Revision) })
	return all
}

// newHistoryClient returns a client of the hub that reads revisions and what they name. It sends no
// request.
func newHistoryClient(config *rest.Config) (hubclient.Client, error) {
	c, err := client.NewWithWatch(config, client.Options{Scheme: hubclient.NewScheme()})
	return hubclient.Client{WithWatch: c, Config: config}, err
}

// readStored returns the revisions that the hub has stored.
func (s *Server) readStored(ctx context.Context, app *v1alpha1.AppService) ([]revision.Stored, error) {
	ctx, cancel := context.WithTimeout(ctx, historyTimeout)
	defer cancel()
	return s.history.ReadHistory(ctx, app)
}

// revisionChanges answers with the [Changes] of a revision.
func (s *Server) revisionChanges(w http.ResponseWriter, r *http.Request) {
	app, exists := s.fleet.app(r.FormValue("namespace"), r.FormValue("name"))
	number, err := strconv.ParseInt(r.FormValue("revision"), 10, 64)
	if !exists || err != nil {
		http.Error(w, "there is no such AppService any more, or no such revision", http.StatusNotFound)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), historyTimeout)
	defer cancel()
	diff, err := s.readDiff(ctx, app, number)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(cutDiff(diff))
}

// readDiff returns what a revision changed, as rollout history --revision prints it.
func (s *Server) readDiff(ctx context.Context, app *v1alpha1.AppService, number int64) (string, error) {
	stored, err := s.history.ReadHistory(ctx, app)
	if err != nil {
		return "", errors.New(describeProblem("controllerrevisions", err))
	}
	return history.Diff(contents.Of(ctx, s.history, app), stored, number)
}

// cutDiff returns the first lines of a diff that is too long for the page.
func cutDiff(diff string) Changes {
	if len(diff) <= maxDiff {
		return Changes{Diff: diff}
	}
	end := max(strings.LastIndexByte(diff[:maxDiff], '\n')+1, 1)
	return Changes{Diff: strings.ToValidUTF8(diff[:end], ""), IsCut: true}
}

// describeHistory says why the stored revisions cannot be read.
func describeHistory(err error) string {
	if err == nil {
		return ""
	}
	return fmt.Sprintf("The stored revisions are not known: %s.", describeProblem("controllerrevisions", err))
}
