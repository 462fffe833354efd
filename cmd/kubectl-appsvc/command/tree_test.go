package command

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// eachCommand calls check with each command that a user sees, and with the arguments that call it.
func eachCommand(t *testing.T, check func(t *testing.T, command *cobra.Command, path []string)) {
	t.Helper()
	root, _ := newRoot("test", genericiooptions.NewTestIOStreamsDiscard())
	var visit func(command *cobra.Command, path []string)
	visit = func(command *cobra.Command, path []string) {
		t.Run(command.CommandPath(), func(t *testing.T) { check(t, command, path) })
		for _, below := range command.Commands() {
			if !below.Hidden {
				visit(below, append(append([]string{}, path...), below.Name()))
			}
		}
	}
	visit(root, nil)
}

// call runs the plugin without a hub.
func call(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	outBuffer, errBuffer := &bytes.Buffer{}, &bytes.Buffer{}
	code = Run(t.Context(), "test", append(args, "--kubeconfig", filepath.Join(t.TempDir(), "none")),
		genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: outBuffer, ErrOut: errBuffer})
	return code, outBuffer.String(), errBuffer.String()
}

func TestMistypedCommands_are_errors(t *testing.T) {
	eachCommand(t, func(t *testing.T, command *cobra.Command, path []string) {
		if !command.HasSubCommands() && command.Name() != "help" {
			return
		}
		check := func(want string, args ...string) {
			t.Helper()
			if code, out, errOut := call(t, append(append([]string{}, path...), args...)...); code != 1 || out != "" || !strings.Contains(errOut, want) {
				t.Errorf("%q: exit code %d, want %q in:\n%s%s", args, code, want, out, errOut)
			}
		}
		check(`error: unknown command "nonsense" for "`, "nonsense")
		if command.HasSubCommands() {
			check(`error: unknown command "nonsense" for "`, "nonsense", "web", "--none-such")
		}
		for _, below := range command.Commands() {
			if name := below.Name(); !below.Hidden && name != "help" {
				mistyped := name[:len(name)-2] + name[len(name)-1:] + name[len(name)-2:len(name)-1]
				if found, _ := findCommand(command, []string{mistyped}); found == command { // not a pair such as ll
					check("Did you mean this?\n\t", mistyped, "web")
				}
			}
		}
		if code, out, _ := call(t, path...); code != 0 || !strings.Contains(out, "Usage:") {
			t.Errorf("without an argument: exit code %d\n%s", code, out)
		}
	})
}

func TestMistypedCommands_with_a_flag(t *testing.T) {
	for args, want := range map[string]string{
		"rollout abrot web":              "error: unknown command \"abrot\" for \"kubectl appsvc rollout\"\n\nDid you mean this?\n\tabort\n",
		"rollout aprove web --stage eu":  "error: unknown command \"aprove\" for \"kubectl appsvc rollout\"\n\nDid you mean this?\n\tapprove\n",
		"rollout nonsense":               "error: unknown command \"nonsense\" for \"kubectl appsvc rollout\": see kubectl appsvc rollout --help\n",
		"completion nonsense":            "error: unknown command \"nonsense\" for \"kubectl appsvc completion\": see kubectl appsvc completion --help\n",
		"statsu web --wait":              "error: unknown command \"statsu\" for \"kubectl appsvc\"\n\nDid you mean this?\n\tstatus\n",
		"help rollout abrot":             "error: unknown command \"abrot\" for \"kubectl appsvc rollout\"\n\nDid you mean this?\n\tabort\n",
		"rollout approve web --sage=eu":  "error: unknown flag: --sage\n",
		"rollout --none-such approve me": "error: unknown flag: --none-such\n",
	} {
		if code, out, errOut := call(t, strings.Fields(args)...); code != 1 || out != "" || errOut != want {
			t.Errorf("%s: exit code %d\n%s%s", args, code, out, errOut)
		}
	}
}

// required matches an argument of a usage that must be given.
var required = regexp.MustCompile(`^(?:-\w )?[A-Z]+`)

