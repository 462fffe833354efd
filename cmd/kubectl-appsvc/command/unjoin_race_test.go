//go:build linux

package command_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/command"
)

// runInTerminal runs the plugin as an administrator of the hub in a terminal. When it asks, during is
// called, and then the user answers.
func runInTerminal(t *testing.T, ctx context.Context, during func(), answer string, args ...string) result { //nolint:revive // The context of the command is not that of the test.
	t.Helper()
	keyboard, input := openTerminal(t)
	_, out := newNotifier()
	errOut := &bytes.Buffer{}
	code := make(chan int, 1)
	go func() {
		code <- command.Run(ctx, "test", append([]string{"--kubeconfig", hubKubeconfig}, args...), genericiooptions.IOStreams{In: input, Out: out, ErrOut: errOut})
	}()
	eventually(t, func() bool {
		out.lock.Lock()
		defer out.lock.Unlock()
		return strings.Contains(out.text.String(), "? [y/N] ")
	})
	during()
	if answer != "" {
		if _, err := keyboard.WriteString(answer + "\n"); err != nil {
			t.Fatal(err)
		}
	}
	return result{<-code, out.text.String(), errOut.String()}
}

// The user may take minutes to answer. What was created meanwhile is not what the question is about.
func TestUnjoin_deletes_only_what_it_asked_about(t *testing.T) {
	ensureNamespace(t, hub, secretNamespace)
	newSecret := func() *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretNamespace, Name: "slow", Labels: map[string]string{"sigs.k8s.io/multicluster-runtime-kubeconfig": "true"}}}
	}
	newCluster := func() *v1alpha1.MemberCluster {
		return &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "slow", Annotations: map[string]string{v1alpha1.AnnotationSecret: secretNamespace + "/slow"}}}
	}
	replace := func(t *testing.T, object client.Object) {
		t.Helper()
		remove(t, object)
		if err := hub.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	markSecretMissing := func(t *testing.T) {
		t.Helper()
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"secretMissingSince":"2026-01-01T00:00:00Z"}}`))
		if err := hub.Status().Patch(t.Context(), newCluster(), patch); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct {
		during         func(*testing.T)
		want           string // of the error
		secret, member bool   // what is left
	}{
		"the Secret was replaced": {
			func(t *testing.T) { replace(t, newSecret()) },
			"error: delete Secret fleetwright-system/slow: ", true, true,
		},
		"the Secret was deleted": {func(t *testing.T) { remove(t, newSecret()); markSecretMissing(t) }, "", false, false},
		"the MemberCluster was replaced": {
			func(t *testing.T) { replace(t, newCluster()); markSecretMissing(t) },
			"error: the Secret is deleted, but not MemberCluster slow; run the command again: ", false, true,
		},
		"the MemberCluster was deleted": {func(t *testing.T) { remove(t, newCluster()) }, "", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			createAll(t, hub, newSecret(), newCluster())
			t.Cleanup(func() { // the objects that replaced them
				for _, object := range []client.Object{newSecret(), newCluster()} {
					if err := hub.Delete(context.Background(), object); client.IgnoreNotFound(err) != nil {
						t.Error(err)
					}
				}
			})
			got := runInTerminal(t, t.Context(), func() { test.during(t) }, "y", "unjoin", "slow", "--retain")
			if (got.code == 0) != (test.want == "") || !strings.HasPrefix(got.errOut, test.want) || test.want == "" && got.errOut != "" {
				t.Errorf("exit code %d, want %q:\n%s%s", got.code, test.want, got.out, got.errOut)
			}
			if hasSecret := readSecret(t, "slow") != nil; hasSecret != test.secret {
				t.Errorf("the Secret is there: %t", hasSecret)
			}
			err := hub.Get(t.Context(), client.ObjectKey{Name: "slow"}, &v1alpha1.MemberCluster{})
			if client.IgnoreNotFound(err) != nil || (err == nil) != test.member {
				t.Errorf("the MemberCluster: %v", err)
			}
		})
	}

	t.Run("an interruption changes nothing", func(t *testing.T) {
		createAll(t, hub, newSecret(), newCluster())
		ctx, interrupt := context.WithCancel(t.Context())
		got := runInTerminal(t, ctx, interrupt, "", "unjoin", "slow", "--retain")
		if got.code == 0 || readSecret(t, "slow") == nil {
			t.Error(got)
		}
	})

	t.Run("--delete asks whether to move", func(t *testing.T) {
		createAll(t, hub, newSecret(), newCluster())
		got := runInTerminal(t, t.Context(), func() {}, "no", "unjoin", "slow", "--delete")
		if got.code != 1 || !strings.Contains(got.out, "Move all AppServices away from slow, and remove it from the fleet? [y/N] ") || readSecret(t, "slow") == nil {
			t.Error(got)
		}
	})
}

// remove deletes an object of the hub.
func remove(t *testing.T, object client.Object) {
	t.Helper()
	if err := hub.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}
