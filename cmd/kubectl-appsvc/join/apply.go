package join

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/output"
	"github.com/fleetwright/fleetwright/config/member"
)

// Changes of an object, as kubectl prints them.
const (
	changeCreated    = "created"
	changeConfigured = "configured"
)

// describeObject returns KIND/NAME of an object, with its namespace.
func describeObject(object client.Object) string {
	kind := strings.ToLower(object.GetObjectKind().GroupVersionKind().Kind)
	switch object.(type) {
	case *rbacv1.RoleBinding:
		kind = "rolebinding"
	case *rbacv1.ClusterRole:
		kind = "clusterrole"
	case *rbacv1.ClusterRoleBinding:
		kind = "clusterrolebinding"
	case *corev1.Secret:
		kind = "secret"
	}
	if object.GetNamespace() != "" {
		return fmt.Sprintf("%s/%s in namespace %s", kind, object.GetName(), object.GetNamespace())
	}
	return kind + "/" + object.GetName()
}

// applyPermissions applies the objects of the member, and prints what changed.
func (p *joinPlan) applyPermissions(ctx context.Context) error {
	for _, object := range p.objects {
		change, err := p.applyObject(ctx, object)
		if err != nil {
			return fmt.Errorf("apply %s: %w", describeObject(object), err)
		}
		p.hasChanged = p.hasChanged || change == changeCreated || change == changeConfigured
		p.options.Say("  %s %s", describeObject(object), change)
	}
	for _, object := range p.obsolete {
		err := p.context.Delete(ctx, object, client.Preconditions{UID: new(object.GetUID())})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete %s: %w", describeObject(object), err)
		}
		p.hasChanged = true
		p.options.Say("  %s deleted", describeObject(object))
	}
	return nil
}

// applyObject applies an object of the member, and returns what changed. It never changes a
// namespace: on a hub that is its own member, the namespace is the operator's.
func (p *joinPlan) applyObject(ctx context.Context, object *unstructured.Unstructured) (string, error) {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(object.GroupVersionKind())
	err := p.context.Get(ctx, client.ObjectKeyFromObject(object), live)
	switch {
	case apierrors.IsNotFound(err):
		return changeCreated, p.applyOnMember(ctx, object)
	case err != nil:
		return "", err
	case object.GetKind() == "Namespace":
		return "exists", nil
	}
	before := live.GetResourceVersion()
	if err := p.applyOnMember(ctx, object); err != nil {
		return "", err
	}
	if object.GetResourceVersion() == before {
		return "unchanged", nil
	}
	return changeConfigured, nil
}

// applyOnMember applies an object of the member, server-side.
func (p *joinPlan) applyOnMember(ctx context.Context, object *unstructured.Unstructured, options ...client.ApplyOption) error {
	options = append(options, client.FieldOwner(hub.FieldManager))
	if p.options.force {
		options = append(options, client.ForceOwnership)
	}
	err := p.context.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), options...)
	if apierrors.IsConflict(err) {
		return fmt.Errorf("%s has other values from another field manager; to take it over, use --force: %w", describeObject(object), err)
	}
	return err
}

// requestToken requests a token of the ServiceAccount on the member.
func (p *joinPlan) requestToken(ctx context.Context) (*authenticationv1.TokenRequest, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: member.Namespace, Name: member.ServiceAccount}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(p.options.duration.Seconds()))}}
	if err := p.context.SubResource("token").Create(ctx, account, request); err != nil {
		return nil, fmt.Errorf("request a token of ServiceAccount %s in namespace %s: %w", account.Name, account.Namespace, err)
	}
	lifetime := time.Until(request.Status.ExpirationTimestamp.Time).Round(time.Minute)
	if lifetime < p.options.duration-time.Minute {
		p.options.Note("The member gives a token for %s, not for %s (--service-account-max-token-expiration of its API server).", lifetime, p.options.duration)
	}
	return request, nil
}

// replaceToken puts a new token into the plan.
func (p *joinPlan) replaceToken(ctx context.Context) error {
	request, err := p.requestToken(ctx)
	if err != nil {
		return err
	}
	p.token = request.Status.Token
	p.options.Say("  token requested, valid until %s", output.FormatTime(request.Status.ExpirationTimestamp.Time))
	return nil
}

