package join

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
	"github.com/fleetwright/fleetwright/config/member"
)

const (
	// secretLabel, with the value "true", makes a Secret that of a member: the default of the
	// operator's --secret-selector.
	secretLabel = "sigs.k8s.io/multicluster-runtime-kubeconfig"
	// kubeconfigKey is the key of a Secret with the kubeconfig.
	kubeconfigKey = "kubeconfig"
	// placeholderToken stands for the token before there is one.
	placeholderToken = "REQUESTED-FROM-THE-MEMBER"
)

// joinPlan is what join applies: everything is read and checked, and nothing is changed yet.
type joinPlan struct {
	options *joinOptions
	name    string
	Client  hub.Client
	context hub.ContextCluster
	// id is the identity of the member.
	id types.UID
	// server is the cluster of the kubeconfig for the hub.
	server clientcmdapi.Cluster
	// objects are applied on the member, and obsolete are deleted there.
	objects  []*unstructured.Unstructured
	obsolete []client.Object
	// existing is the Secret on the hub, or nil.
	existing *corev1.Secret
	labels   map[string]string

	// hasChanged reports whether an object of the member was changed.
	hasChanged bool
	token      string
	// written is the configuration that the hub must use in the end.
	written *kubeconfig.Config
}

// prepare reads both sides and makes all checks.
// docs/decisions/join-checks-everything-before-it-writes.md says why.
func (j *joinOptions) prepare(ctx context.Context, contextName string) (*joinPlan, error) {
	all, err := j.Contexts(j.memberKubeconfig)
	if err != nil {
		return nil, err
	}
	p := &joinPlan{options: j}
	all = all.Bounded(memberTimeout)
	if p.context, err = all.Cluster(contextName); err != nil {
		return nil, err
	}
	if p.name, err = j.clusterName(contextName); err != nil {
		return nil, err
	}
	if p.context.Config.Proxy != nil {
		j.Note("Context %s uses a proxy (proxy-url). The hub connects without it.", contextName)
	}
	p.labels = maps.Clone(j.labels)
	if err := p.prepareMember(ctx); err != nil {
		return nil, errors.New(hub.ExplainContext(contextName, err))
	}
	if j.printOnly == PrintHub {
		return p, p.setServer(nil)
	}
	if p.Client, err = j.Connect(); err != nil {
		return nil, err
	}
	return p, p.prepareHub(ctx)
}

// secret returns the Secret of the hub with a token, and how the operator reads it. It returns an
// error if the operator would reject it.
func (p *joinPlan) secret(token string) (*corev1.Secret, *kubeconfig.Config, error) {
	content, err := clientcmd.Write(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{p.name: &p.server},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{member.ServiceAccount: {Token: token}},
		Contexts:       map[string]*clientcmdapi.Context{p.name: {Cluster: p.name, AuthInfo: member.ServiceAccount}},
		CurrentContext: p.name,
	})
	if err != nil {
		return nil, nil, err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace:   p.options.SecretNamespace,
		Name:        p.name,
		Labels:      map[string]string{},
		Annotations: map[string]string{v1alpha1.AnnotationClusterID: string(p.id)},
	}, Data: map[string][]byte{kubeconfigKey: content}}
	if p.options.printOnly == "" { // a tool would revert the renewal
		secret.Annotations[v1alpha1.AnnotationRenewToken] = "true"
	}
	maps.Copy(secret.Labels, p.labels)
	secret.Labels[secretLabel] = "true"
	config, rejected := parseSecret(secret)
	if rejected != nil {
		return nil, nil, fmt.Errorf("the operator would refuse the server of context %s (%s): %w; see --member-server and --member-certificate-authority",
			p.context.Name, rejected.Reason, rejected)
	}
	return secret, config, nil
}

// prepareMember reads the member.
func (p *joinPlan) prepareMember(ctx context.Context) (err error) {
	if p.id, err = hub.ReadClusterID(ctx, p.context); err != nil {
		return err
	}
	if p.options.printOnly == PrintHub {
		return nil
	}
	bindings, err := NamedBindings(ctx, p.context)
	if err != nil {
		return err
	}
	role := &rbacv1.ClusterRole{}
	if err := p.context.Get(ctx, client.ObjectKey{Name: member.NamespaceRole}, role); apierrors.IsNotFound(err) {
		role = nil
	} else if err != nil {
		return err
	}
	if err := p.plan(bindings, role); err != nil {
		return err
	}
	namespaces := p.options.namedNamespaces()
	for _, namespace := range namespaces {
		err := p.context.Get(ctx, client.ObjectKey{Name: namespace}, &corev1.Namespace{})
		if apierrors.IsNotFound(err) {
			return fmt.Errorf("namespace %s does not exist, and Fleetwright may not create it: kubectl --context %s create namespace %s", namespace, p.context.Name, namespace)
		} else if err != nil {
			return err
		}
	}
	if err := p.planConfiguration(ctx); err != nil {
		return err
	}
	if err := p.planPolicy(ctx); err != nil {
		return err
	}
	if p.objects, err = p.options.memberObjects(); err != nil {
		return err
	}
	p.obsolete = slices.DeleteFunc(p.obsolete, func(object client.Object) bool {
		return slices.ContainsFunc(p.objects, func(wanted *unstructured.Unstructured) bool { return describeObject(wanted) == describeObject(object) })
	})
	return p.checkMember(ctx)
}

