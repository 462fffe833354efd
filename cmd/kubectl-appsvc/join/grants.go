package join

import (
	"context"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/config/member"
)

// NamedBindings returns the RoleBindings of the namespaces in which Fleetwright may write, if it may
// not write in all.
func NamedBindings(ctx context.Context, cluster client.Reader) ([]rbacv1.RoleBinding, error) {
	bindings := &rbacv1.RoleBindingList{}
	if err := cluster.List(ctx, bindings); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(bindings.Items, func(b rbacv1.RoleBinding) bool {
		return b.Name != member.Role || b.RoleRef.Kind != "ClusterRole" || b.RoleRef.Name != member.NamespaceRole
	}), nil
}

// ConfigurationGrant returns the objects of config/member/configuration that a cluster has: the
// ClusterRole and its bindings. The ServiceAccount has permissions if there is a binding.
func ConfigurationGrant(ctx context.Context, cluster client.Reader) (objects []client.Object, isGranted bool, err error) {
	for _, object := range []client.Object{&rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}} {
		err := cluster.Get(ctx, client.ObjectKey{Name: member.ConfigurationRole}, object)
		switch {
		case err == nil:
			objects = append(objects, object)
		case !apierrors.IsNotFound(err):
			return nil, false, err
		}
	}
	bindings := &rbacv1.RoleBindingList{}
	if err := cluster.List(ctx, bindings); err != nil {
		return nil, false, err
	}
	for i := range bindings.Items {
		if b := &bindings.Items[i]; b.Name == member.ConfigurationRole && b.RoleRef.Name == member.ConfigurationRole {
			objects = append(objects, b)
		}
	}
	for _, object := range objects {
		if _, isRole := object.(*rbacv1.ClusterRole); !isRole {
			isGranted = true
		}
	}
	return objects, isGranted, nil
}

// NamespacesOf returns the namespaces of RoleBindings, sorted.
func NamespacesOf(bindings []rbacv1.RoleBinding) []string {
	var namespaces []string
	for i := range bindings {
		namespaces = append(namespaces, bindings[i].Namespace)
	}
	slices.Sort(namespaces)
	return namespaces
}
