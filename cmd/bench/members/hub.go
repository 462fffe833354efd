package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/environment"
)

// atOnce is how many Secrets are written at the same time.
const atOnce = 8

// timeout limits how long a batch of members takes to join or to leave.
const timeout = 5 * time.Minute

// hub is the hub that members join. It watches the MemberClusters, so that reading them costs the
// hub nothing.
type hub struct {
	api     client.Client
	members cache.Cache
}

// newHub returns a hub that watches until the context ends.
func newHub(ctx context.Context, cluster environment.Cluster) (*hub, error) {
	api, err := environment.NewClient(cluster.Kubeconfig())
	if err != nil {
		return nil, err
	}
	if err := environment.PrepareHub(ctx, api, "config/crd/bases"); err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(cluster.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("read the hub's kubeconfig: %w", err)
	}
	members, err := cache.New(config, cache.Options{Scheme: api.Scheme()})
	if err != nil {
		return nil, fmt.Errorf("create the hub's cache: %w", err)
	}
	go func() { _ = members.Start(ctx) }() // ends with the context
	if _, err := members.GetInformer(ctx, &v1alpha1.MemberCluster{}); err != nil {
		return nil, fmt.Errorf("watch MemberClusters: %w", err)
	}
	return &hub{api: api, members: members}, nil
}

// candidate is a member that will join.
type candidate struct {
	name       string
	kubeconfig []byte
	bad        bool // never becomes Ready
}

// join creates a Secret for each candidate, and returns how long it took until all healthy
// candidates were Ready.
func (h *hub) join(ctx context.Context, batch []candidate) (time.Duration, error) {
	start := time.Now()
	errs := make([]error, len(batch))
	workqueue.ParallelizeUntil(ctx, atOnce, len(batch), func(i int) {
		errs[i] = environment.JoinWith(ctx, h.api, batch[i].name, batch[i].kubeconfig, nil)
	})
	if err := errors.Join(errs...); err != nil {
		return 0, err
	}
	err := environment.Await(ctx, timeout, "the members to join", func(ctx context.Context) error {
		ready, err := h.ready(ctx)
		if err != nil {
			return err
		}
		return missing(batch, ready)
	})
	return time.Since(start), err
}

// ready returns, by name, whether each MemberCluster is Ready.
func (h *hub) ready(ctx context.Context) (map[string]bool, error) {
	var list v1alpha1.MemberClusterList
	if err := h.members.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	ready := make(map[string]bool, len(list.Items))
	for i := range list.Items {
		ready[list.Items[i].Name] = list.Items[i].IsReady()
	}
	return ready, nil
}

// missing returns an error with the number of candidates that are not Ready and the name of one.
func missing(batch []candidate, ready map[string]bool) error {
	name, count := "", 0
	for _, c := range batch {
		if !c.bad && !ready[c.name] {
			name, count = c.name, count+1
		}
	}
	if count > 0 {
		return fmt.Errorf("%d members are not Ready, for example %s", count, name)
	}
	return nil
}

// empty removes all members, and waits until they are gone.
func (h *hub) empty(ctx context.Context) error {
	err := h.api.DeleteAllOf(ctx, &corev1.Secret{}, client.InNamespace(environment.SecretNamespace), client.HasLabels{environment.SecretLabel})
	if err != nil {
		return fmt.Errorf("remove the members' Secrets: %w", err)
	}
	return environment.Await(ctx, timeout, "the members to leave", func(ctx context.Context) error {
		ready, err := h.ready(ctx)
		if err != nil {
			return err
		}
		if len(ready) > 0 {
			return fmt.Errorf("%d members are left", len(ready))
		}
		return nil
	})
}
