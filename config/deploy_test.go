package config_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// script is a program with the hub as its current kubeconfig, and our kubectl before any other. Its output is both outputs.
func script(t *testing.T, program string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // of its own: it also cleans up
	defer cancel()
	command := exec.CommandContext(ctx, program, args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "PATH="+os.Getenv("KUBEBUILDER_ASSETS")+":"+os.Getenv("PATH"))
	command.WaitDelay = time.Second // what it has started may outlive it
	out, err := command.CombinedOutput()
	return string(out), err
}

// manifests is tools/manifests.sh.
func manifests(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return script(t, "../tools/manifests.sh", append([]string{os.Getenv("KUBEBUILDER_ASSETS")}, args...)...)
}

// works fails the test unless that program did.
func works(t *testing.T, out string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// controllers stand in, until the test ends, for those that the API server here has not: a Deployment has all that it wants at once, and what is
// deleted in the foreground has nothing left below it.
func controllers(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			deployments, budgets := &appsv1.DeploymentList{}, &policyv1.PodDisruptionBudgetList{}
			_ = hub.List(ctx, deployments)
			_ = hub.List(ctx, budgets)
			for _, d := range deployments.Items {
				release(ctx, &d)
				if d.Status.ObservedGeneration < d.Generation {
					n := *d.Spec.Replicas
					d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n}
					_ = hub.Status().Update(ctx, &d)
				}
			}
			for _, b := range budgets.Items {
				release(ctx, &b)
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// release lets go of what is being deleted.
func release(ctx context.Context, object client.Object) {
	if object.GetDeletionTimestamp() != nil {
		_ = hub.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
	}
}

// ours are the kinds and names of what there is on the hub of what the kustomizations of directories hold, in a namespace.
func ours(t *testing.T, in string, directories ...string) []string {
	t.Helper()
	var found []string
	for _, directory := range directories {
		for _, object := range built(t, directory) {
			key := client.ObjectKeyFromObject(object)
			if key.Namespace != "" {
				key.Namespace = in
			}
			live := &unstructured.Unstructured{}
			live.SetGroupVersionKind(object.GroupVersionKind())
			if err := hub.Get(t.Context(), key, live); err == nil {
				found = append(found, object.GetKind()+" "+object.GetName())
			} else if !apierrors.IsNotFound(err) {
				t.Fatal(err)
			}
		}
	}
	return found
}

var operators = []string{"manager", "networkpolicy", "rbac", "admission"}

// fleet makes a Secret and an AppService in our namespace, until the test ends.
func fleet(t *testing.T, finalizers ...string) *unstructured.Unstructured {
	t.Helper()
	app := built(t, "samples")[0]
	app.SetName("kept")
	app.SetNamespace("default")
	app.SetFinalizers(finalizers)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "east"}}
	for _, object := range []client.Object{app, secret} {
		if err := hub.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx := context.Background()
			_ = hub.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
			_ = hub.Delete(ctx, object)
		})
	}
	return app
}

func TestDeploy(t *testing.T) {
	controllers(t)
	t.Cleanup(func() { _, _ = manifests(t, "undeploy") })
	t.Run("asks which image", func(t *testing.T) {
		if out, err := manifests(t, "deploy", ""); err == nil || !strings.Contains(out, "which image? IMG=") {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("puts back what was changed by hand", func(t *testing.T) {
		out, err := manifests(t, "deploy", "registry.example/fleetwright:v1")
		works(t, out, err)
		out, err = script(t, "kubectl", "scale", "deployment/fleetwright", "-n", namespace, "--replicas=5")
		works(t, out, err)
		// What docs/install.md says of an apply without make.
		out, err = script(t, "bash", "-c", `../tools/manifests.sh "$KUBEBUILDER_ASSETS" render x:v2 | kubectl apply --server-side -f -`)
		if err == nil || !strings.Contains(out, ".spec.replicas") || !strings.Contains(out, "networkpolicy.networking.k8s.io/fleetwright serverside-applied") {
			t.Errorf("%v\n%s", err, out)
		}
		out, err = manifests(t, "deploy", "registry.example/fleetwright:v2")
		works(t, out, err)
		live := &appsv1.Deployment{}
		if err := hub.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "fleetwright"}, live); err != nil {
			t.Fatal(err)
		}
		if image := live.Spec.Template.Spec.Containers[0].Image; *live.Spec.Replicas != 2 || image != "registry.example/fleetwright:v2" {
			t.Errorf("%d replicas of %s", *live.Spec.Replicas, image)
		}
	})
}

func TestUndeploy(t *testing.T) {
	controllers(t)
	for name, take := range map[string]func(t *testing.T) (string, error){
		"make undeploy":             func(t *testing.T) (string, error) { t.Helper(); return manifests(t, "undeploy") },
		"the lines in the document": func(t *testing.T) (string, error) { t.Helper(); return lines(t, "kubectl delete deployment") },
	} {
		t.Run(name+" takes the operator and its rights, and nothing else", func(t *testing.T) {
			out, err := manifests(t, "deploy", "registry.example/fleetwright:v1")
			works(t, out, err)
			app := fleet(t)
			out, err = take(t)
			works(t, out, err)
			if left := ours(t, namespace, operators...); left != nil {
				t.Errorf("left are %v\n%s", left, out)
			}
			if kept := ours(t, namespace, "crd"); len(kept) != 2 {
				t.Errorf("of the CRDs there are %v", kept)
			}
			for _, object := range []client.Object{app, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "east"}}} {
				if err := hub.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil || object.GetDeletionTimestamp() != nil {
					t.Errorf("%s is not as it was: %v", object.GetName(), err)
				}
			}
		})
	}
	t.Run("with nothing there does no harm", func(t *testing.T) {
		out, err := manifests(t, "undeploy")
		works(t, out, err)
	})
}

