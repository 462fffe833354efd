package charts_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// install installs a chart in namespace fleetwright-system until the test ends, and returns what
// helm prints. The CRDs stay, as on the hub of a user, and so the tests share them.
func install(t *testing.T, chart string, args ...string) string {
	t.Helper()
	t.Cleanup(func() { uninstall(t) })
	args = append([]string{"fleetwright", chart, "--namespace", namespace, "--create-namespace"}, args...)
	return run(t, "helm", append([]string{"install"}, args...)...)
}

// uninstall removes the release, if any, and waits until its Deployment is deleted.
func uninstall(t *testing.T) {
	t.Helper()
	if _, err := tryRun("helm", "uninstall", "fleetwright", "--namespace", namespace, "--ignore-not-found"); err != nil {
		t.Error(err)
	}
}

// createApp creates an AppService until the test ends. It is retried, because a new CRD is served
// after a moment.
func createApp(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	app := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"image": "web:1"}}}
	app.SetGroupVersionKind(schema.GroupVersionKind{Group: "fleetwright.dev", Version: "v1alpha1", Kind: "AppService"})
	app.SetNamespace("default")
	app.SetName("kept")
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 10*time.Second, true, func(ctx context.Context) (bool, error) {
		err := hub.Create(ctx, app)
		if meta.IsNoMatchError(err) {
			return false, nil
		}
		return err == nil, client.IgnoreNotFound(err)
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := hub.Delete(context.Background(), app); err != nil {
			t.Error(err)
		}
	})
	return app
}

// imageOf returns the image of the operator on the hub.
func imageOf(t *testing.T) string {
	t.Helper()
	deployment := &appsv1.Deployment{}
	if err := hub.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: "fleetwright"}, deployment); err != nil {
		t.Fatal(err)
	}
	return deployment.Spec.Template.Spec.Containers[0].Image
}

