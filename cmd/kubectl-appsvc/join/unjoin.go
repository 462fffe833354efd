package join

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
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
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
)

// departureTimeout is how long the hub may take until unjoin knows what it would do.
const departureTimeout = 30 * time.Second

// unjoinOptions are the flags of unjoin.
type unjoinOptions struct {
	*hub.Options
	retain, remove, yes bool
	// revoke deletes what the member has of Fleetwright's permissions, and abandon the entries.
	revoke, abandon  bool
	memberKubeconfig string
	timeout          time.Duration
}

// NewUnjoin returns the command unjoin.
func NewUnjoin(o *hub.Options) *cobra.Command {
	u := &unjoinOptions{Options: o}
	command := &cobra.Command{
		Use:   "unjoin CLUSTER (--retain | --delete)",
		Short: "Remove a cluster from the fleet",
		Long: `Remove a cluster from the fleet. You must say what happens to the workloads there.

With --retain they keep running, and Fleetwright no longer manages them. With --delete, the cluster
is drained first (kubectl appsvc drain): its AppServices move to other clusters, and what cannot
move is reported. The cluster then stays in the fleet.

Then unjoin deletes the Secret and the MemberCluster on the hub. It changes nothing on the cluster:
it prints the command that removes the ServiceAccount and its permissions there. The tokens of the
ServiceAccount are valid until then. With --revoke, unjoin removes both itself, with the permissions
of your context that leads to the cluster, and the tokens end.

After --retain, each AppService keeps an entry of the cluster (Detached) in its status, in case the
cluster joins again. With --abandon, unjoin drops these entries. The command can also be run later.`,
		Example: `  # Disconnect a cluster; its workloads keep running
  kubectl appsvc unjoin east --retain

  # Leave nothing behind but the workloads
  kubectl appsvc unjoin east --retain --revoke --abandon

  # Move the AppServices to other clusters first
  kubectl appsvc unjoin east --delete`,
		Args:              hub.Arguments(hub.Cluster),
		ValidArgsFunction: o.CompleteMember,
		RunE: func(command *cobra.Command, args []string) error {
			if u.retain == u.remove {
				return errors.New("say what happens to the workloads of the cluster: --retain keeps them running, --delete moves them to other clusters first")
			}
			if u.abandon && u.remove {
				return errors.New("use --abandon with --retain: with --delete, no AppService is left on the cluster")
			}
			if err := hub.CheckTimeout(u.timeout); err != nil {
				return err
			}
			return u.run(command.Context(), args[0])
		},
	}
	flags := command.Flags()
	flags.BoolVar(&u.retain, "retain", false, "keep the workloads running on the cluster")
	flags.BoolVar(&u.remove, "delete", false, "have the workloads removed from the cluster first")
	flags.BoolVar(&u.revoke, "revoke", false, "delete the ServiceAccount and its permissions on the cluster, so that its tokens end; needs a context of an administrator of the cluster")
	flags.BoolVar(&u.abandon, "abandon", false, "with --retain, drop the entries of the cluster from the status of AppServices (annotation fleetwright.dev/abandon); needs the ClusterRole fleetwright-edit in their namespaces")
	flags.StringVar(&u.memberKubeconfig, "member-kubeconfig", "", "`file` with the contexts of clusters, if they are not in your kubeconfig")
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
	// revocation is what --revoke deletes, or nil.
	revocation *revocation
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
	if d.hasLeft() {
		return d.continueAbandonment(ctx, there)
	}
	if err := d.checkPossible(there); err != nil {
		return err
	}
	if err := d.prepareRevocation(ctx); err != nil {
		return err
	}
	d.printEntries(there)
	if err := d.confirm(ctx, d.question()); err != nil {
		return err
	}
	return d.leave(ctx)
}

// hasLeft reports whether neither the MemberCluster nor the Secret exists.
func (d *departure) hasLeft() bool { return d.cluster == nil && d.secret == nil }

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

// question asks whether the cluster shall leave.
func (d *departure) question() string {
	if d.remove {
		return fmt.Sprintf("Move all AppServices away from %s, and remove it from the fleet?", d.name)
	}
	return fmt.Sprintf("Remove %s from the fleet, and leave its workloads running?", d.name)
}

// confirm asks the user, unless --yes is given.
func (d *departure) confirm(ctx context.Context, question string) error {
	if d.yes {
		return nil
	}
	file, isFile := d.In.(interface{ Fd() uintptr })
	if !isFile || !term.IsTerminal(int(file.Fd())) {
		return errors.New("nothing was changed: without a terminal, confirm with --yes")
	}
	if err := d.Write(question + " [y/N] "); err != nil {
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
