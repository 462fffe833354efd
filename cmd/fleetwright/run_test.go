package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/servertest"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// hub is a real API server. Tests install the CRDs with installCRDs.
type hub struct {
	environment *envtest.Environment
	admin       client.Client
	kubeconfig  string // for a user with the operator's role
}

var (
	startedHub     *hub
	startSharedHub = sync.OnceValues(startHub)
)

func sharedHub(t *testing.T) *hub {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Fatal("KUBEBUILDER_ASSETS is not set: it must name the directory of etcd and kube-apiserver; `make test` builds them and sets it")
	}
	h, err := startSharedHub()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func startHub() (*hub, error) {
	ctx := context.Background()
	h := &hub{environment: servertest.New()}
	config, err := h.environment.Start()
	if err != nil { // some of its processes may be running
		return nil, errors.Join(err, h.environment.Stop())
	}
	startedHub = h
	kinds, err := newScheme()
	if err != nil {
		return nil, err
	}
	if h.admin, err = client.New(config, client.Options{Scheme: kinds}); err != nil {
		return nil, err
	}
	user, err := h.environment.AddUser(envtest.User{Name: "operator"}, nil)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := user.KubeConfig()
	if err != nil {
		return nil, err
	}
	h.kubeconfig = filepath.Join(h.environment.ControlPlane.APIServer.CertDir, "operator.kubeconfig")
	return h, errors.Join(os.WriteFile(h.kubeconfig, kubeconfig, 0o600), h.grant(ctx))
}

// grant gives the operator exactly the permissions in config/rbac.
func (h *hub) grant(ctx context.Context) error {
	raw, err := os.ReadFile("../../config/rbac/role.yaml")
	if err != nil {
		return err
	}
	clusterRole, role := &rbacv1.ClusterRole{}, &rbacv1.Role{}
	documents := strings.Split(string(raw), "\n---\n")
	if err := errors.Join(yaml.Unmarshal([]byte(documents[0]), clusterRole), yaml.Unmarshal([]byte(documents[1]), role)); err != nil {
		return err
	}
	operator := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "operator"}}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: role.Namespace}},
		clusterRole,
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "operator"}, Subjects: operator,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterRole.Name},
		},
		role,
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: role.Namespace, Name: "operator"}, Subjects: operator,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		},
	} {
		if err := h.admin.Create(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

func TestOperator_with_a_hub(t *testing.T) {
	h := sharedHub(t)
	t.Run("without the CRDs reports it in one line", func(t *testing.T) {
		checkFailure(t, "lacks the CRDs of Fleetwright", "--kubeconfig", h.kubeconfig)
	})
	t.Run("that refuses the credentials reports it in one line", func(t *testing.T) {
		checkFailure(t, "the server has asked for the client to provide credentials", "--kubeconfig", hubAt(t, strings.TrimSuffix(h.environment.Config.Host, "/")))
	})
	h.installCRDs(t)
	t.Run("without the role reports it in one line", func(t *testing.T) {
		stranger, err := h.environment.AddUser(envtest.User{Name: "stranger"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		kubeconfig, err := stranger.KubeConfig()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "kubeconfig")
		if err := os.WriteFile(path, kubeconfig, 0o600); err != nil {
			t.Fatal(err)
		}
		checkFailure(t, "forbidden", "--kubeconfig", path)
	})
	t.Run("is checked for helm test", func(t *testing.T) { testCheck(t, h) })
	t.Run("hands over to a standby and releases the Lease", func(t *testing.T) { testHandover(t, h) })
	t.Run("exits after a panic in the goroutine of an informer", func(t *testing.T) {
		r := h.replica(t)
		r.waitUntilReady(t)
		if err := r.command.Process.Signal(syscall.SIGUSR1); err != nil { // see panicOnSignal
			t.Fatal(err)
		}
		if code := r.waitForExit(t); code != 2 {
			t.Errorf("exit code %d", code)
		}
	})
}

// installCRDs installs the CRDs until the end of the test.
func (h *hub) installCRDs(t *testing.T) {
	t.Helper()
	crds := envtest.CRDInstallOptions{Paths: []string{"../../config/crd/bases"}, ErrorIfPathMissing: true, MaxTime: wait.Patience}
	if _, err := envtest.InstallCRDs(h.environment.Config, crds); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := envtest.UninstallCRDs(h.environment.Config, crds); err != nil {
			t.Error(err)
		}
		wait.Eventually(t, func() error {
			for _, resource := range []string{"appservices", "memberclusters"} {
				crd := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"}}
				err := h.admin.Get(context.Background(), client.ObjectKey{Name: resource + "." + v1alpha1.GroupVersion.Group}, crd)
				if !apierrors.IsNotFound(err) {
					return fmt.Errorf("the CRD of %s still exists: %w", resource, err)
				}
			}
			if err := h.admin.List(context.Background(), &v1alpha1.MemberClusterList{}); !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
				return fmt.Errorf("MemberClusters are still served: %w", err)
			}
			return nil
		})
	})
}

// replica is an operator with its own port for health checks.
type replica struct {
	*process
	health string
}

