package install

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/environment"
)

// hub is a cluster that is a hub, and a member of itself.
type hub struct {
	client.Client
	env []string // of the programs
}

func newHub(t *testing.T) *hub {
	t.Helper()
	needKind(t)
	cluster, err := env.Create(t.Context(), "hub")
	if err != nil {
		t.Fatal(err)
	}
	api, err := environment.NewClient(cluster.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	bin, err := filepath.Abs(root + "/bin") // kubectl finds our plugin there
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	kubeconfig := filepath.Join(home, "kubeconfig")
	if err := os.WriteFile(kubeconfig, cluster.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	return &hub{Client: api, env: append(os.Environ(), "KUBECONFIG="+kubeconfig, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home, "PATH="+bin+":"+os.Getenv("PATH"))}
}

// try runs one of our tools, and returns its output and its messages.
func (h *hub) try(t *testing.T, tool string, args ...string) (output, messages string, err error) {
	t.Helper()
	var stdout, stderr strings.Builder
	command := exec.CommandContext(t.Context(), filepath.Join(root, "bin", tool), args...)
	command.Env, command.Stdout, command.Stderr = h.env, &stdout, &stderr
	err = command.Run()
	return stdout.String(), stderr.String(), err
}

// run runs one of our tools, which must succeed, and returns its output.
func (h *hub) run(t *testing.T, tool string, args ...string) string {
	t.Helper()
	output, messages, err := h.try(t, tool, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", tool, strings.Join(args, " "), err, output, messages)
	}
	return output
}

// logState prints the pods of the operator and what happened to them, if the test has failed.
func (h *hub) logState(t *testing.T) {
	t.Helper()
	if !t.Failed() {
		return
	}
	for _, args := range [][]string{{"get", "pods", "-A", "-o", "wide"}, {"get", "events", "-n", environment.SecretNamespace}, {"logs", "-n", environment.SecretNamespace, "deployment/fleetwright", "--tail=20"}} {
		command := exec.Command(filepath.Join(root, "bin", "kubectl"), args...) // the context of t has ended
		command.Env = h.env
		out, _ := command.CombinedOutput()
		t.Logf("kubectl %s\n%s", strings.Join(args, " "), out)
	}
}

// join makes the hub a member of itself, with the chart for members and the commands of docs/install.md.
func (h *hub) join(t *testing.T) {
	t.Helper()
	h.run(t, "helm", "install", "fleetwright-member", root+"/charts/fleetwright-member", "--namespace", environment.SecretNamespace)
	current := strings.TrimSpace(h.run(t, "kubectl", "config", "current-context"))
	// Pods cannot reach the address in the kubeconfig of this test.
	secret := h.run(t, "kubectl-appsvc", "join", current, "--name", "hub", "--member-server", "https://kubernetes.default.svc", "--print-only", "hub")
	file := filepath.Join(t.TempDir(), "secret.yaml")
	if err := os.WriteFile(file, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	h.run(t, "kubectl", "apply", "--server-side", "-f", file)
	h.run(t, "kubectl", "annotate", "secret", "hub", "-n", environment.SecretNamespace, "fleetwright.dev/renew-token=true")
}

// runNotes runs the commands of the notes of the chart, which have two spaces before them. The hub is the
// only other cluster here, and pods do not reach the address in the kubeconfig, so its name and its address
// stand for those of the example. There is no internet, so the sample is read from this clone.
func (h *hub) runNotes(t *testing.T, notes string) {
	t.Helper()
	current := strings.TrimSpace(h.run(t, "kubectl", "config", "current-context"))
	sample := regexp.MustCompile(`https://\S+/(config/samples/\S+)`)
	commands := regexp.MustCompile("(?m)^  (helm|kubectl) (.*)$").FindAllStringSubmatch(notes, -1)
	if len(commands) < 4 {
		t.Fatalf("the notes have %d commands:\n%s", len(commands), notes)
	}
	for _, command := range commands {
		args := strings.Fields(sample.ReplaceAllString(command[2], root+"/$1"))
		switch i := slices.Index(args, "east"); {
		case i > 0: // the chart for members has joined this cluster, which stays so
			args = append(slices.Replace(args, i, i+1, current), "--name", "hub", "--member-server", "https://kubernetes.default.svc", "--force", "--dry-run")
		case args[0] == "apply": // no node has the image of the sample
			args = append(args, "--dry-run=server")
		}
		h.run(t, command[1], args...)
	}
}

// Each step continues where the previous one ended.
func TestChart(t *testing.T) {
	const namespace = environment.SecretNamespace
	h := newHub(t)
	t.Cleanup(func() { h.logState(t) })
	// The namespace enforces the restricted Pod Security Standard. The operator takes seconds, unless the
	// machine is busy.
	h.run(t, "kubectl", "apply", "-f", root+"/config/default/namespace.yaml")
	notes := h.run(t, "helm", "install", "fleetwright", root+"/charts/fleetwright", "--namespace", namespace, "--wait", "--timeout", "4m")

	t.Run("helm test fails without a member, and says why", func(t *testing.T) {
		if out, messages, err := h.try(t, "helm", "test", "fleetwright", "--namespace", namespace, "--timeout", "1m"); err == nil || !strings.Contains(messages, "the hub has no members: add a cluster with kubectl appsvc join") {
			t.Errorf("%v\n%s%s", err, out, messages)
		}
	})
	h.join(t)
	h.run(t, "kubectl", "wait", "membercluster/hub", "--for=create", "--timeout=1m")
	h.run(t, "kubectl", "wait", "membercluster/hub", "--for=condition=Ready", "--timeout=1m")
	t.Run("helm test succeeds with a member, and deletes its objects", func(t *testing.T) {
		out, messages, err := h.try(t, "helm", "test", "fleetwright", "--namespace", namespace, "--timeout", "1m")
		if err != nil || !strings.Contains(messages, "hub   Ready=True   Connected") {
			t.Errorf("%v\n%s%s", err, out, messages)
		}
		if left := h.run(t, "kubectl", "get", "pod,serviceaccount,clusterrole,clusterrolebinding", "-n", namespace, "-o", "name"); strings.Contains(left, "fleetwright-check") {
			t.Errorf("an object of helm test is left:\n%s", left)
		}
	})

	t.Run("each command of the notes can be run", func(t *testing.T) { h.runNotes(t, notes) })

	app := &v1alpha1.AppService{}
	app.Namespace, app.Name, app.Spec.Image = "default", "web", "web:1"
	if err := h.Create(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	h.run(t, "kubectl", "wait", "appservice/web", "--for=condition=Ready", "--timeout=1m")
	workload := &appsv1.Deployment{}
	if err := h.Get(t.Context(), client.ObjectKeyFromObject(app), workload); err != nil || workload.Status.AvailableReplicas == 0 {
		t.Fatalf("%d pods are available: %v", workload.Status.AvailableReplicas, err)
	}
	t.Run("helm uninstall keeps the AppService, the members' Secrets and the workload", func(t *testing.T) {
		h.run(t, "helm", "uninstall", "fleetwright", "--namespace", namespace, "--wait", "--timeout", "1m")
		h.run(t, "kubectl", "wait", "pod", "-n", namespace, "-l", "app.kubernetes.io/name=fleetwright", "--for=delete", "--timeout=1m")
		time.Sleep(2 * time.Second) // a deletion would begin at once
		kept := &appsv1.Deployment{}
		if err := h.Get(t.Context(), client.ObjectKeyFromObject(app), kept); err != nil || kept.UID != workload.UID || kept.DeletionTimestamp != nil ||
			kept.Generation != workload.Generation || kept.Status.AvailableReplicas != workload.Status.AvailableReplicas {
			t.Errorf("the Deployment was changed: %+v, %v", kept, err)
		}
		secret := &corev1.Secret{}
		if err := errors.Join(h.Get(t.Context(), client.ObjectKeyFromObject(app), app), h.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "hub"}, secret)); err != nil {
			t.Error(err)
		}
	})
}
