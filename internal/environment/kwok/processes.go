package kwok

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fleetwright/fleetwright/internal/environment"
)

// process is a process of this machine.
type process struct {
	pid     int
	program string // the first word of its command line
	args    []string
}

// processesIn returns the processes whose program is that file or in that directory. A process that
// only names a file in it, such as an editor, is not one of them.
func processesIn(dir string) ([]process, error) {
	all, err := processes()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var found []process
	for _, p := range all {
		if p.program == dir || strings.HasPrefix(p.program, dir+"/") {
			found = append(found, p)
		}
	}
	return found, nil
}

// endAll sends the signal once to each process of a directory, and waits until all are gone.
func endAll(ctx context.Context, dir string, signal syscall.Signal) error {
	sent := map[int]bool{}
	return environment.Await(ctx, 30*time.Second, "the processes in "+dir+" to end", func(context.Context) error {
		found, err := processesIn(dir)
		if err != nil {
			return err
		}
		var left []string
		for _, p := range found {
			if !sent[p.pid] {
				if err := syscall.Kill(p.pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
					return fmt.Errorf("end process %d (%s): %w", p.pid, p.program, err)
				}
				sent[p.pid] = true
			}
			left = append(left, fmt.Sprintf("%s (%d)", filepath.Base(p.program), p.pid))
		}
		if len(left) > 0 {
			return fmt.Errorf("still running: %s", strings.Join(left, ", "))
		}
		return nil
	})
}

// processes returns all processes of this machine, from /proc if it exists, else from ps.
func processes() ([]process, error) {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(files) == 0 {
		return processesFromPS()
	}
	var all []process
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil || len(content) == 0 {
			continue // the process has ended, or belongs to the kernel
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return nil, err
		}
		words := strings.Split(strings.TrimRight(string(content), "\x00"), "\x00")
		all = append(all, process{pid: pid, program: words[0], args: words[1:]})
	}
	return all, nil
}

func processesFromPS() ([]process, error) {
	output, err := exec.Command("ps", "-A", "-ww", "-o", "pid=,args=").Output()
	if err != nil {
		return nil, fmt.Errorf("ps: %w", err)
	}
	var all []process
	for line := range strings.Lines(string(output)) {
		words := strings.Fields(line)
		if len(words) < 2 {
			continue
		}
		pid, err := strconv.Atoi(words[0])
		if err != nil {
			return nil, fmt.Errorf("read the output of ps: %w", err)
		}
		all = append(all, process{pid: pid, program: words[1], args: words[2:]})
	}
	return all, nil
}
