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
	"k8s.io/apimachinery/pkg/labels"
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
	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
	"github.com/fleetwright/fleetwright/internal/servertest"
	"github.com/fleetwright/fleetwright/internal/wait"
)

const namespace = "inventory"

// options are those of the tests' Reconcilers.
var options = Options{
	Namespace:   namespace,
	SecretRules: kubeconfig.SecretRules{{Namespace: namespace, Format: kubeconfig.FormatKubeconfig, Selector: labels.SelectorFromSet(labels.Set{"member": "true"})}},
}

var (
	config *rest.Config
	scheme = runtime.NewScheme()
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	utilruntime.Must(clusterinventory.AddToScheme(scheme))
	hub := servertest.New("../../config/crd/bases")
	os.Exit(servertest.Run(m.Run, func() error { config = hub.Config; return nil }, hub))
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

// testHub is a hub on which the Reconciler runs.
type testHub struct {
	*testing.T
	client.Client // reads from the manager's cache
}

func newTestHub(t *testing.T) testHub {
	m := newManager(t)
	if err := SetupWithManager(m, options); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	hub := testHub{t, m.GetClient()}
	hub.must(hub.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	if !m.GetCache().WaitForCacheSync(ctx) {
		t.Fatal("the cache is not synced")
	}
	return hub
}

func (hub testHub) must(err error) {
	hub.Helper()
	if err != nil {
		hub.Fatal(err)
	}
}

// change changes a MemberCluster and its status.
func (hub testHub) change(member *v1alpha1.MemberCluster, change func()) {
	hub.Helper()
	before := member.DeepCopy()
	change()
	wanted := member.DeepCopy()
	hub.must(hub.Patch(hub.Context(), member, client.MergeFrom(before)))
	wanted.ResourceVersion = member.ResourceVersion
	*member = *wanted
	hub.must(hub.Status().Patch(hub.Context(), member, client.MergeFrom(before)))
}

// profile is the content of a ClusterProfile without times.
type profile struct {
	Labels map[string]string
	Owner  string
	Spec   clusterinventory.ClusterProfileSpec
	Status clusterinventory.ClusterProfileStatus
}

func (hub testHub) profile(name string) (content profile, resourceVersion string) {
	hub.Helper()
	var p clusterinventory.ClusterProfile
	if err := hub.Get(hub.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &p); err != nil {
		hub.must(client.IgnoreNotFound(err))
		return profile{}, ""
	}
	content = profile{Labels: p.Labels, Spec: p.Spec, Status: *p.Status.DeepCopy()}
	if owner := metav1.GetControllerOf(&p); owner != nil {
		content.Owner = owner.Kind + " " + owner.Name
	}
	for i := range content.Status.Conditions {
		content.Status.Conditions[i].LastTransitionTime = metav1.Time{}
	}
	for i := range content.Status.Properties {
		content.Status.Properties[i].LastObservedTime = metav1.Time{}
	}
	return content, p.ResourceVersion
}

// waitForProfile waits until the profile of a member equals want.
func (hub testHub) waitForProfile(name string, want profile) {
	hub.Helper()
	hub.eventually(func() string {
		got, _ := hub.profile(name)
		return cmp.Diff(want, got)
	})
}

// eventually waits until a difference is empty.
func (hub testHub) eventually(compare func() string) {
	hub.Helper()
	wait.Eventually(hub, func() error {
		if diff := compare(); diff != "" {
			return fmt.Errorf("(-want +got)\n%s", diff)
		}
		return nil
	})
}

// The steps share one function, because each step needs the hub in the state that the previous step
// left.
func TestClusterProfile_follows_its_MemberCluster(t *testing.T) {
	t.Run("SetupWithManager fails if the hub lacks the CRD", func(t *testing.T) {
		err := SetupWithManager(newManager(t), options)
		if err == nil || !strings.HasPrefix(err.Error(), "the hub lacks the CRD of ClusterProfile, sigs.k8s.io/cluster-inventory-api: ") {
			t.Errorf("got %v", err)
		}
	})
	installCRD(t)
	hub := newTestHub(t)
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
				Type: "ControlPlaneHealthy", Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConnected, Message: "the member answers", ObservedGeneration: 1,
			}},
		},
	}
	wantWest := profile{
		Labels: map[string]string{clusterinventory.LabelClusterManagerKey: "fleetwright"},
		Owner:  "MemberCluster west",
		Spec:   clusterinventory.ClusterProfileSpec{DisplayName: "west", ClusterManager: clusterinventory.ClusterManager{Name: "fleetwright"}},
	}
	// settle waits until all earlier changes are reconciled. There is one worker, which reconciles
	// west after them.
	step := 0
	settle := func() {
		t.Helper()
		step++
		label := fmt.Sprint(step)
		hub.change(west, func() { metav1.SetMetaDataLabel(&west.ObjectMeta, "step", label) })
		wantWest.Labels["step"] = label
		hub.waitForProfile("west", wantWest)
	}

	hub.must(hub.Create(t.Context(), west))
	hub.waitForProfile("west", wantWest) // the member has no status yet
	hub.must(hub.Create(t.Context(), east))
	hub.change(east, func() {
		east.Status = v1alpha1.MemberClusterStatus{
			ObservedGeneration: 1, ClusterID: "uid", Version: "v1.36.3",
			Allocatable: corev1.ResourceList{"cpu": resource.MustParse("3500m"), "memory": resource.MustParse("8Gi")},
			Conditions: []metav1.Condition{{
				Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConnected, Message: "the member answers", LastTransitionTime: metav1.Now(),
			}},
		}
	})
	hub.waitForProfile("east", want)

	settle()
	_, before := hub.profile("east")
	hub.change(east, func() { metav1.SetMetaDataAnnotation(&east.ObjectMeta, "touched", "true") })
	settle()
	if _, after := hub.profile("east"); after != before {
		t.Errorf("the profile was written without a change: resourceVersion %s, then %s", before, after)
	}

	hub.change(east, func() {
		east.Labels["zone"] = "b"
		east.Status.Version, east.Status.Allocatable = "v1.37.0", nil
		ready := &east.Status.Conditions[0]
		ready.Status, ready.Reason, ready.Message = metav1.ConditionUnknown, v1alpha1.ReasonUnreachable, "the member does not answer"
	})
	want.Labels["zone"] = "b"
	want.Status.Version.Kubernetes, want.Status.Properties = "v1.37.0", want.Status.Properties[2:]
	ready := &want.Status.Conditions[0]
	ready.Status, ready.Reason, ready.Message = metav1.ConditionUnknown, v1alpha1.ReasonUnreachable, "the member does not answer"
	hub.waitForProfile("east", want)

	t.Run("tools can connect to the member", func(t *testing.T) { hub.publishesAccess(t) })
	t.Run("a profile of another cluster manager stays unchanged until it is deleted", func(t *testing.T) { hub.leavesForeignProfilesUnchanged(t) })
}

