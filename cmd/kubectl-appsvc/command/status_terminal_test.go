//go:build linux

package command_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/command"
)

// clearScreen begins each frame in a terminal.
const clearScreen = "\x1b[H\x1b[2J"

// TestStatus_watches_in_a_terminal tests that each state replaces the previous one, is not longer than
// the terminal, and is coloured; and that the exit code is that of the last state.
func TestStatus_watches_in_a_terminal(t *testing.T) {
	createLease(t, time.Now().Add(time.Hour)) // it does not expire in this test
	app := &v1alpha1.AppService{}
	create(t, app, "{metadata: {name: watched, namespace: default}, spec: {image: nginx}}")
	setStatus(t, app, func(s *v1alpha1.AppServiceStatus) {
		for i := range 25 {
			s.Clusters = append(s.Clusters, v1alpha1.ClusterStatus{Name: fmt.Sprintf("cluster-%02d", i), Phase: v1alpha1.ClusterReady, LastTransitionTime: metav1.Now()})
		}
	})
	screen, output := openTerminal(t)
	if err := unix.IoctlSetWinsize(int(output.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 12, Col: 60}); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	done := make(chan int)
	errOut := &bytes.Buffer{}
	go func() {
		done <- command.Run(ctx, "test", []string{"status", "watched", "--watch", "--kubeconfig", hubKubeconfig},
			genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: output, ErrOut: errOut})
	}()
	frames := make(chan string)
	go readFrames(bufio.NewReader(screen), frames)

	first := <-frames
	if lines := strings.Split(strings.TrimSpace(first), "\n"); len(lines) != 11 || !strings.Contains(lines[10], "more lines") || !strings.Contains(first, "\x1b[32mReady") {
		t.Errorf("%d lines:\n%s", len(lines), first)
	}
	for line := range strings.Lines(first) {
		if plain := strings.NewReplacer("\x1b[32m", "", "\x1b[33m", "", "\x1b[0m", "").Replace(strings.TrimSpace(line)); len([]rune(plain)) > 60 {
			t.Errorf("too long: %s", plain)
		}
	}
	setStatus(t, app, func(s *v1alpha1.AppServiceStatus) {
		s.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady,
			LastTransitionTime: metav1.Now(), ObservedGeneration: app.Generation}}
	})
	for frame := range frames {
		if strings.Contains(frame, "default/watched  \x1b[32mReady") {
			break
		}
	}
	interrupt()
	if code := <-done; code != 0 || errOut.Len() > 0 {
		t.Errorf("exit code %d, %s", code, errOut)
	}
}

// readFrames sends each complete frame: one that the next frame follows.
func readFrames(from *bufio.Reader, frames chan<- string) {
	var text strings.Builder
	for {
		character, _, err := from.ReadRune()
		if err != nil {
			return
		}
		text.WriteRune(character)
		if frame, isComplete := strings.CutSuffix(text.String(), clearScreen); isComplete {
			text.Reset()
			if frame != "" {
				frames <- frame
			}
		}
	}
}

// TestStatus_watches_a_list_in_a_terminal tests that the whole table replaces the previous one.
func TestStatus_watches_a_list_in_a_terminal(t *testing.T) {
	apps := createTeam(t, "drawn-shop")
	screen, output := openTerminal(t)
	if err := unix.IoctlSetWinsize(int(output.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 30, Col: 200}); err != nil {
		t.Fatal(err)
	}
	ctx, interrupt := context.WithCancel(t.Context())
	done := make(chan int)
	go func() {
		done <- command.Run(ctx, "test", []string{"status", "-n", "drawn-shop", "--watch", "--kubeconfig", hubKubeconfig},
			genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: output, ErrOut: &bytes.Buffer{}})
	}()
	frames := make(chan string)
	go readFrames(bufio.NewReader(screen), frames)
	for _, status := range []string{"AwaitingApproval", v1alpha1.ReasonRollingOut} {
		if status != "AwaitingApproval" {
			setReason(t, apps["staged"], status, func(*v1alpha1.AppServiceStatus) {})
		}
		for frame := range frames { // a frame is complete when the next one follows
			lines := strings.Split(strings.TrimSpace(frame), "\n")
			if len(lines) != 4 || !strings.HasPrefix(lines[0], "NAME") || !strings.HasPrefix(lines[1], "broken") || !strings.HasPrefix(lines[3], "ok") {
				t.Errorf("%d lines:\n%s", len(lines), frame)
			}
			if strings.Contains(lines[2], status) {
				break
			}
		}
	}
	interrupt()
	if code := <-done; code != 0 {
		t.Errorf("exit code %d", code)
	}
}