func TestMissingArguments_are_named(t *testing.T) {
	count := 0
	eachCommand(t, func(t *testing.T, command *cobra.Command, path []string) {
		_, usage, _ := strings.Cut(command.Use, " ")
		what := required.FindString(usage)
		if what == "" {
			return
		}
		count++
		want := "error: " + what + " is missing: " + command.CommandPath() + " " + usage + "\n"
		if code, out, errOut := call(t, path...); code == 0 || out != "" || errOut != want {
			t.Errorf("exit code %d\n%s%s, want %s", code, out, errOut, want)
		}
		if code, _, errOut := call(t, append(path, "deployment/web")...); what != "CONTEXT" && what != "-f FILE" && (code == 0 || !strings.Contains(errOut, `"deployment" is another kind`)) {
			t.Errorf("another kind: exit code %d, %s", code, errOut)
		}
	})
	if count < 18 {
		t.Errorf("only %d commands have an argument that must be given", count)
	}
}

func TestHelp_ends_with_the_way_to_the_global_flags(t *testing.T) {
	eachCommand(t, func(t *testing.T, command *cobra.Command, path []string) {
		if command.Name() == "help" {
			return
		}
		code, out, errOut := call(t, append(path, "--help")...)
		if code != 0 || errOut != "" || !strings.HasSuffix(out, "\nUse \"kubectl appsvc options\" for a list of global flags (applies to all commands).\n") {
			t.Errorf("exit code %d, %s\n%s", code, errOut, out)
		}
		if !strings.Contains(out, "-n, --namespace string") || !strings.Contains(out, "--context string") || strings.Contains(out, "--tls-server-name") {
			t.Errorf("the flags are\n%s", out)
		}
	})
	root, _ := newRoot("test", genericiooptions.NewTestIOStreamsDiscard())
	_, out, _ := call(t, "options")
	root.PersistentFlags().VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden && !strings.Contains(out, "--"+flag.Name) {
			t.Errorf("options lacks --%s:\n%s", flag.Name, out)
		}
	})
}

func TestReference_has_the_defaults_of_flags(t *testing.T) {
	reference := Reference()
	for _, want := range []string{
		"(default `1m`)", "(default `10m`)", "(default `720h`)", "(default `100`)", "(default `fleetwright-system`)", "(default `~/.kube/cache`)",
		"## kubectl appsvc options\n",
	} {
		if !strings.Contains(reference, want) {
			t.Errorf("the reference lacks %q", want)
		}
	}
	if got := strings.Count(reference, "--tls-server-name"); got != 1 {
		t.Errorf("the global flags are there %d times", got)
	}
}

// A table that is watched prints no row whose age alone has changed.
func TestColumns_of_ages_are_no_change(t *testing.T) {
	for _, column := range slices.Concat(memberColumns, appColumns) {
		if column.IsAge != (column.Name == "Age") {
			t.Errorf("%+v", column)
		}
	}
}

// Without a hub: the commands that need one are in TestFull_output.
func TestOutput_that_cannot_be_written(t *testing.T) {
	file := filepath.Join(t.TempDir(), "web.yaml")
	if err := os.WriteFile(file, []byte(`{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {template: {spec: {containers: [{name: web, image: nginx}]}}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	check := func(t *testing.T, args ...string) {
		t.Helper()
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Skip(err)
		}
		defer full.Close()
		errOut := &bytes.Buffer{}
		code := Run(context.Background(), "test", args, genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: full, ErrOut: errOut})
		if code != 1 || !strings.Contains(errOut.String(), "error: ") || !strings.Contains(errOut.String(), "no space left on device") {
			t.Errorf("%q: exit code %d, %s", args, code, errOut)
		}
	}
	eachCommand(t, func(t *testing.T, _ *cobra.Command, path []string) { check(t, append(path, "--help")...) })
	for _, args := range []string{"", "rollout", "options", "version --client", "completion bash", "completion zsh", "completion fish", "completion powershell",
		"convert -f " + file, "help", "help rollout approve", "__complete rollout a", "--version"} {
		check(t, strings.Fields(args)...)
	}
}
