package oci

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/fleetwright/fleetwright/tools/release/source"
)

var both = []source.Platform{{OS: "linux", Arch: "amd64"}, {OS: "linux", Arch: "arm64"}}

// smallTree returns a tree with an operator that compiles quickly, in a directory of its own.
func smallTree(t *testing.T) *source.Tree {
	t.Helper()
	dir := t.TempDir()
	for path, content := range map[string]string{
		"go.mod":                  "module example\n\ngo 1.26.0\n",
		"cmd/fleetwright/main.go": "package main\n\nvar version string\n\nfunc main() { println(version) }\n",
	} {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return &source.Tree{Dir: dir, Revision: "c0ffee", Time: time.Unix(1_800_000_000, 0).UTC()}
}

func build(t *testing.T, version string) []Image {
	t.Helper()
	images, err := Build(t.Context(), smallTree(t), version, both...)
	if err != nil {
		t.Fatal(err)
	}
	return images
}

func digestOf(t *testing.T, images []Image) string {
	t.Helper()
	index, err := NewIndex(images)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := index.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest.String()
}

func tagOf(t *testing.T, text string) name.Tag {
	t.Helper()
	tag, err := ParseTag(text)
	if err != nil {
		t.Fatal(err)
	}
	return tag
}

// writeArchive returns the path of an archive of the images.
func writeArchive(t *testing.T, tag name.Tag, images []Image) string {
	t.Helper()
	var out bytes.Buffer
	if err := WriteArchive(&out, tag, images); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestImageIsReproducible(t *testing.T) {
	first := build(t, "v0.1.0")
	// A second clone, with variables that change what Go builds.
	t.Setenv("GOAMD64", "v3")
	t.Setenv("GOARM64", "v8.1")
	t.Setenv("GOFLAGS", "-tags=other")
	t.Setenv("CGO_ENABLED", "1")
	t.Setenv("TZ", "Asia/Tokyo")
	second := build(t, "v0.1.0")
	for i := range both {
		a, errA := first[i].Digest()
		b, errB := second[i].Digest()
		if err := errors.Join(errA, errB); err != nil {
			t.Fatal(err)
		}
		if a != b {
			t.Errorf("%s: two builds have the digests %s and %s", both[i], a, b)
		}
	}
	tag := tagOf(t, "example.com/fleetwright:v0.1.0")
	a, errA := os.ReadFile(writeArchive(t, tag, first))
	b, errB := os.ReadFile(writeArchive(t, tag, second))
	if err := errors.Join(errA, errB); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Error("two archives of the same image differ")
	}
	for files := tar.NewReader(bytes.NewReader(a)); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.ModTime.Unix() != 0 {
			t.Errorf("%s is of %s", header.Name, header.ModTime)
		}
	}
	if digestOf(t, build(t, "v0.1.1")) == digestOf(t, first) {
		t.Error("another version has the same digest")
	}
}

func TestImageContent(t *testing.T) {
	for i, image := range build(t, "v0.1.0") {
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if got := config.OS + "/" + config.Architecture; got != both[i].String() {
			t.Errorf("the image is for %s, want %s", got, both[i])
		}
		if config.Config.User != "65532:65532" || strings.Join(config.Config.Entrypoint, " ") != "/fleetwright" {
			t.Errorf("got user %s and entrypoint %v", config.Config.User, config.Config.Entrypoint)
		}
		modes := map[string]int64{}
		content := mutate.Extract(image)
		for files := tar.NewReader(content); ; {
			header, err := files.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			modes[header.Name] = header.Mode
			if header.Uid != 0 || header.Gid != 0 || header.ModTime.Unix() != 1_800_000_000 {
				t.Errorf("%s belongs to %d:%d and is of %s", header.Name, header.Uid, header.Gid, header.ModTime)
			}
		}
		_ = content.Close()
		for path, mode := range map[string]int64{"etc": 0o755, "etc/ssl/certs": 0o755, "etc/ssl/certs/ca-certificates.crt": 0o644, "fleetwright": 0o755} {
			if modes[path] != mode {
				t.Errorf("%s has mode %o, want %o (of %v)", path, modes[path], mode, modes)
			}
		}
	}
}

