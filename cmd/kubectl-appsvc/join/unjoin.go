package join

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/drain"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
	"github.com/fleetwright/fleetwright/config/member"
)

// detachTimeout is how long unjoin waits until the operator has seen that the Secret is gone. If the
// MemberCluster were deleted before, the operator could create it again.
const detachTimeout = 15 * time.Second

// departureTimeout is how long the hub may take until unjoin knows what it would do.
const departureTimeout = 30 * time.Second

// unjoinOptions are the flags of unjoin.
type unjoinOptions struct {
	*hub.Options
	retain, remove, yes bool
	timeout             time.Duration
}

// NewUnjoin returns the command unjoin.
func NewUnjoin(o *hub.Options) *cobra.Command {
	u := &unjoinOptions{Options: o}
	command := &cobra.Command{
		Use:   "unjoin NAME (--retain | --delete)",
		Short: "Remove a cluster from the fleet",
		Long: `Remove a cluster from the fleet. You must say what happens to the workloads there.

With --retain they keep running, and Fleetwright no longer manages them. With --delete, the cluster
is drained first (kubectl appsvc drain): its AppServices move to other clusters, and what cannot
move is reported. The cluster then stays in the fleet.

Then unjoin deletes the Secret and the MemberCluster on the hub. It changes nothing on the cluster:
it prints the command that removes the ServiceAccount and its permissions there.`,
		Example: `  # Disconnect a cluster; its workloads keep running
  kubectl appsvc unjoin east --retain

  # Move the AppServices to other clusters first
  kubectl appsvc unjoin east --delete`,
		Args:              hub.ExactlyOne("the name of the cluster", "NAME"),
		ValidArgsFunction: o.CompleteMember,
		RunE: func(command *cobra.Command, args []string) error {
			if u.retain == u.remove {
				return errors.New("say what happens to the workloads of the cluster: --retain keeps them running, --delete moves them to other clusters first")
			}
			if err := drain.CheckTimeout(u.timeout); err != nil {
				return err
			}
			return u.run(command.Context(), args[0])
		},
	}
	flags := command.Flags()
	flags.BoolVar(&u.retain, "retain", false, "keep the workloads running on the cluster")
	flags.BoolVar(&u.remove, "delete", false, "have the workloads removed from the cluster first")
	flags.BoolVarP(&u.yes, "yes", "y", false, "do not ask")
	flags.DurationVar(&u.timeout, "timeout", 10*time.Minute, "with --delete, the longest `time` to wait until no AppService is left on the cluster; 0 is no limit")
	return command
}

// departure is a cluster that leaves the fleet.
type departure struct {
	*unjoinOptions
	Client hub.Client
	name   string
	// cluster is its MemberCluster, or nil.
	cluster *v1alpha1.MemberCluster
	// secret is its Secret, or nil.
	secret *corev1.Secret
}

func (u *unjoinOptions) run(ctx context.Context, name string) error {
	h, err := u.Connect()
	if err != nil {
		return err
	}
	d := &departure{unjoinOptions: u, Client: h, name: name}
	reading, cancel := context.WithTimeout(ctx, departureTimeout)
	defer cancel()
	if err := d.read(reading); err != nil {
		return err
	}
	there, err := h.ResidentsOn(reading, name)
	if err != nil {
		return err
	}
	if err := d.checkPossible(there); err != nil {
		return err
	}
	d.printEntries(there)
	if err := d.confirm(ctx); err != nil {
		return err
	}
	if u.remove {
		if err := d.evict(ctx); err != nil {
			return err
		}
	}
	if err := d.delete(ctx); err != nil {
		return err
	}
	return d.printRemains(ctx)
}

// read reads the MemberCluster and the Secret. One of them may be missing. A Secret that the
// MemberCluster does not name must have the label of a member: another one may have the same name.
func (d *departure) read(ctx context.Context) error {
	d.cluster, d.secret = nil, nil
	key := client.ObjectKey{Namespace: d.SecretNamespace, Name: d.name}
	cluster, isNamed := &v1alpha1.MemberCluster{}, false
	switch err := d.Client.Get(ctx, client.ObjectKey{Name: d.name}, cluster); {
	case err == nil:
		d.cluster = cluster
		var namespace, name string
		if namespace, name, isNamed = strings.Cut(cluster.Annotations[v1alpha1.AnnotationSecret], "/"); isNamed {
			key = client.ObjectKey{Namespace: namespace, Name: name}
		}
	case !hub.IsNoSuchObject(err):
		return fmt.Errorf("read MemberCluster %s: %w", d.name, err)
	}
	secret := &corev1.Secret{}
	switch err := d.Client.Get(ctx, key, secret); {
	case err == nil && (isNamed || secret.Labels[secretLabel] != ""):
		d.secret = secret
	case err != nil && !apierrors.IsNotFound(err):
		if apierrors.IsForbidden(err) {
			return hub.ExitError{Code: 1, Message: fmt.Sprintf("%v: ask an administrator of the hub for the Role fleetwright-fleet-admin", err)}
		}
		return fmt.Errorf("read Secret %s: %w", key, err)
	}
	if d.cluster == nil && d.secret == nil {
		return fmt.Errorf("the hub has no cluster %s: see kubectl appsvc clusters", d.name)
	}
	return nil
}