func TestAnOperatorInAnotherNamespace(t *testing.T) {
	controllers(t)
	const elsewhere = "fleet"
	directory := t.TempDir()
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	up, err := filepath.Rel(directory, filepath.Join(here, "default"))
	if err != nil {
		t.Fatal(err)
	}
	kustomization := fmt.Sprintf("apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nnamespace: %s\nresources: [%s]\n", elsewhere, up)
	if err := os.WriteFile(filepath.Join(directory, "kustomization.yaml"), []byte(kustomization), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := script(t, "kubectl", "apply", "--server-side", "-k", directory)
	works(t, out, err)
	all := ours(t, elsewhere, operators...)
	t.Run("keeps its rights when another is to be deployed", func(t *testing.T) {
		out, err := manifests(t, "deploy", "registry.example/fleetwright:v1")
		if err == nil || !strings.Contains(out, "an operator is in namespace "+elsewhere) {
			t.Errorf("%v\n%s", err, out)
		}
		if diff := cmp.Diff(all, ours(t, elsewhere, operators...)); diff != "" {
			t.Errorf("(-before +after):\n%s", diff)
		}
	})
	t.Run("is what is taken away", func(t *testing.T) {
		out, err := manifests(t, "undeploy")
		works(t, out, err)
		if left := ours(t, elsewhere, operators...); left != nil {
			t.Errorf("left are %v", left)
		}
		if !strings.Contains(out, "namespace "+elsewhere+" with the members' Secrets") {
			t.Errorf("it says\n%s", out)
		}
	})
}

func TestTheFinalizerIsLetGoOfByHand(t *testing.T) {
	app := fleet(t, "example.com/before", "fleetwright.dev/cleanup", "example.com/after")
	out, err := lines(t, "kubectl get appservices -A")
	works(t, out, err)
	if err := hub.Get(t.Context(), client.ObjectKeyFromObject(app), app); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"example.com/before", "example.com/after"}, app.GetFinalizers()); diff != "" {
		t.Errorf("(-want +got):\n%s\n%s", diff, out)
	}
}

// lines runs the block of docs/install.md that begins so.
func lines(t *testing.T, begin string) (string, error) {
	t.Helper()
	return script(t, "bash", "-euo", "pipefail", "-c", block(t, "\n"+begin))
}

// block is the block of docs/install.md that begins so.
func block(t *testing.T, begin string) string {
	t.Helper()
	content, err := os.ReadFile("../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	for i, found := range strings.Split(string(content), "```") {
		if i%2 == 1 && strings.HasPrefix(found, begin) {
			return found
		}
	}
	t.Fatalf("docs/install.md has no block that begins with %q", begin)
	return ""
}

// What docs/install.md gives as an example can be built.
func TestAKustomizationOfYourOwn(t *testing.T) {
	home(t)
	directory := t.TempDir()
	here, err := filepath.Abs("default")
	if err != nil {
		t.Fatal(err)
	}
	up, err := filepath.Rel(directory, here)
	if err != nil {
		t.Fatal(err)
	}
	example := strings.Replace(strings.TrimPrefix(block(t, "yaml\napiVersion: kustomize"), "yaml\n"), "../fleetwright/config/default", up, 1)
	if err := os.WriteFile(filepath.Join(directory, "kustomization.yaml"), []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	objects := built(t, directory)
	pod := one[appsv1.Deployment](t, objects, "Deployment").Spec.Template.Spec
	network := one[networkingv1.NetworkPolicy](t, objects, "NetworkPolicy")
	if pod.NodeSelector["kubernetes.io/arch"] == "" || !slices.Contains(pod.Containers[0].Args, "--cluster-api-namespace=capi-clusters") ||
		network.Spec.Egress[len(network.Spec.Egress)-1].Ports[0].Port.IntVal != 7443 {
		t.Error("a patch of it patches nothing")
	}
	for _, object := range objects {
		if err := apply(t.Context(), object, client.DryRunAll, client.ForceOwnership); err != nil {
			t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
}
