package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/e2e/environment"
)

// grant is one verb on one kind of resource, in one namespace or everywhere.
type grant struct {
	// resource is "resource.group", or "resource/subresource.group", without the dot where the group is the core's.
	verb, resource string
	// namespace is that of a Role; none for a ClusterRole.
	namespace string
}

func (g grant) String() string {
	return strings.TrimSuffix(g.verb+" "+g.resource+" in "+g.namespace, " in ")
}

// checkPrivileges tells with a nil error that the operator was never denied anything, on the hub and on all members, and, if the whole
// suite has run, that it has made use of all that it is granted there. It acts by the rights that are shipped.
func (f *fleet) checkPrivileges(ctx context.Context, whole bool) error {
	hub := &access{clusters: []*cluster{f.hub}, account: environment.OperatorAccount,
		clusterRole: "fleetwright", role: client.ObjectKey{Namespace: environment.SecretNamespace, Name: "fleetwright"}}
	members := &access{clusters: slices.Collect(maps.Values(f.members)), account: environment.MemberAccount, clusterRole: "fleetwright-member"}
	return errors.Join(hub.check(ctx, "hub", whole), members.check(ctx, "member", whole))
}

// access is what one ServiceAccount may do and has done, on clusters that grant the same.
type access struct {
	clusters    []*cluster
	account     string
	clusterRole string
	role        client.ObjectKey
}

func (a *access) check(ctx context.Context, of string, whole bool) error {
	granted, err := a.granted(ctx)
	if err != nil {
		return err
	}
	used, requests := map[grant]bool{}, 0
	var denied []error
	for _, c := range a.clusters {
		all, err := c.Requests(ctx)
		if err != nil {
			return fmt.Errorf("read what the operator has asked of %s: %w", c.Name(), err)
		}
		for i := range all {
			if all[i].User.Name != "system:serviceaccount:"+environment.SecretNamespace+":"+a.account {
				continue
			}
			requests++
			if all[i].Denied() && !c.wasStarting(all[i].At) {
				denied = append(denied, fmt.Errorf("%s has denied the operator: %s", c.Name(), &all[i]))
			}
			for _, g := range uses(&all[i]) {
				used[g] = true
			}
		}
	}
	var idle []string
	for _, g := range granted {
		if !used[g] {
			idle = append(idle, g.String())
		}
	}
	slices.Sort(idle)
	fmt.Printf("e2e: %s: %d requests, %d denied; of %d grants unused: %v\n", of, requests, len(denied), len(granted), idle)
	if requests == 0 {
		denied = append(denied, fmt.Errorf("no %s was asked for anything by %s: the operator acts as somebody else", of, a.account))
	}
	if whole && len(idle) > 0 {
		denied = append(denied, fmt.Errorf("a %s grants what no test has made use of: %s", of, strings.Join(idle, ", ")))
	}
	return errors.Join(denied...)
}

// wasStarting tells whether a cluster was about to start at a time: an API server that has not read the roles yet denies everything.
func (c *cluster) wasStarting(at time.Time) bool {
	return slices.ContainsFunc(c.starts, func(s span) bool { return !at.Before(s.begun) && at.Before(s.ended) })
}

// Start is [environment.Cluster]'s.
func (c *cluster) Start(ctx context.Context) error {
	begun := time.Now()
	defer func() { c.starts = append(c.starts, span{begun, time.Now()}) }()
	return c.Cluster.Start(ctx)
}

type span struct{ begun, ended time.Time }

// granted is all that the roles grant, as the first of the clusters has them.
func (a *access) granted(ctx context.Context) ([]grant, error) {
	clusterRole, role := &rbacv1.ClusterRole{}, &rbacv1.Role{}
	err := a.clusters[0].api.Get(ctx, client.ObjectKey{Name: a.clusterRole}, clusterRole)
	if a.role.Name != "" {
		err = errors.Join(err, a.clusters[0].api.Get(ctx, a.role, role))
	}
	return append(grants(clusterRole.Rules, ""), grants(role.Rules, role.Namespace)...), err
}

func grants(rules []rbacv1.PolicyRule, namespace string) (all []grant) {
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					all = append(all, grant{verb, qualified(resource, group), namespace})
				}
			}
		}
	}
	return all
}

func qualified(resource, group string) string {
	if group == "" {
		return resource
	}
	return resource + "." + group
}

// uses are the grants that a request needs. An apply that makes the object needs two, and so does a watch: where an API server does not begin
// it with what there is, that is listed. What is done in the operator's own namespace makes use of no right that it has everywhere.
func uses(r *environment.Request) []grant {
	resource := r.Object.Resource
	if r.Object.Subresource != "" {
		resource += "/" + r.Object.Subresource
	}
	resource = qualified(resource, r.Object.Group)
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
