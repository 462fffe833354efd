package delivery

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration/snapshots"
	"github.com/fleetwright/fleetwright/controllers/delivery/copies"
	"github.com/fleetwright/fleetwright/controllers/delivery/object"
	"github.com/fleetwright/fleetwright/controllers/revision/reader"
)

const (
	// workers is how many AppServices are delivered to one member at a time.
	workers = 2
	// A failed delivery is retried after minBackoff. The delay doubles up to maxBackoff.
	minBackoff, maxBackoff = time.Second, 5 * time.Minute
	// timeout bounds one delivery.
	timeout = time.Minute
)

// workQueue has the AppServices that one member is to reconcile.
type workQueue = workqueue.TypedRateLimitingInterface[mcreconcile.Request]

// Deliverer runs a controller for each engaged member. It is a [multicluster.Aware] and a collector
// of metrics. It is safe for concurrent use.
type Deliverer struct {
	hub      cluster.Cluster
	events   events.EventRecorder
	hubID    string
	reporter Reporter
	verifier *verifier
	// revisions are shared by all members.
	revisions  *reader.Reader
	snapshots  *snapshots.Reader
	namespaces *hubNamespaces
	looks      *looks

	mu sync.Mutex
	// engagements has the engagements of each member, the newest last.
	engagements map[multicluster.ClusterName][]*engagement
}

// New returns a Deliverer for the AppServices of a hub. It marks its objects with the identity of
// the hub, and reports its observations. The templates of older revisions and the contents of
// snapshots come from their readers. A namespace that is created on a member gets the labels of pod
// security and the selected ones.
func New(hub cluster.Cluster, hubID string, older *reader.Reader, contents *snapshots.Reader, reporter Reporter, selected NamespaceLabels) *Deliverer {
	return &Deliverer{
		hub:         hub,
		events:      hub.GetEventRecorder(eventSource),
		hubID:       hubID,
		reporter:    reporter,
		verifier:    &verifier{hubLive: hub.GetAPIReader(), reads: map[types.NamespacedName]*liveRead{}},
		revisions:   older,
		looks:       newLooks(),
		snapshots:   contents,
		namespaces:  &hubNamespaces{live: hub.GetAPIReader(), selected: selected},
		engagements: map[multicluster.ClusterName][]*engagement{},
	}
}

// Kinds returns the kinds that a member's cache must have.
func Kinds() []client.Object { return []client.Object{&appsv1.Deployment{}, &corev1.Service{}} }

