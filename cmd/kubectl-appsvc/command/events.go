package command

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/output"
)

func newEvents(o *hub.Options) *cobra.Command {
	var flags fleetFlags
	var isWarnings bool
	command := &cobra.Command{
		Use:   "events APP",
		Short: "List the events of an AppService on the hub and on its clusters",
		Long: `List the events of an AppService: those of the AppService on the hub, and those of its Deployment,
pods and other objects on each cluster. The latest is the last one.

The clusters are read with your own contexts, which are found by the identity of the cluster. If a
cluster cannot be read, the command says so, and its exit code is 1.`,
		Example: `  kubectl appsvc events web --warnings
  kubectl appsvc events web --cluster north`,
		Args:              hub.Arguments(hub.App),
		ValidArgsFunction: o.CompleteApp(nil),
		RunE: func(command *cobra.Command, args []string) error {
			h, err := o.Connect()
			if err != nil {
				return err
			}
			app, err := h.ReadEntries(command.Context(), args[0])
			if err != nil {
				return err
			}
			clusters, isPartial, err := appClusters(command.Context(), o, h, app, flags)
			if err != nil && !isPartial {
				return err
			}
			events, err := appEvents(command.Context(), h, app)
			if apierrors.IsForbidden(err) {
				o.Note("(hub): %s", hub.Describe(err))
				isPartial, err = true, nil
			}
			if err != nil {
				return err
			}
			onMembers, errs := onEach(command.Context(), clusters, func(ctx context.Context, c appCluster) ([]clusterEvent, error) {
				return c.listEvents(ctx, app)
			})
			noteErrors(o, errs, nil)
			isPartial = isPartial || len(errs) > 0
			if err := printEvents(o, slices.Concat(events, slices.Concat(onMembers...)), isWarnings, isPartial); err != nil {
				return err
			}
			if isPartial {
				return errPartial
			}
			return nil
		},
	}
	flags.add(command)
	command.Flags().BoolVar(&isWarnings, "warnings", false, "list only warnings")
	return command
}

// clusterEvent is an event of a cluster.
type clusterEvent struct {
	corev1.Event
	cluster string
}

// time returns when the event occurred last.
func (e *clusterEvent) time() time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.CreationTimestamp.Time
}

// appEvents returns the events of an AppService on the hub.
func appEvents(ctx context.Context, h hub.Client, app *v1alpha1.AppService) ([]clusterEvent, error) {
	list := &corev1.EventList{}
	if err := h.List(ctx, list, client.InNamespace(app.Namespace), client.MatchingFields{"involvedObject.name": app.Name, "involvedObject.kind": "AppService"}); err != nil {
		return nil, fmt.Errorf("list the events of AppService %s: %w", app.Name, err)
	}
	var events []clusterEvent
	for _, event := range list.Items {
		if event.InvolvedObject.UID == app.UID {
			events = append(events, clusterEvent{event, "(hub)"})
		}
	}
	return events, nil
}

// listEvents returns the events of the objects of an AppService on a cluster.
func (c appCluster) listEvents(ctx context.Context, app *v1alpha1.AppService) ([]clusterEvent, error) {
	list := &corev1.EventList{}
	if err := c.List(ctx, list, client.InNamespace(app.Namespace)); err != nil {
		return nil, err
	}
	var events []clusterEvent
	for _, event := range list.Items {
		if isOfApp(app.Name, event.InvolvedObject) {
			events = append(events, clusterEvent{event, c.member})
		}
	}
	return events, nil
}

// A Deployment names its ReplicaSets DEPLOYMENT-HASH, and a ReplicaSet its pods REPLICASET-RANDOM. HASH
// and RANDOM use the letters of k8s.io/apimachinery/pkg/util/rand. The API server cuts what is before
// RANDOM at maxGenerated characters.
const (
	suffixLetters = "[bcdfghjklmnpqrstvwxz2456789]"
	maxGenerated  = 58
	randomLength  = 5
)

var (
	replicaSetSuffix = regexp.MustCompile(`^-` + suffixLetters + `{5,10}$`)
	podHash          = regexp.MustCompile(`^` + suffixLetters + `{5,10}-$`)
	cutPodHash       = regexp.MustCompile(`^` + suffixLetters + `{0,10}-?$`)
	podRandom        = regexp.MustCompile(`^` + suffixLetters + `{5}$`)
)

// isOfApp reports whether an object of a member is one of an AppService, or of its Deployment. Pods
// may be gone already, so only their names can say it.
func isOfApp(app string, object corev1.ObjectReference) bool {
	switch object.Kind {
	case "Deployment", "Service", "HorizontalPodAutoscaler", "PodDisruptionBudget":
		return object.Name == app
	case "ReplicaSet":
		suffix, isSuffixed := strings.CutPrefix(object.Name, app)
		return isSuffixed && replicaSetSuffix.MatchString(suffix)
	case "Pod":
		return isPodOf(app, object.Name)
	}
	return false
}

// isPodOf reports whether a pod has a name that a ReplicaSet of a Deployment gives its pods. If the name
// of the Deployment itself is cut, pods of another one with the same beginning have such names too.
func isPodOf(deployment, pod string) bool {
	end := max(0, len(pod)-randomLength)
	generated, random := pod[:end], pod[end:]
	if !podRandom.MatchString(random) {
		return false
	}
	owner := deployment + "-"
	if len(generated) < maxGenerated {
		hash, isOwned := strings.CutPrefix(generated, owner)
		return isOwned && podHash.MatchString(hash)
	}
	if len(owner) > maxGenerated {
		return generated == owner[:maxGenerated]
	}
	hash, isOwned := strings.CutPrefix(generated, owner)
	return isOwned && cutPodHash.MatchString(hash)
}

// printEvents prints events. isPartial is set if some could not be read, which was noted before.
func printEvents(o *hub.Options, events []clusterEvent, isWarnings, isPartial bool) error {
	if isWarnings {
		events = slices.DeleteFunc(events, func(e clusterEvent) bool { return e.Type != corev1.EventTypeWarning })
	}
	if len(events) == 0 && isPartial {
		return nil
	}
	if len(events) == 0 {
		o.Note("No events found. The API server deletes events after an hour.")
		return nil
	}
	slices.SortStableFunc(events, func(a, b clusterEvent) int {
		return cmp.Or(a.time().Compare(b.time()), strings.Compare(a.cluster, b.cluster))
	})
	var rows [][]string
	for i := range events {
		e := &events[i]
		count := max(e.Count, 1)
		if e.Series != nil {
			count = e.Series.Count
		}
		message := strings.TrimSpace(e.Message)
		if count > 1 {
			message = fmt.Sprintf("(%d times) %s", count, message)
		}
		rows = append(rows, []string{output.Age(e.time()), e.cluster, e.Type, e.Reason, e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name, message})
	}
	return output.PrintTable(o.Out, false, []output.Column{{Name: "Last Seen"}, {Name: "Cluster"}, {Name: "Type"}, {Name: "Reason"}, {Name: "Object"}, {Name: "Message"}}, rows)
}
