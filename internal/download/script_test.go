package main

import (
	"errors"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// checkout is a copy of what tools/install.sh needs, with checksums of the binaries that a mirror
// has.
type checkout struct {
	dir, mirror string
	env         []string
}

// newCheckout returns a checkout whose mirror has etcd and kubectl of KUBEBUILDER_ASSETS.
func newCheckout(t *testing.T) *checkout {
	t.Helper()
	c := &checkout{dir: t.TempDir(), mirror: t.TempDir()}
	for _, name := range []string{"go.mod", "go.sum", "tools/install.sh", "tools/go.mod", "tools/go.sum"} {
		copyFile(t, filepath.Join("../..", name), filepath.Join(c.dir, name))
	}
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range sources {
		copyFile(t, source, filepath.Join(c.dir, "internal/download", source))
	}
	var lines []string
	for _, tool := range tools {
		if tool.name != "etcd" && tool.name != "kubectl" {
			continue
		}
		version, err := tool.version("../../tools")
		if err != nil {
			t.Fatal(err)
		}
		asset := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), tool.name)
		content, err := os.ReadFile(asset)
		if err != nil {
			t.Fatalf("%v: KUBEBUILDER_ASSETS must name the directory of etcd and kubectl: use `make test`, or `make tools` and KUBEBUILDER_ASSETS=$PWD/bin", err)
		}
		copyFile(t, asset, filepath.Join(c.mirror, "example.com", tool.name))
		lines = append(lines, entry{name: tool.name, version: version, platform: runtime.GOOS + "/" + runtime.GOARCH, checksum: checksum(content), url: "https://example.com/" + tool.name}.String())
	}
	if err := os.WriteFile(filepath.Join(c.dir, "tools/checksums.txt"), []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	// go's own caches stay warm. This go does not compile, because this takes minutes.
	goPath, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	stub := "#!/bin/sh\n[ \"$1\" != build ] || { while [ \"$1\" != -o ]; do shift; done; printf '#!/bin/sh\\necho built' >\"$2\"; exec chmod +x \"$2\"; }\nexec '" + goPath + "' \"$@\"\n"
	if err := os.MkdirAll(filepath.Join(c.dir, "path"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.dir, "path/go"), []byte(stub), 0o755); err != nil {
		t.Fatal(err)
	}
	c.env = []string{"PATH=" + filepath.Join(c.dir, "path") + ":/usr/bin:/bin", "GOFLAGS=-buildvcs=false"}
	for _, name := range []string{"GOCACHE", "GOMODCACHE"} {
		value, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		c.env = append(c.env, name+"="+strings.TrimSpace(string(value)))
	}
	return c
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, content, 0o755); err != nil {
		t.Fatal(err)
	}
}

// install runs tools/install.sh for etcd and kubectl, and returns its output.
func (c *checkout) install(t *testing.T, env ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "bash", "tools/install.sh", "bin", "etcd", "kubectl")
	command.Dir, command.Env = c.dir, slices.Concat(c.env, env)
	output, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("tools/install.sh: %v\n%s", err, output)
	}
	return string(output)
}

// checkLinks checks that the tools are links to a file whose path contains a text, and that they
// run.
func (c *checkout) checkLinks(t *testing.T, want, output string) {
	t.Helper()
	for _, name := range []string{"etcd", "kubectl"} {
		link := filepath.Join(c.dir, "bin", name)
		target, err := filepath.EvalSymlinks(link)
		if err != nil || !strings.Contains(target, want) {
			t.Errorf("%s is %s, %v, want %q\n%s", name, target, err, want, output)
			continue
		}
		arg := map[string]string{"etcd": "--version", "kubectl": "help"}[name]
		if output, err := exec.CommandContext(t.Context(), link, arg).CombinedOutput(); err != nil {
			t.Errorf("%s %s: %v\n%s", name, arg, err, output)
		}
	}
}

func TestInstall_script_downloads(t *testing.T) {
	c := newCheckout(t)
	for name, env := range map[string][]string{
		"with a home directory":                      {"HOME=" + t.TempDir()},
		"without a home directory":                   nil,
		"with a home directory that is not writable": {"HOME=/proc"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.RemoveAll(filepath.Join(c.dir, "bin")); err != nil {
				t.Fatal(err)
			}
			env = append(env, "TOOLS_MIRROR="+c.mirror)
			output := c.install(t, env...)
			c.checkLinks(t, "/download-", output)
			if output := c.install(t, env...); output != "" {
				t.Errorf("the second run says\n%s", output)
			}
		})
	}
}

func TestInstall_script_builds_what_it_cannot_download(t *testing.T) {
	c := newCheckout(t)
	server := httptest.NewServer(nil)
	server.Close()
	home := "HOME=" + t.TempDir()
	output := c.install(t, home, "TOOLS_MIRROR="+server.URL)
	c.checkLinks(t, ".cache/fleetwright/tools/", output)
	if strings.Count(output, "tools: not downloaded, but built from source: ") != 1 || !strings.Contains(output, "connection refused") || !strings.Contains(output, "[2/2] kubectl") {
		t.Errorf("output is\n%s", output)
	}
}

func TestInstall_script_builds_with_CONTROL_PLANE_source(t *testing.T) {
	c := newCheckout(t)
	home := "HOME=" + t.TempDir()
	c.install(t, home, "TOOLS_MIRROR="+c.mirror)
	output := c.install(t, home, "TOOLS_MIRROR="+c.mirror, "CONTROL_PLANE=source", "KUBEBUILDER_ASSETS="+c.mirror)
	if strings.Contains(output, "download") || !strings.Contains(output, "[2/2] kubectl") {
		t.Errorf("output is\n%s", output)
	}
	if content, err := os.ReadFile(filepath.Join(c.dir, "bin/etcd")); err != nil || !strings.HasPrefix(string(content), "#!/bin/sh") {
		t.Errorf("etcd is not built: %v", err)
	}
}

func TestInstall_script_uses_programs_in_PATH(t *testing.T) {
	c := newCheckout(t)
	home := "HOME=" + t.TempDir()
	for _, name := range []string{"etcd", "kubectl"} {
		copyFile(t, filepath.Join(c.mirror, "example.com", name), filepath.Join(c.dir, "path", name))
	}
	output := c.install(t, home)
	c.checkLinks(t, "/path/", output)
	if output := c.install(t, home); output != "" {
		t.Errorf("the second run says\n%s", output)
	}
	// After an update of the program, its version is not known. Package managers keep the time of its build.
	for _, name := range []string{"etcd", "kubectl"} {
		file := filepath.Join(c.dir, "path", name)
		built := time.Now().Add(-24 * time.Hour)
		if err := errors.Join(os.WriteFile(file, []byte("#!/bin/sh\necho 1.2.3\n"), 0o755), os.Chtimes(file, built, built)); err != nil {
			t.Fatal(err)
		}
	}
	output = c.install(t, home, "TOOLS_MIRROR="+c.mirror)
	c.checkLinks(t, "/download-", output)
}