// uids returns the UIDs of the MemberCluster and the Secret.
func (d *departure) uids() (uids [2]types.UID) {
	if d.cluster != nil {
		uids[0] = d.cluster.UID
	}
	if d.secret != nil {
		uids[1] = d.secret.UID
	}
	return uids
}

// checkPossible returns an error if the cluster cannot leave now.
func (d *departure) checkPossible(there hub.Residents) error {
	if tool := toolOf(d.secret); tool != "" {
		return fmt.Errorf("secret %s/%s is managed by %s, which would create it again or needs it: remove it there first, then run this command again", d.secret.Namespace, d.secret.Name, tool)
	}
	if d.remove && len(there) > 0 && (d.cluster == nil || !d.cluster.IsReady()) {
		state := "it has no MemberCluster"
		if d.cluster != nil {
			state = describeConnection(d.cluster)
		}
		return fmt.Errorf("the hub is not connected to %s, so nothing can be removed from it: %s. Wait until it is Ready, or use --retain", d.name, state)
	}
	return nil
}

// toolOf returns the tool that manages a Secret, or "". A Secret of Cluster API or Argo CD serves
// that tool, and not only Fleetwright.
func toolOf(secret *corev1.Secret) string {
	if secret == nil {
		return ""
	}
	switch {
	case secret.Type == "cluster.x-k8s.io/secret":
		return "Cluster API"
	case secret.Labels["argocd.argoproj.io/secret-type"] == "cluster":
		return "Argo CD (as a cluster of its own)"
	case secret.Labels["argocd.argoproj.io/instance"] != "" || secret.Annotations["argocd.argoproj.io/tracking-id"] != "":
		return "Argo CD"
	case secret.Labels["kustomize.toolkit.fluxcd.io/name"] != "" || secret.Labels["helm.toolkit.fluxcd.io/name"] != "":
		return "Flux"
	case secret.Labels["app.kubernetes.io/managed-by"] == "Helm":
		return "Helm"
	}
	if owner := metav1.GetControllerOf(secret); owner != nil {
		return owner.Kind + " " + owner.Name
	}
	return ""
}

// printEntries prints what runs on the cluster.
func (d *departure) printEntries(there hub.Residents) {
	if len(there) == 0 {
		d.Say("No AppService is on %s.", d.name)
		return
	}
	d.Say("On %s:", d.name)
	for _, app := range hub.SortedKeys(there) {
		d.Say("  %s: %s, %d/%d pods ready", app, cmp.Or(there[app].Entry.Phase, v1alpha1.ClusterUnknown), there[app].Entry.ReadyReplicas, there[app].Entry.Replicas)
	}
}

// confirm asks the user, unless --yes is given.
func (d *departure) confirm(ctx context.Context) error {
	if d.yes {
		return nil
	}
	file, isFile := d.In.(interface{ Fd() uintptr })
	if !isFile || !term.IsTerminal(int(file.Fd())) {
		return errors.New("nothing was changed: without a terminal, confirm with --yes")
	}
	question := "Remove %s from the fleet, and leave its workloads running? [y/N] "
	if d.remove {
		question = "Move all AppServices away from %s, and remove it from the fleet? [y/N] "
	}
	if err := d.Write(fmt.Sprintf(question, d.name)); err != nil {
		return err
	}
	answers := make(chan string, 1)
	go func() { // a read of the terminal cannot be interrupted
		answer, _ := bufio.NewReader(d.In).ReadString('\n')
		answers <- strings.ToLower(strings.TrimSpace(answer))
	}()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case answer := <-answers:
		if answer != "y" && answer != "yes" {
			return errors.New("nothing was changed")
		}
		return nil
	}
}

// evict has the AppServices removed from the cluster, as drain does. It reads everything again,
// because the answer of the user may have taken minutes. An empty cluster is drained too, so that
// nothing is placed there before it is deleted.
func (d *departure) evict(ctx context.Context) error {
	before := d.uids()
	reading, cancel := context.WithTimeout(ctx, departureTimeout)
	defer cancel()
	if err := d.read(reading); err != nil {
		return err
	}
	if d.uids() != before {
		return fmt.Errorf("the Secret or the MemberCluster of %s was deleted or created meanwhile: run the command again", d.name)
	}
	there, err := d.Client.ResidentsOn(reading, d.name)
	if err != nil {
		return err
	}
	if err := d.checkPossible(there); err != nil || d.cluster == nil {
		return err
	}
	err = drain.Drain(ctx, d.unjoinOptions.Options, d.Client, d.name, d.timeout)
	var exit hub.ExitError
	if errors.As(err, &exit) {
		exit.Message += fmt.Sprintf("\n%s stays in the fleet. To remove it and leave these running: kubectl appsvc unjoin %s --retain", d.name, d.name)
		return exit
	}
	return err
}

