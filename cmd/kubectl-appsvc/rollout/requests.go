package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/output"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/view"
)

// request is a command that asks the operator for something by an annotation of the AppService.
type request struct {
	use, short, long, example string
	// decide changes the annotations of the AppService, and returns what to print. Otherwise, it
	// returns why the request would have no effect.
	decide func(app *v1alpha1.AppService, flags requestFlags) (done string, err error)
	// hasStage adds the flag --stage, and hasAll the flag --all.
	hasStage, hasAll bool
}

// requestFlags are the flags of a request.
type requestFlags struct {
	stage    string
	all      bool
	revision int64
}

func newRequest(o *hub.Options, r request) *cobra.Command {
	var flags requestFlags
	command := &cobra.Command{
		Use:               r.use,
		Short:             r.short,
		Long:              r.long,
		Example:           r.example,
		Args:              hub.Arguments(hub.App),
		ValidArgsFunction: o.CompleteApp(nil),
		RunE: func(command *cobra.Command, args []string) error {
			h, err := o.Connect()
			if err != nil {
				return err
			}
			done, err := send(command.Context(), h, args[0], r, flags)
			if err != nil {
				return err
			}
			return o.Write(output.Printable(done) + "\n")
		},
	}
	command.Flags().Int64Var(&flags.revision, "revision", 0, "`number` of the revision that is meant: if another one is current, nothing is done")
	if r.hasAll {
		command.Flags().BoolVar(&flags.all, "all", false, "all stages")
	}
	if r.hasStage {
		command.Flags().StringVar(&flags.stage, "stage", "", "`name` of the stage")
	}
	return command
}

// send changes the annotations of an AppService. If another client changes the AppService
// meanwhile, it decides again, but only for the same revision.
func send(ctx context.Context, h hub.Client, name string, r request, flags requestFlags) (done string, err error) {
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		app, err := h.ReadApp(ctx, name)
		if err != nil {
			return err
		}
		if err := checkStaged(app); err != nil {
			return err
		}
		current := app.Status.Rollout.Revision
		if flags.revision == 0 {
			flags.revision = current
		}
		if flags.revision != current {
			return fmt.Errorf("revision %d of %s is current now, and not %d: see kubectl appsvc rollout status %s", current, name, flags.revision, name)
		}
		changed := app.DeepCopy()
		if changed.Annotations == nil {
			changed.Annotations = map[string]string{}
		}
		var refused error // the annotation is changed all the same
		done, refused = r.decide(changed, flags)
		if refused != nil && !errors.As(refused, new(withdrawnError)) {
			return refused
		}
		if isChanged, err := hub.IsDifferent(app, changed); err != nil || !isChanged {
			return errors.Join(err, refused)
		}
		patch := client.MergeFromWithOptions(app, client.MergeFromWithOptimisticLock{})
		if err := h.Patch(ctx, changed, patch, hub.PatchOptions); err != nil {
			return err
		}
		return refused
	})
	return done, err
}

// withdrawnError says that a request was removed, because the operator has refused it. It counts if it is
// made again.
type withdrawnError struct{ annotation, request string }

func (e withdrawnError) Error() string {
	return fmt.Sprintf("%s=%s was set before the status showed what it names, so it does not count. It is removed now: look at the revision, and run the command again", e.annotation, e.request)
}

// withdrawRefused removes the requests for a stage that the operator has refused, and returns an error
// that says so, or nil if there is none.
func withdrawRefused(app *v1alpha1.AppService, annotation, stage string) error {
	number := strconv.FormatInt(app.Status.Rollout.Revision, 10)
	for _, s := range app.Status.Rollout.Stages {
		isRefused := annotation == v1alpha1.AnnotationApprove && s.ApprovalRefused || annotation == v1alpha1.AnnotationPromote && s.PromotionRefused
		if !isRefused || stage != "" && s.Name != stage {
			continue
		}
		for _, request := range []string{number + "/" + s.Name, number} {
			if removeRequest(app, annotation, request) {
				return withdrawnError{annotation, request}
			}
		}
	}
	return nil
}

// removeRequest removes a request from the value of an annotation, and reports whether it was there.
func removeRequest(app *v1alpha1.AppService, annotation, request string) bool {
	var kept []string
	isFound := false
	for item := range strings.SplitSeq(app.Annotations[annotation], ",") {
		switch item = strings.TrimSpace(item); item {
		case request:
			isFound = true
		case "":
		default:
			kept = append(kept, item)
		}
	}
	if isFound {
		app.Annotations[annotation] = strings.Join(kept, ",")
	}
	return isFound
}

// checkRollingOut returns an error unless clusters are to get the current revision.
func checkRollingOut(app *v1alpha1.AppService) error {
	state := app.Status.Rollout
	if state.IsOpen() {
		return nil
	}
	return fmt.Errorf("revision %d of %s is not being rolled out (%s): see kubectl appsvc rollout status %s", state.Revision, app.Name, state.Phase, app.Name)
}

