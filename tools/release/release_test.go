package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdxlib"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/tools/release/source"
)

var (
	binaries = flag.String("binaries", "../../bin", "the directory that has kubectl and helm")
	existing = flag.String("release", "", "test this release instead of building one for this platform twice")
)

const version = "v0.0.1"

// build writes a release of a clone for this platform.
func build(t *testing.T, root string) string {
	t.Helper()
	o := &options{
		root: root, version: version, out: filepath.Join(t.TempDir(), "release"), binaries: *binaries,
		imagePlatforms: "linux/" + runtime.GOARCH, pluginPlatforms: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if err := o.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return o.out
}

// cloneHere returns a clone of this clone in another directory, with its changed and new files.
func cloneHere(t *testing.T) string {
	t.Helper()
	const root = "../.."
	dir := filepath.Join(t.TempDir(), "clone")
	runGit(t, root, "clone", "--quiet", "--shared", "--no-checkout", ".", dir)
	index := runGit(t, root, "rev-parse", "--path-format=absolute", "--git-path", "index")
	copyFile(t, index, filepath.Join(dir, ".git", "index"))
	for _, name := range strings.Split(runGit(t, root, "ls-files", "-z", "--cached", "--others", "--exclude-standard"), "\x00") {
		info, err := os.Lstat(filepath.Join(root, name))
		switch {
		case err != nil: // the file is deleted
		case info.Mode().IsRegular():
			copyFile(t, filepath.Join(root, name), filepath.Join(dir, name))
		case info.Mode()&os.ModeSymlink != 0:
			copyLink(t, filepath.Join(root, name), filepath.Join(dir, name))
		}
	}
	return dir
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	info, err := os.Stat(from)
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, content, info.Mode().Perm())); err != nil {
		t.Fatal(err)
	}
}

func copyLink(t *testing.T, from, to string) {
	t.Helper()
	target, err := os.Readlink(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.Symlink(target, to)); err != nil {
		t.Fatal(err)
	}
}

// readAll returns the files of a directory.
func readAll(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[entry.Name()] = content
	}
	return files
}

