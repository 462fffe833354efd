package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/entries"
	"github.com/fleetwright/fleetwright/controllers/entries/appslice"
	"github.com/fleetwright/fleetwright/controllers/placement"
)

const (
	// drainPoll is how long drain waits until it reads again what runs on the cluster.
	drainPoll = 2 * time.Second
	// reasonDelay is the time that the operator has to plan the drain before it is reported what
	// does not move.
	reasonDelay = 2 * drainPoll
)

func newDrain(o *hubOptions) *cobra.Command {
	var timeout time.Duration
	command := &cobra.Command{
		Use:   "drain CLUSTER",
		Short: "Move the AppServices of a cluster to other clusters",
		Long: `Set a taint on a MemberCluster that moves its AppServices to other clusters, and wait until they
have moved. A replacement is ready before anything is removed, as for every removal. The command
says after a few seconds what has not moved, and why. kubectl appsvc uncordon ends the drain.

An AppService whose placement tolerates the taint stays. The command does not wait for it.

The exit code is 0 if nothing runs on the cluster any more, and 3 if something still does when the
wait ends.`,
		Example:           "  kubectl appsvc drain south --timeout 15m",
		Args:              exactlyOne("the name of the cluster", "CLUSTER"),
		ValidArgsFunction: o.completeMember,
		RunE: func(command *cobra.Command, args []string) error {
			if err := checkTimeout(timeout); err != nil {
				return err
			}
			h, err := o.connect()
			if err != nil {
				return err
			}
			return o.drain(command.Context(), h, args[0], timeout)
		},
	}
	command.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "the longest `time` to wait; 0 is no limit")
	return command
}

// checkTimeout returns an error if a timeout is negative.
func checkTimeout(timeout time.Duration) error {
	if timeout < 0 {
		return fmt.Errorf("--timeout is %s, and must not be negative; 0 is no limit", timeout)
	}
	return nil
}

// drain sets the taint, and waits until no AppService has an entry for the cluster.
func (o *hubOptions) drain(ctx context.Context, h hub, name string, timeout time.Duration) error {
	there, err := h.residentsOn(ctx, name)
	if err != nil {
		return err
	}
	taint := v1alpha1.Taint{Key: v1alpha1.TaintDrain, Effect: v1alpha1.TaintNoExecute}
	isChanged, err := h.changeMember(ctx, name, func(member *v1alpha1.MemberCluster) {
		member.Spec.Unschedulable = true
		if !slices.ContainsFunc(member.Spec.Taints, isDrainTaint) {
			member.Spec.Taints = append(member.Spec.Taints, taint)
		}
	})
	if err != nil {
		return err
	}
	if isChanged {
		if err := o.write(fmt.Sprintf("membercluster/%s is being drained\n", name)); err != nil {
			return err
		}
	}
	return o.awaitDrained(ctx, h, name, timeout, there)
}

// awaitDrained waits until no AppService has an entry for a cluster. It prints each that left it
// since these were there, and why the others are still there. The operator may place an AppService
// by what it read before the taint was set, so two listings must be empty.
func (o *hubOptions) awaitDrained(ctx context.Context, h hub, cluster string, timeout time.Duration, before residents) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	there, printed, wasEmpty := reasons{}, reasons{}, false
	for app := range before {
		there[app] = notPlanned
	}
	for start := time.Now(); ; {
		began := time.Now()
		after, err := h.reasonsOn(ctx, cluster)
		switch {
		case errors.As(err, new(exitError)):
			return err
		case ctx.Err() != nil:
			return endOfDrain(ctx.Err(), cluster, timeout, there)
		case err != nil:
			o.note("%s; trying again", describe(err))
		case wasEmpty && len(after) == 0:
			return o.write(fmt.Sprintf("membercluster/%s drained\n", cluster))
		default:
			for _, app := range sortedKeys(there) {
				if _, stays := after[app]; stays {
					continue
				}
				if err := o.write(fmt.Sprintf("appservice/%s is no longer on %s\n", app, cluster)); err != nil {
					return err
				}
			}
			there, wasEmpty = after, len(after) == 0
			if there.areFinal() {
				return endOfDrain(nil, cluster, timeout, there)
			}
			if time.Since(start) >= reasonDelay {
				o.noteReasons(there, printed)
			}
		}
		select {
		case <-ctx.Done():
			return endOfDrain(ctx.Err(), cluster, timeout, there)
		case <-time.After(max(drainPoll, 10*time.Since(began))): // a large hub is not listed all the time
		}
	}
}

// noteReasons prints why each AppService is still on the cluster, unless that was printed before.
func (o *hubOptions) noteReasons(there, printed reasons) {
	for _, app := range sortedKeys(there) {
		if there[app] != printed[app] {
			printed[app] = there[app]
			o.note("appservice/%s: %s", app, there[app].text)
		}
	}
}

// endOfDrain returns the error of a drain that has not moved everything. cause is why the wait ended;
// it is nil if waiting any longer does not help.
func endOfDrain(cause error, cluster string, timeout time.Duration, there reasons) error {
	what := fmt.Sprintf("%d AppServices still run on %s; continue with the same command, or end the drain with kubectl appsvc uncordon %s\n%s",
		len(there), cluster, cluster, there)
	if len(there) == 0 {
		what = fmt.Sprintf("no AppService is on %s, but this was not checked a second time; run the same command again", cluster)
	}
	switch {
	case cause == nil:
		return exitError{ExitNegative, what}
	case errors.Is(cause, context.DeadlineExceeded):
		return exitError{ExitNegative, fmt.Sprintf("after %s, %s", timeout, what)}
	}
	return exitError{1, "interrupted: " + what}
}

