package lineage_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/delivery"
	"github.com/fleetwright/fleetwright/controllers/planner"
)

// patience is the timeout of each wait. Only a failing test reaches it.
const patience = time.Minute

// fleetOf is a hub with an AppService in a namespace of its own, two members, and an operator,
// which is the real planner and the real delivery. The members have no controllers, so a Deployment
// becomes available only if the test makes it available.
type fleetOf struct {
	*testing.T
	app      *v1alpha1.AppService
	operator *operator
}

// operator is one process lifetime of the planner and of delivery.
type operator struct {
	deliverer *delivery.Deliverer
	ctx       context.Context
	engaged   map[string]context.CancelFunc
	sent      map[string]*traffic // requests, by member
	stop      func()
}

// deployed creates a fleet and an AppService, changed by the given functions. All members are Ready
// and engaged.
func deployed(t *testing.T, changes ...func(*v1alpha1.AppService)) *fleetOf {
	t.Helper()
	f := &fleetOf{T: t, app: &v1alpha1.AppService{}}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shop-"}}
	f.must(hub.Create(t.Context(), namespace))
	for name := range members {
		mc := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"at": name}}}
		f.must(hub.Create(t.Context(), mc))
		t.Cleanup(func() {
			ctx, cancel := background()
			defer cancel()
			f.must(client.IgnoreNotFound(hub.Delete(ctx, mc)))
		})
		f.answers(name, metav1.ConditionTrue)
	}
	f.app.Namespace, f.app.Name = namespace.Name, "web"
	f.app.Spec = v1alpha1.AppServiceSpec{Image: "web:1", Replicas: new(int32(2))}
	for _, change := range changes {
		change(f.app)
	}
	f.must(hub.Create(t.Context(), f.app))
	f.start()
	return f
}

func (f *fleetOf) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// start starts a new operator and engages all members that are Ready.
func (f *fleetOf) start() {
	f.Helper()
	manager, err := ctrl.NewManager(hub.config, ctrl.Options{
		Scheme:     kinds,
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{f.app.Namespace: {}}},
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
	})
	f.must(err)
	observations := planner.NewObservations()
	_, err = planner.SetupWithManager(manager, observations)
	f.must(err)
	o := &operator{deliverer: delivery.New(manager, "hub-1", observations), engaged: map[string]context.CancelFunc{}, sent: map[string]*traffic{}}
	f.must(manager.Add(o.deliverer))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- manager.Start(ctx) }()
	o.ctx = ctx
	o.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			f.Error("the operator ended with:", err)
		}
		ended <- nil
	}
	f.Cleanup(o.stop)
	f.operator = o
	if !manager.GetCache().WaitForCacheSync(f.Context()) {
		f.Fatal("the hub's cache does not sync")
	}
	for name := range members {
		mc := &v1alpha1.MemberCluster{}
		f.must(hub.Get(f.Context(), client.ObjectKey{Name: name}, mc))
		if mc.IsReady() {
			f.engage(name)
		}
	}
}

// engage connects to a member and makes the operator deliver to it, as package clusters does.
func (f *fleetOf) engage(name string) {
	f.Helper()
	ctx, cancel := context.WithCancel(f.operator.ctx)
	sent := &traffic{}
	f.operator.sent[name] = sent
	config := rest.CopyConfig(members[name].config)
	config.Wrap(sent.wrap)
	member, err := cluster.New(config, func(o *cluster.Options) {
		o.Scheme = kinds
		o.MapperProvider = func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return delivery.Mapper(), nil }
		o.Cache = cache.Options{
			DefaultLabelSelector:        labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}),
			DefaultTransform:            cache.TransformStripManagedFields(),
			ReaderFailOnMissingInformer: true,
		}
	})
	f.must(err)
	for _, object := range delivery.Kinds() {
		_, err := member.GetCache().GetInformer(ctx, object, cache.BlockUntilSynced(false))
		f.must(err)
	}
	go func() { _ = member.Start(ctx) }()
	if !member.GetCache().WaitForCacheSync(ctx) {
		f.Fatal("the member's cache does not sync")
	}
	f.must(f.operator.deliverer.Engage(ctx, multicluster.ClusterName(name), member))
	f.operator.engaged[name] = cancel
}

