package charts_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// packageCharts packages the charts of a clone.
func packageCharts(clone, version, out string) ([]byte, error) {
	return exec.Command(filepath.Join(clone, "tools", "package-charts.sh"), os.Getenv("KUBEBUILDER_ASSETS"), version, out).CombinedOutput()
}

// cloneHere returns another clone, with the changed files of this one, other times of files, and a
// file that an editor has left.
func cloneHere(t *testing.T) string {
	t.Helper()
	clone := t.TempDir()
	for _, command := range []string{
		`git -C .. ls-files -z charts config tools/package-charts.sh | xargs -0 tar -C .. -cf - | tar -C "$0" -xf -`,
		`git -C "$0" init --quiet`,
		`git -C "$0" add .`,
		`echo old >"$0/charts/fleetwright/values.yaml.before"`,
	} {
		if out, err := exec.Command("bash", "-euo", "pipefail", "-c", command, clone).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", command, err, out)
		}
	}
	if err := os.Chtimes(filepath.Join(clone, "charts", "fleetwright", "values.yaml"), time.Unix(9, 0), time.Unix(9, 0)); err != nil {
		t.Fatal(err)
	}
	return clone
}

func TestPackagesOfTwoClonesAreTheSame(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	for clone, out := range map[string]string{"..": first, cloneHere(t): second} {
		if printed, err := packageCharts(clone, "v1.2.3", out); err != nil {
			t.Fatalf("%v: %s", err, printed)
		}
	}
	for file, want := range map[string]string{
		"fleetwright-1.2.3.tgz":        "image: ghcr.io/fleetwright/fleetwright:v1.2.3\n",
		"fleetwright-member-1.2.3.tgz": "helm.sh/chart: fleetwright-member-1.2.3\n",
	} {
		t.Run(file, func(t *testing.T) {
			a, err := os.ReadFile(filepath.Join(first, file))
			if err != nil {
				t.Fatal(err)
			}
			if b, err := os.ReadFile(filepath.Join(second, file)); err != nil || !bytes.Equal(a, b) {
				t.Errorf("it differs: %v", err)
			}
			if rendered := run(t, "helm", "template", "x", filepath.Join(first, file)); !strings.Contains(rendered, want) {
				t.Errorf("there is no %q in\n%s", want, rendered)
			}
		})
	}
}

func TestPackagesWithAWrongVersionAreRefused(t *testing.T) {
	directory := t.TempDir()
	for _, version := range []string{"", "1.2.3", "v1.2", "c886cd6", "unknown"} {
		if out, err := packageCharts("..", version, directory); err == nil || !strings.Contains(string(out), "is no version of a release") {
			t.Errorf("%q: got %v: %s", version, err, out)
		}
	}
	if files, err := os.ReadDir(directory); err != nil || len(files) > 0 {
		t.Errorf("there are %d files: %v", len(files), err)
	}
}
