package command_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/command"
	"github.com/fleetwright/fleetwright/internal/servertest"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// runOf runs the plugin of a version.
func runOf(t *testing.T, version, kubeconfig string, args ...string) result {
	t.Helper()
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	code := command.Run(t.Context(), version, append([]string{"--kubeconfig", kubeconfig}, args...), streams)
	return result{code, out.String(), errOut.String()}
}

const (
	olderOperator = "the operator of the hub (v0.1.3) is older than this plugin (v0.2.0): upgrade it (docs/maintenance.md#upgrade), or use the plugin of its version"
	olderPlugin   = "this plugin (v0.1.0) is older than the operator of the hub (v0.2.1), and may not know all of its fields: install the plugin of that version"
	olderThanAll  = "the operator of the hub is older than this plugin (v0.2.0): upgrade it (docs/maintenance.md#upgrade)"
)

func TestVersion_skew_is_said(t *testing.T) {
	createLease(t, time.Now().Add(time.Hour))
	create(t, &v1alpha1.AppService{}, "{metadata: {name: web, namespace: default}, spec: {image: nginx}}")
	lease := &coordinationv1.Lease{}
	if err := hub.Get(t.Context(), client.ObjectKey{Namespace: "fleetwright-system", Name: "fleetwright"}, lease); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ plugin, operator, want string }{
		{"v0.2.0", "v0.1.3", olderOperator},
		{"v0.1.0", "v0.2.1", olderPlugin},
		{"v0.2.0", "", olderThanAll},
		{"v0.2.0", "v0.2.7", ""},
		{"v0.2.0-4-g1234567", "v0.2.0", ""},
		{"v0.2.0", "1234567", ""}, // a build without a tag
		{"unknown", "v0.2.0", ""},
	} {
		t.Run(test.plugin+" with "+test.operator, func(t *testing.T) {
			lease.Labels = map[string]string{v1alpha1.LabelVersion: test.operator}
			if test.operator == "" {
				lease.Labels = nil
			}
			if err := hub.Update(t.Context(), lease); err != nil {
				t.Fatal(err)
			}
			operator, note, line := test.operator, "", ""
			if operator == "" {
				operator = "<none>"
			}
			if test.want != "" {
				note, line = "! "+test.want+"\n", test.want+"\n"
			}
			runOf(t, test.plugin, hubKubeconfig, "version").check(t, result{
				out: fmt.Sprintf("kubectl-appsvc %s %s %s/%s\noperator       %s\n%s", test.plugin, runtime.Version(), runtime.GOOS, runtime.GOARCH, operator, note)})
			status := oneLine(runOf(t, test.plugin, hubKubeconfig, "status", "web").out)
			if !strings.HasSuffix(status, strings.TrimSpace(note)) || note == "" && strings.Contains(status, "older") {
				t.Errorf("status: %s", status)
			}
			runOf(t, test.plugin, hubKubeconfig, "rollout", "approve", "web").check(t, result{code: 1,
				errOut: "error: web has no spec.rollout: an edit reaches all clusters at once (docs/rollouts.md)\n" + line})
			// A name that does not exist has nothing to do with versions.
			runOf(t, test.plugin, hubKubeconfig, "clusters", "west").check(t, result{code: 1, errOut: "error: the hub has no cluster west: see kubectl appsvc clusters\n"})
		})
	}
}

// oneLine joins the lines of a text that was wrapped.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

func TestVersion_without_an_operator(t *testing.T) {
	of := fmt.Sprintf("kubectl-appsvc test %s %s/%s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH)
	run(t, "version").check(t, result{out: of, errOut: "The version of the operator is not known: there is no Lease fleetwright-system/fleetwright (see --secret-namespace)\n"})
	run(t, "version", "--client").check(t, result{out: of})
	run(t, "version", "--server", "https://127.0.0.1:1").check(t, result{out: of,
		errOut: "The version of the operator is not known: https://127.0.0.1:1 does not answer (connect: connection refused): check the context, the network and the VPN\n"})
	if got := runAs(t, kubeconfigOf(t, "nobody"), "version"); got.code != 0 || got.out != of || !strings.Contains(got.errOut, "is not known") {
		t.Error(got)
	}
}

// TestOlder_hub tests what commands say if the CRDs of the hub lack what they need: on an API server
// with the CRDs of the first release.
func TestOlder_hub(t *testing.T) {
	environment := servertest.New()
	servertest.Start(t, environment)
	kubeconfig := filepath.Join(t.TempDir(), "older")
	if err := os.WriteFile(kubeconfig, environment.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	older, err := client.New(environment.Config, client.Options{Scheme: hub.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	// install installs a CRD without a field of its spec.
	install := func(kind, field string) {
		t.Helper()
		content, err := os.ReadFile("../../../e2e/upgrade/testdata/v0.1.0/crds/fleetwright.dev_" + kind + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		crd := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(content, crd); err != nil {
			t.Fatal(err)
		}
		versions, _, err := unstructured.NestedSlice(crd.Object, "spec", "versions")
		if err != nil {
			t.Fatal(err)
		}
		unstructured.RemoveNestedField(versions[0].(map[string]any), "schema", "openAPIV3Schema", "properties", "spec", "properties", field)
		if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), kind+".yaml")
		if content, err = yaml.Marshal(crd); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := envtest.InstallCRDs(environment.Config, envtest.CRDInstallOptions{Paths: []string{file}, MaxTime: wait.Patience}); err != nil {
			t.Fatal(err)
		}
	}
	const crds = "the CRDs of the hub are older than this plugin (v0.2.0): upgrade them and the operator (docs/maintenance.md#upgrade)\n"
	last := func(got result) string {
		lines := strings.SplitAfter(got.errOut, "\n")
		return fmt.Sprint(got.code, " ", strings.Join(lines[max(0, len(lines)-2):], ""))
	}

	if got := runOf(t, "v0.2.0", kubeconfig, "clusters"); !strings.Contains(last(got), "install Fleetwright there") {
		t.Errorf("without Fleetwright: %+v", got)
	}
	install("memberclusters", "taints")
	if err := older.Create(t.Context(), &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}); err != nil {
		t.Fatal(err)
	}
	if got := runOf(t, "v0.2.0", kubeconfig, "status", "web"); last(got) != "1 "+crds {
		t.Errorf("without the kind: %+v", got)
	}
	install("appservices", "")
	// A field that the plugin writes, and that this version of the CRD does not have.
	if got := runOf(t, "v0.2.0", kubeconfig, "drain", "east"); last(got) != "1 "+crds || !strings.Contains(got.errOut, `unknown field "spec.taints"`) {
		t.Errorf("without the field: %+v", got)
	}
	// An operator of that version does not report its version.
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "fleetwright-system"}},
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "fleetwright", Namespace: "fleetwright-system"}},
		&v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default"}, Spec: v1alpha1.AppServiceSpec{Image: "nginx"}},
	} {
		if err := older.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	if got := runOf(t, "v0.2.0", kubeconfig, "rollout", "undo", "web"); last(got) != "1 "+olderThanAll+"\n" {
		t.Errorf("a rollout: %+v", got)
	}
}
