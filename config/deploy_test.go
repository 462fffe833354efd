package config_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/internal/document"
)

// runScript runs a program with the kubeconfig of the hub and with our kubectl. It returns both
// outputs.
func runScript(t *testing.T, program string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // not the context of t: it also runs in Cleanup
	defer cancel()
	command := exec.CommandContext(ctx, program, args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "PATH="+os.Getenv("KUBEBUILDER_ASSETS")+":"+os.Getenv("PATH"))
	command.WaitDelay = time.Second // its children may outlive it
	out, err := command.CombinedOutput()
	return string(out), err
}

// manifests runs tools/manifests.sh.
func manifests(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return runScript(t, "../tools/manifests.sh", append([]string{os.Getenv("KUBEBUILDER_ASSETS")}, args...)...)
}

// mustSucceed fails the test if a program failed.
func mustSucceed(t *testing.T, out string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// runControllers replaces the controllers that envtest does not have, until the test ends. It makes
// all replicas of a Deployment ready, and completes foreground deletions.
func runControllers(t *testing.T) {
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
				removeFinalizers(ctx, &d)
				if d.Status.ObservedGeneration < d.Generation {
					n := *d.Spec.Replicas
					d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: n, UpdatedReplicas: n, ReadyReplicas: n, AvailableReplicas: n}
					_ = hub.Status().Update(ctx, &d)
				}
			}
			for _, b := range budgets.Items {
				removeFinalizers(ctx, &b)
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// removeFinalizers completes the deletion of an object.
func removeFinalizers(ctx context.Context, object client.Object) {
	if object.GetDeletionTimestamp() != nil {
		_ = hub.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
	}
}

// findExisting returns the objects of the kustomizations that exist on the hub in a namespace.
func findExisting(t *testing.T, inNamespace string, directories ...string) []string {
	t.Helper()
	var found []string
	for _, directory := range directories {
		for _, object := range buildKustomization(t, directory) {
			key := client.ObjectKeyFromObject(object)
			if key.Namespace != "" {
				key.Namespace = inNamespace
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

// createFleet creates a Secret of a member and an AppService. It deletes them when the test ends.
func createFleet(t *testing.T, finalizers ...string) *unstructured.Unstructured {
	t.Helper()
	createNamespace(t)
	app := buildKustomization(t, "samples")[0]
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
	runControllers(t)
	t.Cleanup(func() { _, _ = manifests(t, "undeploy") })
	t.Run("requires an image", func(t *testing.T) {
		if out, err := manifests(t, "deploy", ""); err == nil || !strings.Contains(out, "the image is missing: set IMG=") {
			t.Errorf("%v\n%s", err, out)
		}
	})
	t.Run("reverts manual changes", func(t *testing.T) {
		out, err := manifests(t, "deploy", "registry.example/fleetwright:v1")
		mustSucceed(t, out, err)
		out, err = runScript(t, "kubectl", "scale", "deployment/fleetwright", "-n", namespace, "--replicas=5")
		mustSucceed(t, out, err)
		// The command of docs/install.md without make reports a conflict.
		out, err = runScript(t, "bash", "-c", `../tools/manifests.sh "$KUBEBUILDER_ASSETS" render x:v2 | kubectl apply --server-side -f -`)
		if err == nil || !strings.Contains(out, ".spec.replicas") || !strings.Contains(out, "networkpolicy.networking.k8s.io/fleetwright serverside-applied") {
			t.Errorf("%v\n%s", err, out)
		}
		out, err = manifests(t, "deploy", "registry.example/fleetwright:v2")
		mustSucceed(t, out, err)
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
	runControllers(t)
	for name, undeploy := range map[string]func(t *testing.T) (string, error){
		"make undeploy": func(t *testing.T) (string, error) { t.Helper(); return manifests(t, "undeploy") },
		"the commands in install.md": func(t *testing.T) (string, error) {
			t.Helper()
			return runDocumentBlock(t, "kubectl delete deployment")
		},
	} {
		t.Run(name+" deletes only the operator and its permissions", func(t *testing.T) {
			out, err := manifests(t, "deploy", "registry.example/fleetwright:v1")
			mustSucceed(t, out, err)
			app := createFleet(t)
			out, err = undeploy(t)
			mustSucceed(t, out, err)
			if left := findExisting(t, namespace, operators...); left != nil {
				t.Errorf("not deleted: %v\n%s", left, out)
			}
			if kept := findExisting(t, namespace, "crd"); len(kept) != 3 {
				t.Errorf("CRDs: %v, want all three", kept)
			}
			for _, object := range []client.Object{app, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "east"}}} {
				if err := hub.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil || object.GetDeletionTimestamp() != nil {
					t.Errorf("%s was deleted: %v", object.GetName(), err)
				}
			}
		})
	}
	t.Run("succeeds if nothing is deployed", func(t *testing.T) {
		out, err := manifests(t, "undeploy")
		mustSucceed(t, out, err)
	})
}

func TestOperatorInAnotherNamespace(t *testing.T) {
	runControllers(t)
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
	out, err := runScript(t, "kubectl", "apply", "--server-side", "-k", directory)
	mustSucceed(t, out, err)
	all := findExisting(t, elsewhere, operators...)
	t.Run("keeps its permissions when make deploy is refused", func(t *testing.T) {
		out, err := manifests(t, "deploy", "registry.example/fleetwright:v1")
		if err == nil || !strings.Contains(out, "an operator is in namespace "+elsewhere) {
			t.Errorf("%v\n%s", err, out)
		}
		if diff := cmp.Diff(all, findExisting(t, elsewhere, operators...)); diff != "" {
			t.Errorf("(-before +after):\n%s", diff)
		}
	})
	t.Run("is deleted by make undeploy", func(t *testing.T) {
		out, err := manifests(t, "undeploy")
		mustSucceed(t, out, err)
		if left := findExisting(t, elsewhere, operators...); left != nil {
			t.Errorf("not deleted: %v", left)
		}
		if !strings.Contains(out, "namespace "+elsewhere+" with the members' Secrets") {
			t.Errorf("the output does not name the namespace:\n%s", out)
		}
	})
}

func TestFinalizerIsRemovedByTheDocumentedCommand(t *testing.T) {
	app := createFleet(t, "example.com/before", "fleetwright.dev/cleanup", "example.com/after")
	out, err := runDocumentBlock(t, "kubectl get appservices -A")
	mustSucceed(t, out, err)
	if err := hub.Get(t.Context(), client.ObjectKeyFromObject(app), app); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"example.com/before", "example.com/after"}, app.GetFinalizers()); diff != "" {
		t.Errorf("(-want +got):\n%s\n%s", diff, out)
	}
}

// runDocumentBlock runs the code block of docs/install.md that starts with the given text.
func runDocumentBlock(t *testing.T, start string) (string, error) {
	t.Helper()
	return runScript(t, "bash", "-euo", "pipefail", "-c", findBlock(t, "../docs/install.md", start))
}

// findBlock returns the code block of a document that starts with the given text.
func findBlock(t *testing.T, file, start string) string {
	t.Helper()
	block, err := document.Find(file, start)
	if err != nil {
		t.Fatal(err)
	}
	return block.Text
}

// buildExample returns the objects of the example of a kustomization in a document. The API server
// must accept them.
func buildExample(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	createNamespace(t)
	directory := t.TempDir()
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	up, err := filepath.Rel(directory, here)
	if err != nil {
		t.Fatal(err)
	}
	example := findBlock(t, file, "apiVersion: kustomize")
	example = strings.ReplaceAll(example, "../fleetwright/config", up)
	if err := os.WriteFile(filepath.Join(directory, "kustomization.yaml"), []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	objects := buildKustomization(t, directory)
	for _, object := range objects {
		if object.GroupVersionKind().Group == monitoring {
			continue // no CRD here
		}
		if err := apply(t.Context(), object, client.DryRunAll, client.ForceOwnership); err != nil {
			t.Errorf("%s %s: %v", object.GetKind(), object.GetName(), err)
		}
	}
	return objects
}

// The example in docs/install.md must build.
func TestOwnKustomization(t *testing.T) {
	objects := buildExample(t, "../docs/install.md")
	pod := findOne[appsv1.Deployment](t, objects, "Deployment").Spec.Template.Spec
	network := findOne[networkingv1.NetworkPolicy](t, objects, "NetworkPolicy")
	if pod.NodeSelector["kubernetes.io/arch"] == "" || !slices.Contains(pod.Containers[0].Args, "--cluster-api-namespace=capi-clusters") ||
		network.Spec.Egress[len(network.Spec.Egress)-1].Ports[0].Port.IntVal != 7443 {
		t.Error("a patch of the example has no effect")
	}
}

// runConfigurationBlock runs the code block of docs/configuration.md that starts with the given text,
// in the root directory, for another namespace.
func runConfigurationBlock(t *testing.T, start, namespace string) {
	t.Helper()
	block := strings.ReplaceAll(findBlock(t, "../docs/configuration.md", start), "shop", namespace)
	out, err := runScript(t, "bash", "-euo", "pipefail", "-c", "cd ..; "+block)
	mustSucceed(t, out, err)
}

// The commands of docs/configuration.md grant the operator the namespace that is bound, and no other.
func TestPropagationIsSwitchedOnByTheDocumentedCommands(t *testing.T) {
	t.Run("with a kustomization", func(t *testing.T) {
		objects := buildExample(t, "../docs/configuration.md")
		pod := findOne[appsv1.Deployment](t, objects, "Deployment").Spec.Template.Spec
		if !slices.Contains(pod.Containers[0].Args, "--propagate-from=shop") {
			t.Errorf("the arguments are %q", pod.Containers[0].Args)
		}
		findOne[rbacv1.ClusterRole](t, objects, "ClusterRole", "fleetwright-propagation")
	})
	t.Run("after make deploy", func(t *testing.T) {
		runControllers(t)
		t.Cleanup(func() {
			_, _ = manifests(t, "undeploy")
			_, _ = runScript(t, "kubectl", "delete", "-k", "propagation")
			_, _ = runScript(t, "kubectl", "delete", "-n", "default", "-f", "propagation/namespace.yaml")
		})
		out, err := manifests(t, "deploy", "registry.example/fleetwright:v1")
		mustSucceed(t, out, err)
		runConfigurationBlock(t, "kubectl apply --server-side -k config/propagation", "default")
		for in, want := range map[string]string{"default": "yes", "kube-system": "no"} {
			out, _ := runScript(t, "kubectl", "auth", "can-i", "list", "secrets", "-n", in, "--as=system:serviceaccount:"+namespace+":fleetwright-operator")
			if got := strings.TrimSpace(out); got != want {
				t.Errorf("in %s, may the operator list Secrets? %s, want %s", in, got, want)
			}
		}
	})
}

// The key of a backup is the key that was saved.
func TestTheKeyIsRestoredByTheDocumentedCommands(t *testing.T) {
	createNamespace(t)
	key := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "fleetwright-configuration-key"},
		Data:       map[string][]byte{"key": bytes.Repeat([]byte{0, 0xff, '\n', 7}, 8)}, Immutable: new(true),
	}
	if err := hub.Create(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hub.Delete(context.Background(), key) })
	directory := t.TempDir()
	run := func(start string) {
		t.Helper()
		block := findBlock(t, "../docs/configuration.md", start)
		block = regexp.MustCompile(`(?m)^kubectl rollout restart .*$`).ReplaceAllString(block, "") // there is no operator
		out, err := runScript(t, "bash", "-euo", "pipefail", "-c", "cd "+directory+"; "+block)
		mustSucceed(t, out, err)
	}
	run("kubectl get secret fleetwright-configuration-key")
	other := key.DeepCopy()
	if err := hub.Delete(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	other.ResourceVersion, other.UID, other.Data = "", "", map[string][]byte{"key": bytes.Repeat([]byte{1}, 32)}
	if err := hub.Create(t.Context(), other); err != nil { // the operator makes a new key
		t.Fatal(err)
	}
	run("kubectl delete secret fleetwright-configuration-key")
	restored := &corev1.Secret{}
	if err := hub.Get(t.Context(), client.ObjectKeyFromObject(key), restored); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(key.Data, restored.Data); diff != "" || restored.Immutable == nil || !*restored.Immutable {
		t.Errorf("immutable %v, data (-want +got):\n%s", restored.Immutable, diff)
	}
}