// loses disconnects a member and makes it not Ready.
func (f *fleetOf) loses(name string) {
	f.Helper()
	if cancel := f.operator.engaged[name]; cancel != nil {
		cancel()
	}
	f.answers(name, metav1.ConditionFalse)
}

// finds connects a member again and makes it Ready.
func (f *fleetOf) finds(name string) {
	f.Helper()
	f.engage(name)
	f.answers(name, metav1.ConditionTrue)
}

// answers sets the Ready condition of a member on the hub.
func (f *fleetOf) answers(name string, status metav1.ConditionStatus) {
	f.Helper()
	f.member(name, func(mc *v1alpha1.MemberCluster) {
		mc.Status.Conditions = []metav1.Condition{{
			Type: v1alpha1.ConditionReady, Status: status, Reason: v1alpha1.ReasonConnected, LastTransitionTime: metav1.Now(),
		}}
	})
}

func (f *fleetOf) member(name string, change func(*v1alpha1.MemberCluster)) {
	f.Helper()
	mc := &v1alpha1.MemberCluster{}
	f.must(hub.Get(f.Context(), client.ObjectKey{Name: name}, mc))
	before := mc.DeepCopy()
	change(mc)
	f.must(hub.Status().Patch(f.Context(), mc.DeepCopy(), client.MergeFrom(before)))
	f.must(hub.Patch(f.Context(), mc, client.MergeFrom(before)))
}

// edit changes the AppService as a user does.
func (f *fleetOf) edit(change func(*v1alpha1.AppService)) {
	f.Helper()
	f.read()
	before := f.app.DeepCopy()
	change(f.app)
	f.must(hub.Patch(f.Context(), f.app, client.MergeFrom(before)))
}

func (f *fleetOf) read() {
	f.Helper()
	f.app = &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: f.app.Namespace, Name: f.app.Name}}
	f.must(hub.Get(f.Context(), client.ObjectKeyFromObject(f.app), f.app))
}

// backup is a copy of objects of the hub as its etcd stores them.
type backup struct {
	keys   []string
	values [][]byte
}

// backup returns a copy of the AppService and of all MemberClusters.
func (f *fleetOf) backup() backup {
	f.Helper()
	var b backup
	add := func(kind, key, namespace, name string) {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind))
		f.must(hub.Get(f.Context(), client.ObjectKey{Namespace: namespace, Name: name}, object))
		value, err := object.MarshalJSON()
		f.must(err)
		b.keys, b.values = append(b.keys, "/registry/"+v1alpha1.GroupVersion.Group+"/"+key), append(b.values, value)
	}
	add("AppService", "appservices/"+f.app.Namespace+"/"+f.app.Name, f.app.Namespace, f.app.Name)
	for name := range members {
		add("MemberCluster", "memberclusters/"+name, "", name)
	}
	return b
}

// restore stops the operator and restores the objects in the etcd of the hub, with their UIDs,
// generations, times and status.
func (f *fleetOf) restore(b backup) {
	f.Helper()
	f.operator.stop()
	for i := range b.keys {
		// etcd accepts its gRPC calls also as JSON, with bytes in base64, which is the format of
		// encoding/json.
		body, err := json.Marshal(map[string][]byte{"key": []byte(b.keys[i]), "value": b.values[i]})
		f.must(err)
		url := hub.environment.ControlPlane.Etcd.URL.JoinPath("/v3/kv/put").String()
		request, err := http.NewRequestWithContext(f.Context(), http.MethodPost, url, bytes.NewReader(body))
		f.must(err)
		response, err := http.DefaultClient.Do(request)
		f.must(err)
		f.must(response.Body.Close())
		if response.StatusCode != http.StatusOK {
			f.Fatal("etcd answers", response.Status)
		}
	}
	was := &v1alpha1.AppService{}
	f.must(json.Unmarshal(b.values[0], was))
	f.eventually("the hub to have what was restored", func() error {
		f.read()
		if f.app.UID != was.UID || f.app.Generation != was.Generation {
			return fmt.Errorf("it has UID %s and generation %d", f.app.UID, f.app.Generation)
		}
		return nil
	})
}

