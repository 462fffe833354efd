package demo

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// checkContexts fails the test unless the kubeconfig of the demo has exactly these contexts, and the hub
// is the current one.
func (d *demoProcess) checkContexts(t *testing.T, want ...string) {
	t.Helper()
	config, err := clientcmd.LoadFromFile(filepath.Join(d.dir, "kubeconfig"))
	must(t, err)
	if got := slices.Sorted(maps.Keys(config.Contexts)); !slices.Equal(got, want) || config.CurrentContext != hubName {
		t.Errorf("want the contexts %v, got %v; the current one is %s", want, got, config.CurrentContext)
	}
}

// suggestion is a command that the first start has suggested.
type suggestion string

// isEndless reports whether the command runs until it is interrupted.
func (s suggestion) isEndless() bool {
	return slices.ContainsFunc([]string{"--watch", " ui ", "tail -f", "deployment/fleetwright -f"}, func(part string) bool { return strings.Contains(string(s), part) })
}

// isOfApp reports whether the command shows or changes the AppService, in any state of the fleet.
func (s suggestion) isOfApp() bool { return strings.Contains(string(s), " web") && !s.isEndless() }

// suggested returns the first line, which sets KUBECONFIG, and the other commands.
func (d *demoProcess) suggested(t *testing.T) (export string, all []suggestion) {
	t.Helper()
	_, steps, _ := strings.Cut(d.suggestions, "Next steps:\n")
	for line := range strings.Lines(steps) {
		command, isIndented := strings.CutPrefix(strings.TrimRight(line, "\n"), "  ")
		switch {
		case !isIndented, strings.HasPrefix(command, "#"):
		case strings.HasPrefix(command, "export "):
			export = command
		default:
			// A user calls the demo by the command that built it. It would not find its cache here.
			all = append(all, suggestion(strings.Replace(command, "go run ./cmd/demo", d.program, 1)))
		}
	}
	if export == "" || len(all) < 18 {
		t.Fatalf("%d suggestions after %q in:\n%s", len(all), export, d.suggestions)
	}
	return export, all
}

// testSuggestions runs each command as it is printed. The last one, which removes the demo of this
// repository and not that of the test, only needs to be a target of make.
func (d *demoProcess) testSuggestions(t *testing.T) {
	export, all := d.suggested(t)
	last := len(all) - 1
	down := suggestion(d.target + "-down")
	if all[last] != "make "+down {
		t.Fatalf("the last suggestion is %q", all[last])
	}
	all[last] = "make --dry-run " + down
	for _, command := range all {
		output := d.suggestion(t, export, command)
		switch {
		case strings.Contains(string(command), " logs web"):
			if want := "[north/web-"; !strings.Contains(output, want) || !strings.Contains(output, d.podLog) {
				t.Errorf("want %q and %q in:\n%s", want, d.podLog, output)
			}
		case strings.Contains(string(command), " doctor ") && strings.Contains(output, "FAIL"):
			t.Errorf("%s", output)
		case strings.Contains(string(command), "nginx:bad"):
			// It is rolled back by itself. The user then wants the spec back, too.
			d.awaitApp(t, "to be rolled back", func(app *v1alpha1.AppService) bool { return app.Status.Rollout.Phase == v1alpha1.RolloutRolledBack })
			d.suggestion(t, export, suggestion(filepath.Join("bin", "kubectl-appsvc")+" rollout undo web"))
		}
		d.awaitApp(t, "to be planned", func(app *v1alpha1.AppService) bool { return app.Status.ObservedGeneration == app.Generation })
	}
	d.checkContexts(t, "hub", "north", "west")
	slices.Reverse(all)
	for _, command := range all {
		if command.isOfApp() {
			d.suggestion(t, export, command)
			d.awaitApp(t, "to be planned", func(app *v1alpha1.AppService) bool { return app.Status.ObservedGeneration == app.Generation })
		}
	}
}

// suggestion runs a command, and interrupts it after its first line if it is endless. It fails the test
// if the command fails by itself.
func (d *demoProcess) suggestion(t *testing.T, export string, command suggestion) string {
	t.Helper()
	cmd := d.command("bash", "-c", export+"\n"+string(command))
	if !command.isEndless() {
		output, err := cmd.CombinedOutput()
		t.Logf("%s\n%s", command, output)
		if err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		return string(output)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdout, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	must(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGINT))
	_ = cmd.Wait() // it was interrupted
	if err != nil {
		t.Fatalf("%s ends by itself: %v", command, err)
	}
	return line
}

// awaitApp waits until the sample is as a test wants it.
func (d *demoProcess) awaitApp(t *testing.T, what string, is func(*v1alpha1.AppService) bool) {
	t.Helper()
	hub, app := d.hub(t), &v1alpha1.AppService{}
	await(t, "AppService web "+what, func(ctx context.Context) error {
		if err := hub.Get(ctx, sampleKey, app); err != nil {
			return err
		}
		if !is(app) {
			return fmt.Errorf("it is %+v", app.Status.Conditions)
		}
		return nil
	})
}
