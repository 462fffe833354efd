package machine

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fleetwright/fleetwright/internal/wait"
)

func TestParseStat_reads_user_and_system_time_after_a_program_with_spaces(t *testing.T) {
	got, err := parseStat([]byte("42 (a (b) c) S 1 42 42 0 -1 4194304 10 0 0 0 150 25 7 9 20 0 1 0 100 0 0"))
	if want := 1750 * time.Millisecond; err != nil || got != want {
		t.Errorf("got %s, %v; want %s", got, err, want)
	}
}

func TestParseHost_separates_busy_and_steal(t *testing.T) {
	got, err := parseHost("cpu  100 20 30 4000 500 6 7 80 9 10\ncpu0 1 2 3\n")
	if want := (Host{Busy: 1630 * time.Millisecond, Steal: 800 * time.Millisecond}); err != nil || got != want {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}

func TestProcess_has_usage_and_ends(t *testing.T) {
	g := &Group{}
	p, err := g.Start("shell", exec.Command("sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; sleep 3600"), filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.End() })
	wait.Eventually(t, func() error {
		if used, err := p.CPU(); err != nil || used == 0 {
			return fmt.Errorf("a loop has used no CPU time: %w", err)
		}
		return nil
	})
	if err := p.ResetPeakRSS(); err != nil {
		t.Error(err)
	}
	if peak, err := p.PeakRSS(); err != nil || peak < 1<<16 {
		t.Errorf("the peak is %d bytes, %v", peak, err)
	}
	if err := g.End(); err != nil {
		t.Error(err)
	}
	if left := g.Running(); len(left) > 0 {
		t.Errorf("still running: %d", len(left))
	}
}

// parentVariable makes the test program a parent that starts a process and waits.
const parentVariable = "MACHINE_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parentVariable) == "" {
		os.Exit(m.Run())
	}
	p, err := new(Group).Start("sleep", exec.Command("sleep", "3600"), os.DevNull)
	if err != nil {
		panic(err)
	}
	fmt.Println(p.cmd.Process.Pid)
	select {}
}

func TestProcess_ends_when_its_parent_is_killed(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentVariable+"=1")
	output, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	t.Cleanup(func() {
		if t.Failed() {
			_ = syscall.Kill(child, syscall.SIGKILL)
		}
	})
	wait.Eventually(t, func() error {
		if isAlive(child) {
			return errors.New("the process has outlived its parent")
		}
		return nil
	})
}

// isAlive reports whether a process exists and is no zombie.
func isAlive(pid int) bool {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(content), ") Z ")
}
