//go:build linux

package command_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/command"
)

// openTerminal returns both ends of a pseudoterminal: the keyboard of the user, and the input of the
// command.
func openTerminal(t *testing.T) (keyboard, input *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { keyboard.Close() })
	if err := unix.IoctlSetPointerInt(int(keyboard.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(keyboard.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if input, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { input.Close() })
	return keyboard, input
}

func TestUnjoin_asks_in_a_terminal(t *testing.T) {
	ensureNamespace(t, hub, secretNamespace)
	createAll(t, hub, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretNamespace, Name: "asked", Labels: map[string]string{"sigs.k8s.io/multicluster-runtime-kubeconfig": "true"}}})
	for _, test := range []struct {
		answer string
		want   string
		gone   bool
	}{
		{"\n", "error: nothing was changed\n", false},
		{"no\n", "error: nothing was changed\n", false},
		{"y\n", "", true},
	} {
		t.Run(strings.TrimSpace("answer "+test.answer), func(t *testing.T) {
			keyboard, input := openTerminal(t)
			if _, err := keyboard.WriteString(test.answer); err != nil {
				t.Fatal(err)
			}
			_, _, out, errOut := genericiooptions.NewTestIOStreams()
			code := command.Run(t.Context(), "test", []string{"unjoin", "asked", "--retain", "--kubeconfig", hubKubeconfig}, genericiooptions.IOStreams{In: input, Out: out, ErrOut: errOut})
			if test.gone && !strings.Contains(out.String(), "# Not if it is the hub itself: namespace fleetwright-system has the operator.") {
				t.Errorf("the warning about the hub is missing:\n%s", out)
			}
			if !strings.Contains(out.String(), "Remove asked from the fleet, and leave its workloads running? [y/N] ") || errOut.String() != test.want ||
				(code == 0) != test.gone || (readSecret(t, "asked") == nil) != test.gone {
				t.Errorf("exit code %d, output\n%s%s", code, out, errOut)
			}
		})
	}
}

func TestUnjoin_drains_what_was_placed_before_the_answer(t *testing.T) {
	ensureNamespace(t, hub, secretNamespace)
	secretOf := func() *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretNamespace, Name: "slow"}}
	}
	createAll(t, hub, secretOf())
	member := &v1alpha1.MemberCluster{}
	create(t, member, `
metadata: {name: slow, annotations: {fleetwright.dev/secret: fleetwright-system/slow}}
status:
  secretMissingSince: "2026-01-01T00:00:00Z" # unjoin need not wait for it
  conditions:
  - {type: Ready, status: "True", reason: Connected, message: "", lastTransitionTime: "2026-01-01T00:00:00Z"}`)
	var app *v1alpha1.AppService
	for _, test := range []struct {
		name   string
		during func() // while the question waits for its answer
		code   int
		want   string
		gone   bool
	}{
		{"an AppService is placed", func() { app = createOn(t, "placed", "slow", "north") }, 3,
			"error: after 1s, 1 AppServices still run on slow; continue with the same command", false},
		{"the cluster is not Ready any more", func() {
			if err := hub.Status().Patch(t.Context(), member, client.RawPatch("application/merge-patch+json",
				[]byte(`{"status":{"conditions":[{"type":"Ready","status":"False","reason":"Unreachable","message":"i/o timeout","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`))); err != nil {
				t.Fatal(err)
			}
			placeOn(t, app, "slow", "north")
		}, 1, "error: the hub is not connected to slow, so nothing can be removed from it: Ready is False (Unreachable): i/o timeout", false},
		{"the Secret is created again", func() {
			if err := hub.Delete(t.Context(), secretOf()); err != nil {
				t.Fatal(err)
			}
			if err := hub.Create(t.Context(), secretOf()); err != nil {
				t.Fatal(err)
			}
		}, 1, "error: the Secret or the MemberCluster of slow was deleted or created meanwhile: run the command again", false},
		{"nothing", func() {}, 0, "", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if app != nil {
				placeOn(t, app, "", "")
			}
			keyboard, input := openTerminal(t)
			_, out := newNotifier()
			errOut := &bytes.Buffer{}
			timeout := map[bool]string{true: "1m", false: "1s"}[test.gone]
			ended := make(chan int, 1)
			go func() {
				ended <- command.Run(t.Context(), "test", []string{"unjoin", "slow", "--delete", "--timeout", timeout, "--kubeconfig", hubKubeconfig},
					genericiooptions.IOStreams{In: input, Out: out, ErrOut: errOut})
			}()
			awaitText(t, out, "Move all AppServices away from slow, and remove it from the fleet? [y/N] ")
			test.during()
			if _, err := keyboard.WriteString("y\n"); err != nil {
				t.Fatal(err)
			}
			code := <-ended
			if code != test.code || !strings.HasPrefix(errOut.String(), test.want) || (readSecret(t, "slow") == nil) != test.gone {
				t.Errorf("exit code %d, output\n%s%s", code, out.text.String(), errOut)
			}
		})
	}
}
