//go:build linux

package command_test

import (
	"bufio"
	"bytes"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/command"
)

// TestDoctor_uses_the_width_of_the_terminal tests that no line is longer than the terminal, and that a
// wide terminal has fewer lines than a narrow one.
func TestDoctor_uses_the_width_of_the_terminal(t *testing.T) {
	createLease(t, time.Now().Add(-time.Hour))
	create(t, &v1alpha1.MemberCluster{}, "{metadata: {name: wide}}")
	var lines []int
	for _, columns := range []int{60, 140} {
		screen, output := openTerminal(t)
		if err := unix.IoctlSetWinsize(int(output.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: uint16(columns)}); err != nil {
			t.Fatal(err)
		}
		done := make(chan int, 1)
		errOut := &bytes.Buffer{}
		go func() {
			done <- command.Run(t.Context(), "test", []string{"doctor", "wide", "--kubeconfig", hubKubeconfig},
				genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: output, ErrOut: errOut})
			_, _ = output.WriteString("end of the test\n")
		}()
		count := 0
		for printed := bufio.NewScanner(screen); printed.Scan() && !strings.HasPrefix(printed.Text(), "end of the test"); count++ {
			if line := printed.Text(); len([]rune(line)) > columns {
				t.Errorf("%d columns: %s", columns, line)
			}
		}
		if code := <-done; code != 3 || count == 0 {
			t.Errorf("exit code %d, %d lines: %s", code, count, errOut)
		}
		lines = append(lines, count)
	}
	if lines[1] >= lines[0] {
		t.Errorf("%d lines in 60 columns, and %d in 140", lines[0], lines[1])
	}
}
