package drain

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
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
	"github.com/fleetwright/fleetwright/controllers/entries"
	"github.com/fleetwright/fleetwright/controllers/placement"
)

const (
	// drainPoll is how long drain waits until it reads again what runs on the cluster.
	drainPoll = 2 * time.Second
	// reasonDelay is the time that the operator has to plan the drain before it is reported what
	// does not move.
	reasonDelay = 2 * drainPoll
)

// New returns the command drain.
func New(o *hub.Options) *cobra.Command {
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
		Args:              hub.Arguments(hub.Cluster),
		ValidArgsFunction: o.CompleteMember,
		RunE: func(command *cobra.Command, args []string) error {
			if err := hub.CheckTimeout(timeout); err != nil {
				return err
			}
			h, err := o.Connect()
			if err != nil {
				return err
			}
			return Drain(command.Context(), o, h, args[0], timeout)
		},
	}
	command.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "the longest `time` to wait; 0 is no limit")
	return command
}

// Drain sets the taint, and waits until no AppService has an entry for the cluster.
func Drain(ctx context.Context, o *hub.Options, h hub.Client, name string, timeout time.Duration) error {
	there, err := h.ResidentsOn(ctx, name)
	if err != nil {
		return err
	}
	taint := v1alpha1.Taint{Key: v1alpha1.TaintDrain, Effect: v1alpha1.TaintNoExecute}
	isChanged, err := h.ChangeMember(ctx, name, func(member *v1alpha1.MemberCluster) {
		member.Spec.Unschedulable = true
		if !slices.ContainsFunc(member.Spec.Taints, isDrainTaint) {
			member.Spec.Taints = append(member.Spec.Taints, taint)
		}
	})
	if err != nil {
		return err
	}
	if isChanged {
		if err := o.Write(fmt.Sprintf("membercluster/%s is being drained\n", name)); err != nil {
			return err
		}
	}
	return awaitDrained(ctx, o, h, name, timeout, there)
}

// awaitDrained waits until no AppService has an entry for a cluster. It prints each that left it
// since these were there, and why the others are still there. The operator may place an AppService
// by what it read before the taint was set, so two listings must be empty.
func awaitDrained(ctx context.Context, o *hub.Options, h hub.Client, cluster string, timeout time.Duration, before hub.Residents) error {
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
		after, err := reasonsOn(ctx, h, cluster)
		switch {
		case errors.As(err, new(hub.ExitError)):
			return err
		case ctx.Err() != nil:
			return endOfDrain(ctx.Err(), cluster, timeout, there)
		case err != nil:
			o.Note("%s; trying again", hub.Describe(err))
		case wasEmpty && len(after) == 0:
			return o.Write(fmt.Sprintf("membercluster/%s drained\n", cluster))
		default:
			for _, app := range hub.SortedKeys(there) {
				if _, stays := after[app]; stays {
					continue
				}
				if err := o.Write(fmt.Sprintf("appservice/%s is no longer on %s\n", app, cluster)); err != nil {
					return err
				}
			}
			there, wasEmpty = after, len(after) == 0
			if there.areFinal() {
				return endOfDrain(nil, cluster, timeout, there)
			}
			if time.Since(start) >= reasonDelay {
				noteReasons(o, there, printed)
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
func noteReasons(o *hub.Options, there, printed reasons) {
	for _, app := range hub.SortedKeys(there) {
		if there[app] != printed[app] {
			printed[app] = there[app]
			o.Note("appservice/%s: %s", app, there[app].text)
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
		return hub.ExitError{Code: hub.ExitNegative, Message: what}
	case errors.Is(cause, context.DeadlineExceeded):
		return hub.ExitError{Code: hub.ExitNegative, Message: fmt.Sprintf("after %s, %s", timeout, what)}
	}
	return hub.ExitError{Code: 1, Message: "interrupted: " + what}
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
	for _, app := range hub.SortedKeys(r) {
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
func reasonsOn(ctx context.Context, h hub.Client, cluster string) (reasons, error) {
	member, err := h.ReadMember(ctx, cluster)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(member.Spec.Taints, isDrainTaint) {
		return nil, hub.ExitError{Code: 1, Message: fmt.Sprintf("somebody has ended the drain of %s: it has no taint %s any more", cluster, v1alpha1.TaintDrain)}
	}
	there, err := h.ResidentsOn(ctx, cluster)
	if err != nil {
		return nil, err
	}
	why := reasons{}
	for app, of := range there {
		why[app] = reasonOf(of, member)
	}
	return why, nil
}

// reasonOf says why the AppService is still on a cluster that is drained. It decides with the code of
// the planner whether the AppService leaves.
func reasonOf(r hub.Resident, member *v1alpha1.MemberCluster) reason {
	what := r.Entry.Reason
	if r.Entry.Message != "" {
		what += ": " + r.Entry.Message
	}
	if r.Entry.Phase == "" { // the entry is not known
		return reason{text: what}
	}
	switch r.Entry.Transition.Type {
	case v1alpha1.TransitionRemovalPending, v1alpha1.TransitionRemovalNeedsApproval, v1alpha1.TransitionRemoving:
		return reason{text: what}
	}
	plan, err := placement.Decide(entries.WithEntries(r.App, []v1alpha1.ClusterStatus{*r.Entry}), []v1alpha1.MemberCluster{*member})
	decision := plan.Find(member.Name)
	switch {
	case r.App.IsDeleting():
		return reason{text: "it is being deleted, and the operator has not planned this yet"}
	case err != nil:
		return reason{text: fmt.Sprintf("stays, because it cannot be placed: %v", err), isFinal: true}
	case decision.Chosen():
		return reason{text: "stays, because its placement tolerates the taint " + v1alpha1.TaintDrain, isFinal: true}
	case r.App.Spec.Suspend:
		return reason{text: "stays, because spec.suspend is true", isFinal: true}
	case decision.Reason == v1alpha1.ReasonSecretMissing:
		return reason{text: "stays, because the kubeconfig Secret of the cluster is missing", isFinal: true}
	}
	return notPlanned
}
