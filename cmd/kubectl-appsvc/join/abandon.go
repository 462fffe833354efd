package join

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
)

const (
	// abandonTimeout is how long the operator may take until it drops the entries of a cluster.
	abandonTimeout = 30 * time.Second
	// abandonPoll is the shortest pause between two listings of the AppServices.
	abandonPoll = 200 * time.Millisecond
	// maxListed is how many AppServices are listed.
	maxListed = 10
)

// abandonCommand returns the command that drops the entries of the cluster.
func (d *departure) abandonCommand() string {
	return fmt.Sprintf("kubectl appsvc unjoin %s --retain --abandon", d.name)
}

// abandonOrPrint drops the entries of the cluster, which has left the fleet, from the status of the
// AppServices, or prints how to do that.
func (d *departure) abandonOrPrint(ctx context.Context) error {
	if !d.retain {
		return nil
	}
	there, err := d.Client.ResidentsOn(ctx, d.name)
	if err != nil || len(there) == 0 {
		return err
	}
	if d.abandon {
		return d.abandonEntries(ctx, there)
	}
	text := fmt.Sprintf("These AppServices keep an entry of %s (Detached), in case it joins again:\n%s", d.name, listApps(there))
	return d.Write(text + "To drop these entries:\n  " + d.abandonCommand() + "\n")
}

// listApps returns a line for each of the first AppServices, and one for the others.
func listApps(there hub.Residents) string {
	var text strings.Builder
	keys := hub.SortedKeys(there)
	for _, app := range keys[:min(len(keys), maxListed)] {
		fmt.Fprintf(&text, "  %s\n", app)
	}
	if len(keys) > maxListed {
		fmt.Fprintf(&text, "  and %d more\n", len(keys)-maxListed)
	}
	return text.String()
}

// continueAbandonment drops the entries of a cluster that has left the fleet before.
func (d *departure) continueAbandonment(ctx context.Context, there hub.Residents) error {
	switch {
	case len(there) == 0:
		return fmt.Errorf("the hub has no cluster %s: see kubectl appsvc clusters", d.name)
	case !d.abandon:
		return fmt.Errorf("%s has left the fleet already, and %d AppServices keep an entry of it; to drop these: %s", d.name, len(there), d.abandonCommand())
	case d.revoke:
		return fmt.Errorf("%s has left the fleet already, so the hub does not know any more which cluster it is, and --revoke is not possible: use --abandon alone", d.name)
	}
	d.Say("%s has left the fleet. The status of these AppServices has an entry of it:\n%s", d.name, strings.TrimSuffix(listApps(there), "\n"))
	if err := d.confirm(ctx, "Drop these entries?"); err != nil {
		return err
	}
	return d.abandonEntries(ctx, there)
}

// abandonEntries sets the annotation until the operator has dropped the entries, and removes it then.
// If the annotation stayed, a later removal from a cluster of the same name would not wait for it.
func (d *departure) abandonEntries(ctx context.Context, there hub.Residents) error {
	failures, annotated := map[client.ObjectKey]string{}, hub.Residents{}
	for _, key := range hub.SortedKeys(there) {
		app := there[key].App
		if app.IsSuspended() || app.Status.IsHubBehind() {
			failures[key] = "it is suspended, or the hub is behind: its entries stay until that ends"
			continue
		}
		annotated[key] = there[key] // the request may take effect although it fails
		if err := d.changeAbandoned(ctx, key, true); err != nil {
			failures[key] = hub.Describe(err)
		}
	}
	d.awaitDropped(ctx, annotated, failures)
	cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonTimeout)
	defer cancel()
	for _, key := range hub.SortedKeys(annotated) {
		if err := d.changeAbandoned(cleaning, key, false); err != nil && failures[key] == "" {
			failures[key] = fmt.Sprintf("remove its annotation %s: %s", v1alpha1.AnnotationAbandon, hub.Describe(err))
		}
	}
	return d.failAbandonment(ctx, failures)
}

// awaitDropped waits until AppServices have no entry of the cluster, and prints each. It adds those
// that keep it to failures.
func (d *departure) awaitDropped(ctx context.Context, annotated hub.Residents, failures map[client.ObjectKey]string) {
	waiting, cancel := context.WithTimeout(ctx, abandonTimeout)
	defer cancel()
	left := map[client.ObjectKey]bool{}
	for key := range annotated {
		left[key] = failures[key] == ""
	}
	for isOpen := true; isOpen; {
		began := time.Now()
		isOpen = false
		there, err := d.Client.ResidentsOn(waiting, d.name)
		for _, key := range hub.SortedKeys(left) {
			_, stays := there[key]
			switch {
			case !left[key]:
			case err == nil && !stays:
				left[key] = false
				d.Say("appservice/%s has no entry of %s any more", key, d.name)
			default:
				isOpen = true
			}
		}
		if !isOpen {
			return
		}
		select {
		case <-waiting.Done():
			for key := range left {
				if left[key] {
					failures[key] = fmt.Sprintf("the operator has not dropped the entry within %s: it may not run", abandonTimeout)
				}
			}
			return
		case <-time.After(max(abandonPoll, 10*time.Since(began))): // a large hub is not listed all the time
		}
	}
}

// changeAbandoned adds the cluster to the annotation of an AppService, or removes it.
func (d *departure) changeAbandoned(ctx context.Context, key client.ObjectKey, isAbandoned bool) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		app := &v1alpha1.AppService{}
		if err := d.Client.Get(ctx, key, app); err != nil {
			return client.IgnoreNotFound(err)
		}
		changed := app.DeepCopy()
		names := slices.DeleteFunc(strings.Split(app.Annotations[v1alpha1.AnnotationAbandon], ","), func(name string) bool {
			return strings.TrimSpace(name) == "" || strings.TrimSpace(name) == d.name
		})
		if isAbandoned {
			names = append(names, d.name)
		}
		if delete(changed.Annotations, v1alpha1.AnnotationAbandon); len(names) > 0 {
			if changed.Annotations == nil {
				changed.Annotations = map[string]string{}
			}
			changed.Annotations[v1alpha1.AnnotationAbandon] = strings.Join(names, ",")
		}
		if isDifferent, err := hub.IsDifferent(app, changed); err != nil || !isDifferent {
			return err
		}
		return d.Client.Patch(ctx, changed, client.MergeFromWithOptions(app, client.MergeFromWithOptimisticLock{}), hub.PatchOptions)
	})
}

// failAbandonment returns the error of the AppServices that keep an entry of the cluster, if any does.
func (d *departure) failAbandonment(ctx context.Context, failures map[client.ObjectKey]string) error {
	if len(failures) == 0 {
		return nil
	}
	var text strings.Builder
	for i, key := range hub.SortedKeys(failures) {
		if i == maxListed {
			fmt.Fprintf(&text, "\n  and %d more", len(failures)-maxListed)
			break
		}
		fmt.Fprintf(&text, "\n  %s: %s", key, failures[key])
	}
	code, message := hub.ExitNegative, fmt.Sprintf("%d AppServices may still have an entry of %s; to continue: %s%s", len(failures), d.name, d.abandonCommand(), text.String())
	if ctx.Err() != nil {
		code, message = 1, "interrupted: "+message
	}
	return hub.ExitError{Code: code, Message: message}
}
