package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestArchives(t *testing.T) {
	first, second := t.TempDir(), t.TempDir()
	// A clone has other times of files, and an editor leaves files that no archive may have.
	copied := filepath.Join(t.TempDir(), "charts")
	if err := os.CopyFS(copied, os.DirFS("..")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(copied, "fleetwright", "values.yaml"), time.Unix(9, 0), time.Unix(9, 0)); err != nil {
		t.Fatal(err)
	}
	tracked, err := trackedFiles("..", ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "--quiet"}, append([]string{"add", "--"}, tracked...)} {
		command := exec.Command("git", args...)
		command.Dir = copied
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	if err := os.WriteFile(filepath.Join(copied, "fleetwright", "values.yaml~"), []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := writeCharts("..", "v1.2.3", first, io.Discard); err != nil {
		t.Fatal(err)
	}
	if err := writeCharts(copied, "v1.2.3", second, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"fleetwright-1.2.3.tgz", "fleetwright-member-1.2.3.tgz"} {
		a, err := os.ReadFile(filepath.Join(first, file))
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(second, file))
		if err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s differs: %v", file, err)
		}
	}
	for file, want := range map[string]string{
		"fleetwright-1.2.3.tgz":        "image: ghcr.io/fleetwright/fleetwright:v1.2.3\n",
		"fleetwright-member-1.2.3.tgz": "helm.sh/chart: fleetwright-member-1.2.3\n",
	} {
		t.Run("helm renders "+file, func(t *testing.T) {
			out, err := exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "helm"), "template", "x", filepath.Join(first, file)).CombinedOutput()
			if err != nil || !strings.Contains(string(out), want) {
				t.Errorf("%v: there is no %q in\n%s", err, want, out)
			}
		})
	}
}

func TestWrongVersionIsRefused(t *testing.T) {
	directory := t.TempDir()
	for _, version := range []string{"", "1.2.3", "v1.2", "c886cd6", "unknown"} {
		if err := writeCharts("..", version, directory, io.Discard); err == nil || !strings.Contains(err.Error(), "is no version of a release") {
			t.Errorf("%q: got %v", version, err)
		}
	}
	if files, err := os.ReadDir(directory); err != nil || len(files) > 0 {
		t.Errorf("there are %d files: %v", len(files), err)
	}
}
