package ui

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/liveness"
)

const (
	// probeInterval is the time between two questions to the hub whether it still answers. A page
	// hears of the hub as often, so that it notices a lost stream.
	probeInterval = 5 * time.Second
	probeTimeout  = 3 * time.Second
)

// Hub is the state of the connection to the hub.
type Hub struct {
	// Context is the name of the kubeconfig context, and Namespace the only namespace that is
	// shown.
	Context   string `json:"context,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	// LastAnswer is when the hub last answered. Problem is why it does not answer now.
	LastAnswer metav1.Time `json:"lastAnswer"`
	Problem    string      `json:"problem,omitempty"`
	// OperatorProblem is why what the operator wrote may be old. It is empty if the operator runs,
	// and if that is not known: the user may not read the Lease, or the hub does not answer.
	OperatorProblem string `json:"operatorProblem,omitempty"`
	Kinds           []Kind `json:"kinds"`
}

// Kind is the state of the list of one resource.
type Kind struct {
	Resource string `json:"resource"`
	// Synced is true if the list was read.
	Synced bool `json:"synced"`
	// Problem is why the list cannot be read or watched now.
	Problem string `json:"problem,omitempty"`
}

// fleet watches the hub.
type fleet struct {
	options Options
	client  rest.Interface
	feed    *feed
	apps    *source
	slices  *source
	members *source

	leases coordinationv1client.LeaseInterface

	mu              sync.Mutex
	lastAnswer      time.Time
	problem         string
	operatorProblem string
}

func newFleet(options Options) (*fleet, error) {
	client, err := newClient(options.Config)
	if err != nil {
		return nil, err
	}
	coordination, err := coordinationv1client.NewForConfig(options.Config)
	if err != nil {
		return nil, err
	}
	f := &fleet{options: options, client: client, leases: coordination.Leases(options.OperatorNamespace), lastAnswer: time.Now()}
	f.feed = newFeed(f.render)
	wake := func() { f.feed.touch() }
	if f.apps, err = newSource(client, "appservices", options.Namespace, &v1alpha1.AppService{}, wake); err != nil {
		return nil, err
	}
	if f.slices, err = newSource(client, "appserviceslices", options.Namespace, &v1alpha1.AppServiceSlice{}, wake); err != nil {
		return nil, err
	}
	if f.members, err = newSource(client, "memberclusters", metav1.NamespaceAll, &v1alpha1.MemberCluster{}, wake); err != nil {
		return nil, err
	}
	return f, f.subscribe()
}

// newClient returns a client of our API group. It needs no discovery, so it can be made while the
// hub does not answer.
func newClient(config *rest.Config) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	metav1.AddToGroupVersion(scheme, v1alpha1.GroupVersion)
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion = "/apis", &v1alpha1.GroupVersion
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	return rest.RESTClientFor(config)
}

// subscribe passes each change of an object to the feed. A slice belongs to its AppService.
func (f *fleet) subscribe() error {
	subscriptions := map[*source]func(object any) objectKey{
		f.apps: func(object any) objectKey {
			app := object.(*v1alpha1.AppService)
			return objectKey{appKind, app.Namespace, app.Name}
		},
		f.slices: func(object any) objectKey {
			slice := object.(*v1alpha1.AppServiceSlice)
			return objectKey{appKind, slice.Namespace, slice.AppService.Name}
		},
		f.members: func(object any) objectKey {
			return objectKey{kind: clusterKind, name: object.(*v1alpha1.MemberCluster).Name}
		},
	}
	for source, keyOf := range subscriptions {
		touch := func(object any) {
			if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = gone.Obj
			}
			f.feed.touch(keyOf(object))
		}
		_, err := source.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    touch,
			UpdateFunc: func(_, object any) { touch(object) },
			DeleteFunc: touch,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// run watches the hub until the context ends. It logs nothing: the page shows what is wrong.
func (f *fleet) run(ctx context.Context) {
	ctx = klog.NewContext(ctx, logr.Discard())
	var running sync.WaitGroup
	for _, source := range f.sources() {
		running.Go(func() { source.informer.RunWithContext(ctx) })
		running.Go(func() {
			if cache.WaitForCacheSync(ctx.Done(), source.informer.HasSynced) {
				f.feed.touch()
			}
		})
	}
	running.Go(func() { f.probe(ctx) })
	running.Wait()
}

func (f *fleet) sources() []*source { return []*source{f.apps, f.slices, f.members} }

// probe asks the hub regularly whether it answers, because a watch that is silent may be a watch
// that is lost. If the hub answers, probe reads the Lease of the operator. The roles permit to get
// the Lease, and not to watch it.
func (f *fleet) probe(ctx context.Context) {
	ticker := time.NewTicker(probeInterval)
	defer ticker.Stop()
	for {
		err := f.client.Get().AbsPath("/version").Timeout(probeTimeout).Do(ctx).Error()
		if ctx.Err() != nil {
			return
		}
		problem, operatorProblem := connectionProblem(err), ""
		if problem == "" {
			operatorProblem = f.readLease(ctx)
		}
		f.noteProbe(problem, operatorProblem, time.Now())
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// readLease returns why what the operator wrote may be old, or "" if the operator runs or that is not
// known.
func (f *fleet) readLease(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	lease, err := f.leases.Get(ctx, liveness.LeaseName, metav1.GetOptions{})
	problem, isKnown := liveness.Assess(f.options.OperatorNamespace, lease, err, time.Now())
	if !isKnown {
		return ""
	}
	return problem
}

// connectionProblem returns why the hub does not answer a probe, or "". A hub that refuses the request
// does answer, unless it refuses the credentials: then it refuses the watches too.
func connectionProblem(err error) string {
	var status apierrors.APIStatus
	switch {
	case apierrors.IsUnauthorized(err):
		return describeProblem("anything", err)
	case err != nil && (!errors.As(err, &status) || status.Status().Code >= 500 || status.Status().Code == 0):
		return "the hub does not answer: " + err.Error()
	}
	return ""
}

// noteProbe remembers the result of a probe.
func (f *fleet) noteProbe(problem, operatorProblem string, now time.Time) {
	f.mu.Lock()
	isNew := problem != f.problem || operatorProblem != f.operatorProblem
	f.problem, f.operatorProblem = problem, operatorProblem
	if problem == "" {
		f.lastAnswer = now
	}
	f.mu.Unlock()
	if isNew {
		f.feed.touch()
	}
}

// hub returns the state of the connection to the hub.
func (f *fleet) hub() Hub {
	f.mu.Lock()
	state := Hub{Context: f.options.Context, Namespace: f.options.Namespace, LastAnswer: metav1.Time{Time: f.lastAnswer}, Problem: f.problem, OperatorProblem: f.operatorProblem}
	f.mu.Unlock()
	for _, source := range f.sources() {
		state.Kinds = append(state.Kinds, source.state())
	}
	return state
}

// render returns what the page shows of an object.
func (f *fleet) render(key objectKey) (any, bool) {
	if key.kind == clusterKind {
		member, exists := f.member(key.name)
		if !exists {
			return nil, false
		}
		return clusterOf(member), true
	}
	app, exists := f.app(key.namespace, key.name)
	if !exists {
		return nil, false
	}
	return appOf(app, f.entries(app)), true
}

// app returns the AppService, which must not be modified.
func (f *fleet) app(namespace, name string) (*v1alpha1.AppService, bool) {
	object, exists, _ := f.apps.informer.GetStore().GetByKey(namespace + "/" + name)
	if !exists {
		return nil, false
	}
	return object.(*v1alpha1.AppService), true
}

// member returns the MemberCluster, which must not be modified.
func (f *fleet) member(name string) (*v1alpha1.MemberCluster, bool) {
	object, exists, _ := f.members.informer.GetStore().GetByKey(name)
	if !exists {
		return nil, false
	}
	return object.(*v1alpha1.MemberCluster), true
}

// entries returns the entries of an AppService, from its status or from its slices. They must not
// be modified.
func (f *fleet) entries(app *v1alpha1.AppService) []v1alpha1.ClusterStatus {
	if !app.Status.HasSlices() {
		return app.Status.Clusters
	}
	var stored []v1alpha1.AppServiceSlice
	for slot := range int32(v1alpha1.SliceCount) {
		if object, exists, _ := f.slices.informer.GetStore().GetByKey(app.Namespace + "/" + v1alpha1.SliceName(app.Name, slot)); exists {
			stored = append(stored, *object.(*v1alpha1.AppServiceSlice))
		}
	}
	known, _ := app.Entries(stored)
	return known
}

// allMembers returns all MemberClusters, which must not be modified.
func (f *fleet) allMembers() []v1alpha1.MemberCluster {
	var members []v1alpha1.MemberCluster
	for _, object := range f.members.informer.GetStore().List() {
		members = append(members, *object.(*v1alpha1.MemberCluster))
	}
	return members
}
