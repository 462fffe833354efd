package e2e

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/internal/environment"
)

// grant is one verb on one kind of resource, in one namespace or in all of them.
type grant struct {
	// resource is "resource.group" or "resource/subresource.group", without ".group" for the core.
	verb, resource string
	// namespace is the namespace of a Role, and empty for a ClusterRole.
	namespace string
}

func (g grant) String() string {
	return strings.TrimSuffix(g.verb+" "+g.resource+" in "+g.namespace, " in ")
}

// verifyPrivileges returns an error if the hub or a member denied a request of the operator, which
// has the shipped permissions. If all tests have run and passed, it also returns an error if a
// grant was not used.
func verifyPrivileges(ctx context.Context, code int) error {
	unfiltered := flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.skip").Value.String() == ""
	fleets := pool.Created()
	switch {
	case len(fleets) == 0 && unfiltered && code == 0:
		return errors.New("no test used a fleet: is no test marked onKind?")
	case len(fleets) == 0:
		return nil
	}
	var hubs, joined []*framework.Cluster
	for _, f := range fleets {
		hubs = append(hubs, f.Hub)
		joined = slices.AppendSeq(joined, maps.Values(f.Members))
	}
	all := code == 0 && unfiltered && !isSubset()
	hub := &access{clusters: hubs, account: environment.OperatorAccount,
		clusterRoles: []string{"fleetwright", "fleetwright-propagation"}, roles: []string{"fleetwright", "fleetwright-configuration-key"},
		// A snapshot is deleted when nothing has named it for ten minutes.
		later: []grant{{verb: "delete", resource: "configmaps"}, {verb: "delete", resource: "secrets"}}}
	if isRest() { // only tests that are marked onKind use these; without KIND, they run here
		for _, verb := range []string{"create", "delete", "get", "update"} {
			hub.later = append(hub.later, grant{verb: verb, resource: "appserviceslices.fleetwright.dev"})
		}
		hub.later = append(hub.later, grant{verb: "delete", resource: "controllerrevisions.apps"}, grant{verb: "get", resource: "memberclusters.fleetwright.dev"})
	}
	members := &access{clusters: joined, account: environment.MemberAccount,
		clusterRoles: []string{"fleetwright-member", "fleetwright-member-configuration"}, roles: []string{"fleetwright-token"}}
	return errors.Join(hub.verify(ctx, "hub", all), members.verify(ctx, "member", all))
}

// access is a ServiceAccount on clusters that grant it the same permissions.
type access struct {
	clusters     []*framework.Cluster
	account      string
	clusterRoles []string
	roles        []string // in the namespace of the operator
	// later are grants that are used only after more time than the suite takes, or by another run.
	later []grant
}

func (a *access) verify(ctx context.Context, kind string, all bool) error {
	granted, err := a.grants(ctx)
	if err != nil {
		return err
	}
	used, requests := map[grant]bool{}, 0
	var errs []error
	for _, c := range a.clusters {
		logged, err := c.Requests(ctx)
		if err != nil {
			return fmt.Errorf("read the operator's requests to %s: %w", c.Name(), err)
		}
		for i := range logged {
			if logged[i].User.Name != "system:serviceaccount:"+environment.SecretNamespace+":"+a.account {
				continue
			}
			requests++
			if logged[i].IsDenied() && !c.WasStarting(logged[i].At) && !isProvoked(&logged[i]) {
				errs = append(errs, fmt.Errorf("%s denied a request of the operator: %s", c.Name(), &logged[i]))
			}
			for _, g := range grantsFor(&logged[i]) {
				used[g] = true
			}
		}
	}
	var unused []string
	for _, g := range granted {
		if !used[g] && !slices.Contains(a.later, g) {
			unused = append(unused, g.String())
		}
	}
	slices.Sort(unused)
	fmt.Printf("e2e: %s: %d requests, %d denied; %d grants, unused: %v\n", kind, requests, len(errs), len(granted), unused)
	if requests == 0 {
		errs = append(errs, fmt.Errorf("no %s has a request of %s: the operator uses another identity", kind, a.account))
	}
	if all && len(unused) > 0 {
		errs = append(errs, fmt.Errorf("a %s has grants that no test used: %s", kind, strings.Join(unused, ", ")))
	}
	return errors.Join(errs...)
}

// grants returns all grants of the roles on the first cluster.
func (a *access) grants(ctx context.Context) (all []grant, err error) {
	api := a.clusters[0].Client
	for _, name := range a.clusterRoles {
		role := &rbacv1.ClusterRole{}
		err = errors.Join(err, api.Get(ctx, client.ObjectKey{Name: name}, role))
		all = append(all, grantsOf(role.Rules, "")...)
	}
	for _, name := range a.roles {
		role := &rbacv1.Role{}
		err = errors.Join(err, api.Get(ctx, client.ObjectKey{Namespace: environment.SecretNamespace, Name: name}, role))
		all = append(all, grantsOf(role.Rules, role.Namespace)...)
	}
	return all, err
}

func grantsOf(rules []rbacv1.PolicyRule, namespace string) (all []grant) {
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					all = append(all, grant{verb, qualify(resource, group), namespace})
				}
			}
		}
	}
	return all
}

func qualify(resource, group string) string {
	if group == "" {
		return resource
	}
	return resource + "." + group
}

// grantsFor returns the grants that a request needs. An apply that creates the object needs two. A
// watch needs two as well, because older API servers need a list before it. A request in the
// operator's own namespace uses the Role.
func grantsFor(r *environment.Request) []grant {
	resource := r.Object.Resource
	if r.Object.Subresource != "" {
		resource += "/" + r.Object.Subresource
	}
	resource = qualify(resource, r.Object.Group)
	namespace := ""
	if r.Object.Namespace == environment.SecretNamespace {
		namespace = environment.SecretNamespace
	}
	if r.Verb == "patch" && r.Response.Code == 201 {
		return []grant{{"patch", resource, namespace}, {"create", resource, namespace}}
	}
	if r.Verb == "watch" {
		return []grant{{"watch", resource, namespace}, {"list", resource, namespace}}
	}
	return []grant{{r.Verb, resource, namespace}}
}
