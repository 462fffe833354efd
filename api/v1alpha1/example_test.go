package v1alpha1_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// A client needs the types of this package in its scheme. The other examples have its scheme, its
// hubConfig and its hub.
func Example() {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		fmt.Println(err)
		return
	}
	hubConfig, err := config.GetConfig() // as kubectl: of $KUBECONFIG, or of the pod
	if err != nil {
		fmt.Println(err)
		return
	}
	hub, err := client.New(hubConfig, client.Options{Scheme: scheme})
	if err != nil {
		fmt.Println(err)
		return
	}

	app := &v1alpha1.AppService{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
		Spec: v1alpha1.AppServiceSpec{
			Image: "registry.example/web:1",
			Ports: []v1alpha1.ServicePort{{Port: 80}},
			Placement: &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{
				ClusterSelector: &v1alpha1.ClusterSelector{MatchLabels: map[string]string{"topology.kubernetes.io/region": "eu"}},
			}},
		},
	}
	if err := hub.Create(context.Background(), app); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(app.Name, "has generation", app.Generation)
	// Output: web has generation 1
}

// A client applies a typed object, as kubectl apply --server-side does with a manifest: it owns the
// fields that it sets. The object needs its apiVersion and kind.
func ExampleAppService_apply() {
	app := &v1alpha1.AppService{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "AppService"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "api"},
		Spec:       v1alpha1.AppServiceSpec{Image: "registry.example/api:1"},
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(app)
	if err != nil {
		fmt.Println(err)
		return
	}
	applied := client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: object})
	if err := hub.Apply(context.Background(), applied, client.FieldOwner("shop-deployer")); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("applied")
	// Output: applied
}

// Ready is True when every cluster of the plan runs the current generation. After an edit, the
// condition describes the generation before, until its observedGeneration is the new one.
func ExampleAppService_waitForCondition() {
	ctx := context.Background()
	app := &v1alpha1.AppService{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "checkout"},
		Spec:       v1alpha1.AppServiceSpec{Image: "registry.example/checkout:1"},
	}
	if err := hub.Create(ctx, app); err != nil {
		fmt.Println(err)
		return
	}

	err := wait.PollUntilContextTimeout(ctx, time.Second, 10*time.Minute, true, func(ctx context.Context) (bool, error) {
		if err := hub.Get(ctx, client.ObjectKeyFromObject(app), app); err != nil {
			return false, err
		}
		ready := meta.FindStatusCondition(app.Status.Conditions, v1alpha1.ConditionReady)
		return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == app.Generation, nil
	})
	fmt.Println("ready clusters:", app.Status.Summary.Display, err)
	// Output: ready clusters: 2/2 <nil>
}

// Kstatus computes the same result for every kind, and reports a failure too. Flux and Helm wait with it.
func ExampleAppService_waitForKstatus() {
	ctx := context.Background()
	app := &unstructured.Unstructured{}
	app.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("AppService"))
	app.SetNamespace("shop")
	app.SetName("search")
	app.Object["spec"] = map[string]any{"image": "registry.example/search:1"}
	if err := hub.Create(ctx, app); err != nil {
		fmt.Println(err)
		return
	}

	err := wait.PollUntilContextTimeout(ctx, time.Second, 10*time.Minute, true, func(ctx context.Context) (bool, error) {
		if err := hub.Get(ctx, client.ObjectKeyFromObject(app), app); err != nil {
			return false, err
		}
		result, err := status.Compute(app)
		if err != nil {
			return false, err
		}
		if result.Status == status.FailedStatus { // a user must intervene
			return false, errors.New(result.Message)
		}
		return result.Status == status.CurrentStatus, nil
	})
	fmt.Println("is ready:", err == nil)
	// Output: is ready: true
}

