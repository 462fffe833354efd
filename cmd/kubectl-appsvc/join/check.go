package join

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/config/member"
)

// checkMember returns an error if the member would refuse a change that join makes there.
func (p *joinPlan) checkMember(ctx context.Context) error {
	for _, object := range p.objects {
		if err := p.checkObject(ctx, object); err != nil {
			return err
		}
	}
	for _, object := range p.obsolete {
		if err := p.context.Delete(ctx, object, client.DryRunAll); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete %s: %w", describeObject(object), err)
		}
	}
	return p.checkPermission(ctx, authorizationv1.ResourceAttributes{
		Verb: "create", Resource: "serviceaccounts", Subresource: "token", Namespace: member.Namespace, Name: member.ServiceAccount,
	})
}

// checkObject applies an object as a dry run. Of an object that does not exist yet, it checks only
// the permission, because its namespace or its role may not exist either. A ClusterRole needs
// neither.
func (p *joinPlan) checkObject(ctx context.Context, object *unstructured.Unstructured) error {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(object.GroupVersionKind())
	err := p.context.Get(ctx, client.ObjectKeyFromObject(object), live)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("read %s: %w", describeObject(object), err)
	case err == nil && object.GetKind() == "Namespace":
		return nil // it is not applied
	case err == nil || object.GetKind() == "ClusterRole":
		return p.applyOnMember(ctx, object.DeepCopy(), client.DryRunAll)
	}
	gvk := object.GroupVersionKind()
	mapping, err := p.context.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return err
	}
	for _, verb := range []string{"patch", "create"} { // a server-side apply that creates needs both
		err := p.checkPermission(ctx, authorizationv1.ResourceAttributes{
			Verb: verb, Group: gvk.Group, Resource: mapping.Resource.Resource, Namespace: object.GetNamespace(), Name: object.GetName(),
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// checkPermission returns an error unless the member permits a request of the caller.
func (p *joinPlan) checkPermission(ctx context.Context, request authorizationv1.ResourceAttributes) error {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &request}}
	if err := p.context.Create(ctx, review); err != nil || review.Status.Allowed {
		return err
	}
	resource := request.Resource
	if request.Subresource != "" {
		resource += "/" + request.Subresource
	}
	return apierrors.NewForbidden(schema.GroupResource{Group: request.Group, Resource: resource}, request.Name,
		fmt.Errorf("you have no permission to %s it", request.Verb))
}
