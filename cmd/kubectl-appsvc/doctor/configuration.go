package doctor

import (
	"context"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/join"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/output"
	"github.com/fleetwright/fleetwright/config/member"
)

// configuration checks the permissions for ConfigMaps and Secrets that travel to the cluster, which
// are granted in addition to the others. They are optional: there is no check if no AppService on the
// cluster needs them and it grants none.
func (e *examination) configuration(ctx context.Context) []check {
	const what = "configuration"
	checks, err := hub.Within(ctx, stepTimeout, func(ctx context.Context) ([]check, error) { return e.checkConfiguration(ctx, what) })
	if err != nil {
		return []check{failed(what, "the permissions for ConfigMaps and Secrets cannot be checked: %s", hub.ExplainContext(e.cluster.Name, err))}
	}
	return checks
}

func (e *examination) checkConfiguration(ctx context.Context, what string) ([]check, error) {
	rules, names := e.configurationRules(ctx)
	var reviews []*authorizationv1.SubjectAccessReview
	for _, grant := range rules {
		for _, rule := range grant.Rules {
			reviews = append(reviews, reviewsOf(grant.Namespace, rule)...)
		}
	}
	bindings, err := join.NamedBindings(ctx, e.cluster)
	if err != nil {
		return nil, err
	}
	namespaces := join.NamespacesOf(bindings)
	if len(names) == 0 { // nothing needs it: what does the cluster grant?
		_, isGranted, err := join.ConfigurationGrant(ctx, e.cluster)
		if err != nil || !isGranted {
			return nil, err
		}
		if reviews, err = reviewsIn(namespaces, member.Configuration); err != nil {
			return nil, err
		}
	}
	if err := e.ask(ctx, reviews); err != nil {
		return nil, err
	}
	return []check{configurationCheck(what, reviews, names, e.advice.forConfiguration(e.cluster.Name, namespaces))}, nil
}

// configurationRules returns the permissions that the configuration of the AppServices on the cluster
// needs, and the names of these AppServices. They are unknown if the caller may not read AppServices.
func (e *examination) configurationRules(ctx context.Context) ([]member.Grant, []string) {
	there, err := e.Client.ResidentsOn(ctx, e.found.Name)
	if err != nil {
		return nil, nil
	}
	var grants []member.Grant
	var names []string
	for _, key := range hub.SortedKeys(there) {
		var resources []string
		for _, entry := range there[key].App.Spec.Configuration {
			resources = append(resources, strings.ToLower(string(entry.Kind))+"s")
		}
		if len(resources) == 0 {
			continue
		}
		slices.Sort(resources)
		names = append(names, key.String())
		rule := rbacv1.PolicyRule{APIGroups: []string{corev1.GroupName}, Resources: slices.Compact(resources), Verbs: []string{"create", "patch", "delete"}}
		isAsked := func(g member.Grant) bool {
			return g.Namespace == key.Namespace && slices.Equal(g.Rules[0].Resources, rule.Resources)
		}
		if !slices.ContainsFunc(grants, isAsked) {
			grants = append(grants, member.Grant{Namespace: key.Namespace, Rules: []rbacv1.PolicyRule{rule}})
		}
	}
	return grants, names
}

// configurationCheck returns the check of the answers. names are the AppServices that need what was
// asked for.
func configurationCheck(what string, reviews []*authorizationv1.SubjectAccessReview, names []string, command string) check {
	missing := missingOf(reviews)
	switch {
	case len(missing) == 0:
		return passed(what, "Fleetwright may write ConfigMaps and Secrets for AppServices with spec.configuration")
	case len(names) == 0:
		return noted(what, "these permissions are missing, and no AppService needs them now: %s", strings.Join(missing, ", "))
	}
	return failed(what, "these permissions are missing: %s. They are needed by %s. %s", strings.Join(missing, ", "), output.ListShort(names), command)
}