func TestRelease(t *testing.T) {
	dir, released := *existing, version
	if dir == "" {
		dir = build(t, "../..")
		t.Run("is the same when built in another directory", func(t *testing.T) {
			first, second := readAll(t, dir), readAll(t, build(t, cloneHere(t)))
			for name := range second {
				if !bytes.Equal(first[name], second[name]) {
					t.Errorf("%s differs", name)
				}
			}
			if len(first) != len(second) {
				t.Errorf("it has %d files, and then %d", len(first), len(second))
			}
		})
	} else {
		released = filepath.Base(dir)
	}
	files := readAll(t, dir)

	t.Run("has the checksums of all files", func(t *testing.T) {
		want := map[string]string{}
		for name, content := range files {
			if name != "checksums.txt" {
				want[name] = fmt.Sprintf("%x", sha256.Sum256(content))
			}
		}
		got := map[string]string{}
		for lines := bufio.NewScanner(bytes.NewReader(files["checksums.txt"])); lines.Scan(); {
			sum, name, _ := strings.Cut(lines.Text(), "  ")
			got[name] = sum
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("installs its own image", func(t *testing.T) {
		if want := "image: ghcr.io/fleetwright/fleetwright:" + released + "\n"; !strings.Contains(string(files["install.yaml"]), want) {
			t.Errorf("install.yaml has no line %s", want)
		}
	})
	t.Run("has a krew manifest of its archives", func(t *testing.T) { checkKrew(t, files, released) })
	t.Run("says what is in each artifact", func(t *testing.T) { checkSBOMs(t, files, released) })
}

// checkKrew checks the manifest, and runs the plugin for this platform.
func checkKrew(t *testing.T, files map[string][]byte, released string) {
	var manifest struct {
		APIVersion, Kind string
		Metadata         struct{ Name string }
		Spec             struct {
			Version, ShortDescription, Homepage, Description, Caveats string
			Platforms                                                 []struct {
				Selector         struct{ MatchLabels map[string]string }
				URI, Sha256, Bin string
			}
		}
	}
	if err := yaml.UnmarshalStrict(files["appsvc.yaml"], &manifest); err != nil {
		t.Fatal(err)
	}
	if manifest.Kind != "Plugin" || manifest.Metadata.Name != "appsvc" || manifest.Spec.Version != released {
		t.Errorf("got %+v", manifest)
	}
	run := false
	for _, platform := range manifest.Spec.Platforms {
		base, name, _ := strings.Cut(platform.URI, released+"/")
		if base != downloads {
			t.Errorf("got the URI %s", platform.URI)
		}
		archive, found := files[name]
		if !found || fmt.Sprintf("%x", sha256.Sum256(archive)) != platform.Sha256 {
			t.Errorf("%s is missing or has another checksum", name)
			continue
		}
		entries := unpack(t, archive)
		for _, want := range []string{platform.Bin, "LICENSE"} {
			if entries[want] == nil {
				t.Errorf("%s has no %s", name, want)
			}
		}
		labels := platform.Selector.MatchLabels
		if labels["os"] != runtime.GOOS || labels["arch"] != runtime.GOARCH {
			continue
		}
		run = true
		path := filepath.Join(t.TempDir(), platform.Bin)
		if err := os.WriteFile(path, entries[platform.Bin], 0o755); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(context.Background(), path, "--version").CombinedOutput()
		if err != nil || !strings.Contains(string(out), released) {
			t.Errorf("%s --version: %v: %s", name, err, out)
		}
	}
	if !run {
		t.Errorf("there is no plugin for %s/%s", runtime.GOOS, runtime.GOARCH)
	}
}

// unpack returns the files of an archive.
func unpack(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	zipped, err := gzip.NewReader(bytes.NewReader(archive))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for in := tar.NewReader(zipped); ; {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(in); err != nil {
			t.Fatal(err)
		}
	}
}

// checkSBOMs checks that each document is valid, and that it has all modules of the program.
func checkSBOMs(t *testing.T, files map[string][]byte, released string) {
	count := 0
	for name, content := range files {
		if !strings.HasSuffix(name, ".spdx.json") {
			continue
		}
		count++
		document, err := json.Read(bytes.NewReader(content))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := spdxlib.ValidateDocument(document); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		got := map[string]string{}
		for _, described := range document.Packages {
			got[described.PackageName] = described.PackageVersion
		}
		archive, isPlugin := files[strings.TrimSuffix(name, ".spdx.json")]
		if !isPlugin {
			if got["golang.org/x/crypto/x509roots/fallback"] == "" || got["k8s.io/client-go"] == "" || got[image] != released {
				t.Errorf("%s: got the versions %v", name, got)
			}
			continue
		}
		want := map[string]string{strings.TrimSuffix(name, ".spdx.json"): released}
		for path, program := range unpack(t, archive) {
			if !strings.HasPrefix(path, "kubectl-appsvc") {
				continue
			}
			binary := filepath.Join(t.TempDir(), path)
			if err := os.WriteFile(binary, program, 0o755); err != nil {
				t.Fatal(err)
			}
			addModules(t, want, binary)
			want["github.com/fleetwright/fleetwright"] = released
		}
		if diff := cmp.Diff(want, got); diff != "" || len(want) < 20 {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if count < 2 {
		t.Errorf("there are %d documents", count)
	}
}

// addModules adds the modules that `go version -m` finds in a program.
func addModules(t *testing.T, versions map[string]string, binary string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "version", "-m", binary).Output()
	if err != nil {
		t.Fatal(err)
	}
	first, rest, _ := strings.Cut(string(out), "\n")
	versions["stdlib"] = first[strings.LastIndex(first, "go")+2:]
	for line := range strings.Lines(rest) {
		switch fields := strings.Fields(line); fields[0] {
		case "dep":
			versions[fields[1]] = fields[2]
		case "=>":
			t.Errorf("a module is replaced: %s", line)
		}
	}
}

func TestRefusedVersions(t *testing.T) {
	for _, text := range []string{"", "0.1.0", "v0.1", "v0.1.0/..", "v01.0.0", "main"} {
		o := &options{root: "../..", version: text, out: filepath.Join(t.TempDir(), "release")}
		if err := o.run(t.Context()); err == nil || !strings.Contains(err.Error(), "is no version") {
			t.Errorf("%q: got error %v", text, err)
		}
	}
}

// runGit runs Git in a directory.
func runGit(t *testing.T, dir string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=test", "-c", "user.email=test@example.com"}, args...)...)
	command.Dir = dir
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func TestChangedFiles(t *testing.T) {
	dir := t.TempDir()
	runGit(t, dir, "init", "--quiet")
	runGit(t, dir, "commit", "--quiet", "--allow-empty", "--message", "first")
	revision := runGit(t, dir, "rev-parse", "HEAD")
	if tree, err := source.Open(t.Context(), dir); err != nil || tree.Revision != revision || tree.Changes != "" {
		t.Errorf("without changes: got %+v, %v", tree, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "values.yaml~"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if tree, err := source.Open(t.Context(), dir); err != nil || tree.Revision != revision+"-dirty" {
		t.Errorf("with a file that is not committed: got %+v, %v", tree, err)
	}
	o := &options{root: dir, version: version, out: filepath.Join(t.TempDir(), "release"), final: true}
	if err := o.run(t.Context()); err == nil || !strings.Contains(err.Error(), "values.yaml~") {
		t.Errorf("a final release: got error %v", err)
	}
}

func TestNotes(t *testing.T) {
	const changes = "# Changes\n\n## [Unreleased]\n\nNothing is released yet. The first release will have:\n\n- a\n\n"
	for name, test := range map[string]struct{ log, want string }{
		"no section":                      {log: changes, want: "has no section 0.0.1"},
		"a section of the first release":  {log: strings.Replace(changes, "[Unreleased]", "[0.0.1]", 1), want: unreleased},
		"a section that can be published": {log: changes + "## [0.0.1] - 2026-12-01\n\n- a\n"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := errors.Join(os.Mkdir(filepath.Join(dir, "docs"), 0o755), os.WriteFile(filepath.Join(dir, "docs", "CHANGELOG.md"), []byte(test.log), 0o644)); err != nil {
				t.Fatal(err)
			}
			r := &release{tree: &source.Tree{Dir: dir}, version: version}
			err := r.notes(filepath.Join(dir, "notes.md"), true)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got error %v, want %q", err, test.want)
			}
			if err := r.notes(filepath.Join(dir, "notes.md"), false); err != nil {
				t.Errorf("a release that is not final: %v", err)
			}
		})
	}
}

func TestFindSection(t *testing.T) {
	const changes = "# Changes\n\n## [Unreleased]\n\n## [0.2.0] - 2027-01-01\n\n### Added\n\n- b\n\n## [0.1.0] - 2026-12-01\n\n- a\n"
	for version, want := range map[string]string{"0.2.0": "### Added\n\n- b\n", "0.1.0": "- a\n", "Unreleased": "\n"} {
		if got, found := findSection(changes, version); !found || got != want {
			t.Errorf("%s: got %q", version, got)
		}
	}
	if _, found := findSection(changes, "0.3.0"); found {
		t.Error("a section that does not exist is found")
	}
	log, err := os.ReadFile("../../docs/CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	if _, found := findSection(string(log), "Unreleased"); !found {
		t.Error("docs/CHANGELOG.md has no section Unreleased")
	}
}
