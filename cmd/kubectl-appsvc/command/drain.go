package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/entries"
)

// drainPoll is how often drain reads the AppServices again that still run on the cluster.
const drainPoll = 2 * time.Second

func newDrain(o *hubOptions) *cobra.Command {
	var timeout time.Duration
	command := &cobra.Command{
		Use:   "drain CLUSTER",
		Short: "Move the AppServices of a cluster to other clusters",
		Long: `Set a taint on a MemberCluster that moves its AppServices to other clusters, and wait until they
have moved. A replacement is ready before anything is removed, as for every removal. The command
says what cannot move, and why. kubectl appsvc uncordon ends the drain.

The exit code is 0 if nothing runs on the cluster any more, and 3 if something still does after
the timeout.`,
		Example:           "  kubectl appsvc drain south --timeout 15m",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: o.completeMembers,
		RunE: func(command *cobra.Command, args []string) error {
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

// awaitDrained waits until no AppService has an entry for a cluster, and prints each that left it.
func (o *hubOptions) awaitDrained(ctx context.Context, h hub, cluster string, timeout time.Duration) error {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	there, err := h.entriesOn(ctx, cluster)
	if err != nil {
		return err
	}
	for len(there) > 0 {
		select {
		case <-ctx.Done():
			return endOfDrain(ctx, cluster, timeout, there)
		case <-time.After(drainPoll):
		}
		after, err := h.entriesStillOn(ctx, cluster, there)
		switch {
		case ctx.Err() != nil:
			continue
		case err != nil:
			o.note("%s; trying again", describe(err))
			continue
		}
		for _, app := range missingKeys(there, after) {
			if err := o.write(fmt.Sprintf("appservice/%s is no longer on %s\n", app, cluster)); err != nil {
				return err
			}
		}
		there = after
	}
	return o.write(fmt.Sprintf("membercluster/%s drained\n", cluster))
}

// endOfDrain returns the error of a drain that has not finished.
func endOfDrain(ctx context.Context, cluster string, timeout time.Duration, there map[client.ObjectKey]*v1alpha1.ClusterStatus) error {
	what := fmt.Sprintf("%d AppServices still run on %s; continue with the same command, or end the drain with kubectl appsvc uncordon %s\n%s",
		len(there), cluster, cluster, remaining(there))
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return exitError{ExitNegative, fmt.Sprintf("after %s, %s", timeout, what)}
	}
	return exitError{1, "interrupted: " + what}
}

// missingKeys returns the keys that are only in the first map, sorted.
func missingKeys(before, after map[client.ObjectKey]*v1alpha1.ClusterStatus) []string {
	var names []string
	for key := range before {
		if after[key] == nil {
			names = append(names, key.String())
		}
	}
	slices.Sort(names)
	return names
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

// entriesOn returns the entries for a cluster of all AppServices that have one.
func (h hub) entriesOn(ctx context.Context, cluster string) (map[client.ObjectKey]*v1alpha1.ClusterStatus, error) {
	list := &v1alpha1.AppServiceList{}
	if err := h.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list AppServices: %w", err)
	}
	there := map[client.ObjectKey]*v1alpha1.ClusterStatus{}
	for i := range list.Items {
		entry, err := h.entryOn(ctx, cluster, &list.Items[i])
		if err != nil {
			return nil, err
		}
		if entry != nil {
			there[client.ObjectKeyFromObject(&list.Items[i])] = entry
		}
	}
	return there, nil
}

// entriesStillOn returns the entries for a cluster of these AppServices.
func (h hub) entriesStillOn(ctx context.Context, cluster string, of map[client.ObjectKey]*v1alpha1.ClusterStatus) (map[client.ObjectKey]*v1alpha1.ClusterStatus, error) {
	there := map[client.ObjectKey]*v1alpha1.ClusterStatus{}
	for key := range of {
		app := &v1alpha1.AppService{}
		err := h.Get(ctx, key, app)
		if isNoSuchObject(err) {
			continue
		} else if err != nil {
			return nil, fmt.Errorf("read AppService %s: %w", key, err)
		}
		entry, err := h.entryOn(ctx, cluster, app)
		if err != nil {
			return nil, err
		}
		if entry != nil {
			there[key] = entry
		}
	}
	return there, nil
}

// entryOn returns the entry of an AppService for a cluster, or nil. An entry that is not known has
// only a reason.
func (h hub) entryOn(ctx context.Context, cluster string, app *v1alpha1.AppService) (*v1alpha1.ClusterStatus, error) {
	entry, isKnown, err := entries.Of(ctx, h, app, cluster)
	if err == nil && !isKnown {
		entry = &v1alpha1.ClusterStatus{Name: cluster, Reason: "its AppServiceSlice is missing; the operator writes it again"}
	}
	return entry, err
}
