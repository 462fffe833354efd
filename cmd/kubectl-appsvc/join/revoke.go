package join

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
	"github.com/fleetwright/fleetwright/config/member"
)

// revocation is what unjoin deletes on the cluster with --revoke.
type revocation struct {
	context hub.ContextCluster
	// objects are in the order of their deletion.
	objects []client.Object
}

// prepareRevocation finds what is to be deleted on the cluster, and checks that the caller may delete
// it. It changes nothing.
func (d *departure) prepareRevocation(ctx context.Context) error {
	if !d.revoke {
		return nil
	}
	all, err := d.Contexts(d.memberKubeconfig)
	if err != nil {
		return err
	}
	all = all.Bounded(memberTimeout)
	id := d.clusterID()
	cluster, found := all.Match(ctx).ByID[id]
	if id == "" || !found {
		return fmt.Errorf("nothing was changed: no context of %s leads to %s, and --revoke needs one of an administrator of the cluster: "+
			"name its file with --member-kubeconfig, or leave --revoke out, then unjoin prints what to run there", all.Source, d.name)
	}
	d.revocation = &revocation{context: cluster}
	if d.revocation.objects, err = grantedObjects(ctx, cluster); err != nil {
		return errors.New(hub.ExplainContext(cluster.Name, err))
	}
	for _, object := range d.revocation.objects {
		if err := cluster.Delete(ctx, object.DeepCopyObject().(client.Object), client.DryRunAll); !isGone(err) {
			return errors.New("nothing was changed: " + hub.ExplainContext(cluster.Name, fmt.Errorf("delete %s: %w", describeObject(object), err)))
		}
	}
	if other := d.otherHolder(); other != "" {
		d.Note("The hub uses %s, which --revoke does not end: it deletes ServiceAccount %s only.", other, member.ServiceAccount)
	}
	return nil
}

// otherHolder returns whose credentials the Secret has, or "" if they are tokens of the ServiceAccount.
func (d *departure) otherHolder() string {
	if d.secret == nil {
		return ""
	}
	config, _ := parseSecret(d.secret)
	switch {
	case config == nil:
		return ""
	case config.Certificate != nil:
		return "a client certificate"
	case config.Holder().Account != types.NamespacedName{Namespace: member.Namespace, Name: member.ServiceAccount}:
		return "the token of another user"
	}
	return ""
}

// isGone reports whether an object was deleted, or was not there.
func isGone(err error) bool { return client.IgnoreNotFound(err) == nil || meta.IsNoMatchError(err) }

// grantedObjects returns what join and the manifests of config/member create on a cluster, except the
// namespace, which others may use. The ServiceAccount and the Secrets with its tokens are first, so
// that these end although a later deletion fails, and the policy that limits them is last.
func grantedObjects(ctx context.Context, cluster client.Reader) ([]client.Object, error) {
	bindings, err := NamedBindings(ctx, cluster)
	if err != nil {
		return nil, err
	}
	configuration, _, err := ConfigurationGrant(ctx, cluster)
	if err != nil {
		return nil, err
	}
	account := &corev1.ServiceAccount{}
	account.Namespace, account.Name = member.Namespace, member.ServiceAccount
	account.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceAccount"))
	objects := []client.Object{account}
	tokens, err := tokenSecrets(ctx, cluster)
	if err != nil {
		return nil, err
	}
	objects = append(append(objects, tokens...), configuration...)
	for _, namespaces := range [][]string{NamespacesOf(bindings), nil} {
		all := joinOptions{namespaces: namespaces, isRestricted: namespaces == nil}
		wanted, err := all.memberObjects()
		if err != nil {
			return nil, err
		}
		for _, object := range wanted {
			objects = append(objects, object)
		}
	}
	seen := map[string]bool{}
	var distinct []client.Object
	for _, object := range objects {
		name := describeObject(object)
		if object.GetObjectKind().GroupVersionKind().Kind != "Namespace" && !seen[name] {
			seen[name] = true
			distinct = append(distinct, object)
		}
	}
	return distinct, nil
}

// tokenSecrets returns the Secrets with a token of the ServiceAccount, as config/member/token.yaml
// creates one.
func tokenSecrets(ctx context.Context, cluster client.Reader) ([]client.Object, error) {
	list := &corev1.SecretList{}
	err := cluster.List(ctx, list, client.InNamespace(member.Namespace), client.MatchingFields{"type": string(corev1.SecretTypeServiceAccountToken)})
	if err != nil {
		return nil, err
	}
	var secrets []client.Object
	for i := range list.Items {
		if list.Items[i].Annotations[corev1.ServiceAccountNameKey] == member.ServiceAccount {
			secrets = append(secrets, &list.Items[i])
		}
	}
	return secrets, nil
}

// revokeOrPrint deletes the permissions on the cluster, or prints how to do that.
func (d *departure) revokeOrPrint(ctx context.Context) error {
	if d.revocation == nil {
		return d.printRemains(ctx)
	}
	cluster := d.revocation.context
	d.Say("On the member (context %s):", cluster.Name)
	for _, object := range d.revocation.objects {
		err := cluster.Delete(ctx, object)
		if !isGone(err) {
			return d.failRevocation(ctx, fmt.Errorf("delete %s: %w", describeObject(object), err))
		}
		if err == nil {
			d.Say("  %s deleted", describeObject(object))
		}
	}
	if hubID, err := hub.ReadClusterID(ctx, d.Client); err == nil && hubID != d.clusterID() {
		d.Say("  namespace/%s stays; if nothing else is in it:\n    kubectl --context %s delete namespace %s", member.Namespace, cluster.Name, member.Namespace)
	}
	return nil
}

// failRevocation returns the error of a deletion on the cluster, after it has left the fleet.
func (d *departure) failRevocation(ctx context.Context, err error) error {
	message := hub.ExplainContext(d.revocation.context.Name, err)
	if ctx.Err() != nil {
		message = "interrupted"
	}
	if err := d.printRemains(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	return hub.ExitError{Code: 1, Message: fmt.Sprintf("%s has left the fleet, but its permissions are not all deleted: %s", d.name, message)}
}
