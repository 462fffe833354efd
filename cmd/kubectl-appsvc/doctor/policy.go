package doctor

import (
	"context"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/join"
	"github.com/fleetwright/fleetwright/config/member"
)

// policy checks the policy that limits the token of Fleetwright. It is optional: without it, the check
// is ok too.
func (e *examination) policy(ctx context.Context) check {
	const what = "policy"
	var namespaces []string
	live, err := hub.Within(ctx, stepTimeout, func(ctx context.Context) ([]client.Object, error) {
		if bindings, err := join.NamedBindings(ctx, e.cluster); err == nil { // they only complete the advice
			namespaces = join.NamespacesOf(bindings)
		}
		objects, _, err := join.PolicyOf(ctx, e.cluster)
		return objects, err
	})
	switch {
	case apierrors.IsForbidden(err):
		return noted(what, "not checked: you may not read ValidatingAdmissionPolicies there")
	case err != nil:
		return noted(what, "it cannot be checked: %s", hub.ExplainContext(e.cluster.Name, err))
	}
	wanted, err := member.Policy()
	if err != nil {
		return noted(what, "%v", err)
	}
	return policyCheck(what, wanted, live, e.advice.forPolicy(e.cluster.Name, namespaces))
}

// policyCheck returns the check of the objects of the policy that a cluster has.
func policyCheck(what string, wanted []*unstructured.Unstructured, live []client.Object, command string) check {
	switch {
	case len(live) == 0:
		return passed(what, "none; join --%s limits what the token may change", join.FlagRestrict)
	case len(live) < len(wanted):
		return noted(what, "only a part of it exists, so it limits nothing. %s", command)
	}
	for i := range wanted {
		found, isUnstructured := live[i].(*unstructured.Unstructured)
		if !isUnstructured || !includes(found.Object["spec"], wanted[i].Object["spec"]) {
			return noted(what, "it is not that of this version of Fleetwright. %s", command)
		}
	}
	return passed(what, "it limits what the token of Fleetwright may change")
}

// includes reports whether a value has everything that is wanted: the API server adds defaults.
func includes(found, wanted any) bool {
	switch wanted := wanted.(type) {
	case map[string]any:
		in, isMap := found.(map[string]any)
		for key, value := range wanted {
			if !isMap || !includes(in[key], value) {
				return false
			}
		}
		return true
	case []any:
		in, isList := found.([]any)
		if !isList || len(in) != len(wanted) {
			return false
		}
		for i := range wanted {
			if !includes(in[i], wanted[i]) {
				return false
			}
		}
		return true
	}
	return found == wanted
}

// forPolicy says how to apply the policy.
func (a advice) forPolicy(contextName string, namespaces []string) string {
	before, after, _ := strings.Cut(a.forPermissions(contextName, namespaces), "join "+contextName)
	return before + "join " + contextName + " --" + join.FlagRestrict + after
}
