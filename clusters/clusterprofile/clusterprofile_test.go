package clusterprofile

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clusterinventory "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

const (
	namespace = "inventory"
	patience  = time.Minute
)

var (
	config *rest.Config
	scheme = runtime.NewScheme()
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	utilruntime.Must(clusterinventory.AddToScheme(scheme))
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Println("FAIL: KUBEBUILDER_ASSETS must name the directory of kube-apiserver and etcd")
		os.Exit(1)
	}
	hub := &envtest.Environment{CRDDirectoryPaths: []string{filepath.Join("..", "..", "config", "crd", "bases")}, ErrorIfCRDPathMissing: true}
	var err error
	if config, err = hub.Start(); err != nil {
		fmt.Println("FAIL: start the hub:", err)
		os.Exit(1)
	}
	code := m.Run()
	if err := hub.Stop(); err != nil {
		fmt.Println("stop the hub:", err)
	}
	os.Exit(code)
}

func newManager(t *testing.T) manager.Manager {
	t.Helper()
	hub, err := ctrl.NewManager(config, ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	return hub
}

// installCRD installs the CRD of ClusterProfile from its Go module.
func installCRD(t *testing.T) {
	t.Helper()
	directory, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-inventory-api").Output()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(strings.TrimSpace(string(directory)), "config", "crd", "bases", "multicluster.x-k8s.io_clusterprofiles.yaml")
	if _, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{Paths: []string{file}, ErrorIfPathMissing: true}); err != nil {
		t.Fatal(err)
	}
}

// world is a hub on which the Reconciler runs.
type world struct {
	*testing.T
	client.Client // reads from the manager's cache
}

func newWorld(t *testing.T) world {
	hub := newManager(t)
	if err := SetupWithManager(hub, namespace); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- hub.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	w := world{t, hub.GetClient()}
	w.must(w.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	if !hub.GetCache().WaitForCacheSync(ctx) {
		t.Fatal("the cache is not in step")
	}
	return w
}

func (w world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// change changes a MemberCluster and its status.
func (w world) change(member *v1alpha1.MemberCluster, change func()) {
	w.Helper()
	before := member.DeepCopy()
	change()
	wanted := member.DeepCopy()
	w.must(w.Patch(w.Context(), member, client.MergeFrom(before)))
	wanted.ResourceVersion = member.ResourceVersion
	*member = *wanted
	w.must(w.Status().Patch(w.Context(), member, client.MergeFrom(before)))
}

// profile is the content of a ClusterProfile without times.
type profile struct {
	Labels map[string]string
	Owner  string
	Spec   clusterinventory.ClusterProfileSpec
	Status clusterinventory.ClusterProfileStatus
}

func (w world) profile(name string) (said profile, resourceVersion string) {
	w.Helper()
	var p clusterinventory.ClusterProfile
	if err := w.Get(w.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &p); err != nil {
		w.must(client.IgnoreNotFound(err))
		return profile{}, ""
	}
	said = profile{Labels: p.Labels, Spec: p.Spec, Status: *p.Status.DeepCopy()}
	if owner := metav1.GetControllerOf(&p); owner != nil {
		said.Owner = owner.Kind + " " + owner.Name
	}
	for i := range said.Status.Conditions {
		said.Status.Conditions[i].LastTransitionTime = metav1.Time{}
	}
	for i := range said.Status.Properties {
		said.Status.Properties[i].LastObservedTime = metav1.Time{}
	}
	return said, p.ResourceVersion
}

// expect waits until the profile of a member equals want.
func (w world) expect(name string, want profile) {
	w.Helper()
	var diff string
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		got, _ := w.profile(name)
		if diff = cmp.Diff(want, got); diff == "" {
			return
		}
	}
	w.Fatalf("%s (-want +got)\n%s", name, diff)
}

// The steps share one function, because each step needs the hub in the state that the previous step
// left.
func TestInventory(t *testing.T) {
	t.Run("says so when the hub lacks the CRD", func(t *testing.T) {
		err := SetupWithManager(newManager(t), namespace)
		if err == nil || !strings.HasPrefix(err.Error(), "the hub lacks the CRD of ClusterProfile, sigs.k8s.io/cluster-inventory-api: ") {
			t.Errorf("got %v", err)
		}
	})
	installCRD(t)
	w := newWorld(t)
	east := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "east", Labels: map[string]string{
		"zone": "a", clusterinventory.LabelClusterManagerKey: "another", "argocd.argoproj.io/instance": "fleet",
	}}}
	west := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "west"}}
	want := profile{
		Labels: map[string]string{"zone": "a", clusterinventory.LabelClusterManagerKey: "fleetwright"},
		Owner:  "MemberCluster east",
		Spec:   clusterinventory.ClusterProfileSpec{DisplayName: "east", ClusterManager: clusterinventory.ClusterManager{Name: "fleetwright"}},
		Status: clusterinventory.ClusterProfileStatus{
			Version: clusterinventory.ClusterVersion{Kubernetes: "v1.36.3"},
			Properties: []clusterinventory.Property{
				{Name: "allocatable.cpu", Value: "3500m"}, {Name: "allocatable.memory", Value: "8Gi"}, {Name: "cluster.clusterset.k8s.io", Value: "uid"},
			},
			Conditions: []metav1.Condition{{
				Type: "ControlPlaneHealthy", Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConnected, Message: "it answers", ObservedGeneration: 1,
			}},
		},
	}
	wantWest := profile{
		Labels: map[string]string{clusterinventory.LabelClusterManagerKey: "fleetwright"},
		Owner:  "MemberCluster west",
		Spec:   clusterinventory.ClusterProfileSpec{DisplayName: "west", ClusterManager: clusterinventory.ClusterManager{Name: "fleetwright"}},
	}
	// settle waits until all earlier changes are processed: there is one worker, and it processes
	// west after them.
	step := 0
	settle := func() {
		t.Helper()
		step++
		label := fmt.Sprint(step)
		w.change(west, func() { metav1.SetMetaDataLabel(&west.ObjectMeta, "step", label) })
		wantWest.Labels["step"] = label
		w.expect("west", wantWest)
	}

	w.must(w.Create(t.Context(), west))
	w.expect("west", wantWest) // the member has no status yet
	w.must(w.Create(t.Context(), east))
	w.change(east, func() {
		east.Status = v1alpha1.MemberClusterStatus{
			ObservedGeneration: 1, ClusterID: "uid", Version: "v1.36.3",
			Allocatable: corev1.ResourceList{"cpu": resource.MustParse("3500m"), "memory": resource.MustParse("8Gi")},
			Conditions: []metav1.Condition{{
				Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConnected, Message: "it answers", LastTransitionTime: metav1.Now(),
			}},
		}
	})
	w.expect("east", want)

	settle()
	_, before := w.profile("east")
	w.change(east, func() { metav1.SetMetaDataAnnotation(&east.ObjectMeta, "touched", "true") })
	settle()
	if _, after := w.profile("east"); after != before {
		t.Errorf("written when nothing had changed: resourceVersion %s, then %s", before, after)
	}

	w.change(east, func() {
		east.Labels["zone"] = "b"
		east.Status.Version, east.Status.Allocatable = "v1.37.0", nil
		ready := &east.Status.Conditions[0]
		ready.Status, ready.Reason, ready.Message = metav1.ConditionUnknown, v1alpha1.ReasonUnreachable, "it is silent"
	})
	want.Labels["zone"] = "b"
	want.Status.Version.Kubernetes, want.Status.Properties = "v1.37.0", want.Status.Properties[2:]
	ready := &want.Status.Conditions[0]
	ready.Status, ready.Reason, ready.Message = metav1.ConditionUnknown, v1alpha1.ReasonUnreachable, "it is silent"
	w.expect("east", want)

	t.Run("leaves alone what belongs to another manager, until that goes", func(t *testing.T) { w.leavesAlone(t) })
}

