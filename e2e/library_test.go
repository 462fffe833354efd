package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/framework"
)

// TestLibrary tests the example of docs/library.md, a controller that runs beside the operator: it gets
// what happens on each member, and nothing of it is left on a member that leaves.
func TestLibrary(t *testing.T) {
	f := testFleet(t, notOnKind("the example runs on this machine, and connects with the address in a member's Secret, which only the operator reaches"))
	for _, member := range f.MemberNames() {
		f.Members[member].Kubectl(t, *binFlag, "apply", "-f", "library/member.yaml")
		t.Cleanup(func() {
			named := metav1.ObjectMeta{Name: "example-pod-reporter"}
			for _, object := range []client.Object{&rbacv1.ClusterRoleBinding{ObjectMeta: named}, &rbacv1.ClusterRole{ObjectMeta: named}} {
				if err := f.Members[member].Client.Delete(context.Background(), object); err != nil {
					t.Error(err)
				}
			}
		})
	}
	app := f.createApp(t, "reported")
	f.awaitReady(t, app, "north", "south", "east")
	reporter := f.startReporter(t)
	t.Cleanup(func() { f.stopReporter(t, reporter) })

	t.Run("gets what is there when it starts", func(t *testing.T) { f.expectReports(t, "north", "south", "east") })

	t.Run("gets changes", func(t *testing.T) {
		f.addPod(t, "north", "changed")
		f.expectReports(t, "north")
	})

	t.Run("gets what has changed during an outage", func(t *testing.T) {
		f.stopClusters(t, "south")
		f.Eventually(t, "south not to be Ready", func(ctx context.Context) error {
			if f.CheckMembersReady(ctx, "south") == nil {
				return errors.New("it is Ready")
			}
			return nil
		})
		f.addPod(t, "north", "during-the-outage") // other members are not held up
		f.expectReports(t, "north")
		f.startCluster(t, "south")
		f.addPod(t, "south", "after-the-outage")
		f.expectReports(t, "south")
	})

	t.Run("gets changes after a rotation", func(t *testing.T) {
		t.Cleanup(func() { f.rejoin(t, "north") })
		f.renewToken(t, "north", time.Hour)
		f.addPod(t, "north", "rotated")
		f.expectReports(t, "north")
	})

	t.Run("leaves a member without a Secret alone, and gets it back", func(t *testing.T) {
		t.Cleanup(func() { f.rejoin(t, "east") })
		f.detach(t, "east")
		f.addPod(t, "east", "without-a-secret")
		left := time.Now()
		f.AwaitLook(t) // of the members that are left
		f.addPod(t, "north", "while-east-is-gone")
		f.expectReports(t, "north")
		for _, request := range requests(t, f.Members["east"]) {
			if request.At.After(left) && request.Object.Resource == "pods" {
				t.Errorf("it is asked for its pods after it has left: %s", &request)
			}
		}
		f.rejoin(t, "east")
		f.expectReports(t, "east")
	})
}

// reporter is a process of the example.
type reporter struct {
	*exec.Cmd
	mu  sync.Mutex
	log bytes.Buffer
}

func (r *reporter) Write(line []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.log.Write(line)
}

// startReporter builds and starts the example.
func (f *fleet) startReporter(t *testing.T) *reporter {
	t.Helper()
	program, kubeconfig := filepath.Join(t.TempDir(), "library"), filepath.Join(t.TempDir(), "kubeconfig")
	if output, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./library").CombinedOutput(); err != nil {
		t.Fatalf("build the example: %v\n%s", err, output)
	}
	if err := os.WriteFile(kubeconfig, f.Hub.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &reporter{}
	r.Cmd = exec.Command(program, "-kubeconfig", kubeconfig, "-allow-loopback")
	r.Stdout, r.Stderr = r, r
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	return r
}

// stopReporter stops the example, and removes its annotations.
func (f *fleet) stopReporter(t *testing.T, r *reporter) {
	t.Helper()
	if err := errors.Join(r.Process.Signal(syscall.SIGTERM), r.Wait()); err != nil {
		t.Errorf("stop the example: %v", err)
	}
	if t.Failed() {
		t.Logf("the example wrote:\n%s", r.log.String())
	}
	remove := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"annotations": {"`+reportAnnotation+`": null}}}`))
	for _, member := range f.MemberNames() {
		if err := f.Hub.Client.Patch(context.Background(), &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: member}}, remove); err != nil {
			t.Error(err)
		}
	}
}

// reportAnnotation is the annotation that the example writes.
const reportAnnotation = "example.com/pods"

// expectReports waits until the annotations of members say what is on these members.
func (f *fleet) expectReports(t *testing.T, members ...string) {
	t.Helper()
	for _, name := range members {
		took := f.Eventually(t, "the report of "+name, func(ctx context.Context) error {
			var pods corev1.PodList
			var deployments appsv1.DeploymentList
			member := &v1alpha1.MemberCluster{}
			if err := errors.Join(f.Members[name].Client.List(ctx, &pods), f.Members[name].Client.List(ctx, &deployments),
				f.Hub.Client.Get(ctx, client.ObjectKey{Name: name}, member)); err != nil {
				return err
			}
			notReady := 0
			for _, pod := range pods.Items {
				if !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue }) {
					notReady++
				}
			}
			want := fmt.Sprintf("%d of %d not ready, of %d Deployments", notReady, len(pods.Items), len(deployments.Items))
			if got := member.Annotations[reportAnnotation]; got != want {
				return fmt.Errorf("%s has %q, want %q", name, got, want)
			}
			return nil
		})
		t.Logf("%s was reported after %s", name, framework.Round(took))
	}
}

// addPod creates a pod on a member that is never ready, because no node has the label that it wants.
func (f *fleet) addPod(t *testing.T, member, name string) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}, Spec: corev1.PodSpec{
		NodeSelector: map[string]string{"example.com/no-node": "has-this"},
		Containers:   []corev1.Container{{Name: "x", Image: "x"}},
	}}
	if err := f.Members[member].Client.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Members[member].Client.Delete(context.Background(), pod, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
}