// hasField reports whether the CRD of AppServices on the hub has spec.disruptionBudget.
func hasField(t *testing.T) bool {
	t.Helper()
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"})
	if err := hub.Get(t.Context(), types.NamespacedName{Name: "appservices.fleetwright.dev"}, crd); err != nil {
		t.Fatal(err)
	}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	_, found, err := unstructured.NestedMap(versions[0].(map[string]any), append(specOfCRD, "disruptionBudget")...)
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// specOfCRD is the path of the fields of an AppService's spec in a version of its CRD.
var specOfCRD = []string{"schema", "openAPIV3Schema", "properties", "spec", "properties"}

// olderChart returns a copy of the chart as an earlier release could have been: its CRD lacks
// spec.disruptionBudget, and its operator has another image.
func olderChart(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	directory := filepath.Join(root, "charts", "fleetwright")
	// The chart has a link to config/.
	if err := errors.Join(os.CopyFS(directory, os.DirFS("fleetwright")), os.CopyFS(filepath.Join(root, "config"), os.DirFS("../config"))); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(root, "config", "crd", "bases", "fleetwright.dev_appservices.yaml")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	crd := find(t, decode(t, string(content)), "CustomResourceDefinition")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	unstructured.RemoveNestedField(versions[0].(map[string]any), append(specOfCRD, "disruptionBudget")...)
	if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	if content, err = crd.MarshalJSON(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	setOlderVersion(t, directory)
	return directory
}

// setOlderVersion gives a copy of the chart another version of the operator, and so another image.
func setOlderVersion(t *testing.T, directory string) {
	t.Helper()
	file := filepath.Join(directory, "Chart.yaml")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const line = "appVersion: v0.0.0\n"
	if strings.Count(string(content), line) != 1 {
		t.Fatalf("%s has no line %q", file, line)
	}
	content = []byte(strings.Replace(string(content), line, "appVersion: v0.0.0-older\n", 1))
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

const (
	image      = "ghcr.io/fleetwright/fleetwright:v0.0.0"
	olderImage = image + "-older"
)

// Each step continues where the previous one ended.
func TestRelease(t *testing.T) {
	older := olderChart(t)
	sample := "/fleetwright/v0.0.0-older/config/samples/appservice.yaml\n"
	if notes := install(t, older); !strings.Contains(notes, sample) {
		t.Errorf("the notes do not have the sample of the same version, %s:\n%s", sample, notes)
	}
	if got := imageOf(t); got != olderImage || hasField(t) {
		t.Fatalf("the older chart runs %s, and its CRD has the new field: %t", got, hasField(t))
	}
	app := createApp(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "east"}}
	if err := hub.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	kept := func(t *testing.T) {
		t.Helper()
		for _, object := range []client.Object{app, secret} {
			uid := object.GetUID()
			if err := hub.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil || object.GetUID() != uid || object.GetDeletionTimestamp() != nil {
				t.Errorf("%s was deleted: %v", object.GetName(), err)
			}
		}
	}

	t.Run("an upgrade changes the CRDs and the operator", func(t *testing.T) {
		run(t, "helm", "upgrade", "fleetwright", "fleetwright", "--namespace", namespace)
		if got := imageOf(t); got != image || !hasField(t) {
			t.Errorf("it runs %s, and the CRD has the new field: %t", got, hasField(t))
		}
		kept(t)
	})
	t.Run("an upgrade that changes nothing keeps the generation of the Deployment", func(t *testing.T) {
		generation := func() int64 {
			deployment := &appsv1.Deployment{}
			if err := hub.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: "fleetwright"}, deployment); err != nil {
				t.Fatal(err)
			}
			return deployment.Generation
		}
		before := generation()
		run(t, "helm", "upgrade", "fleetwright", "fleetwright", "--namespace", namespace)
		if after := generation(); after != before {
			t.Errorf("the generation was %d and is %d", before, after)
		}
	})
	t.Run("an upgrade without the CRDs keeps them", func(t *testing.T) {
		run(t, "helm", "upgrade", "fleetwright", "fleetwright", "--namespace", namespace, "--set", "crds.install=false")
		if !hasField(t) {
			t.Error("the CRD was changed")
		}
		kept(t)
	})
	t.Run("the older chart without its CRDs keeps the newer ones", func(t *testing.T) {
		run(t, "helm", "upgrade", "fleetwright", older, "--namespace", namespace, "--reset-then-reuse-values", "--set", "crds.install=false")
		if got := imageOf(t); got != olderImage || !hasField(t) {
			t.Errorf("it runs %s, and the CRD has the new field: %t", got, hasField(t))
		}
		kept(t)
	})
	t.Run("the next upgrade installs the CRDs again", func(t *testing.T) {
		run(t, "helm", "upgrade", "fleetwright", "fleetwright", "--namespace", namespace, "--reset-then-reuse-values", "--set", "crds.install=true")
		if got := imageOf(t); got != image || !hasField(t) {
			t.Errorf("it runs %s, and the CRD has the new field: %t", got, hasField(t))
		}
		kept(t)
	})
	t.Run("a rollback changes both back", func(t *testing.T) {
		run(t, "helm", "rollback", "fleetwright", "1", "--namespace", namespace)
		if got := imageOf(t); got != olderImage || hasField(t) {
			t.Errorf("it runs %s, and the CRD has the new field: %t", got, hasField(t))
		}
		kept(t)
	})
	t.Run("a second release is refused", func(t *testing.T) {
		_, err := tryRun("helm", "install", "second", "fleetwright", "--namespace", "second", "--create-namespace")
		if err == nil || !strings.Contains(err.Error(), `must equal "second": current value is "fleetwright"`) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("helm uninstall keeps the CRDs, the AppServices and the Secrets of members", func(t *testing.T) {
		uninstall(t)
		hasField(t) // the CRD exists
		kept(t)
		for _, object := range render(t, "fleetwright", namespace) {
			if object.GetKind() == "CustomResourceDefinition" {
				continue
			}
			if err := hub.Get(t.Context(), client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
				t.Errorf("%s is still there: %v", keyOf(object), err)
			}
		}
	})
	t.Run("the release can be installed again", func(t *testing.T) {
		run(t, "helm", "install", "fleetwright", "fleetwright", "--namespace", namespace)
		if got := imageOf(t); got != image || !hasField(t) {
			t.Errorf("it runs %s, and the CRD has the new field: %t", got, hasField(t))
		}
		kept(t)
	})
}

// A hub whose objects were applied with kubectl changes to Helm by the command of docs/install.md. kubectl
// still owns the fields that Helm has not changed, so an upgrade that changes one needs a flag too.
func TestHelmTakesOverAnOperatorThatKubectlApplied(t *testing.T) {
	run(t, "kubectl", "apply", "--server-side", "-k", "../config/default")
	t.Cleanup(func() {
		uninstall(t)
		releaseFields(t) // otherwise, later tests may have conflicts with kubectl
	})
	args := []string{"install", "fleetwright", "fleetwright", "--namespace", namespace}
	if _, err := tryRun("helm", args...); err == nil || !strings.Contains(err.Error(), "invalid ownership metadata") {
		t.Errorf("without a flag, got %v", err)
	}
	run(t, "helm", append(args, "--take-ownership", "--force-conflicts")...)
	if got := imageOf(t); got != image {
		t.Errorf("it runs %s", got)
	}
	args = []string{"upgrade", "fleetwright", "fleetwright", "--namespace", namespace, "--set", "resources.limits.memory=7Gi"}
	if _, err := tryRun("helm", args...); err == nil || !strings.Contains(err.Error(), `conflict with "kubectl"`) {
		t.Errorf("an upgrade without a flag: %v", err)
	}
	run(t, "helm", append(args, "--force-conflicts")...)
}

// releaseFields makes Helm the only owner of the fields of our CRDs, which outlive a release.
func releaseFields(t *testing.T) {
	t.Helper()
	for _, crd := range kustomize(t, "crd") {
		if err := hub.Get(context.Background(), client.ObjectKeyFromObject(crd), crd); err != nil {
			t.Fatal(err)
		}
		before := crd.DeepCopy()
		crd.SetManagedFields(slices.DeleteFunc(crd.GetManagedFields(), func(f metav1.ManagedFieldsEntry) bool { return f.Manager == "kubectl" }))
		if err := hub.Patch(context.Background(), crd, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
}

// A release of the chart of the previous commit can be upgraded, if that commit has a chart.
func TestUpgradeFromThePreviousCommit(t *testing.T) {
	if out, err := exec.Command("git", "cat-file", "-e", "HEAD~1:charts/fleetwright").CombinedOutput(); err != nil {
		t.Skipf("the previous commit has no chart, or is not here: %s", out)
	}
	directory := t.TempDir()
	archive := filepath.Join(directory, "chart.tar")
	for _, command := range [][]string{
		{"git", "-C", "..", "archive", "--output", archive, "HEAD~1", "charts/fleetwright", "config"},
		{"tar", "-C", directory, "-xf", archive},
	} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
	chart := filepath.Join(directory, "charts", "fleetwright")
	setOlderVersion(t, chart)
	install(t, chart)
	if got := imageOf(t); got != olderImage {
		t.Fatalf("the chart of the previous commit runs %s", got)
	}
	app := createApp(t)
	run(t, "helm", "upgrade", "fleetwright", "fleetwright", "--namespace", namespace)
	if err := hub.Get(t.Context(), client.ObjectKeyFromObject(app), app); err != nil || imageOf(t) != image {
		t.Errorf("the operator runs %s; the AppService: %v", imageOf(t), err)
	}
}

// The API server accepts the objects of all values, except those of the Prometheus operator.
func TestAllValuesAreAccepted(t *testing.T) {
	for _, name := range []string{"shop", "capi", "argocd"} {
		if err := hub.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	install(t, "fleetwright", "--set", "approval.enabled=true,propagation.namespaces={shop},clusterAPINamespace=capi,argoCDNamespace=argocd,metrics.service=true,metrics.dashboard=true",
		"--set-json", `affinity={"podAffinity":{}},topologySpreadConstraints=[{"maxSkew":1,"topologyKey":"rack","whenUnsatisfiable":"ScheduleAnyway","labelSelector":{}}],commonLabels={"team":"platform"}`,
		"--set-json", `podSecurityContext={"runAsUser":1000,"fsGroup":1000,"fsGroupChangePolicy":"OnRootMismatch","supplementalGroups":[2000]},securityContext={"runAsGroup":1000,"privileged":false}`,
		"--set-json", `volumes=[{"name":"ca","configMap":{"name":"ca"}}],volumeMounts=[{"name":"ca","mountPath":"/ca"}],serviceAccount={"annotations":{"a":"b"}},podDisruptionBudget={"maxUnavailable":"50%"}`,
		"--set", "imagePullSecrets[0].name=registry,tolerations[0].operator=Exists,env[0].name=A,env[0].value=b,flags.log-level=debug")
	uninstall(t)
	install(t, "fleetwright-member", "--set", "namespaces={shop},configuration=true,token=true,policy.enabled=true")
	run(t, "helm", "upgrade", "fleetwright", "fleetwright-member", "--namespace", namespace, "--set", "configuration=true")
}

// The pod of `helm test` complies with the restricted Pod Security Standard, as docs/install.md
// labels the namespace.
func TestCheckPodIsRestricted(t *testing.T) {
	labels := map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
	name := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "restricted", Labels: labels}}
	if err := hub.Create(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: name.Name, Name: "fleetwright-check"}}
	if err := hub.Create(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	pod := find(t, decode(t, run(t, "helm", "template", "fleetwright", "fleetwright", "--namespace", name.Name, "--show-only", "templates/tests/check.yaml")), "Pod")
	if err := hub.Create(t.Context(), pod, client.DryRunAll); err != nil {
		t.Error(err)
	}
}
