package kind

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// watchers is the limit on inotify instances of all nodes together, which share root's limit. With
// the default of 128, a fourth or fifth cluster does not start.
const (
	watchersSetting = "fs.inotify.max_user_instances"
	watchers        = 1024
)

// settings are the settings that a kubelet changes for the whole machine.
var settings = []string{"vm.overcommit_memory", "vm.panic_on_oom", "kernel.panic", "kernel.panic_on_oops", watchersSetting}

func (e *Environment) settingsFile() string { return filepath.Join(e.Dir, "machine-settings") }

// PrepareMachine saves the settings before the first cluster, and raises the limit on watchers. Create
// calls it; [Environment.Clean] restores the settings.
func (e *Environment) PrepareMachine(ctx context.Context) error {
	e.machine.Lock()
	defer e.machine.Unlock()
	if _, err := os.Stat(e.settingsFile()); err == nil {
		return nil
	}
	before, err := e.sysctl(ctx, settings...)
	if err != nil {
		return fmt.Errorf("read the machine's settings: %w", err)
	}
	if err := errors.Join(os.MkdirAll(e.Dir, 0o750), os.WriteFile(e.settingsFile(), []byte(before+"\n"), 0o600)); err != nil {
		return fmt.Errorf("save the machine's settings: %w", err)
	}
	for line := range strings.Lines(before) {
		value, found := strings.CutPrefix(strings.TrimSpace(line), watchersSetting+"=")
		if n, err := strconv.Atoi(value); found && err == nil && n < watchers {
			_, err := e.sysctl(ctx, "-w", watchersSetting+"="+strconv.Itoa(watchers))
			return err
		}
	}
	return nil
}

// restoreMachine restores the settings from before the first cluster.
func (e *Environment) restoreMachine(ctx context.Context) error {
	e.machine.Lock()
	defer e.machine.Unlock()
	content, err := os.ReadFile(e.settingsFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	if _, err := e.sysctl(ctx, append([]string{"-w"}, strings.Fields(string(content))...)...); err != nil {
		return fmt.Errorf("restore the machine's settings: %w", err)
	}
	return os.Remove(e.settingsFile())
}

// sysctl runs sysctl in a container, so that it affects the Docker engine's machine and this
// process need not be root.
func (e *Environment) sysctl(ctx context.Context, args ...string) (string, error) {
	image, err := NodeImage(ctx)
	if err != nil {
		return "", err
	}
	output, err := docker(ctx, append([]string{"run", "--rm", "--privileged", "--network=none", "--entrypoint=sysctl", image}, args...)...)
	return strings.ReplaceAll(output, " = ", "="), err
}
