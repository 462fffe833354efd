package karmada

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/internal/environment"
)

// clusterNamespace is the namespace of the credentials, on the hub and on members.
const clusterNamespace = "karmada-cluster"

// tokenLifetime is longer than a benchmark takes.
const tokenLifetime = 24 * time.Hour

// Member is a cluster that joins.
type Member struct {
	Name, Address string
	CA            []byte
	// API is a client with the permissions of an administrator.
	API client.Client
}

// Join joins a member in push mode, as `karmadactl join` does. The members have no controller that
// would create the tokens of ServiceAccounts, so it requests them.
func Join(ctx context.Context, hub client.Client, m Member) error {
	token, impersonator, err := m.grant(ctx)
	if err != nil {
		return fmt.Errorf("prepare %s for Karmada: %w", m.Name, err)
	}
	system := &corev1.Namespace{}
	if err := m.API.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		return err
	}
	cluster := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"syncMode": "Push", "apiEndpoint": "https://" + m.Address, "id": string(system.UID),
		"secretRef":             map[string]any{"namespace": clusterNamespace, "name": m.Name},
		"impersonatorSecretRef": map[string]any{"namespace": clusterNamespace, "name": m.Name + "-impersonator"},
	}}}
	cluster.SetGroupVersionKind(clusterKind)
	cluster.SetName(m.Name)
	secrets := []*corev1.Secret{
		{ObjectMeta: named(clusterNamespace, m.Name), Data: map[string][]byte{"caBundle": m.CA, "token": token}},
		{ObjectMeta: named(clusterNamespace, m.Name+"-impersonator"), Data: map[string][]byte{"token": impersonator}},
	}
	for _, secret := range secrets {
		if err := hub.Create(ctx, secret); err != nil {
			return fmt.Errorf("create a Secret of %s: %w", m.Name, err)
		}
	}
	if err := hub.Create(ctx, cluster); err != nil {
		return fmt.Errorf("create Cluster %s: %w", m.Name, err)
	}
	for _, secret := range secrets {
		secret.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(cluster, clusterKind)}
		if err := hub.Update(ctx, secret); err != nil {
			return fmt.Errorf("set the owner of a Secret of %s: %w", m.Name, err)
		}
	}
	return nil
}

// named returns the metadata of an object of Karmada.
func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"karmada.io/system": "true"}}
}

// grant creates Karmada's ServiceAccounts with their permissions on a member, and returns their tokens.
func (m Member) grant(ctx context.Context) (token, impersonator []byte, err error) {
	account := &corev1.ServiceAccount{ObjectMeta: named(clusterNamespace, "karmada-"+m.Name)}
	impersonating := &corev1.ServiceAccount{ObjectMeta: named(clusterNamespace, "karmada-impersonator")}
	role := &rbacv1.ClusterRole{ObjectMeta: named("", "karmada-controller-manager:"+account.Name), Rules: []rbacv1.PolicyRule{
		{Verbs: []string{rbacv1.VerbAll}, APIGroups: []string{rbacv1.APIGroupAll}, Resources: []string{rbacv1.ResourceAll}},
		{Verbs: []string{"get"}, NonResourceURLs: []string{rbacv1.NonResourceAll}},
	}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: named("", role.Name),
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: clusterNamespace, Name: account.Name}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
	}
	for _, object := range []client.Object{&corev1.Namespace{ObjectMeta: named("", clusterNamespace)}, account, impersonating, role, binding} {
		if err := m.API.Create(ctx, object); err != nil {
			return nil, nil, err
		}
	}
	if token, err = m.requestToken(ctx, account); err != nil {
		return nil, nil, err
	}
	impersonator, err = m.requestToken(ctx, impersonating)
	return token, impersonator, err
}

func (m Member) requestToken(ctx context.Context, account *corev1.ServiceAccount) ([]byte, error) {
	seconds := int64(tokenLifetime.Seconds())
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}
	err := m.API.SubResource("token").Create(ctx, account, request)
	return []byte(request.Status.Token), err
}

// AwaitJoined waits until all Clusters are Ready.
func AwaitJoined(ctx context.Context, hub client.Client) error {
	return environment.Await(ctx, startTimeout, "the Clusters of Karmada to be Ready", func(ctx context.Context) error {
		list := clusters()
		if err := hub.List(ctx, list); err != nil {
			return err
		}
		var errs []error
		for i := range list.Items {
			if !hasCondition(&list.Items[i], "Ready") {
				errs = append(errs, fmt.Errorf("the Cluster %s is not Ready", list.Items[i].GetName()))
			}
		}
		return errors.Join(errs...)
	})
}
