package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// contextTimeout is how long the cluster of a context may take to answer when all contexts are
// tried.
const contextTimeout = 5 * time.Second

// contextsAtOnce is how many contexts are tried at a time.
const contextsAtOnce = 32

// Contexts are the contexts of a kubeconfig of the caller.
type Contexts struct {
	Kubeconfig clientcmdapi.Config
	// Source says where the contexts are from, for messages.
	Source string
	// timeout limits each request, as the flag --request-timeout does. "0" is no limit.
	timeout string
	// patience is how long the cluster of a context may take to answer when all are tried.
	patience time.Duration
}

// ContextCluster is the cluster of a context, with the permissions of the caller.
type ContextCluster struct {
	client.WithWatch
	Name   string
	Config *rest.Config
}

// Contexts returns the contexts of a file, or of the kubeconfig of the flags and the environment if
// no file is given.
func (o *Options) Contexts(file string) (Contexts, error) {
	if file != "" {
		rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: file}
		kubeconfig, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).RawConfig()
		return Contexts{kubeconfig, file, *o.Timeout, contextTimeout}, err
	}
	kubeconfig, err := o.ToRawKubeConfigLoader().RawConfig()
	return Contexts{kubeconfig, "your kubeconfig", *o.Timeout, contextTimeout}, err
}

// Bounded returns the contexts with a limit for each request, unless the flag has set one.
func (c Contexts) Bounded(limit time.Duration) Contexts {
	if set, err := clientcmd.ParseTimeout(c.timeout); err == nil && set == 0 {
		c.timeout = limit.String()
	}
	return c
}

// Cluster returns the cluster of a context. It sends no request.
func (c Contexts) Cluster(name string) (ContextCluster, error) {
	if c.Kubeconfig.Contexts[name] == nil {
		return ContextCluster{}, fmt.Errorf("there is no context %q in %s; it has: %s", name, c.Source, c.names())
	}
	config, err := clientcmd.NewNonInteractiveClientConfig(c.Kubeconfig, name, &clientcmd.ConfigOverrides{Timeout: c.timeout}, nil).ClientConfig()
	if err != nil {
		return ContextCluster{}, fmt.Errorf("context %q of %s: %w", name, c.Source, err)
	}
	config.UserAgent = rest.DefaultKubernetesUserAgent()
	config.QPS, config.Burst = 50, 300
	api, err := client.NewWithWatch(config, client.Options{Scheme: NewScheme()})
	if err != nil {
		return ContextCluster{}, fmt.Errorf("context %q of %s: %w", name, c.Source, err)
	}
	return ContextCluster{api, name, config}, nil
}

// Named returns the contexts with the name of a cluster: that name, and those from which join makes it.
func (c Contexts) Named(name string) []string {
	var names []string
	for _, other := range slices.Sorted(maps.Keys(c.Kubeconfig.Contexts)) {
		if other == name {
			names = slices.Insert(names, 0, other)
		} else if DefaultName(other) == name {
			names = append(names, other)
		}
	}
	return names
}

func (c Contexts) names() string {
	const shown = 10
	names := slices.Sorted(maps.Keys(c.Kubeconfig.Contexts))
	switch {
	case len(names) == 0:
		return "none"
	case len(names) > shown:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
	}
	return strings.Join(names, ", ")
}

// ReadClusterID returns the identity of a cluster: the UID of its namespace kube-system.
func ReadClusterID(ctx context.Context, cluster client.Reader) (types.UID, error) {
	system := &corev1.Namespace{}
	if err := cluster.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		return "", err
	}
	return system.UID, nil
}

// ContextMatches says to which clusters the contexts of the caller lead.
type ContextMatches struct {
	// ByID has a context for each cluster that answered. It is the first by name if several
	// contexts lead to the same cluster.
	ByID map[types.UID]ContextCluster
	// Errs has the errors of the contexts that did not answer.
	Errs map[string]error
}

// Match asks the cluster of each context for its identity: at most contextsAtOnce at a time, each
// with the patience of the contexts. It stores nothing.
// docs/decisions/contexts-are-matched-by-identity.md says why.
func (c Contexts) Match(ctx context.Context) ContextMatches {
	type answer struct {
		cluster ContextCluster
		id      types.UID
		err     error
	}
	names := c.distinct()
	answers, slots := make(chan answer, len(names)), make(chan struct{}, contextsAtOnce)
	for _, name := range names {
		go func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			cluster, err := c.Cluster(name)
			if err != nil {
				answers <- answer{ContextCluster{Name: name}, "", err}
				return
			}
			id, err := Within(ctx, c.patience, func(ctx context.Context) (types.UID, error) { return ReadClusterID(ctx, cluster) })
			answers <- answer{cluster, id, err}
		}()
	}
	found := ContextMatches{map[types.UID]ContextCluster{}, map[string]error{}}
	for range names {
		got := <-answers
		if got.err != nil {
			found.Errs[got.cluster.Name] = got.err
		} else if other, has := found.ByID[got.id]; !has || got.cluster.Name < other.Name {
			found.ByID[got.id] = got.cluster
		}
	}
	return found
}

// distinct returns the names of the contexts, without those that differ only in the namespace from
// another one.
func (c Contexts) distinct() []string {
	type target struct{ cluster, user string }
	first := map[target]string{}
	for _, name := range slices.Sorted(maps.Keys(c.Kubeconfig.Contexts)) {
		to := target{c.Kubeconfig.Contexts[name].Cluster, c.Kubeconfig.Contexts[name].AuthInfo}
		if first[to] == "" {
			first[to] = name
		}
	}
	return slices.Sorted(maps.Values(first))
}

// Within returns the result of do, or the error of the context when the time is over. A program that a
// kubeconfig runs for credentials does not end with the context, so do may still run then.
func Within[T any](ctx context.Context, limit time.Duration, do func(context.Context) (T, error)) (T, error) {
	deadline := time.Now().Add(limit)
	ctx, cancel := context.WithDeadline(ctx, deadline)
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
		// At the deadline, do may fail before the context does, and in words of its own.
		if got.err == nil || ctx.Err() == nil && time.Now().Before(deadline) {
			return got.value, got.err
		}
	case <-ctx.Done():
	}
	var none T
	return none, cmp.Or(ctx.Err(), context.DeadlineExceeded)
}

// ExplainContext returns the message of an error of the cluster of a context that is not the hub.
func ExplainContext(name string, err error) string {
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

// DefaultName returns a DNS label that is made from the name of a context, or "" if the name has
// neither a letter nor a digit.
func DefaultName(contextName string) string {
	words := strings.FieldsFunc(strings.ToLower(contextName), func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-'
	})
	name := strings.Trim(strings.Join(words, "-"), "-")
	return strings.Trim(name[:min(len(name), validation.DNS1123LabelMaxLength)], "-")
}
