package machine

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tick is the unit of CPU times in /proc, on every architecture of Linux.
const tick = 10 * time.Millisecond

// CPU returns the CPU time that the process has used.
func (p *Process) CPU() (time.Duration, error) {
	content, err := os.ReadFile(p.proc("stat"))
	if err != nil {
		return 0, fmt.Errorf("read the CPU time of %s: %w", p.Name, err)
	}
	used, err := parseStat(content)
	if err != nil {
		return 0, fmt.Errorf("read the CPU time of %s: %w", p.Name, err)
	}
	return used, nil
}

// parseStat returns the user and system time in a /proc/PID/stat.
func parseStat(content []byte) (time.Duration, error) {
	// The second field, the program in parentheses, may contain spaces.
	_, rest, found := bytes.Cut(content[max(0, bytes.LastIndexByte(content, ')')):], []byte(") "))
	fields := strings.Fields(string(rest))
	if !found || len(fields) < 13 {
		return 0, fmt.Errorf("unknown format: %q", content)
	}
	return sumTicks(fields[11:13]) // the fields 14 and 15, utime and stime
}

func sumTicks(fields []string) (sum time.Duration, err error) {
	for _, field := range fields {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(ticks) * tick
	}
	return sum, nil
}

// PeakRSS returns the peak of the resident memory since the start or [Process.ResetPeakRSS], in
// bytes.
func (p *Process) PeakRSS() (int64, error) { return p.memory("VmHWM:") }

// RSS returns the resident memory, in bytes.
func (p *Process) RSS() (int64, error) { return p.memory("VmRSS:") }

func (p *Process) memory(field string) (int64, error) {
	content, err := os.ReadFile(p.proc("status"))
	if err != nil {
		return 0, fmt.Errorf("read the memory of %s: %w", p.Name, err)
	}
	for line := range strings.Lines(string(content)) {
		if text, found := strings.CutPrefix(line, field); found {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(text), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("read the memory of %s: its status lacks %s", p.Name, field)
}

// ResetPeakRSS makes the present resident memory the peak.
func (p *Process) ResetPeakRSS() error {
	if err := os.WriteFile(p.proc("clear_refs"), []byte("5"), 0o200); err != nil {
		return fmt.Errorf("reset the peak memory of %s: %w", p.Name, err)
	}
	return nil
}

func (p *Process) proc(file string) string {
	return fmt.Sprintf("/proc/%d/%s", p.cmd.Process.Pid, file)
}

// Own returns the CPU time that this process has used.
func Own() (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, fmt.Errorf("read the own CPU time: %w", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}

// Host is the CPU time of the whole machine since its start.
type Host struct {
	// Busy is the time that programs and the kernel have used.
	Busy time.Duration
	// Steal is the time that the host of this virtual machine took away.
	Steal time.Duration
}

// ReadHost returns the CPU time of the machine.
func ReadHost() (Host, error) {
	content, err := os.ReadFile("/proc/stat")
	if err != nil {
		return Host{}, err
	}
	return parseHost(string(content))
}

// parseHost reads the first line of a /proc/stat: user, nice, system, idle, iowait, irq, softirq,
// steal. The times of guests are part of user and nice.
func parseHost(content string) (Host, error) {
	line, _, _ := strings.Cut(content, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return Host{}, fmt.Errorf("unknown format of /proc/stat: %q", line)
	}
	busy, err := sumTicks(append(fields[1:4:4], fields[6:8]...))
	if err != nil {
		return Host{}, fmt.Errorf("read /proc/stat: %w", err)
	}
	steal, err := sumTicks(fields[8:9])
	return Host{Busy: busy, Steal: steal}, err
}