// Mapper returns a mapper for the kinds that are used on a member.
func Mapper() *meta.DefaultRESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("Deployment"), meta.RESTScopeNamespace)
	mapper.Add(autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"), meta.RESTScopeNamespace)
	mapper.Add(eventsv1.SchemeGroupVersion.WithKind("Event"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Service"), meta.RESTScopeNamespace)
	mapper.Add(policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), meta.RESTScopeNamespace)
	return mapper
}

// Engage starts the controller of a member, which ends with the context. It returns after the
// controller has read the member, from caches that are in sync already: a controller that cannot
// start is no engagement, so the member must not be shown as Ready.
//
// A member may have several engagements at a time, each with another Cluster. The newest gets the
// hub's events; when it ends, the one before it gets them again. A Cluster that is engaged stays so:
// another call changes nothing.
func (d *Deliverer) Engage(ctx context.Context, name multicluster.ClusterName, member cluster.Cluster) error {
	if d.isEngaged(name, member) {
		return nil
	}
	skip := true // one name for the metrics of all members
	log := ctrl.Log.WithName("delivery").WithValues("cluster", name)
	r, err := d.reconciler(ctx, name, member)
	if err != nil {
		return err
	}
	c, err := controller.NewTypedUnmanaged("delivery", controller.TypedOptions[mcreconcile.Request]{
		SkipNameValidation:      &skip,
		MaxConcurrentReconciles: workers,
		ReconciliationTimeout:   timeout,
		EnableWarmup:            new(true),
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[mcreconcile.Request](minBackoff, maxBackoff),
		NewQueue:                r.engagement.newQueue,
		Reconciler:              r,
		LogConstructor:          func(request *mcreconcile.Request) logr.Logger { return logger(log, request) },
	})
	if err != nil {
		return fmt.Errorf("make the controller: %w", err)
	}
	sources := []source.TypedSource[mcreconcile.Request]{source.TypedFunc[mcreconcile.Request](func(_ context.Context, q workQueue) error {
		r.engagement.begin(q)
		return nil
	})}
	for _, kind := range Kinds() {
		sources = append(sources, source.TypedKind(member.GetCache(), kind, handler.TypedEnqueueRequestsFromMapFunc(toApp(name))))
	}
	for _, s := range sources {
		if err := c.Watch(s); err != nil {
			return fmt.Errorf("watch the member: %w", err)
		}
	}
	// Only starting the sources can fail. Warmup does that and nothing else.
	warm, can := c.(interface {
		Warmup(ctx context.Context) error
	})
	if !can {
		return errors.New("the controller cannot start its sources by itself")
	}
	if err := warm.Warmup(ctx); err != nil {
		return fmt.Errorf("start to watch: %w", err)
	}
	if err := d.join(ctx, name, r.engagement); err != nil {
		return err
	}
	go func() {
		if err := c.Start(ctx); err != nil {
			log.Error(err, "Stop delivering")
		}
	}()
	return nil
}

func (d *Deliverer) reconciler(ctx context.Context, name multicluster.ClusterName, member cluster.Cluster) (*reconciler, error) {
	writer, err := copies.NewWriter(member.GetConfig(), member.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	e := newEngagement(ctx, member, d.reporter)
	toRequests := toApp(name)
	enqueue := func(o client.Object) {
		for _, request := range toRequests(context.Background(), o) {
			e.add(request)
		}
	}
	onApply := func(err error, took time.Duration) { measureApply(name.String(), err, took) }
	objects := &object.Member{
		HubID:           d.hubID,
		NamespaceLabels: d.namespaces.labels,
		Client:          member.GetClient(),
		Live:            member.GetAPIReader(),
		OnApply:         onApply,
	}
	announcer := announcer{
		hubID: d.hubID, cluster: name.String(), hub: d.events,
		member: func() events.EventRecorder { return member.GetEventRecorder(eventSource) },
	}
	reader := objectReader{hubID: d.hubID, cached: member.GetClient(), live: member.GetAPIReader(), watches: newWatches(member.GetCache(), enqueue)}
	return &reconciler{
		hub:        d.hub.GetClient(),
		hubID:      d.hubID,
		cluster:    name.String(),
		reader:     reader,
		confirmer:  confirmer{hubLive: d.hub.GetAPIReader(), cluster: name.String(), member: reader},
		revisions:  d.revisions,
		copies:     &copies.Ensurer{Writer: writer, Snapshots: d.snapshots, OnApply: onApply, DeletionRetry: blockerRetry},
		objects:    objects,
		announcer:  announcer,
		engagement: e,
		looks:      d.looks,
		memories:   memories{pods: newPodLists(member.GetAPIReader())},
		remover:    remover{verifier: d.verifier, cluster: name.String(), objects: objects, announcer: announcer},
		tombstones: tombstones{
			hub: d.hub.GetClient(), hubLive: d.hub.GetAPIReader(), hubWriter: d.hub.GetClient(),
			cluster: name.String(), reader: reader, objects: objects, announcer: announcer,
		},
	}, nil
}

// logger adds the AppService to every line.
func logger(log logr.Logger, request *mcreconcile.Request) logr.Logger {
	if request == nil {
		return log
	}
	return log.WithValues("AppService", request.NamespacedName)
}

// toApp maps an object of a member to the AppService in its label.
func toApp(name multicluster.ClusterName) handler.TypedMapFunc[client.Object, mcreconcile.Request] {
	return func(_ context.Context, changed client.Object) []mcreconcile.Request {
		app := changed.GetLabels()[v1alpha1.LabelAppService]
		if app == "" || app != changed.GetName() {
			return nil
		}
		return []mcreconcile.Request{requestFor(name, client.ObjectKeyFromObject(changed))}
	}
}

func requestFor(cluster multicluster.ClusterName, app types.NamespacedName) mcreconcile.Request {
	return mcreconcile.Request{ClusterName: cluster, Request: ctrl.Request{NamespacedName: app}}
}