// A watch ends after some minutes, or when the API server restarts. Use a cache, as the next example,
// where it must not.
func ExampleAppServiceList_watch() {
	ctx := context.Background()
	watchingHub, err := client.NewWithWatch(hubConfig, client.Options{Scheme: scheme})
	if err != nil {
		fmt.Println(err)
		return
	}
	app := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "cart"}}
	watcher, err := watchingHub.Watch(ctx, &v1alpha1.AppServiceList{},
		client.InNamespace(app.Namespace), client.MatchingFields{"metadata.name": app.Name})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer watcher.Stop()

	app.Spec.Image = "registry.example/cart:1"
	if err := watchingHub.Create(ctx, app); err != nil {
		fmt.Println(err)
		return
	}
	for event := range watcher.ResultChan() {
		app, isApp := event.Object.(*v1alpha1.AppService)
		if !isApp { // a metav1.Status that says why the watch ends
			fmt.Println(event.Object)
			return
		}
		fmt.Printf("%s %q\n", event.Type, app.Status.Summary.Display)
		if meta.IsStatusConditionTrue(app.Status.Conditions, v1alpha1.ConditionReady) {
			return
		}
	}
	// Output:
	// ADDED ""
	// MODIFIED "0/2"
	// MODIFIED "2/2"
}

// A cache has the informer and the lister of each kind that is read from it. What it returns is a copy.
func ExampleAppServiceList_cache() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	apps, err := cache.New(hubConfig, cache.Options{Scheme: scheme})
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() { _ = apps.Start(ctx) }()
	if !apps.WaitForCacheSync(ctx) {
		fmt.Println("the cache did not start")
		return
	}

	var list v1alpha1.AppServiceList
	if err := apps.List(ctx, &list, client.InNamespace("shop"), client.MatchingLabels{"team": "edge"}); err != nil {
		fmt.Println(err)
		return
	}
	for _, app := range list.Items {
		fmt.Println(app.Name, app.Status.Summary.Display)
	}
	// Output: proxy 1200/1200
}

// Above 1,000 clusters, the entries of an AppService are in AppServiceSlices, and status.clusters is
// empty. Entries returns them in both cases.
func ExampleAppService_Entries() {
	ctx := context.Background()
	var app v1alpha1.AppService
	if err := hub.Get(ctx, client.ObjectKey{Namespace: "shop", Name: "proxy"}, &app); err != nil {
		fmt.Println(err)
		return
	}
	var slices v1alpha1.AppServiceSliceList
	if app.Status.HasSlices() {
		err := hub.List(ctx, &slices, client.InNamespace(app.Namespace), client.MatchingLabels{v1alpha1.LabelAppService: app.Name})
		if err != nil {
			fmt.Println(err)
			return
		}
	}
	entries, complete := app.Entries(slices.Items)
	if !complete {
		fmt.Println("a slice is missing: read the AppService and its slices again")
		return
	}
	fmt.Println(len(entries), "entries; the first is", entries[0].Name, entries[0].Phase)
	// Output: 1200 entries; the first is member-0000 Ready
}

// One entry is in one slice, by the name of its cluster.
func ExampleSlotOf() {
	var slice v1alpha1.AppServiceSlice
	name := v1alpha1.SliceName("proxy", v1alpha1.SlotOf("member-0042"))
	if err := hub.Get(context.Background(), client.ObjectKey{Namespace: "shop", Name: name}, &slice); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(name, "has the entry:", slice.Cluster("member-0042").Phase)
	// Output: proxy-9 has the entry: Ready
}

// A stage with approval: Required begins when the annotation names the revision and the stage that
// status.rollout shows. A policy can limit who may set it.
func ExampleAppService_approve() {
	ctx := context.Background()
	var app v1alpha1.AppService
	if err := hub.Get(ctx, client.ObjectKey{Namespace: "shop", Name: "billing"}, &app); err != nil {
		fmt.Println(err)
		return
	}
	stage := app.Status.Rollout.ActiveStage()
	if stage == nil || stage.Phase != v1alpha1.StageAwaitingApproval {
		fmt.Println("no stage waits for approval")
		return
	}

	before := app.DeepCopy()
	approved := fmt.Sprintf("%d/%s", app.Status.Rollout.Revision, stage.Name)
	if others := app.Annotations[v1alpha1.AnnotationApprove]; others != "" {
		approved = others + "," + approved // a later stage may be approved already
	}
	metav1.SetMetaDataAnnotation(&app.ObjectMeta, v1alpha1.AnnotationApprove, approved)
	if err := hub.Patch(ctx, &app, client.MergeFrom(before)); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("approved", app.Annotations[v1alpha1.AnnotationApprove])
	// Output: approved 7/eu
}