// writeSecret writes the Secret on the hub.
func (p *joinPlan) writeSecret(ctx context.Context) error {
	secret, config, err := p.secret(p.token)
	if err != nil {
		return err
	}
	after, err := p.applySecret(ctx, secret)
	if err != nil {
		return p.explainSecret(err)
	}
	p.written = config
	change, before, beforeConfig := changeCreated, map[string]string(nil), (*kubeconfig.Config)(nil)
	if p.existing != nil {
		change, before = changeConfigured, p.existing.Labels
		beforeConfig, _ = parseSecret(p.existing)
	}
	p.options.Say("  secret/%s in namespace %s %s", secret.Name, secret.Namespace, change)
	for _, change := range serverChanges(beforeConfig, config) {
		p.options.Say("    %s", change)
	}
	for _, change := range labelChanges(before, after) {
		p.options.Say("    label %s", change)
	}
	if former := describeFormer(beforeConfig, p.context.Name); former != "" {
		p.options.Note("%s", former)
	}
	return nil
}

// labelChanges describes how labels change, sorted by key.
func labelChanges(before, after map[string]string) []string {
	var changes []string
	for key, value := range after {
		was, had := before[key]
		switch {
		case key == secretLabel:
		case !had:
			changes = append(changes, key+"="+value)
		case was != value:
			changes = append(changes, fmt.Sprintf("%s=%s (was %s)", key, value, was))
		}
	}
	for key, value := range before {
		if _, has := after[key]; !has {
			changes = append(changes, fmt.Sprintf("%s removed (was %s)", key, value))
		}
	}
	slices.Sort(changes)
	return changes
}

// applySecret applies the Secret, and returns its labels. It does not overwrite a Secret that has
// changed since it was read.
func (p *joinPlan) applySecret(ctx context.Context, secret *corev1.Secret, options ...client.ApplyOption) (map[string]string, error) {
	applied := corev1ac.Secret(secret.Name, secret.Namespace).
		WithLabels(secret.Labels).WithAnnotations(secret.Annotations).WithData(secret.Data)
	options = append(options, client.FieldOwner(hub.FieldManager))
	if p.existing != nil {
		applied.WithResourceVersion(p.existing.ResourceVersion)
		options = append(options, client.ForceOwnership)
	}
	err := p.Client.Apply(ctx, applied, options...)
	if apierrors.IsConflict(err) {
		return nil, errors.New("somebody else changed it meanwhile")
	}
	return applied.Labels, err
}

// awaitConnection waits until the hub uses the new token and the MemberCluster is Ready. The end of the
// time is no error: the answer is no.
func (p *joinPlan) awaitConnection(ctx context.Context) error {
	waiting, hasRead, cancel := hub.WithTimeout(ctx, p.options.timeout)
	defer cancel()
	var last *v1alpha1.MemberCluster
	err := p.Client.WatchMember(waiting, p.name, func(found *v1alpha1.MemberCluster) bool {
		hasRead()
		last = found
		return p.isConnected(found)
	})
	switch {
	case err == nil:
		p.options.Say("  membercluster/%s is Ready", p.name)
		return nil
	case ctx.Err() != nil || waiting.Err() == nil:
		return err
	case last == nil:
		return hub.ExitError{Code: hub.ExitNegative, Message: fmt.Sprintf("the hub has no MemberCluster %s after %s: the operator does not run there, "+
			"or its --secret-selector does not select the Secret. See kubectl get lease,pods -n %s", p.name, p.options.timeout, p.options.SecretNamespace)}
	}
	return hub.ExitError{Code: hub.ExitNegative, Message: fmt.Sprintf("the hub is not connected to %s after %s: %s. See %s#what-a-membercluster-says, and kubectl appsvc doctor %s",
		p.name, p.options.timeout, describeConnection(last), OperationsGuide, p.name)}
}

// OperationsGuide is the document that explains each reason.
const OperationsGuide = "docs/operations.md"

// isConnected reports whether the hub is connected with the new token.
func (p *joinPlan) isConnected(found *v1alpha1.MemberCluster) bool {
	if found == nil || !found.IsReady() || found.Status.ClusterID != p.id {
		return false
	}
	end, used := p.written.Expiry().End, found.Status.CredentialsExpirationTime
	return end.IsZero() || used != nil && used.Time.Equal(end)
}

// describeConnection returns the conditions of a MemberCluster that are not True.
func describeConnection(found *v1alpha1.MemberCluster) string {
	var all []string
	for _, kind := range []string{v1alpha1.ConditionReady, v1alpha1.ConditionCredentialsValid} {
		c := meta.FindStatusCondition(found.Status.Conditions, kind)
		switch {
		case c == nil:
			all = append(all, kind+" is not known")
		case c.Status != metav1.ConditionTrue:
			all = append(all, strings.TrimSuffix(fmt.Sprintf("%s is %s (%s): %s", kind, c.Status, c.Reason, c.Message), ": "))
		}
	}
	if len(all) == 0 {
		return "it still uses the former token"
	}
	return strings.Join(all, "; ")
}
