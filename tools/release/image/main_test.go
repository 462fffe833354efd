package main

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/fleetwright/fleetwright/tools/release/oci"
)

// smallTree returns the directory of an operator that compiles quickly.
func smallTree(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "cmd", "fleetwright"), 0o755); err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{"go.mod": "module example\n", "cmd/fleetwright/main.go": "package main\n\nfunc main() {}\n"} {
		if err := os.WriteFile(filepath.Join(dir, path), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// platformsOf returns the platforms of an index.
func platformsOf(t *testing.T, index v1.ImageIndex) string {
	t.Helper()
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, image := range manifest.Manifests {
		all = append(all, image.Platform.String())
	}
	return strings.Join(all, " ")
}

func TestWithoutEngine(t *testing.T) {
	dir := t.TempDir()
	for _, program := range []string{"go", "git"} {
		path, err := exec.LookPath(program)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(path, filepath.Join(dir, program)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	o := &options{root: smallTree(t), platforms: "linux/arm64"}
	if err := o.run(t.Context(), "example.com/fleetwright:dev"); err != nil {
		t.Fatal(err)
	}
	index, err := oci.ReadArchive(filepath.Join(o.root, "dist", "image.tar"), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if got := platformsOf(t, index); got != "linux/arm64" {
		t.Errorf("the archive has the platforms %s", got)
	}
}

func TestPush(t *testing.T) {
	server := httptest.NewServer(registry.New())
	defer server.Close()
	text := strings.TrimPrefix(server.URL, "http://") + "/fleetwright:v0.1.0"
	tag, err := name.NewTag(text)
	if err != nil {
		t.Fatal(err)
	}
	tree, archive := smallTree(t), filepath.Join(t.TempDir(), "image.tar")
	var digests []v1.Hash
	for _, o := range []*options{{root: tree, push: true}, {root: tree, push: true, from: archive}} {
		if o.from != "" {
			write := &options{root: tree, platforms: "linux/amd64,linux/arm64", out: archive}
			if err := write.run(t.Context(), text); err != nil {
				t.Fatal(err)
			}
		}
		if err := o.run(t.Context(), text); err != nil {
			t.Fatal(err)
		}
		index, err := remote.Index(tag)
		if err != nil {
			t.Fatal(err)
		}
		if got := platformsOf(t, index); got != "linux/amd64 linux/arm64" {
			t.Errorf("pushed the platforms %s", got)
		}
		digest, err := index.Digest()
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, digest)
	}
	if digests[0] != digests[1] {
		t.Errorf("an archive has the digest %s, and the same image without one has %s", digests[1], digests[0])
	}
}
