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
	"github.com/fleetwright/fleetwright/controllers/appslice"
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

The exit code is 0 if nothing runs on the cluster any more, and 3 if something still does after
the timeout.`,
		Example:           "  kubectl appsvc drain south --timeout 15m",
		Args:              exactlyOne("the name of the cluster", "CLUSTER"),
		ValidArgsFunction: o.completeMembers,
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
	return o.awaitDrained(ctx, h, name, timeout)
}

// awaitDrained waits until no AppService has an entry for a cluster. It prints each that left it,
// and why the others are still there. The operator may place an AppService by what it read before
// the taint was set, so two listings must be empty.
func (o *hubOptions) awaitDrained(ctx context.Context, h hub, cluster string, timeout time.Duration) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	var there map[client.ObjectKey]*v1alpha1.ClusterStatus
	reasons := map[client.ObjectKey]string{}
	for start := time.Now(); ; {
		began := time.Now()
		after, err := h.entriesOn(ctx, cluster)
		switch {
		case err != nil && there == nil:
			return err
		case ctx.Err() != nil:
			return endOfDrain(ctx, cluster, timeout, there)
		case err != nil:
			o.note("%s; trying again", describe(err))
		case there != nil && len(there) == 0 && len(after) == 0:
			return o.write(fmt.Sprintf("membercluster/%s drained\n", cluster))
		default:
			for _, app := range sortedKeys(there) {
				if after[app] != nil {
					continue
				}
				if err := o.write(fmt.Sprintf("appservice/%s is no longer on %s\n", app, cluster)); err != nil {
					return err
				}
			}
			there = after
			if time.Since(start) >= reasonDelay {
				o.noteReasons(there, reasons)
			}
		}
		select {
		case <-ctx.Done():
			return endOfDrain(ctx, cluster, timeout, there)
		case <-time.After(max(drainPoll, 10*time.Since(began))): // a large hub is not listed all the time
		}
	}
}

// noteReasons prints why each AppService is still on the cluster, unless that was printed before.
func (o *hubOptions) noteReasons(there map[client.ObjectKey]*v1alpha1.ClusterStatus, printed map[client.ObjectKey]string) {
	for _, app := range sortedKeys(there) {
		reason := remaining(map[client.ObjectKey]*v1alpha1.ClusterStatus{app: there[app]})
		if reason != printed[app] {
			printed[app] = reason
			o.note("appservice/%s", strings.TrimLeft(reason, " "))
		}
	}
}

// endOfDrain returns the error of a drain that has not finished.
func endOfDrain(ctx context.Context, cluster string, timeout time.Duration, there map[client.ObjectKey]*v1alpha1.ClusterStatus) error {
	what := fmt.Sprintf("%d AppServices still run on %s; continue with the same command, or end the drain with kubectl appsvc uncordon %s\n%s",
		len(there), cluster, cluster, remaining(there))
	if len(there) == 0 {
		what = fmt.Sprintf("no AppService is on %s, but this was not checked a second time; run the same command again", cluster)
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return exitError{ExitNegative, fmt.Sprintf("after %s, %s", timeout, what)}
	}
	return exitError{1, "interrupted: " + what}
}

// sortedKeys returns the AppServices by namespace and name.
func sortedKeys(there map[client.ObjectKey]*v1alpha1.ClusterStatus) []client.ObjectKey {
	return slices.SortedFunc(maps.Keys(there), func(a, b client.ObjectKey) int { return cmp.Compare(a.String(), b.String()) })
}

// remaining says why each AppService is still on the cluster.
func remaining(there map[client.ObjectKey]*v1alpha1.ClusterStatus) string {
	var lines []string
	for key, entry := range there {
		line := "  " + key.String() + ": "
		switch {
		case entry.Transition.Type == "" && entry.Phase != "":
			line += "its placement tolerates the taint " + v1alpha1.TaintDrain + ", or the operator has not planned this yet"
		case entry.Message != "":
			line += entry.Reason + ": " + entry.Message
		default:
			line += entry.Reason
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// entriesOn returns the entries for a cluster of all AppServices that have one. An entry that is not
// known has only a reason.
func (h hub) entriesOn(ctx context.Context, cluster string) (map[client.ObjectKey]*v1alpha1.ClusterStatus, error) {
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
	there := map[client.ObjectKey]*v1alpha1.ClusterStatus{}
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
			there[client.ObjectKeyFromObject(app)] = entry
		}
	}
	return there, nil
}
