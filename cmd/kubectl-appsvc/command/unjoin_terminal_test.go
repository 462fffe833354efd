//go:build linux

package command_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

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
