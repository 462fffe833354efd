package main

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// modules writes go.mod files that pin versions.
func modules(t *testing.T) (directory, file string) {
	t.Helper()
	directory = t.TempDir()
	for name, content := range map[string]string{
		"go.mod":        "require (\n\tgo.etcd.io/etcd/server/v3 v3.6.8 // indirect\n\tk8s.io/kubernetes v1.36.3 // indirect\n\tsigs.k8s.io/kwok v0.8.0\n)\n",
		"skew/go.mod":   "replace (\n\tk8s.io/kubernetes => example.com/x v0.0.0\n)\nrequire (\n\tk8s.io/kubernetes v1.33.13 // indirect\n)\n",
		"checksums.txt": "# A comment.\n# More.\nold line\n",
	} {
		path := filepath.Join(directory, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return directory, filepath.Join(directory, "checksums.txt")
}

// published is what the hosts publish.
func published() site {
	sum := func(digit string) string { return strings.Repeat(digit, 64) }
	return site{
		"github.com/etcd-io/etcd/releases/download/v3.6.8/SHA256SUMS":                               []byte(sum("1") + "  etcd-v3.6.8-linux-amd64.tar.gz\n" + sum("2") + "  etcd-v3.6.8-darwin-arm64.zip\n"),
		"dl.k8s.io/release/v1.36.3/bin/linux/amd64/kube-apiserver.sha256":                           []byte(sum("3")),
		"dl.k8s.io/release/v1.33.13/bin/linux/amd64/kube-apiserver.sha256":                          []byte(sum("4") + "\n"),
		"dl.k8s.io/release/v1.36.3/bin/darwin/arm64/kubectl.sha256":                                 []byte(sum("5")),
		"raw.githubusercontent.com/kubernetes-sigs/controller-tools/HEAD/envtest-releases.yaml":     []byte("releases:\n  v1.36.3:\n    envtest-v1.36.3-darwin-arm64.tar.gz:\n      hash: " + sum("6") + sum("7") + "\n      selfLink: https://github.com/kubernetes-sigs/x/envtest-v1.36.3-darwin-arm64.tar.gz\n"),
		"api.github.com/repos/kubernetes-sigs/kwok/releases/tags/v0.8.0":                            []byte(`{"assets":[{"name":"kwok-linux-amd64","digest":"sha256:` + sum("8") + `","browser_download_url":"https://github.com/x/kwok-linux-amd64"}]}`),
		"github.com/kubernetes-sigs/kwok/releases/download/v0.8.0/kwok-linux-amd64.not-in-the-list": nil,
	}
}

func TestUpdate_writes_the_published_checksums(t *testing.T) {
	server := httptest.NewServer(published())
	defer server.Close()
	directory, file := modules(t)
	f, err := newFetcher(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if err := update(t.Context(), f, directory, file); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want := `# A comment.
# More.
etcd v3.6.8 darwin/arm64 sha256:2 https://github.com/etcd-io/etcd/releases/download/v3.6.8/etcd-v3.6.8-darwin-arm64.zip etcd-v3.6.8-darwin-arm64/etcd
etcd v3.6.8 linux/amd64 sha256:1 https://github.com/etcd-io/etcd/releases/download/v3.6.8/etcd-v3.6.8-linux-amd64.tar.gz etcd-v3.6.8-linux-amd64/etcd
kube-apiserver v1.36.3 darwin/arm64 sha512:67 https://github.com/kubernetes-sigs/x/envtest-v1.36.3-darwin-arm64.tar.gz controller-tools/envtest/kube-apiserver
kube-apiserver v1.36.3 linux/amd64 sha256:3 https://dl.k8s.io/release/v1.36.3/bin/linux/amd64/kube-apiserver
kube-apiserver-skew v1.33.13 linux/amd64 sha256:4 https://dl.k8s.io/release/v1.33.13/bin/linux/amd64/kube-apiserver
kubectl v1.36.3 darwin/arm64 sha256:5 https://dl.k8s.io/release/v1.36.3/bin/darwin/arm64/kubectl
kwok v0.8.0 linux/amd64 sha256:8 https://github.com/x/kwok-linux-amd64
`
	have := string(content)
	for _, digit := range strings.Split("12345678", "") {
		have = strings.ReplaceAll(have, strings.Repeat(digit, 64), digit)
	}
	if have != want {
		t.Errorf("checksums.txt is\n%s\nwant\n%s", have, want)
	}
	entries, err := readEntries(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := verify(entries, directory); err != nil {
		t.Error(err)
	}
}

func TestUpdate_keeps_the_file_if_a_host_fails(t *testing.T) {
	server := httptest.NewServer(published())
	server.Close()
	directory, file := modules(t)
	f, err := newFetcher(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	if err := update(t.Context(), f, directory, file); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("error is %v", err)
	}
	if content, err := os.ReadFile(file); err != nil || !strings.HasSuffix(string(content), "old line\n") {
		t.Errorf("checksums.txt is %q, %v", content, err)
	}
}

func TestVerify_finds_entries_of_other_versions(t *testing.T) {
	directory, _ := modules(t)
	err := verify([]entry{{name: "etcd", version: "v3.6.8"}, {name: "kwok", version: "v0.7.0", platform: platform}, {name: "kube-apiserver-skew", version: "v1.36.3", platform: platform}, {name: "vim"}}, directory)
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"kwok v0.7.0 linux/amd64: go.mod has v0.8.0", "kube-apiserver-skew v1.36.3 linux/amd64: go.mod has v1.33.13", "vim is no tool"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error is %v\nwant %q", err, want)
		}
	}
	if strings.Contains(err.Error(), "etcd") {
		t.Errorf("error is %v", err)
	}
}

func TestChecksums_of_this_repository_are_valid(t *testing.T) {
	entries, err := readEntries("../../tools/checksums.txt")
	if err != nil {
		t.Fatal(err)
	}
	if err := verify(entries, "../../tools"); err != nil {
		t.Error(err)
	}
}

func TestEntry_must_be_complete(t *testing.T) {
	sum := strings.Repeat("0", 64)
	for line, want := range map[string]string{
		"etcd v1 linux/amd64 sha256:" + sum:                              "4 fields",
		"etcd v1 linux/amd64 sha256:" + sum[1:] + " https://example.com": "is no checksum",
		"etcd v1 linux/amd64 sha512:" + sum + " https://example.com":     "is no checksum",
		"etcd v1 linux/amd64 md5:" + sum[32:] + " https://example.com":   "is no checksum",
		"etcd v1 linux/amd64 sha256:" + sum + " http://example.com":      "is no https URL",
	} {
		if _, err := parseEntry(strings.Fields(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v, want %q", line, err, want)
		}
	}
}