// delete deletes the Secret and the MemberCluster.
func (d *departure) delete(ctx context.Context) error {
	if d.secret == nil {
		d.Say("The Secret of %s is missing already.", d.name)
	} else {
		if err := d.Client.Delete(ctx, d.secret, client.Preconditions{UID: new(d.secret.UID)}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete Secret %s/%s: %w", d.secret.Namespace, d.secret.Name, err)
		}
		d.Say("secret/%s in namespace %s deleted", d.secret.Name, d.secret.Namespace)
	}
	if d.cluster == nil {
		return nil
	}
	// The operator looks for the Secret only of a MemberCluster that names one.
	needsWait := d.secret != nil || d.cluster.Annotations[v1alpha1.AnnotationSecret] != ""
	if err := d.awaitMember(ctx, func(found *v1alpha1.MemberCluster) bool { return found == nil || !needsWait || !found.HasSecret() }); err != nil {
		if !errors.Is(err, context.DeadlineExceeded) {
			return d.halfDone(ctx, err)
		}
		d.Note("The operator has not seen the deletion of the Secret within %s: it may not run.", detachTimeout)
	}
	if err := d.Client.Delete(ctx, d.cluster, client.Preconditions{UID: new(d.cluster.UID)}); client.IgnoreNotFound(err) != nil {
		return d.halfDone(ctx, err)
	}
	d.Say("membercluster/%s deleted", d.name)
	return nil
}

// halfDone returns the error of a step after the deletion of the Secret.
func (d *departure) halfDone(ctx context.Context, err error) error {
	message := hub.Describe(err)
	if ctx.Err() != nil {
		message = "interrupted"
	}
	return hub.ExitError{Code: 1, Message: fmt.Sprintf("the Secret is deleted, but not MemberCluster %s; run the command again: %s", d.name, message)}
}

func (d *departure) awaitMember(ctx context.Context, isDone func(*v1alpha1.MemberCluster) bool) error {
	waiting, cancel := context.WithTimeout(ctx, detachTimeout)
	defer cancel()
	err := d.Client.WatchMember(waiting, d.name, isDone)
	if waiting.Err() != nil && ctx.Err() == nil {
		return context.DeadlineExceeded
	}
	return err
}

// printRemains prints what is left on the cluster, and how to remove it.
func (d *departure) printRemains(ctx context.Context) error {
	id := d.clusterID()
	text := "The member still has the permissions of Fleetwright. To remove them:\n"
	if d.retain {
		text = "Its workloads keep running, and nothing manages them now.\n" + text
	}
	found, namespaces, hasConfiguration := d.findContext(ctx, id)
	hubID, err := hub.ReadClusterID(ctx, d.Client)
	if err == nil && hubID == id {
		return d.printDeletions(text, found, namespaces, hasConfiguration)
	}
	if err != nil || id == "" {
		text += "  # Not if it is the hub itself: namespace " + member.Namespace + " has the operator.\n"
	}
	flag := ""
	if len(namespaces) > 0 {
		flag = " --namespaces " + strings.Join(namespaces, ",")
	}
	if hasConfiguration {
		flag += " --" + FlagConfiguration
	}
	return d.Write(text + fmt.Sprintf("  kubectl appsvc join %s%s --print-only member |\n    kubectl --context %s delete --ignore-not-found -f -\n", found, flag, found))
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
// in which Fleetwright may write, if it may not write in all. hasConfiguration reports whether it may
// write ConfigMaps and Secrets.
func (d *departure) findContext(ctx context.Context, id types.UID) (name string, namespaces []string, hasConfiguration bool) {
	all, err := d.Contexts("")
	if err != nil || id == "" {
		return "CONTEXT", nil, false
	}
	cluster, found := all.Match(ctx).ByID[id]
	if !found {
		return "CONTEXT", nil, false
	}
	bindings, err := NamedBindings(ctx, cluster)
	if err != nil {
		return cluster.Name, nil, false
	}
	configuration, _, err := ConfigurationGrant(ctx, cluster)
	return cluster.Name, NamespacesOf(bindings), err == nil && len(configuration) > 0
}

// printDeletions prints a command for each object on a hub that is its own member: all but the
// namespace, which is that of the operator.
func (d *departure) printDeletions(text, contextName string, namespaces []string, hasConfiguration bool) error {
	granted := joinOptions{namespaces: namespaces, hasConfiguration: hasConfiguration}
	objects, err := granted.memberObjects()
	if err != nil {
		return err
	}
	for _, object := range slices.Backward(objects) {
		if object.GetKind() == "Namespace" {
			continue
		}
		text += "  kubectl --context " + contextName + " delete"
		if object.GetNamespace() != "" {
			text += " -n " + object.GetNamespace() + " \\\n   "
		}
		text += " " + strings.ToLower(object.GetKind()) + " " + object.GetName()
		text += "\n"
	}
	return d.Write(text)
}
