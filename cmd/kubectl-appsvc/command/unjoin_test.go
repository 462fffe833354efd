package command_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilwait "k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/command"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// eventually waits until check returns true.
func eventually(t *testing.T, check func() bool) {
	t.Helper()
	wait.Eventually(t, func() error {
		if !check() {
			return errors.New("it does not happen")
		}
		return nil
	})
}

// TestUnjoin removes clusters without an operator: the test writes what the operator would.
func TestUnjoin(t *testing.T) {
	m := newMember(t)
	ensureNamespace(t, hub, "shop")
	// createCluster creates a cluster that is Ready and has a Secret. When the Secret is deleted,
	// the MemberCluster says so.
	createCluster := func(t *testing.T, name string, edit func(*corev1.Secret)) {
		t.Helper()
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretNamespace, Name: name, Labels: map[string]string{"sigs.k8s.io/multicluster-runtime-kubeconfig": "true"}}}
		if edit != nil {
			edit(secret)
		}
		deleteSecret(t, name)
		if err := hub.Create(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
		cluster := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{v1alpha1.AnnotationSecret: secretNamespace + "/" + name}}}
		if err := hub.Create(t.Context(), cluster); err != nil {
			t.Fatal(err)
		}
		cluster.Status = m.connectedStatus(time.Now().Add(time.Hour))
		if err := hub.Status().Update(t.Context(), cluster); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for ctx.Err() == nil && hub.Get(ctx, client.ObjectKeyFromObject(secret), secret) == nil {
				select {
				case <-ctx.Done():
				case <-time.After(50 * time.Millisecond):
				}
			}
			_ = hub.Status().Patch(ctx, cluster, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"secretMissingSince":"2026-01-01T00:00:00Z"}}`)))
		}()
		t.Cleanup(func() {
			cancel()
			<-ended
			if err := hub.Delete(context.Background(), cluster); client.IgnoreNotFound(err) != nil {
				t.Error(err)
			}
		})
	}
	createApp := func(t *testing.T, on string) {
		t.Helper()
		create(t, &v1alpha1.AppService{}, `
metadata: {name: web, namespace: shop}
spec: {image: "web:1"}
status:
  clusters:
  - {name: `+on+`, generation: 1, replicas: 3, readyReplicas: 3, phase: Ready, lastTransitionTime: "2026-01-01T00:00:00Z"}`)
	}
	isGone := func(t *testing.T, name string) bool {
		t.Helper()
		err := hub.Get(t.Context(), client.ObjectKey{Name: name}, &v1alpha1.MemberCluster{})
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		return apierrors.IsNotFound(err) && readSecret(t, name) == nil
	}

	t.Run("--retain leaves the workloads running", func(t *testing.T) {
		createCluster(t, "east", nil)
		createApp(t, "east")
		m.run(t, "unjoin", "east", "--retain", "--yes").checkGolden(t, "unjoin-retain")
		if !isGone(t, "east") {
			t.Error("the cluster is still there")
		}
	})

	t.Run("--delete with nothing there", func(t *testing.T) {
		createCluster(t, "east", nil)
		m.run(t, "unjoin", "east", "--delete", "--yes").checkGolden(t, "unjoin-delete")
		if !isGone(t, "east") {
			t.Error("the cluster is still there")
		}
	})

	t.Run("--delete reports what cannot move, and the cluster stays", func(t *testing.T) {
		createCluster(t, "east", nil)
		createApp(t, "east")
		m.run(t, "unjoin", "east", "--delete", "--yes", "--timeout", "1s").checkGolden(t, "unjoin-stays")
		if isGone(t, "east") {
			t.Error("the cluster is gone")
		}
	})

	t.Run("--delete waits until the AppService has moved", func(t *testing.T) {
		createCluster(t, "east", nil)
		createApp(t, "east")
		moved := make(chan error, 1)
		go func() {
			// As the planner does: the entry goes after the taint was set.
			moved <- utilwait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, wait.Patience, true, func(ctx context.Context) (bool, error) {
				cluster := &v1alpha1.MemberCluster{}
				if err := hub.Get(ctx, client.ObjectKey{Name: "east"}, cluster); err != nil || len(cluster.Spec.Taints) == 0 {
					return false, err
				}
				app := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
				return true, hub.Status().Patch(ctx, app, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"clusters":[]}}`)))
			})
		}()
		got := m.run(t, "unjoin", "east", "--delete", "--yes")
		if err := <-moved; err != nil {
			t.Error(err)
		}
		if got.code != 0 || !strings.Contains(got.out, "appservice/shop/web is no longer on east\n") || !isGone(t, "east") {
			t.Error(got)
		}
	})

	t.Run("a cluster whose Secret is missing already", func(t *testing.T) {
		createCluster(t, "east", nil)
		if err := hub.Delete(t.Context(), readSecret(t, "east")); err != nil {
			t.Fatal(err)
		}
		got := m.run(t, "unjoin", "east", "--retain", "--yes")
		if got.code != 0 || !strings.Contains(got.out, "The Secret of east is missing already.\n") || !isGone(t, "east") {
			t.Error(got)
		}
	})

	t.Run("--delete of a cluster that is not connected", func(t *testing.T) {
		createCluster(t, "east", nil)
		createApp(t, "east")
		cluster := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}
		if err := hub.Status().Patch(t.Context(), cluster, client.RawPatch("application/merge-patch+json",
			[]byte(`{"status":{"conditions":[{"type":"Ready","status":"False","reason":"Unreachable","message":"i/o timeout","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`))); err != nil {
			t.Fatal(err)
		}
		m.run(t, "unjoin", "east", "--delete", "--yes").check(t, result{code: 1, errOut: "error: the hub is not connected to east, so nothing can be removed from it: " +
			"Ready is False (Unreachable): i/o timeout; CredentialsValid is not known. Wait until it is Ready, or use --retain\n"})
	})

	for name, test := range map[string]struct {
		edit func(*corev1.Secret)
		args []string
		want string
	}{
		"neither --retain nor --delete": {args: []string{"--yes"}, want: "say what happens to the workloads of the cluster: --retain keeps them running, --delete moves them to other clusters first"},
		"both":                          {args: []string{"--retain", "--delete"}, want: "say what happens to the workloads of the cluster"},
		"without a terminal and --yes":  {args: []string{"--retain"}, want: "nothing was changed: without a terminal, confirm with --yes"},
		"a Secret of Flux": {
			edit: func(s *corev1.Secret) { s.Labels["kustomize.toolkit.fluxcd.io/name"] = "clusters" },
			args: []string{"--retain", "--yes"},
			want: "secret fleetwright-system/east is managed by Flux, which would create it again or needs it: remove it there first, then run this command again",
		},
		"a Secret of Cluster API": {
			edit: func(s *corev1.Secret) { s.Type = "cluster.x-k8s.io/secret" },
			args: []string{"--retain", "--yes"},
			want: "secret fleetwright-system/east is managed by Cluster API",
		},
	} {
		t.Run(name+", nothing is changed", func(t *testing.T) {
			createCluster(t, "east", test.edit)
			got := m.run(t, append([]string{"unjoin", "east"}, test.args...)...)
			if got.code != 1 || !strings.Contains(got.errOut, test.want) || readSecret(t, "east") == nil || isGone(t, "east") {
				t.Error(got)
			}
		})
	}

	t.Run("a cluster that does not exist", func(t *testing.T) {
		m.run(t, "unjoin", "west", "--retain", "--yes").check(t, result{code: 1, errOut: "error: the hub has no cluster west: see kubectl appsvc clusters\n"})
	})
}