func newApprove(o *hub.Options) *cobra.Command {
	return newRequest(o, request{
		use:   "approve APP [--stage STAGE]",
		short: "Approve a stage that waits for approval",
		long: `Approve a stage of the rollout of the current revision. Without --stage, the stage that waits for
approval is approved. With --revision, nothing is approved if an edit has made another revision
since you looked. Until the stage begins, the approval is withdrawn by removing the annotation. Where config/approval is installed, you need the verb approve.`,
		example:  "  kubectl appsvc rollout approve web --stage eu --revision 7",
		hasStage: true,
		decide: func(app *v1alpha1.AppService, flags requestFlags) (string, error) {
			if err := checkRollingOut(app); err != nil {
				return "", err
			}
			stage, err := stageOf(app, flags.stage, v1alpha1.StageAwaitingApproval)
			if err != nil {
				return "", err
			}
			if stage == "" {
				return "", errors.New("no stage waits for approval: name one with --stage to approve it in advance; see kubectl appsvc rollout status " + app.Name)
			}
			if err := withdrawRefused(app, v1alpha1.AnnotationApprove, stage); err != nil {
				return "", err
			}
			number := app.Status.Rollout.Revision
			addRequest(app, v1alpha1.AnnotationApprove, fmt.Sprintf("%d/%s", number, stage))
			return fmt.Sprintf("appservice/%s: approved stage %s of revision %d (%s)", app.Name, stage, number, app.Spec.Image), nil
		},
	})
}

func newPromote(o *hub.Options) *cobra.Command {
	return newRequest(o, request{
		use:   "promote APP [--stage STAGE | --all]",
		short: "End a stage now, or all stages",
		long: `End a stage of the rollout of the current revision now: without approval, soak time, slow start
and minimum of results. Without --stage, the stage at which the rollout is. maxUnavailable and
maxFailures still apply.`,
		example: `  # The canary has soaked for long enough
  kubectl appsvc rollout promote web --stage canary`,
		hasStage: true,
		hasAll:   true,
		decide: func(app *v1alpha1.AppService, flags requestFlags) (string, error) {
			if err := checkRollingOut(app); err != nil {
				return "", err
			}
			number := strconv.FormatInt(app.Status.Rollout.Revision, 10)
			if flags.all {
				if err := withdrawRefused(app, v1alpha1.AnnotationPromote, ""); err != nil {
					return "", err
				}
				addRequest(app, v1alpha1.AnnotationPromote, number)
				return fmt.Sprintf("appservice/%s: promoted all stages of revision %s", app.Name, number), nil
			}
			stage, err := stageOf(app, flags.stage, v1alpha1.StageProgressing, v1alpha1.StageSoaking, v1alpha1.StageAwaitingApproval)
			if err != nil {
				return "", err
			}
			if stage == "" {
				return "", errors.New("no stage is in progress: name one with --stage; see kubectl appsvc rollout status " + app.Name)
			}
			if err := withdrawRefused(app, v1alpha1.AnnotationPromote, stage); err != nil {
				return "", err
			}
			addRequest(app, v1alpha1.AnnotationPromote, number+"/"+stage)
			return fmt.Sprintf("appservice/%s: promoted stage %s of revision %s", app.Name, stage, number), nil
		},
	})
}

func newPause(o *hub.Options) *cobra.Command {
	return newRequest(o, request{
		use:     "pause APP",
		short:   "Pause a rollout: no cluster gets another revision",
		long:    "Pause the rollout of the current revision, or its rollback. A later edit is not paused.",
		example: "  kubectl appsvc rollout pause web",
		decide: func(app *v1alpha1.AppService, _ requestFlags) (string, error) {
			state := app.Status.Rollout
			if !state.IsOpen() && state.Phase != v1alpha1.RolloutProgressing && state.Phase != v1alpha1.RolloutRollingBack {
				return "", fmt.Errorf("the rollout of revision %d is over (%s): there is nothing to pause", state.Revision, state.Phase)
			}
			number := strconv.FormatInt(state.Revision, 10)
			app.Annotations[v1alpha1.AnnotationPause] = number
			return fmt.Sprintf("appservice/%s: paused revision %s; continue with kubectl appsvc rollout resume %s", app.Name, number, app.Name), nil
		},
	})
}