func (h *hub) replica(t *testing.T) replica {
	t.Helper()
	return replicaOn(t, h.kubeconfig)
}

// replicaOn starts a replica with a kubeconfig for the hub.
func replicaOn(t *testing.T, kubeconfig string, flags ...string) replica {
	t.Helper()
	health := servertest.FreeAddress(t)
	return replica{health: health, process: fleetwright(t, append([]string{
		"--kubeconfig", kubeconfig, "--allow-loopback-members", "--health-probe-bind-address", health, "--metrics-bind-address", "0",
	}, flags...)...)}
}

// waitUntilReady waits until the replica reports that it is ready.
func (r replica) waitUntilReady(t *testing.T) {
	t.Helper()
	wait.Eventually(t, func() error {
		for _, check := range []string{"healthz", "healthz/informers", "readyz"} {
			answer, err := http.Get("http://" + r.health + "/" + check)
			if err != nil {
				return fmt.Errorf("%w\n%s", err, r.output.String())
			}
			_ = answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				return fmt.Errorf("%s answers %s", check, answer.Status)
			}
		}
		return nil
	})
}

// terminate terminates the replica as Kubernetes does.
func (r replica) terminate(t *testing.T) {
	t.Helper()
	if err := r.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := r.waitForExit(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	for line := range strings.Lines(r.output.String()) {
		// The libraries log these errors when the Lease is released, and when a renewal of the Lease, an
		// event or another request is in flight at the end.
		canceled := strings.Contains(line, "Unexpected error when reading response body") && strings.Contains(line, `"err":"context canceled"`)
		renewal := strings.Contains(line, "Error retrieving lease lock") && strings.Contains(line, `context canceled"`)
		expected := canceled || renewal || strings.Contains(line, "leader election lost") || strings.Contains(line, "Unable to write event")
		if !strings.HasPrefix(line, "{") || strings.Contains(line, `"level":"ERROR"`) && !expected {
			t.Errorf("the operator logged %s", line)
		}
	}
}

func testHandover(t *testing.T, h *hub) {
	ctx := context.Background()
	leader := func() string {
		lease := &coordinationv1.Lease{}
		if err := h.admin.Get(ctx, client.ObjectKey{Namespace: "fleetwright-system", Name: "fleetwright"}, lease); err != nil || lease.Spec.HolderIdentity == nil {
			return ""
		}
		return *lease.Spec.HolderIdentity
	}
	first := h.replica(t)
	first.waitUntilReady(t)
	var before string
	wait.Eventually(t, func() error {
		if before = leader(); before == "" {
			return errors.New("no replica leads")
		}
		return nil
	})
	second := h.replica(t)
	second.waitUntilReady(t)
	h.addHubAsMember(t, "alpha")
	first.terminate(t)
	wait.Eventually(t, func() error {
		if now := leader(); now == "" || now == before {
			return fmt.Errorf("the leader is %q, after %q", now, before)
		}
		return nil
	})
	h.removeMember(t, "alpha") // the hub cannot be two members
	h.addHubAsMember(t, "beta")
	second.terminate(t)
	if now := leader(); now != "" {
		t.Errorf("the Lease is still held by %q", now)
	}
}

// addHubAsMember adds the hub as a member of itself, and waits until it is Ready.
func (h *hub) addHubAsMember(t *testing.T, name string) {
	t.Helper()
	h.addMember(t, name, h.environment.KubeConfig)
}

// addMember adds a member with a kubeconfig, and waits until it is Ready.
func (h *hub) addMember(t *testing.T, name string, kubeconfig []byte) {
	t.Helper()
	ctx := context.Background()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "fleetwright-system", Name: name, Labels: map[string]string{"sigs.k8s.io/multicluster-runtime-kubeconfig": "true"}},
		Data:       map[string][]byte{"kubeconfig": kubeconfig},
	}
	if err := h.admin.Create(ctx, secret); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.admin.Delete(ctx, secret) })
	wait.Eventually(t, func() error {
		mc := &v1alpha1.MemberCluster{}
		if err := h.admin.Get(ctx, client.ObjectKey{Name: name}, mc); err != nil {
			return err
		}
		if !meta.IsStatusConditionTrue(mc.Status.Conditions, v1alpha1.ConditionReady) {
			return fmt.Errorf("%s is %+v", name, mc.Status.Conditions)
		}
		return nil
	})
}

// removeMember removes a member: its Secret, and then its MemberCluster, which outlives the Secret.
func (h *hub) removeMember(t *testing.T, name string) {
	t.Helper()
	ctx := context.Background()
	if err := h.admin.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "fleetwright-system", Name: name}}); err != nil {
		t.Fatal(err)
	}
	mc := &v1alpha1.MemberCluster{}
	wait.Eventually(t, func() error {
		if err := h.admin.Get(ctx, client.ObjectKey{Name: name}, mc); err != nil || mc.HasSecret() {
			return fmt.Errorf("%s is still a member: %+v (%w)", name, mc.Status, err)
		}
		return nil
	})
	if err := h.admin.Delete(ctx, mc); err != nil {
		t.Fatal(err)
	}
}
