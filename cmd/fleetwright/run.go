package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/transport"
	clusterinventory "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters"
	"github.com/fleetwright/fleetwright/clusters/clusterprofile"
	"github.com/fleetwright/fleetwright/controllers/configuration/snapshots"
	"github.com/fleetwright/fleetwright/controllers/configuration/sources"
	"github.com/fleetwright/fleetwright/controllers/delivery"
	"github.com/fleetwright/fleetwright/controllers/planner"
	"github.com/fleetwright/fleetwright/controllers/revision/reader"
	"github.com/fleetwright/fleetwright/internal/rewind"
)

// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=fleetwright-system,resources=leases,verbs=get;create;update

// run builds the operator from the options and runs it until the context ends.
func run(ctx context.Context, o *options) error {
	if err := o.check(); err != nil {
		return err
	}
	types, err := newScheme()
	if err != nil {
		return err
	}
	hub, err := o.hubConfig()
	if err != nil {
		return err
	}
	hubID, err := readHubID(ctx, hub, types)
	if err != nil {
		return err
	}
	hubOptions, members := o.managerOptions(types), o.memberOptions(types)
	hubOptions.Metrics = o.metrics.options(hub)
	fenced, err := o.newFencedConfigs(hub, &hubOptions, &members)
	if err != nil {
		return err
	}
	observations := planner.NewObservations()
	members.OnUnreachable = observations.ReportUnreachable
	provider, err := clusters.New(ctx, members)
	if err != nil {
		return err
	}
	manager, err := mcmanager.New(fenced, provider, hubOptions)
	if err != nil {
		return fmt.Errorf("create the manager: %w", err)
	}
	if err := o.assemble(ctx, manager, provider, observations, cmp.Or(o.hubID, hubID)); err != nil {
		return fmt.Errorf("assemble the operator: %w", err)
	}
	flush, err := o.traces.start(ctx)
	if err != nil {
		return err
	}
	manager.GetLogger().Info("Starting", "version", version, "hub", cmp.Or(o.hubID, hubID))
	if err := manager.Start(ctx); err != nil {
		return err // without flushing: another replica may lead by now
	}
	flush()
	return nil
}

// assemble connects the packages: the provider engages members with delivery, and delivery reports
// observations to the planner.
func (o *options) assemble(ctx context.Context, manager mcmanager.Manager, provider *clusters.Provider, observations *planner.Observations, hubID string) error {
	hub := manager.GetLocalManager()
	older := reader.New(hub.GetAPIReader(), o.restores.Epoch)
	configuration, err := o.newSources(hub)
	if err != nil {
		return err
	}
	contents := snapshots.NewReader(hub.GetAPIReader(), snapshots.MaxInUse, configuration)
	deliverer := delivery.New(hub, hubID, older, contents, observations, o.copiedLabels)
	planned, err := planner.SetupWithManager(hub, observations, planner.Options{
		SliceThreshold: o.sliceThreshold, Revisions: older, Sources: configuration, LastAnswer: provider.LastAnswer, PodSecurityLevel: o.podSecurity,
	})
	err = errors.Join(
		err,
		planner.SetupCounterWithManager(hub),
		manager.Add(deliverer),
		hub.Add(registerWhileLeading(deliverer)),
		hub.Add(registerWhileLeading(planned)),
		provider.SetupWithManager(ctx, hub, manager, o.secretRules),
		o.publishProfiles(hub),
	)
	if err != nil {
		return err
	}
	informers, err := informersRunning(ctx, hub.GetCache(), o.hubKinds())
	if err != nil {
		return err
	}
	return errors.Join(
		manager.AddHealthzCheck("ping", healthz.Ping),
		manager.AddHealthzCheck("informers", informers),
		manager.AddReadyzCheck("caches", cachesSynced(hub.GetCache())),
	)
}

// registerWhileLeading returns a runnable that registers a collector while this replica leads.
func registerWhileLeading(collector prometheus.Collector) manager.RunnableFunc {
	return func(ctx context.Context) error {
		if err := metrics.Registry.Register(collector); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
		<-ctx.Done()
		metrics.Registry.Unregister(collector)
		return nil
	}
}

// newSources returns the sources of spec.configuration, which only the leader watches. Without
// namespaces, nothing is started.
func (o *options) newSources(hub manager.Manager) (*sources.Sources, error) {
	configuration, err := sources.New(hub.GetConfig(), sources.Options{Namespaces: o.propagated, OperatorNamespace: o.secretNamespace, IsKubeconfig: o.secretRules.MaySelect})
	if err != nil || o.propagated.IsEmpty() {
		return configuration, err
	}
	return configuration, hub.Add(configuration)
}

// publishProfiles publishes a ClusterProfile for each member if the flag is set.
func (o *options) publishProfiles(hub manager.Manager) error {
	if !o.clusterProfiles {
		return nil
	}
	return clusterprofile.SetupWithManager(hub, clusterprofile.Options{Namespace: o.secretNamespace, SecretRules: o.secretRules, Policy: o.policy})
}

// cachesSynced returns a check that fails until the hub's caches are synced. It depends on no
// member.
func cachesSynced(hub cache.Cache) healthz.Checker {
	return func(request *http.Request) error {
		ctx, cancel := context.WithTimeout(request.Context(), time.Second)
		defer cancel()
		if !hub.WaitForCacheSync(ctx) {
			return errors.New("the hub's caches are not synced")
		}
		return nil
	}
}