func newResume(o *hub.Options) *cobra.Command {
	return newRequest(o, request{
		use:     "resume APP",
		short:   "Continue a paused rollout",
		long:    "Continue a rollout that kubectl appsvc rollout pause has paused.",
		example: "  kubectl appsvc rollout resume web",
		decide: func(app *v1alpha1.AppService, _ requestFlags) (string, error) {
			wasPaused := view.IsPaused(app)
			delete(app.Annotations, v1alpha1.AnnotationPause)
			switch {
			case app.Spec.Rollout.Paused:
				return "", fmt.Errorf("spec.rollout.paused of %s is true: change the spec where it is managed, or run kubectl patch appservice %s -n %s --type=merge -p '{\"spec\":{\"rollout\":{\"paused\":false}}}'", app.Name, app.Name, app.Namespace)
			case !wasPaused:
				return fmt.Sprintf("appservice/%s: is not paused", app.Name), nil
			}
			return fmt.Sprintf("appservice/%s: resumed", app.Name), nil
		},
	})
}

func newAbort(o *hub.Options) *cobra.Command {
	return newRequest(o, request{
		use:   "abort APP",
		short: "Fail the current revision: the clusters return to the stable one",
		long: `Fail the current revision, as if it had failed on too many clusters. The spec does not change. A
pause of the revision ends, so that the clusters can return.`,
		example: "  kubectl appsvc rollout abort web",
		decide: func(app *v1alpha1.AppService, _ requestFlags) (string, error) {
			state := app.Status.Rollout
			isHalted := state.Phase == v1alpha1.RolloutHalted && state.StableRevision != 0
			switch err := checkRollingOut(app); {
			case state.Phase == v1alpha1.RolloutCompleted:
				return "", fmt.Errorf("the rollout of revision %d is over: use kubectl appsvc rollout undo %s", state.Revision, app.Name)
			case err != nil && !isHalted:
				return "", err
			case app.Spec.Rollout.Paused:
				return "", fmt.Errorf("spec.rollout.paused of %s is true, so no cluster could return: set it to false first", app.Name)
			}
			number := strconv.FormatInt(state.Revision, 10)
			app.Annotations[v1alpha1.AnnotationAbort] = number
			delete(app.Annotations, v1alpha1.AnnotationPause)
			if state.StableRevision == 0 {
				return fmt.Sprintf("appservice/%s: aborted revision %s; there is no stable revision, so each cluster keeps what it runs", app.Name, number), nil
			}
			return fmt.Sprintf("appservice/%s: aborted revision %s; the clusters return to revision %d", app.Name, number, state.StableRevision), nil
		},
	})
}

func newRetry(o *hub.Options) *cobra.Command {
	return newRequest(o, request{
		use:     "retry APP",
		short:   "Try the revision that failed again, as a new revision",
		long:    "Try the template that failed again, as a new revision that goes through all stages.",
		example: "  kubectl appsvc rollout retry web",
		decide: func(app *v1alpha1.AppService, _ requestFlags) (string, error) {
			state := app.Status.Rollout
			if state.FailedRevision == 0 || state.FailedRevision != state.Revision {
				return "", fmt.Errorf("revision %d of %s has not failed: see kubectl appsvc rollout status %s", state.Revision, app.Name, app.Name)
			}
			number := strconv.FormatInt(state.FailedRevision, 10)
			if state.RetryRefused && app.Annotations[v1alpha1.AnnotationRetry] != "" {
				delete(app.Annotations, v1alpha1.AnnotationRetry)
				return "", withdrawnError{v1alpha1.AnnotationRetry, number}
			}
			app.Annotations[v1alpha1.AnnotationRetry] = number
			return fmt.Sprintf("appservice/%s: revision %s is tried again as a new revision", app.Name, number), nil
		},
	})
}

// addRequest adds a request to the value of an annotation, such as 7/eu. Requests for other revisions
// are dropped, because they have no effect any more.
func addRequest(app *v1alpha1.AppService, annotation, request string) {
	number, _, _ := strings.Cut(request, "/")
	var kept []string
	for item := range strings.SplitSeq(app.Annotations[annotation], ",") {
		item = strings.TrimSpace(item)
		if of, _, _ := strings.Cut(item, "/"); of == number && item != request {
			kept = append(kept, item)
		}
	}
	app.Annotations[annotation] = strings.Join(append(kept, request), ",")
}

// stageOf returns the stage that the flag names. Without the flag, it is the only stage in one of
// these phases, or "" if there is none.
func stageOf(app *v1alpha1.AppService, name string, phases ...v1alpha1.RolloutStagePhase) (string, error) {
	var names, candidates []string
	for _, stage := range app.Status.Rollout.Stages {
		names = append(names, stage.Name)
		if slices.Contains(phases, stage.Phase) {
			candidates = append(candidates, stage.Name)
		}
	}
	switch {
	case slices.Contains(names, name):
		return name, nil
	case name != "":
		return "", fmt.Errorf("revision %d has no stage %s: the stages are %s", app.Status.Rollout.Revision, name, strings.Join(names, ", "))
	case len(candidates) == 1:
		return candidates[0], nil
	}
	return "", nil
}
