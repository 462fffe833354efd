package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
)

const (
	// readTimeout is how long a cluster may take to answer one request for many.
	readTimeout = 15 * time.Second
	// readsAtOnce is how many clusters are read at a time.
	readsAtOnce = 32
)

// errPartial says that the output is not complete. What is missing was noted before.
var errPartial = errors.New("the output is not complete, as the lines above say")

// fleetFlags select the clusters of an AppService, and the contexts of the caller that lead there.
type fleetFlags struct {
	clusters         []string
	memberKubeconfig string
	memberContexts   map[string]string
}

func (f *fleetFlags) add(command *cobra.Command) {
	command.Flags().StringSliceVar(&f.clusters, "cluster", nil, "`names` of clusters; without it, all of the AppService")
	command.Flags().StringVar(&f.memberKubeconfig, "member-kubeconfig", "", "`file` with the contexts of clusters, if they are not in your kubeconfig")
	command.Flags().StringToStringVar(&f.memberContexts, "member-context", nil, "`cluster=context`, for a cluster whose identity you may not read (get of the namespace kube-system)")
	for _, name := range []string{"cluster", "member-context"} {
		flag := command.Flags().Lookup(name)
		flag.Value = hub.Clusters.Names(flag.Value)
	}
}

// appCluster is a cluster that runs an AppService, with the permissions of the caller.
type appCluster struct {
	hub.ContextCluster
	// member is the name of the MemberCluster.
	member string
}

// appClusters returns the clusters that have an entry of an AppService and to which a context of the
// caller leads, sorted by name. It prints a note for the others, and then isPartial is true.
func appClusters(ctx context.Context, o *hub.Options, h hub.Client, app *v1alpha1.AppService, flags fleetFlags) (found []appCluster, isPartial bool, err error) {
	for _, name := range flags.clusters {
		if app.Status.Cluster(name) == nil {
			return nil, false, fmt.Errorf("%s does not run on %s: see kubectl appsvc why %s %s", app.Name, name, app.Name, name)
		}
	}
	all, err := o.Contexts(flags.memberKubeconfig)
	if err != nil {
		return nil, false, err
	}
	var searched []string // the clusters without --member-context
	for i := range app.Status.Clusters {
		name := app.Status.Clusters[i].Name
		if len(flags.clusters) > 0 && !slices.Contains(flags.clusters, name) {
			continue
		}
		given := flags.memberContexts[name]
		if given == "" {
			searched = append(searched, name)
			continue
		}
		cluster, err := all.Cluster(given)
		if err != nil {
			return nil, false, err
		}
		found = append(found, appCluster{cluster, name})
	}
	matching, missing, err := searchContexts(ctx, o, h, all, searched)
	if err != nil {
		return nil, false, err
	}
	if len(app.Status.Clusters) == 0 {
		return nil, false, fmt.Errorf("%s runs on no cluster: see kubectl appsvc why %s", app.Name, app.Name)
	}
	found = append(found, matching...)
	if len(found) == 0 {
		return nil, true, errors.New("no cluster can be read: add a context to your kubeconfig, or use --member-context CLUSTER=CONTEXT or --member-kubeconfig")
	}
	slices.SortFunc(found, func(a, b appCluster) int { return strings.Compare(a.member, b.member) })
	return found, len(missing) > 0, nil
}

// searchContexts returns the clusters of these names to which a context leads, and the names of the
// others, about which it prints a note. The MemberClusters have the identities of the clusters, so the
// hub and the contexts are asked only if there is a name.
func searchContexts(ctx context.Context, o *hub.Options, h hub.Client, all hub.Contexts, names []string) (found []appCluster, missing []string, err error) {
	if len(names) == 0 {
		return nil, nil, nil
	}
	members, isPermitted, err := h.ListPermittedMembers(ctx)
	if err != nil {
		return nil, nil, err
	}
	if !isPermitted {
		o.Note("the identities of clusters are in the MemberClusters, which you may not list, so no context is searched for: %s", strings.Join(names, ", "))
		o.Note("  name the contexts, as in --member-context %s=CONTEXT, or %s", names[0], hub.MembersRole)
		return nil, names, nil
	}
	ids := map[string]types.UID{}
	for i := range members {
		ids[members[i].Name] = members[i].Status.ClusterID
	}
	matches := all.Match(ctx)
	for _, name := range names {
		if cluster, has := matches.ByID[ids[name]]; has && ids[name] != "" {
			found = append(found, appCluster{cluster, name})
		} else {
			missing = append(missing, name)
		}
	}
	noteMissing(o, all, matches, missing)
	return found, missing, nil
}

// noteMissing says which clusters are left out, and why contexts could not be asked for their cluster.
func noteMissing(o *hub.Options, all hub.Contexts, matches hub.ContextMatches, missing []string) {
	if len(missing) == 0 {
		return
	}
	o.Note("no context of %s is known to lead to: %s", all.Source, strings.Join(missing, ", "))
	for _, name := range slices.Sorted(maps.Keys(matches.Errs)) {
		o.Note("  %s", hub.ExplainContext(name, matches.Errs[name]))
	}
}

// clusterErrors are the errors of clusters that could not be read, by the name of the MemberCluster.
type clusterErrors map[string]string

// onEach calls read for each cluster, for readsAtOnce at a time, and returns the results and the
// errors.
func onEach[T any](ctx context.Context, clusters []appCluster, read func(context.Context, appCluster) (T, error)) ([]T, clusterErrors) {
	results, errs := make([]T, len(clusters)), make([]error, len(clusters))
	slots := make(chan struct{}, readsAtOnce)
	var group sync.WaitGroup
	for i, cluster := range clusters {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			results[i], errs[i] = hub.Within(ctx, readTimeout, func(ctx context.Context) (T, error) { return read(ctx, cluster) })
		})
	}
	group.Wait()
	failed := clusterErrors{}
	for i, err := range errs {
		if err != nil {
			failed[clusters[i].member] = explainRead(clusters[i].Name, err)
		}
	}
	return results, failed
}

// explainRead returns the message of an error of a cluster that could not be read. Unlike a command of an
// administrator, one that reads an AppService needs only a role in its namespace.
func explainRead(contextName string, err error) string {
	if apierrors.IsForbidden(err) {
		return fmt.Sprintf("the cluster of context %s: %v: ask an administrator of this cluster for the ClusterRole view in this namespace", contextName, err)
	}
	return hub.ExplainContext(contextName, err)
}

// noteErrors prints a line for each cluster that could not be read, unless it was printed before.
func noteErrors(o *hub.Options, errs, before clusterErrors) {
	for _, member := range slices.Sorted(maps.Keys(errs)) {
		if errs[member] != before[member] {
			o.Note("%s: %s", member, errs[member])
		}
	}
}

// listPods returns the pods of an AppService on a cluster. An adopted Deployment keeps its own
// selector, so the selector is the Deployment's.
func (c appCluster) listPods(ctx context.Context, app *v1alpha1.AppService) ([]corev1.Pod, error) {
	deployment := &appsv1.Deployment{}
	if err := c.Get(ctx, client.ObjectKeyFromObject(app), deployment); err != nil {
		return nil, err
	}
	selector, err := metav1.LabelSelectorAsSelector(deployment.Spec.Selector)
	if err != nil {
		return nil, err
	}
	pods := &corev1.PodList{}
	err = c.List(ctx, pods, client.InNamespace(app.Namespace), client.MatchingLabelsSelector{Selector: selector})
	return pods.Items, err
}