func newScheme() (*runtime.Scheme, error) {
	types := runtime.NewScheme()
	return types, errors.Join(scheme.AddToScheme(types), v1alpha1.AddToScheme(types), clusterinventory.AddToScheme(types))
}

func (o *options) hubConfig() (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	hub, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.context}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("find the hub: %w", err)
	}
	hub.UserAgent = "fleetwright/" + version
	hub.QPS = -1 // the API server's own priority and fairness decides
	hub.Wrap(o.traces.wrap())
	hub.Wrap(o.restores.Wrap)
	return hub, nil
}

// shutdownTimeout limits how long the shutdown waits for work in progress. Then the Lease is
// released and the last spans are sent. All of it must fit in the 30 seconds of a pod's grace
// period.
const shutdownTimeout = 15 * time.Second

// startTimeout limits the first requests to the hub.
const startTimeout = 15 * time.Second

// readHubID returns the UID of the hub's kube-system namespace. It also checks that the hub has the
// CRDs, so that an unreachable or unprepared hub is reported in one line.
func readHubID(ctx context.Context, hub *rest.Config, types *runtime.Scheme) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	bounded := rest.CopyConfig(hub)
	bounded.Timeout = startTimeout
	c, err := client.New(bounded, client.Options{Scheme: types})
	if err != nil {
		return "", fmt.Errorf("create a client for the hub: %w", err)
	}
	namespace := &corev1.Namespace{}
	if err := c.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, namespace); err != nil {
		return "", fmt.Errorf("reach the hub at %s: %w", hub.Host, err)
	}
	for _, list := range []client.ObjectList{&v1alpha1.AppServiceList{}, &v1alpha1.AppServiceSliceList{}, &v1alpha1.MemberClusterList{}} {
		if err := c.List(ctx, list, client.Limit(1)); meta.IsNoMatchError(err) {
			return "", fmt.Errorf("the hub at %s lacks the CRDs of Fleetwright (make install, or kubectl apply --server-side -f config/crd/bases): %w", hub.Host, err)
		} else if err != nil {
			return "", fmt.Errorf("read from the hub at %s: %w", hub.Host, err)
		}
	}
	return string(namespace.UID), nil
}

func (o *options) managerOptions(types *runtime.Scheme) manager.Options {
	warm := true
	cached := map[client.Object]cache.ByObject{
		&corev1.Secret{}:    clusters.SecretCache(o.secretRules),
		&corev1.Namespace{}: {Transform: onlyLabels},
	}
	if o.clusterProfiles {
		// The operator may read ClusterProfiles in one namespace only.
		cached[&clusterinventory.ClusterProfile{}] = cache.ByObject{Namespaces: map[string]cache.Config{o.secretNamespace: {}}}
	}
	return manager.Options{
		Scheme:                        types,
		Cache:                         cache.Options{ByObject: cached},
		NewCache:                      clusters.NewCache,
		HealthProbeBindAddress:        o.probeAddress,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              "fleetwright",
		LeaderElectionNamespace:       cmp.Or(o.leaderElectionNamespace, o.secretNamespace),
		LeaderElectionReleaseOnCancel: true, // safe, because the process exits when run returns
		LeaseDuration:                 new(leaseDuration),
		RenewDeadline:                 new(renewDeadline),
		RetryPeriod:                   new(retryPeriod),
		GracefulShutdownTimeout:       new(shutdownTimeout),
		Controller: config.Controller{
			// A standby keeps the hub's caches synced.
			EnableWarmup: &warm,
			// The priority queue of controller-runtime v0.24 may hand an item to a worker that has
			// just returned. Its locks are then never released: the operator ignores SIGTERM and
			// does not release the Lease.
			UsePriorityQueue: new(false),
		},
	}
}

// onlyLabels drops from a namespace what the operator does not read.
func onlyLabels(object any) (any, error) {
	if namespace, isMeta := object.(metav1.Object); isMeta {
		namespace.SetAnnotations(nil)
		namespace.SetManagedFields(nil)
		namespace.SetFinalizers(nil)
		namespace.SetOwnerReferences(nil)
	}
	return object, nil
}

func (o *options) memberOptions(types *runtime.Scheme) clusters.Options {
	return clusters.Options{
		Scheme: types,
		Mapper: memberMapper(),
		Cache: cache.Options{
			DefaultLabelSelector: labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}),
			DefaultTransform:     delivery.Transform(),
		},
		Watch: delivery.Kinds(),
		// The handlers of package delivery add to its queues, and do nothing else.
		DirectHandlers: true,
		UserAgent:      "fleetwright/" + version,
		QPS:            o.memberQPS,
		Burst:          o.memberBurst,
		MaxListBytes:   o.memberMaxList.Value(),
		ProbeInterval:  o.probeInterval,
		SecretGrace:    o.secretGrace,
		Policy:         o.policy,
		Wrap:           transport.Wrappers(o.traces.wrap(), rewind.Wrap),
	}
}

// memberMapper returns a static mapper for the kinds that are used on members, so that no discovery
// requests are sent to members.
func memberMapper() meta.RESTMapper {
	mapper := delivery.Mapper()
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	return mapper
}
