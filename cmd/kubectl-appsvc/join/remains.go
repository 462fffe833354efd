package join

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
	"github.com/fleetwright/fleetwright/config/member"
)

// unknownContext stands for the context of a cluster to which no context is known to lead.
const unknownContext = "CONTEXT"

// printRemains prints what is left on the cluster, and how to remove it. The commands delete the
// permissions for ConfigMaps and Secrets and the policy too, whether or not they are there.
func (d *departure) printRemains(ctx context.Context) error {
	id := d.clusterID()
	text := "The member still has the permissions of Fleetwright. To remove them:\n"
	contextName, namespaces := d.findContext(ctx, id)
	hubID, err := hub.ReadClusterID(ctx, d.Client)
	if err == nil && hubID == id {
		return d.printDeletions(text, contextName, namespaces)
	}
	if err != nil || id == "" {
		text += "  # Not if it is the hub itself: namespace " + member.Namespace + " has the operator.\n"
	}
	flags := fmt.Sprintf("--%s --%s", FlagConfiguration, FlagRestrict)
	switch {
	case contextName == unknownContext:
		text += "  # If it permits some namespaces only, add --namespaces with their names.\n"
	case len(namespaces) > 0:
		flags += " \\\n    --namespaces " + strings.Join(namespaces, ",")
	}
	return d.Write(text + fmt.Sprintf("  kubectl appsvc join %s --print-only member %s |\n    kubectl --context %s delete --ignore-not-found -f -\n", contextName, flags, contextName))
}

// clusterID returns the identity of the cluster, or "" if it is not known.
func (d *departure) clusterID() types.UID {
	switch {
	case d.cluster != nil && d.cluster.Status.ClusterID != "":
		return d.cluster.Status.ClusterID
	case d.secret != nil:
		return types.UID(d.secret.Annotations[v1alpha1.AnnotationClusterID])
	}
	return ""
}

// findContext returns the context of the cluster, or a placeholder, and the namespaces of the cluster
// in which Fleetwright may write, if it may not write in all.
func (d *departure) findContext(ctx context.Context, id types.UID) (name string, namespaces []string) {
	all, err := d.Contexts(d.memberKubeconfig)
	if err != nil || id == "" {
		return unknownContext, nil
	}
	cluster, found := all.Match(ctx).ByID[id]
	if !found {
		return unknownContext, nil
	}
	bindings, err := NamedBindings(ctx, cluster)
	if err != nil {
		return cluster.Name, nil
	}
	return cluster.Name, NamespacesOf(bindings)
}

// printDeletions prints a command for each object on a hub that is its own member: all but the
// namespace, which is that of the operator.
func (d *departure) printDeletions(text, contextName string, namespaces []string) error {
	granted := joinOptions{namespaces: namespaces, hasConfiguration: true, isRestricted: true}
	objects, err := granted.memberObjects()
	if err != nil {
		return err
	}
	for _, object := range slices.Backward(objects) {
		if object.GetKind() == "Namespace" {
			continue
		}
		text += "  kubectl --context " + contextName + " delete --ignore-not-found"
		if object.GetNamespace() != "" {
			text += " -n " + object.GetNamespace()
		}
		text += " \\\n    " + strings.ToLower(object.GetKind()) + " " + object.GetName() + "\n"
	}
	return d.Write(text)
}