// leavesAlone creates a foreign ClusterProfile before its member.
func (w world) leavesAlone(t *testing.T) {
	for name, foreign := range map[string]*clusterinventory.ClusterProfile{
		"by-spec": {Spec: clusterinventory.ClusterProfileSpec{DisplayName: "theirs", ClusterManager: clusterinventory.ClusterManager{Name: "another"}}},
		"by-label": {
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{clusterinventory.LabelClusterManagerKey: "another"}},
			Spec:       clusterinventory.ClusterProfileSpec{DisplayName: "theirs", ClusterManager: clusterinventory.ClusterManager{Name: "fleetwright"}},
		},
	} {
		foreign.Namespace, foreign.Name = namespace, name
		w.must(w.Create(t.Context(), foreign))
		before := profile{Labels: foreign.Labels, Spec: foreign.Spec}
		w.expect(name, before)
		w.must(w.Create(t.Context(), &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}))
		w.told(name, v1alpha1.ReasonClusterProfileConflict)
		w.expect(name, before)
		w.must(w.Delete(t.Context(), foreign))
		w.expect(name, profile{
			Labels: map[string]string{clusterinventory.LabelClusterManagerKey: "fleetwright"},
			Owner:  "MemberCluster " + name,
			Spec:   clusterinventory.ClusterProfileSpec{DisplayName: name, ClusterManager: clusterinventory.ClusterManager{Name: "fleetwright"}},
		})
	}
}

// told waits for an event about a MemberCluster.
func (w world) told(name, reason string) {
	w.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		var events eventsv1.EventList
		w.must(w.List(w.Context(), &events))
		for _, event := range events.Items {
			if event.Regarding.Name == name && event.Reason == reason {
				return
			}
		}
	}
	w.Fatalf("%s: no event %s", name, reason)
}

func TestPropertiesKeepTheTimeOfWhatHasNotChanged(t *testing.T) {
	long := metav1.NewTime(time.Now().Add(-time.Hour))
	previous := []clusterinventory.Property{
		{Name: "allocatable.cpu", Value: "3", LastObservedTime: long}, {Name: "allocatable.pods", Value: "9", LastObservedTime: long}, {Name: propertyID, Value: "uid", LastObservedTime: long},
	}
	member := &v1alpha1.MemberCluster{Status: v1alpha1.MemberClusterStatus{ClusterID: "uid", Allocatable: corev1.ResourceList{"cpu": resource.MustParse("4")}}}
	got := properties(member, previous)
	if time.Since(got[0].LastObservedTime.Time) < time.Minute {
		got[0].LastObservedTime = metav1.Time{}
	}
	want := []clusterinventory.Property{{Name: "allocatable.cpu", Value: "4"}, {Name: propertyID, Value: "uid", LastObservedTime: long}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
