package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const platform = "linux/amd64"

func checksum(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// site serves files by HOST/PATH, as a mirror.
type site map[string][]byte

func (s site) ServeHTTP(writer http.ResponseWriter, r *http.Request) {
	content, ok := s[strings.TrimPrefix(r.URL.Path, "/")]
	if !ok {
		http.NotFound(writer, r)
		return
	}
	writer.Write(content) //nolint:gosec // a test
}

// install runs an installation from a mirror, and returns what it found and logged.
func install(t *testing.T, mirror string, entries []entry, args ...string) (found, log string) {
	t.Helper()
	t.Setenv("PATH", t.TempDir())
	f, err := newFetcher(mirror)
	if err != nil {
		t.Fatal(err)
	}
	f.stall = 300 * time.Millisecond
	f.client.Transport.(*http.Transport).ResponseHeaderTimeout = 300 * time.Millisecond
	var out, messages bytes.Buffer
	i := installation{entries: entries, platform: platform, fetcher: f, log: &messages}
	if err := i.run(t.Context(), args, &out); err != nil {
		t.Fatal(err)
	}
	return out.String(), messages.String()
}

// checkFails checks that nothing is installed, that one line says why, and that no file stays.
func checkFails(t *testing.T, mirror, want string) {
	t.Helper()
	e := entry{name: "etcd", version: "v1.0.0", platform: platform, checksum: checksum([]byte("binary")), url: "https://example.com/etcd"}
	directory := t.TempDir()
	found, log := install(t, mirror, []entry{e}, "etcd@v1.0.0="+filepath.Join(directory, "etcd"))
	if found != "" {
		t.Errorf("found %q", found)
	}
	if lines := strings.Split(strings.TrimSpace(log), "\n"); len(lines) != 2 || !strings.HasPrefix(lines[1], "tools: not downloaded, but built from source: etcd v1.0.0: ") || !strings.Contains(lines[1], want) {
		t.Errorf("log is\n%s\nwant %q", log, want)
	}
	if files, err := os.ReadDir(directory); err != nil || len(files) > 0 {
		t.Errorf("files stay: %v, %v", files, err)
	}
}

func TestDownloads_binary_and_members_of_archives(t *testing.T) {
	binary := []byte("binary")
	var zipped, tarred bytes.Buffer
	zipper := zip.NewWriter(&zipped)
	writer, err := zipper.Create("etcd-v1/etcd")
	if err != nil {
		t.Fatal(err)
	}
	gzipper := gzip.NewWriter(&tarred)
	tarrer := tar.NewWriter(gzipper)
	if err := tarrer.WriteHeader(&tar.Header{Name: "./a/etcd", Mode: 0o644, Size: int64(len(binary)), Typeflag: tar.TypeReg}); err != nil {
		t.Fatal(err)
	}
	writer.Write(binary)
	tarrer.Write(binary)
	zipper.Close()
	tarrer.Close()
	gzipper.Close()

	entries := []entry{
		{name: "kubectl", version: "v1.0.0", platform: platform, checksum: checksum(binary), url: "https://example.com/v1.0.0/kubectl"},
		{name: "etcd", version: "v1.0.0", platform: platform, checksum: checksum(tarred.Bytes()), url: "https://example.com/etcd.tar.gz", member: "a/etcd"},
		{name: "etcd", version: "v2.0.0", platform: platform, checksum: checksum(zipped.Bytes()), url: "https://example.com/etcd.zip", member: "etcd-v1/etcd"},
	}
	content := site{"m/example.com/v1.0.0/kubectl": binary, "m/example.com/etcd.tar.gz": tarred.Bytes(), "m/example.com/etcd.zip": zipped.Bytes()}
	server := httptest.NewServer(content)
	defer server.Close()
	mirror := t.TempDir()
	for path, content := range content {
		file := filepath.Join(mirror, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, mirror := range []string{server.URL + "/m", server.URL + "/m/", filepath.Join(mirror, "m")} {
		directory := t.TempDir()
		files := []string{filepath.Join(directory, "1", "kubectl"), filepath.Join(directory, "2", "etcd"), filepath.Join(directory, "3", "etcd")}
		found, log := install(t, mirror, entries, "kubectl@v1.0.0="+files[0], "etcd@v1.0.0="+files[1], "etcd@v2.0.0="+files[2])
		if want := fmt.Sprintf("kubectl %s\netcd %s\netcd %s\n", files[0], files[1], files[2]); found != want {
			t.Errorf("found\n%swant\n%s%s", found, want, log)
		}
		if !strings.Contains(log, "[3/3] ") {
			t.Errorf("the log has no progress:\n%s", log)
		}
		for _, file := range files {
			info, err := os.Stat(file)
			if err != nil || info.Mode().Perm() != 0o755 {
				t.Errorf("%s: %v, %v", file, info, err)
			} else if have, _ := os.ReadFile(file); !bytes.Equal(have, binary) {
				t.Errorf("%s is %q", file, have)
			}
		}
	}
}

func TestFile_with_wrong_checksum_is_not_installed(t *testing.T) {
	server := httptest.NewServer(site{"example.com/etcd": []byte("another")})
	defer server.Close()
	checkFails(t, server.URL, "/example.com/etcd has another checksum than in tools/checksums.txt: "+checksum([]byte("another")))
}

func TestTruncated_file_is_not_installed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(writer http.ResponseWriter, _ *http.Request) {
		writer.Header().Set("Content-Length", "6")
		writer.Write([]byte("bina")) //nolint:gosec // a test
	}))
	defer server.Close()
	checkFails(t, server.URL, "is not complete: unexpected EOF")
}