// outline returns what a member runs, such as "2 × web:1", and the UID of the Deployment.
func (f *fleetOf) outline(name string) (outline, uid string) {
	f.Helper()
	deployment := &appsv1.Deployment{}
	err := members[name].Get(f.Context(), client.ObjectKeyFromObject(f.app), deployment)
	if apierrors.IsNotFound(err) {
		return "nothing", ""
	}
	f.must(err)
	if !deployment.DeletionTimestamp.IsZero() {
		return "what is being deleted", string(deployment.UID)
	}
	return fmt.Sprintf("%d × %s", *deployment.Spec.Replicas, deployment.Spec.Template.Spec.Containers[0].Image), string(deployment.UID)
}

// runs waits until the outline of each member is the wanted one.
func (f *fleetOf) runs(want string, names ...string) {
	f.Helper()
	for _, name := range names {
		f.eventually(name+" to run "+want, func() error {
			if got, _ := f.outline(name); got != want {
				return fmt.Errorf("it runs %s", got)
			}
			return nil
		})
	}
}

// rollsOut acts as the controllers of the members: all replicas of the Deployment become available.
func (f *fleetOf) rollsOut(names ...string) {
	f.Helper()
	for _, name := range names {
		f.eventually(name+" to roll out", func() error {
			deployment := &appsv1.Deployment{}
			if err := members[name].Get(f.Context(), client.ObjectKeyFromObject(f.app), deployment); err != nil {
				return err
			}
			pods := *deployment.Spec.Replicas
			deployment.Status = appsv1.DeploymentStatus{
				ObservedGeneration: deployment.Generation, Replicas: pods, UpdatedReplicas: pods, ReadyReplicas: pods, AvailableReplicas: pods,
				Conditions: []appsv1.DeploymentCondition{
					{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue},
					{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
				},
			}
			return members[name].Status().Update(f.Context(), deployment)
		})
	}
}

// has waits until the AppService has these entries, by cluster, each as PHASE or PHASE REASON.
func (f *fleetOf) has(want map[string]string) {
	f.Helper()
	f.eventually("the entries", func() error {
		f.read()
		got := map[string]string{}
		for _, row := range f.app.Status.Clusters {
			got[row.Name] = string(row.Phase)
			if row.Reason != "" {
				got[row.Name] += " " + row.Reason
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return errors.New("(-want +got):\n" + diff)
		}
		return nil
	})
}

// ready waits until the Deployments have rolled out and all entries are Ready.
func (f *fleetOf) ready(names ...string) {
	f.Helper()
	want := map[string]string{}
	for _, name := range names {
		want[name] = "Ready"
	}
	f.eventually("all to be ready", func() error {
		f.rollsOut(names...)
		f.read()
		for _, name := range names {
			row := f.app.Status.Cluster(name)
			if row == nil || row.Phase != v1alpha1.ClusterReady || row.ObservedGeneration != f.app.Generation {
				return fmt.Errorf("%s: %+v", name, row)
			}
		}
		return nil
	})
	f.has(want)
}

func (f *fleetOf) eventually(what string, try func() error) {
	f.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); ; <-tick.C {
		err := try()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			f.Fatalf("wait for %s: %v", what, err)
		}
	}
}

// collects completes a foreground deletion on a member, as its garbage collector would.
func (f *fleetOf) collects(name string) {
	f.Helper()
	deployment := &appsv1.Deployment{}
	err := members[name].Get(f.Context(), client.ObjectKeyFromObject(f.app), deployment)
	if err == nil && !deployment.DeletionTimestamp.IsZero() && len(deployment.Finalizers) > 0 {
		deployment.Finalizers = nil
		err = members[name].Update(f.Context(), deployment)
	}
	if !apierrors.IsConflict(err) {
		f.must(client.IgnoreNotFound(err))
	}
}

// deployment returns the Deployment of a member.
func (f *fleetOf) deployment(name string) *appsv1.Deployment {
	f.Helper()
	deployment := &appsv1.Deployment{}
	f.must(members[name].Get(f.Context(), client.ObjectKeyFromObject(f.app), deployment))
	return deployment
}

// traffic records the requests to a member, each as "VERB path".
type traffic struct {
	mu       sync.Mutex
	requests []string
}

func (t *traffic) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		t.mu.Lock()
		t.requests = append(t.requests, r.Method+" "+r.URL.Path)
		t.mu.Unlock()
		return next.RoundTrip(r)
	})
}

// has reports whether there was a request with this verb for an object of this name.
func (t *traffic) has(verb, name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.requests, func(r string) bool { return strings.HasPrefix(r, verb+" ") && strings.HasSuffix(r, "/"+name) })
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