func TestLabelsAreThoseOfTheDockerfile(t *testing.T) {
	dockerfile, err := os.ReadFile("../../../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	all := labels("${VERSION}", "${REVISION}")
	for key, value := range all {
		if !strings.Contains(string(dockerfile), key+`="`+value+`"`) {
			t.Errorf("the Dockerfile has no label %s=%q", key, value)
		}
	}
	if n := strings.Count(string(dockerfile), "org.opencontainers.image."); n != len(all) {
		t.Errorf("the Dockerfile has %d labels, want %d", n, len(all))
	}
}

func TestPush(t *testing.T) {
	server := httptest.NewServer(registry.New())
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	images := build(t, "v0.1.0")
	index, err := NewIndex(images)
	if err != nil {
		t.Fatal(err)
	}
	read, err := ReadArchive(writeArchive(t, tagOf(t, host+"/fleetwright:v0.1.0"), images), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for text, pushed := range map[string]v1.ImageIndex{"built:v0.1.0": index, "archived:v0.1.0": read} {
		t.Run(text, func(t *testing.T) {
			tag := tagOf(t, host+"/"+text)
			if err := Push(t.Context(), tag, pushed); err != nil {
				t.Fatal(err)
			}
			for i, platform := range both {
				pulled, err := remote.Image(tag, remote.WithPlatform(v1.Platform{OS: platform.OS, Architecture: platform.Arch}))
				if err != nil {
					t.Fatal(err)
				}
				want, errWant := images[i].Digest()
				got, errGot := pulled.Digest()
				if got != want || errors.Join(errWant, errGot) != nil {
					t.Errorf("%s gets %s, want %s", platform, got, want)
				}
				if _, err := io.Copy(io.Discard, mutate.Extract(pulled)); err != nil {
					t.Errorf("%s: pull: %v", platform, err)
				}
			}
		})
	}
	t.Run("to a registry that does not respond", func(t *testing.T) {
		server.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if err := Push(ctx, tagOf(t, host+"/fleetwright:v0.1.0"), index); err == nil {
			t.Error("no error")
		}
	})
}

func TestArchiveForOldEngines(t *testing.T) {
	images := build(t, "v0.1.0")
	for text, want := range map[string][]string{
		"example.com/fleetwright:v0.1.0": {"example.com/fleetwright:v0.1.0", "example.com/fleetwright:v0.1.0-arm64"},
		"localhost/fleetwright":          {"localhost/fleetwright:latest", "localhost/fleetwright:latest-arm64"},
		"fleetwright:dev":                {"fleetwright:dev", "fleetwright:dev-arm64"},
	} {
		dir := t.TempDir()
		if _, err := ReadArchive(writeArchive(t, tagOf(t, text), images), dir); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
		if err != nil {
			t.Fatal(err)
		}
		var entries []struct {
			Config           string
			RepoTags, Layers []string
		}
		if err := json.Unmarshal(content, &entries); err != nil {
			t.Fatal(err)
		}
		if len(entries) != len(want) {
			t.Fatalf("got %d entries", len(entries))
		}
		for i, entry := range entries {
			if entry.RepoTags[0] != want[i] {
				t.Errorf("%s: got the name %s, want %s", text, entry.RepoTags[0], want[i])
			}
			for _, path := range append(entry.Layers, entry.Config) {
				if _, err := os.Stat(filepath.Join(dir, path)); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

func TestRefused(t *testing.T) {
	for _, text := range []string{"", "UPPER", "example.com/fleetwright@sha256:" + strings.Repeat("0", 64)} {
		if _, err := ParseTag(text); err == nil {
			t.Errorf("%q is accepted as a name", text)
		}
	}
	if _, err := Build(t.Context(), smallTree(t), "v0.1.0", source.Platform{OS: "darwin", Arch: "arm64"}); err == nil {
		t.Error("an image for macOS is built")
	}
	path := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(path, []byte("no archive"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadArchive(path, t.TempDir()); err == nil {
		t.Error("a file that is no archive is read")
	}
}
