package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/config/member"
)

// contextTimeout is how long the cluster of a context may take to answer when all contexts are
// tried.
const contextTimeout = 5 * time.Second

// contextsAtOnce is how many contexts are tried at a time.
const contextsAtOnce = 32

// contexts are the contexts of a kubeconfig of the caller.
type contexts struct {
	kubeconfig clientcmdapi.Config
	// source says where the contexts are from, for messages.
	source string
	// timeout limits each request, as the flag --request-timeout does. "0" is no limit.
	timeout string
	// patience is how long the cluster of a context may take to answer when all are tried.
	patience time.Duration
}

// contextCluster is the cluster of a context, with the permissions of the caller.
type contextCluster struct {
	client.WithWatch
	name   string
	config *rest.Config
}

// contexts returns the contexts of a file, or of the kubeconfig of the flags and the environment if
// no file is given.
func (o *hubOptions) contexts(file string) (contexts, error) {
	if file != "" {
		rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: file}
		kubeconfig, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).RawConfig()
		return contexts{kubeconfig, file, *o.Timeout, contextTimeout}, err
	}
	kubeconfig, err := o.ToRawKubeConfigLoader().RawConfig()
	return contexts{kubeconfig, "your kubeconfig", *o.Timeout, contextTimeout}, err
}

// bounded returns the contexts with a limit for each request, unless the flag has set one.
func (c contexts) bounded(limit time.Duration) contexts {
	if set, err := clientcmd.ParseTimeout(c.timeout); err == nil && set == 0 {
		c.timeout = limit.String()
	}
	return c
}

// cluster returns the cluster of a context. It sends no request.
func (c contexts) cluster(name string) (contextCluster, error) {
	if c.kubeconfig.Contexts[name] == nil {
		return contextCluster{}, fmt.Errorf("there is no context %q in %s; it has: %s", name, c.source, c.names())
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(c.kubeconfig, name, &clientcmd.ConfigOverrides{Timeout: c.timeout}, nil).ClientConfig()
	if err != nil {
		return contextCluster{}, fmt.Errorf("context %q of %s: %w", name, c.source, err)
	}
	config.UserAgent = rest.DefaultKubernetesUserAgent()
	config.QPS, config.Burst = 50, 300
	api, err := client.NewWithWatch(config, client.Options{Scheme: newScheme()})
	if err != nil {
		return contextCluster{}, fmt.Errorf("context %q of %s: %w", name, c.source, err)
	}
	return contextCluster{api, name, config}, nil
}

// named returns the contexts with the name of a cluster: that name, and those from which join makes it.
func (c contexts) named(name string) []string {
	var names []string
	for _, other := range slices.Sorted(maps.Keys(c.kubeconfig.Contexts)) {
		if other == name {
			names = slices.Insert(names, 0, other)
		} else if defaultName(other) == name {
			names = append(names, other)
		}
	}
	return names
}

func (c contexts) names() string {
	const shown = 10
	names := slices.Sorted(maps.Keys(c.kubeconfig.Contexts))
	switch {
	case len(names) == 0:
		return "none"
	case len(names) > shown:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
	}
	return strings.Join(names, ", ")
}

// readClusterID returns the identity of a cluster: the UID of its namespace kube-system.
func readClusterID(ctx context.Context, cluster client.Reader) (types.UID, error) {
	system := &corev1.Namespace{}
	if err := cluster.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		return "", err
	}
	return system.UID, nil
}

// contextMatches says to which clusters the contexts of the caller lead.
type contextMatches struct {
	// byID has a context for each cluster that answered. It is the first by name if several
	// contexts lead to the same cluster.
	byID map[types.UID]contextCluster
	// errs has the errors of the contexts that did not answer.
	errs map[string]error
}

// match asks the cluster of each context for its identity: at most contextsAtOnce at a time, each
// with the patience of the contexts. It stores nothing.
func (c contexts) match(ctx context.Context) contextMatches {
	type answer struct {
		cluster contextCluster
		id      types.UID
		err     error
	}
	names := c.distinct()
	answers, slots := make(chan answer, len(names)), make(chan struct{}, contextsAtOnce)
	for _, name := range names {
		go func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			cluster, err := c.cluster(name)
			if err != nil {
				answers <- answer{contextCluster{name: name}, "", err}
				return
			}
			id, err := within(ctx, c.patience, func(ctx context.Context) (types.UID, error) { return readClusterID(ctx, cluster) })
			answers <- answer{cluster, id, err}
		}()
	}
	found := contextMatches{map[types.UID]contextCluster{}, map[string]error{}}
	for range names {
		got := <-answers
		if got.err != nil {
			found.errs[got.cluster.name] = got.err
		} else if other, has := found.byID[got.id]; !has || got.cluster.name < other.name {
			found.byID[got.id] = got.cluster
		}
	}
	return found
}

// distinct returns the names of the contexts, without those that differ only in the namespace from
// another one.
func (c contexts) distinct() []string {
	type target struct{ cluster, user string }
	first := map[target]string{}
	for _, name := range slices.Sorted(maps.Keys(c.kubeconfig.Contexts)) {
		to := target{c.kubeconfig.Contexts[name].Cluster, c.kubeconfig.Contexts[name].AuthInfo}
		if first[to] == "" {
			first[to] = name
		}
	}
	return slices.Sorted(maps.Values(first))
}

// within returns the result of do, or an error when the time is over. A program that a kubeconfig
// runs for credentials does not end with the context, so do may still run then.
func within[T any](ctx context.Context, limit time.Duration, do func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := do(ctx)
		done <- result{value, err}
	}()
	select {
	case got := <-done:
		return got.value, got.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// explainContext returns the message of an error of the cluster of a context that is not the hub.
func explainContext(name string, err error) string {
	switch connection := unreachable(err); {
	case connection != "":
		return fmt.Sprintf("the cluster of context %s: %s", name, connection)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("the cluster of context %s does not answer in time: check the context, the network and the VPN", name)
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("the cluster of context %s: %v: use a context of an administrator of this cluster", name, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Sprintf("the cluster of context %s does not accept its credentials: log in again", name)
	}
	return fmt.Sprintf("the cluster of context %s: %v", name, err)
}

// namedBindings returns the RoleBindings of the namespaces in which Fleetwright may write, if it may
// not write in all.
func namedBindings(ctx context.Context, cluster client.Reader) ([]rbacv1.RoleBinding, error) {
	bindings := &rbacv1.RoleBindingList{}
	if err := cluster.List(ctx, bindings); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(bindings.Items, func(b rbacv1.RoleBinding) bool {
		return b.Name != member.Role || b.RoleRef.Kind != "ClusterRole" || b.RoleRef.Name != member.NamespaceRole
	}), nil
}

// configurationGrant returns the objects of config/member/configuration that a cluster has: the
// ClusterRole and its bindings. The ServiceAccount has permissions if there is a binding.
func configurationGrant(ctx context.Context, cluster client.Reader) (objects []client.Object, isGranted bool, err error) {
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

// namespacesOf returns the namespaces of RoleBindings, sorted.
func namespacesOf(bindings []rbacv1.RoleBinding) []string {
	var namespaces []string
	for i := range bindings {
		namespaces = append(namespaces, bindings[i].Namespace)
	}
	slices.Sort(namespaces)
	return namespaces
}
