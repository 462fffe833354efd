package join

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/config/member"
)

// FlagRestrict applies config/member/policy.
const FlagRestrict = "restrict"

// PolicyOf returns the objects of config/member/policy that a cluster has. It limits the ServiceAccount
// only if it has all of them.
func PolicyOf(ctx context.Context, cluster client.Reader) (objects []client.Object, isComplete bool, err error) {
	wanted, err := member.Policy()
	if err != nil {
		return nil, false, err
	}
	for _, object := range wanted {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(object.GroupVersionKind())
		switch err := cluster.Get(ctx, client.ObjectKeyFromObject(object), live); {
		case err == nil:
			objects = append(objects, live)
		case !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err):
			return nil, false, err
		}
	}
	return objects, len(objects) == len(wanted), nil
}

// planPolicy decides on the policy, if the flag does not. What the member has of it is obsolete, unless
// join applies it again.
func (p *joinPlan) planPolicy(ctx context.Context) error {
	objects, _, err := PolicyOf(ctx, p.context)
	switch {
	case err != nil && !p.options.isGiven(FlagRestrict) && apierrors.IsForbidden(err):
		return nil // it stays as it is
	case err != nil:
		return err
	case !p.options.isGiven(FlagRestrict) && len(objects) > 0:
		p.options.isRestricted = true
		p.options.Note("The member has the policy that limits Fleetwright's token, and join keeps it. --%s=false removes it.", FlagRestrict)
	}
	p.obsolete = append(p.obsolete, objects...)
	if p.options.isRestricted {
		return p.checkPolicySupported()
	}
	return nil
}

// checkPolicySupported returns an error unless the member serves the API of the policy.
func (p *joinPlan) checkPolicySupported() error {
	wanted, err := member.Policy()
	if err != nil {
		return err
	}
	for _, object := range wanted {
		gvk := object.GroupVersionKind()
		if _, err := p.context.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version); meta.IsNoMatchError(err) {
			return fmt.Errorf("it does not serve %s of %s, which Kubernetes has from version 1.%d on: upgrade it, or join it without --%s",
				gvk.Kind, gvk.GroupVersion(), member.PolicyMinor, FlagRestrict)
		} else if err != nil {
			return err
		}
	}
	return nil
}
