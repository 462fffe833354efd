package command_test

import (
	"strings"
	"testing"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/view"
)

// A user looks at revision 2, on the page or in the output of status, and copies a command. Before it runs,
// an edit makes revision 3 the current one, which waits for the same thing.
func TestRequests_are_refused_after_an_edit(t *testing.T) {
	app := createStaged(t, "looked-at")
	for name, change := range map[string]func(*v1alpha1.RolloutStatus){
		"approve": func(state *v1alpha1.RolloutStatus) { state.Stages[1].Phase = v1alpha1.StageAwaitingApproval },
		"promote": func(state *v1alpha1.RolloutStatus) { state.Stages[1].Phase = v1alpha1.StageSoaking },
		"abort":   func(*v1alpha1.RolloutStatus) {},
		"retry": func(state *v1alpha1.RolloutStatus) {
			state.Phase, state.FailedRevision = v1alpha1.RolloutRolledBack, state.Revision
		},
	} {
		t.Run(name, func(t *testing.T) {
			at := func(revision int64) {
				setStatus(t, read(t, app), func(s *v1alpha1.AppServiceStatus) {
					s.Rollout.Revision, s.Rollout.StableRevision = revision, 1
					s.Rollout.Phase, s.Rollout.FailedRevision = v1alpha1.RolloutProgressing, 0
					change(&s.Rollout)
				})
			}
			at(2)
			var shown *view.Request
			for _, request := range view.Requests(read(t, app)) {
				if request.Command == name {
					shown = &request
				}
			}
			if shown == nil {
				t.Fatalf("there is no command %s", name)
			}
			edited := read(t, app)
			edited.Spec.Image += "-edited"
			if err := hub.Update(t.Context(), edited); err != nil {
				t.Fatal(err)
			}
			at(3)
			run(t, append([]string{"rollout", shown.Command, "looked-at"}, shown.Flags...)...).check(t,
				result{code: 1, errOut: "error: revision 3 of looked-at is current now, and not 2: see kubectl appsvc rollout status looked-at\n"})
			for key := range read(t, app).Annotations {
				if strings.HasPrefix(key, "fleetwright.dev/") {
					t.Errorf("the AppService has the annotation %s", key)
				}
			}
		})
	}
}