func TestUnjoin_interrupted_says_what_is_done(t *testing.T) {
	ensureNamespace(t, hub, secretNamespace)
	createAll(t, hub, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretNamespace, Name: "interrupted", Labels: map[string]string{"sigs.k8s.io/multicluster-runtime-kubeconfig": "true"}}})
	create(t, &v1alpha1.MemberCluster{}, "metadata: {name: interrupted, annotations: {fleetwright.dev/secret: fleetwright-system/interrupted}}")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, out := newNotifier()
	errOut := &bytes.Buffer{}
	ended := make(chan int, 1)
	go func() {
		ended <- command.Run(ctx, "test", []string{"unjoin", "interrupted", "--retain", "--yes", "--kubeconfig", hubKubeconfig},
			genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: out, ErrOut: errOut})
	}()
	awaitText(t, out, "secret/interrupted in namespace fleetwright-system deleted\n")
	cancel()
	want := "error: the Secret is deleted, but not MemberCluster interrupted; run the command again: interrupted\n"
	if code := <-ended; code != 1 || errOut.String() != want {
		t.Errorf("exit code %d, error %q", code, errOut)
	}
}

func TestUnjoin_a_MemberCluster_that_names_no_Secret(t *testing.T) {
	ensureNamespace(t, hub, secretNamespace)
	for _, test := range []struct {
		labels map[string]string
		want   string
		gone   bool
	}{
		{nil, "The Secret of unnamed is missing already.\n", false},
		{map[string]string{"sigs.k8s.io/multicluster-runtime-kubeconfig": "true"}, "secret/unnamed in namespace fleetwright-system deleted\n", true},
	} {
		t.Run(test.want, func(t *testing.T) {
			createAll(t, hub, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretNamespace, Name: "unnamed", Labels: test.labels}})
			member := &v1alpha1.MemberCluster{}
			create(t, member, "metadata: {name: unnamed}\nstatus: {"+map[bool]string{true: `secretMissingSince: "2026-01-01T00:00:00Z"`}[test.gone]+"}")
			got := run(t, "unjoin", "unnamed", "--retain", "--yes")
			err := hub.Get(t.Context(), client.ObjectKeyFromObject(member), member)
			if got.code != 0 || got.errOut != "" || !strings.HasPrefix(got.out, "No AppService is on unnamed.\n"+test.want) || (readSecret(t, "unnamed") == nil) != test.gone || !apierrors.IsNotFound(err) {
				t.Errorf("%+v (%v)", got, err)
			}
		})
	}
}
