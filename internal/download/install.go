package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// request is a tool that the caller needs.
type request struct{ name, version, file string }

func (r request) String() string { return r.name + " " + r.version }

func parseRequest(arg string) (request, error) {
	tool, file, found := strings.Cut(arg, "=")
	name, version, versioned := strings.Cut(tool, "@")
	if !found || !versioned || name == "" || version == "" {
		return request{}, fmt.Errorf("%q is no NAME@VERSION=FILE", arg)
	}
	return request{name, version, file}, nil
}

// installation finds or downloads tools.
type installation struct {
	entries  []entry
	platform string
	notIn    string
	fetcher  *fetcher
	terminal bool
	log      io.Writer

	mu       sync.Mutex
	started  time.Time
	read     int64 // bytes
	total    int64 // bytes of the files whose size is known
	done     int
	requests int
}

func (i *installation) run(ctx context.Context, args []string, found io.Writer) error {
	var wanted []request
	for _, arg := range args {
		r, err := parseRequest(arg)
		if err != nil {
			return err
		}
		if path := findInPath(ctx, r, i.notIn); path != "" {
			i.printf("tools: %s is %s", r, path)
			if _, err := fmt.Fprintln(found, r.name, path); err != nil {
				return err
			}
			continue
		}
		wanted = append(wanted, r)
	}
	entries := map[request]entry{}
	problems := map[string][]string{}
	for _, r := range wanted {
		if e, problem := i.entry(r); problem == "" {
			entries[r] = e
		} else {
			problems[problem] = append(problems[problem], r.String())
		}
	}
	wanted = slices.DeleteFunc(wanted, func(r request) bool { _, ok := entries[r]; return !ok })
	for index, err := range i.download(ctx, wanted, entries) {
		r := wanted[index]
		if err != nil {
			problems[err.Error()] = append(problems[err.Error()], r.String())
		} else if _, err := fmt.Fprintln(found, r.name, r.file); err != nil {
			return err
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for _, problem := range slices.Sorted(maps.Keys(problems)) {
		i.printf("tools: not downloaded, but built from source: %s: %s", strings.Join(problems[problem], ", "), problem)
	}
	return nil
}

// entry returns the entry of a tool, or why there is none.
func (i *installation) entry(r request) (e entry, problem string) {
	other := ""
	for _, e := range i.entries {
		if e.name != r.name || e.platform != i.platform {
			continue
		}
		if e.version == r.version {
			return e, ""
		}
		other = ", but for " + e.version
	}
	return entry{}, fmt.Sprintf("tools/checksums.txt has no checksum for this version on %s%s", i.platform, other)
}

// download downloads all tools at the same time, so that the size of all is known soon.
func (i *installation) download(ctx context.Context, wanted []request, entries map[request]entry) []error {
	errs := make([]error, len(wanted))
	if len(wanted) == 0 {
		return errs
	}
	i.started, i.requests = time.Now(), len(wanted)
	if !i.terminal {
		i.printf("tools: downloading %d tools; CONTROL_PLANE=source builds them instead", len(wanted))
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go i.showProgress(stop, stopped)
	var group sync.WaitGroup
	for index, r := range wanted {
		group.Go(func() {
			errs[index] = i.fetcher.binary(ctx, entries[r], r.file, i)
			i.finish(r, errs[index])
		})
	}
	group.Wait()
	close(stop)
	<-stopped
	return errs
}

// add implements counter.
func (i *installation) add(read, total int64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.read, i.total = i.read+read, i.total+total
}

func (i *installation) finish(r request, err error) {
	i.mu.Lock()
	i.done++
	line := fmt.Sprintf("[%d/%d] %s, %s", i.done, i.requests, r, i.progress())
	i.mu.Unlock()
	if !i.terminal && err == nil {
		i.printf("%s", line)
	}
}

// progress says how much is left.
func (i *installation) progress() string {
	return fmt.Sprintf("%d of %d MB, %s", i.read/1e6, max(i.total, i.read)/1e6, time.Since(i.started).Round(time.Second))
}

func (i *installation) showProgress(stop <-chan struct{}, stopped chan<- struct{}) {
	defer close(stopped)
	if !i.terminal {
		return
	}
	show := func(end string) {
		i.mu.Lock()
		defer i.mu.Unlock()
		fmt.Fprintf(i.log, "\r\x1b[K[%d/%d] downloading tools, %s%s", i.done, i.requests, i.progress(), end) //nolint:errcheck // progress only
	}
	ticker := time.NewTicker(time.Second / 2)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			show("")
		case <-stop:
			show("\n")
			return
		}
	}
}

// printf writes a line to the log. The downloads, which run at the same time, share the log.
func (i *installation) printf(format string, args ...any) {
	i.mu.Lock()
	defer i.mu.Unlock()
	fmt.Fprintf(i.log, format+"\n", args...) //nolint:errcheck // messages only
}

var versionPattern = regexp.MustCompile(`v?[0-9]+\.[0-9]+\.[0-9]+\S*`)

// findInPath returns the path of a program with exactly the version, or "". It returns no link or
// script that starts a program of another name, because such a program may select the version by
// the current directory.
func findInPath(ctx context.Context, r request, notIn string) string {
	name := strings.TrimSuffix(r.name, "-skew")
	args := []string{"--version"}
	if name == "kubectl" {
		args = []string{"version", "--client"}
	}
	for _, directory := range filepath.SplitList(cmp.Or(os.Getenv("PATH"), "/")) {
		if !filepath.IsAbs(directory) || isSame(directory, notIn) {
			continue
		}
		path, err := filepath.EvalSymlinks(filepath.Join(directory, name))
		if err != nil || filepath.Base(path) != name || !isProgram(path) {
			continue
		}
		if programVersion(ctx, path, args) == strings.TrimPrefix(r.version, "v") {
			return path
		}
	}
	return ""
}

func isSame(directory, other string) bool {
	a, errA := os.Stat(directory)
	b, errB := os.Stat(other)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

// isProgram reports whether a file is an executable that is no script.
func isProgram(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return false
	}
	file, err := os.Open(path) //nolint:gosec // a program in PATH
	if err != nil {
		return false
	}
	defer file.Close() //nolint:errcheck // only read
	start := make([]byte, 2)
	_, err = io.ReadFull(file, start)
	return err == nil && string(start) != "#!"
}

// programVersion returns the first version that a program prints, without v.
func programVersion(ctx context.Context, path string, args []string) string {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	command := exec.CommandContext(ctx, path, args...) //nolint:gosec // a program in PATH
	command.WaitDelay = time.Second
	output, err := command.CombinedOutput()
	if err != nil {
		return ""
	}
	return strings.TrimPrefix(versionPattern.FindString(string(output)), "v")
}