// reasons says why AppServices are still on a cluster that is drained.
type reasons map[client.ObjectKey]reason

type reason struct {
	text string
	// isFinal is set if the AppService will not leave before somebody edits it.
	isFinal bool
}

// notPlanned says that the operator has not decided yet whether the AppService leaves.
var notPlanned = reason{text: "the operator has not planned this yet"}

// String returns a line for each AppService, sorted.
func (r reasons) String() string {
	var lines []string
	for _, app := range sortedKeys(r) {
		lines = append(lines, "  "+app.String()+": "+r[app].text)
	}
	return strings.Join(lines, "\n")
}

// areFinal reports whether there are AppServices, and none of them will leave before somebody edits it.
func (r reasons) areFinal() bool {
	for _, of := range r {
		if !of.isFinal {
			return false
		}
	}
	return len(r) > 0
}

// reasonsOn says why each AppService that has an entry for a cluster is still there. It returns an
// error if the cluster is not being drained any more.
func (h hub) reasonsOn(ctx context.Context, cluster string) (reasons, error) {
	member, err := h.readMember(ctx, cluster)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(member.Spec.Taints, isDrainTaint) {
		return nil, exitError{1, fmt.Sprintf("somebody has ended the drain of %s: it has no taint %s any more", cluster, v1alpha1.TaintDrain)}
	}
	there, err := h.residentsOn(ctx, cluster)
	if err != nil {
		return nil, err
	}
	why := reasons{}
	for app, of := range there {
		why[app] = of.reason(member)
	}
	return why, nil
}

// residents are the AppServices that have an entry for a cluster.
type residents map[client.ObjectKey]resident

type resident struct {
	app *v1alpha1.AppService
	// entry has only a reason if it is not known.
	entry *v1alpha1.ClusterStatus
}

// reason says why the AppService is still on a cluster that is drained. It decides with the code of
// the planner whether the AppService leaves.
func (r resident) reason(member *v1alpha1.MemberCluster) reason {
	what := r.entry.Reason
	if r.entry.Message != "" {
		what += ": " + r.entry.Message
	}
	if r.entry.Phase == "" { // the entry is not known
		return reason{text: what}
	}
	switch r.entry.Transition.Type {
	case v1alpha1.TransitionRemovalPending, v1alpha1.TransitionRemovalNeedsApproval, v1alpha1.TransitionRemoving:
		return reason{text: what}
	}
	plan, err := placement.Decide(entries.WithEntries(r.app, []v1alpha1.ClusterStatus{*r.entry}), []v1alpha1.MemberCluster{*member})
	decision := plan.Find(member.Name)
	switch {
	case !r.app.DeletionTimestamp.IsZero():
		return reason{text: "it is being deleted, and the operator has not planned this yet"}
	case err != nil:
		return reason{text: fmt.Sprintf("stays, because it cannot be placed: %v", err), isFinal: true}
	case decision.Chosen():
		return reason{text: "stays, because its placement tolerates the taint " + v1alpha1.TaintDrain, isFinal: true}
	case r.app.Spec.Suspend:
		return reason{text: "stays, because spec.suspend is true", isFinal: true}
	case decision.Reason == v1alpha1.ReasonSecretMissing:
		return reason{text: "stays, because the kubeconfig Secret of the cluster is missing", isFinal: true}
	}
	return notPlanned
}

// residentsOn returns all AppServices that have an entry for a cluster.
func (h hub) residentsOn(ctx context.Context, cluster string) (residents, error) {
	list := &v1alpha1.AppServiceList{}
	if err := h.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list AppServices: %w", err)
	}
	slot := appslice.SlotOf(cluster)
	var stored map[sliceKey]*v1alpha1.AppServiceSlice
	if slices.ContainsFunc(list.Items, func(app v1alpha1.AppService) bool { return app.Status.HasSlices() }) {
		var err error
		if stored, err = h.listSlices(ctx, client.MatchingLabels{v1alpha1.LabelSlot: strconv.Itoa(int(slot))}); err != nil {
			return nil, fmt.Errorf("list AppServiceSlices: %w", err)
		}
	}
	there := residents{}
	for i := range list.Items {
		app := &list.Items[i]
		entry := app.Status.Cluster(cluster)
		if app.Status.HasSlices() {
			entry = &v1alpha1.ClusterStatus{Name: cluster, Reason: "its AppServiceSlice is missing; the operator writes it again"}
			if slice := stored[keyOfSlice(app, slot)]; slice != nil {
				entry = slice.Cluster(cluster)
			}
		}
		if entry != nil {
			there[client.ObjectKeyFromObject(app)] = resident{app, entry}
		}
	}
	return there, nil
}

// sortedKeys returns AppServices by namespace and name.
func sortedKeys[V any](of map[client.ObjectKey]V) []client.ObjectKey {
	return slices.SortedFunc(maps.Keys(of), func(a, b client.ObjectKey) int { return cmp.Compare(a.String(), b.String()) })
}