func TestMissing_file_is_not_installed(t *testing.T) {
	server := httptest.NewServer(site{})
	defer server.Close()
	checkFails(t, server.URL, "/example.com/etcd answers 404 Not Found")
}

func TestMissing_server_and_directory_are_reported(t *testing.T) {
	server := httptest.NewServer(site{})
	server.Close()
	checkFails(t, server.URL, "connection refused")
	checkFails(t, "https://user:secret@missing.invalid/", "missing.invalid")
	checkFails(t, filepath.Join(t.TempDir(), "none"), "404")
}

func TestServer_that_hangs_is_given_up(t *testing.T) {
	hang := func(writer http.ResponseWriter, r *http.Request, before func()) {
		writer.Header().Set("Content-Length", "6")
		before()
		<-r.Context().Done()
	}
	t.Run("before it answers", func(t *testing.T) {
		server := httptest.NewServer(http.HandlerFunc(func(writer http.ResponseWriter, r *http.Request) { hang(writer, r, func() {}) }))
		defer server.Close()
		checkFails(t, server.URL, "timeout awaiting response headers")
	})
	t.Run("in the file", func(t *testing.T) {
		server := httptest.NewServer(http.HandlerFunc(func(writer http.ResponseWriter, r *http.Request) {
			hang(writer, r, func() { writer.Write([]byte("bina")); writer.(http.Flusher).Flush() }) //nolint:gosec // a test
		}))
		defer server.Close()
		checkFails(t, server.URL, "is not complete: the server sends nothing more")
	})
}

func TestUnwritable_cache_is_reported(t *testing.T) {
	server := httptest.NewServer(site{"example.com/etcd": []byte("binary")})
	defer server.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	e := entry{name: "etcd", version: "v1.0.0", platform: platform, checksum: checksum([]byte("binary")), url: "https://example.com/etcd"}
	found, log := install(t, server.URL, []entry{e}, "etcd@v1.0.0="+filepath.Join(file, "etcd"))
	if found != "" || !strings.Contains(log, "built from source: etcd v1.0.0: mkdir ") {
		t.Errorf("found %q, log\n%s", found, log)
	}
}

func TestFull_disk_is_reported(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("/dev/full is missing: it is on Linux only")
	}
	server := httptest.NewServer(site{"example.com/etcd": []byte("binary")})
	defer server.Close()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	f, err := newFetcher(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	err = f.verified(t.Context(), entry{checksum: checksum([]byte("binary")), url: "https://example.com/etcd"}, full, &installation{})
	if err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("error is %v", err)
	}
}

func TestVersion_without_checksum_is_not_downloaded(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("request of %s", r.URL) }))
	defer server.Close()
	e := entry{name: "etcd", version: "v1.0.0", platform: platform, checksum: checksum(nil), url: "https://example.com/etcd"}
	_, log := install(t, server.URL, []entry{e}, "etcd@v1.0.1=/nonexistent/etcd", "kwok@v1.0.1=/nonexistent/kwok", "kwokctl@v1.0.1=/nonexistent/kwok")
	want := `tools: not downloaded, but built from source: kwok v1.0.1, kwokctl v1.0.1: tools/checksums.txt has no checksum for this version on linux/amd64
tools: not downloaded, but built from source: etcd v1.0.1: tools/checksums.txt has no checksum for this version on linux/amd64, but for v1.0.0
`
	if log != want {
		t.Errorf("log is\n%s\nwant\n%s", log, want)
	}
}

func TestProgram_in_PATH_is_used_only_with_the_exact_version(t *testing.T) {
	kubectl, err := filepath.EvalSymlinks(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"))
	if err != nil {
		t.Fatal("KUBEBUILDER_ASSETS must name the directory of kubectl: use `make test`, or `make tools` and KUBEBUILDER_ASSETS=$PWD/bin")
	}
	version := "v" + programVersion(t.Context(), kubectl, []string{"version", "--client"})
	scripts, shims, programs := t.TempDir(), t.TempDir(), t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\nexec %s \"$@\"\n", kubectl)
	if err := os.WriteFile(filepath.Join(scripts, "kubectl"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(kubectl)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(shims) // A program in the current directory is not found.
	for _, file := range []string{filepath.Join(shims, "manager"), filepath.Join(programs, "kubectl"), filepath.Join(shims, "relative", "kubectl")} {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("manager", filepath.Join(shims, "kubectl")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", strings.Join([]string{"relative", "/nonexistent", scripts, shims, programs}, string(filepath.ListSeparator)))
	path, err := filepath.EvalSymlinks(filepath.Join(programs, "kubectl"))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ version, notIn, want string }{
		{version, "", path},
		{version, programs, ""},
		{"v1.2.3", "", ""},
		{version + "1", "", ""},
		{version + "-rc.1", "", ""},
	} {
		if have := findInPath(context.WithoutCancel(t.Context()), request{name: "kubectl", version: test.version}, test.notIn); have != test.want {
			t.Errorf("kubectl %s, not in %q: found %q, want %q", test.version, test.notIn, have, test.want)
		}
	}
}
