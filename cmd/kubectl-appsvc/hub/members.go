package hub

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// MembersRole says which role permits to list MemberClusters, and AppServices of all namespaces, and who
// grants it.
const MembersRole = "ask an administrator of the hub for a ClusterRoleBinding of the ClusterRole fleetwright-view"

// ListMembers returns all MemberClusters.
func (h Client) ListMembers(ctx context.Context) ([]v1alpha1.MemberCluster, error) {
	list := &v1alpha1.MemberClusterList{}
	if err := h.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list MemberClusters: %w", err)
	}
	return list.Items, nil
}

// ListPermittedMembers returns all MemberClusters. It returns false, and no error, if the caller may
// not list them: MemberClusters have no namespace, so a RoleBinding does not permit it.
func (h Client) ListPermittedMembers(ctx context.Context) (members []v1alpha1.MemberCluster, isPermitted bool, err error) {
	members, err = h.ListMembers(ctx)
	if apierrors.IsForbidden(err) {
		return nil, false, nil
	}
	return members, err == nil, err
}

// ReadMember returns a MemberCluster.
func (h Client) ReadMember(ctx context.Context, name string) (*v1alpha1.MemberCluster, error) {
	member := &v1alpha1.MemberCluster{}
	if err := h.Get(ctx, client.ObjectKey{Name: name}, member); err != nil {
		if IsNoSuchObject(err) {
			return nil, NoSuchCluster(name)
		}
		return nil, fmt.Errorf("read MemberCluster %s: %w", name, err)
	}
	return member, nil
}