// leavesForeignProfilesUnchanged creates a foreign ClusterProfile before its member.
func (hub testHub) leavesForeignProfilesUnchanged(t *testing.T) {
	for name, foreign := range map[string]*clusterinventory.ClusterProfile{
		"by-spec": {Spec: clusterinventory.ClusterProfileSpec{DisplayName: "theirs", ClusterManager: clusterinventory.ClusterManager{Name: "another"}}},
		"by-label": {
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{clusterinventory.LabelClusterManagerKey: "another"}},
			Spec:       clusterinventory.ClusterProfileSpec{DisplayName: "theirs", ClusterManager: clusterinventory.ClusterManager{Name: "fleetwright"}},
		},
	} {
		foreign.Namespace, foreign.Name = namespace, name
		hub.must(hub.Create(t.Context(), foreign))
		before := profile{Labels: foreign.Labels, Spec: foreign.Spec}
		hub.waitForProfile(name, before)
		hub.must(hub.Create(t.Context(), &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}))
		hub.waitForEvent(name, v1alpha1.ReasonClusterProfileConflict)
		hub.waitForProfile(name, before)
		hub.must(hub.Delete(t.Context(), foreign))
		hub.waitForProfile(name, profile{
			Labels: map[string]string{clusterinventory.LabelClusterManagerKey: "fleetwright"},
			Owner:  "MemberCluster " + name,
			Spec:   clusterinventory.ClusterProfileSpec{DisplayName: name, ClusterManager: clusterinventory.ClusterManager{Name: "fleetwright"}},
		})
	}
}

// waitForEvent waits for an event about a MemberCluster.
func (hub testHub) waitForEvent(name, reason string) {
	hub.Helper()
	wait.Eventually(hub, func() error {
		var events eventsv1.EventList
		hub.must(hub.List(hub.Context(), &events))
		for _, event := range events.Items {
			if event.Regarding.Name == name && event.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("%s: no event %s", name, reason)
	})
}

func TestProperties_that_have_not_changed_keep_their_time(t *testing.T) {
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