// planConfiguration decides on the permission for ConfigMaps and Secrets, if the flag does not. What
// the member has of it is obsolete, unless join applies it again.
func (p *joinPlan) planConfiguration(ctx context.Context) error {
	objects, isGranted, err := ConfigurationGrant(ctx, p.context)
	if err != nil {
		return err
	}
	if !p.options.isGiven(FlagConfiguration) && isGranted {
		p.options.hasConfiguration = true
		p.options.Note("Fleetwright may write ConfigMaps and Secrets on the member, and join keeps that. --%s=false takes it back.", FlagConfiguration)
	}
	p.obsolete = append(p.obsolete, objects...)
	return nil
}

// plan decides on the namespaces, if the flag does not, and on what to delete: the RoleBindings in
// namespaces where Fleetwright may no longer write, and their ClusterRole (nil if it does not exist)
// if it may write in all.
func (p *joinPlan) plan(bindings []rbacv1.RoleBinding, role *rbacv1.ClusterRole) error {
	if !p.options.isGiven(flagNamespaces) {
		if role != nil && len(bindings) == 0 {
			return fmt.Errorf("it permits no namespace, but has ClusterRole %s for named ones: say which with --namespaces, or permit all with --namespaces '*'", role.Name)
		}
		p.options.namespaces = NamespacesOf(bindings)
	}
	for i := range bindings {
		if !slices.Contains(p.options.namespaces, bindings[i].Namespace) {
			p.obsolete = append(p.obsolete, &bindings[i])
		}
	}
	if role != nil && len(p.options.namedNamespaces()) == 0 {
		p.obsolete = append(p.obsolete, role)
	}
	return nil
}

// prepareHub reads the hub, and checks that the Secret can be written.
func (p *joinPlan) prepareHub(ctx context.Context) error {
	members, err := p.Client.ListMembers(ctx)
	if err != nil {
		return err
	}
	key := client.ObjectKey{Namespace: p.options.SecretNamespace, Name: p.name}
	p.existing = &corev1.Secret{}
	if err := p.Client.Get(ctx, key, p.existing); apierrors.IsNotFound(err) {
		p.existing = nil
	} else if err != nil {
		return p.explainSecret(err)
	}
	if err := checkTarget(target{p.name, key.String(), p.id, members, p.existing, p.options.force}); err != nil {
		return err
	}
	if !p.options.isGiven(flagLabels) && p.existing != nil {
		p.labels = kubeconfig.CopyLabels(p.existing.Labels)
	}
	if err := p.setServer(p.keptConfig()); err != nil {
		return err
	}
	secret, _, err := p.secret(placeholderToken)
	if err != nil {
		return err
	}
	_, err = p.applySecret(ctx, secret, client.DryRunAll)
	return p.explainSecret(err)
}

// explainSecret explains an error of the Secret of the hub.
func (p *joinPlan) explainSecret(err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		return fmt.Errorf("the hub has no namespace %s: install Fleetwright there (docs/install.md), or select the hub with --context and its namespace with --secret-namespace", p.options.SecretNamespace)
	case apierrors.IsForbidden(err):
		return hub.ExitError{Code: 1, Message: fmt.Sprintf("%v: ask an administrator of the hub for the Role fleetwright-fleet-admin", err)}
	}
	return fmt.Errorf("the Secret of the member on the hub: %w", err)
}

// target is what decides whether join may write the Secret of a name.
type target struct {
	name string
	// secretKey is NAMESPACE/NAME of the Secret.
	secretKey string
	// id is the identity of the cluster that joins.
	id      types.UID
	members []v1alpha1.MemberCluster
	// existing is the Secret, or nil.
	existing *corev1.Secret
	force    bool
}

// checkTarget returns an error if the name or the cluster is taken, or if the Secret is not one
// that join may replace.
func checkTarget(t target) error {
	for i := range t.members {
		switch m := &t.members[i]; {
		case m.Name == t.name && m.Status.ClusterID != "" && m.Status.ClusterID != t.id:
			return fmt.Errorf("the hub has another cluster of the name %s (its kube-system namespace has UID %s, not %s): use --name, "+
				"or, if this cluster replaces it, first kubectl appsvc unjoin %s --retain", t.name, m.Status.ClusterID, t.id, t.name)
		case m.Name != t.name && m.Status.ClusterID == t.id:
			return fmt.Errorf("this cluster is already in the fleet as %s: to update it, use --name %s; to rename it, first kubectl appsvc unjoin %s --retain", m.Name, m.Name, m.Name)
		case m.Name == t.name && m.HasSecret() && m.Annotations[v1alpha1.AnnotationSecret] != "" && m.Annotations[v1alpha1.AnnotationSecret] != t.secretKey:
			return fmt.Errorf("cluster %s comes from another Secret, %s: change it there, or use --secret-namespace", t.name, m.Annotations[v1alpha1.AnnotationSecret])
		}
	}
	if t.existing == nil {
		return nil
	}
	if id := t.existing.Annotations[v1alpha1.AnnotationClusterID]; id != "" && id != string(t.id) {
		return fmt.Errorf("the hub has a Secret %s of another cluster (%s): use --name, or delete that Secret", t.secretKey, id)
	}
	if !t.force && !IsFromJoin(t.existing) {
		return fmt.Errorf("the hub has a Secret %s that join did not write (its field managers are: %s): use --name, or replace it with --force",
			t.secretKey, strings.Join(managersOf(t.existing), ", "))
	}
	return nil
}

// IsFromJoin reports whether join applied an object.
func IsFromJoin(object client.Object) bool {
	return slices.ContainsFunc(object.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == hub.FieldManager && entry.Operation == metav1.ManagedFieldsOperationApply
	})
}

// managersOf returns the field managers of an object, sorted.
func managersOf(object client.Object) []string {
	var managers []string
	for _, entry := range object.GetManagedFields() {
		managers = append(managers, entry.Manager)
	}
	slices.Sort(managers)
	return slices.Compact(managers)
}
