// Package plugin writes the kubectl plugin as archives, one for each platform, with the licence and
// the script for completion; and a krew manifest that has their checksums.
package plugin

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"text/template"
	"time"

	"github.com/fleetwright/fleetwright/tools/release/source"
)

// Archive is the plugin for one platform.
type Archive struct {
	source.Platform
	Name   string // of the file
	Binary string // name of the program in it
	SHA256 string
}

// Write builds the plugin for a platform and writes its archive into a directory. The program
// itself is left in the directory work.
func Write(ctx context.Context, tree *source.Tree, version string, platform source.Platform, dir, work string) (Archive, error) {
	archive := Archive{Platform: platform, Binary: "kubectl-appsvc", Name: fmt.Sprintf("kubectl-appsvc_%s_%s_%s.tar.gz", version, platform.OS, platform.Arch)}
	others := []string{"LICENSE"}
	if platform.OS == "windows" {
		archive.Binary += ".exe"
	} else {
		others = append(others, "cmd/kubectl-appsvc/kubectl_complete-appsvc") // a script of sh
	}
	binary := filepath.Join(work, archive.Binary)
	if err := tree.Build(ctx, "./cmd/kubectl-appsvc", version, platform, binary); err != nil {
		return archive, err
	}
	var out bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&out, gzip.DefaultCompression)
	if err != nil {
		return archive, err
	}
	w := tar.NewWriter(zipped)
	if err := add(w, binary, 0o755); err != nil {
		return archive, err
	}
	for _, other := range others {
		mode := int64(0o644)
		if other != "LICENSE" {
			mode = 0o755
		}
		if err := add(w, filepath.Join(tree.Dir, other), mode); err != nil {
			return archive, err
		}
	}
	if err := w.Close(); err != nil {
		return archive, err
	}
	if err := zipped.Close(); err != nil {
		return archive, err
	}
	sum := sha256.Sum256(out.Bytes())
	archive.SHA256 = hex.EncodeToString(sum[:])
	return archive, os.WriteFile(filepath.Join(dir, archive.Name), out.Bytes(), 0o644)
}

// add adds a file to an archive, without what differs between machines.
func add(w *tar.Writer, path string, mode int64) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: filepath.Base(path), Mode: mode, Size: int64(len(content)), ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err = w.Write(content)
	return err
}

var manifest = template.Must(template.New("").Parse(`apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: appsvc
spec:
  version: {{.Version}}
  homepage: https://github.com/fleetwright/fleetwright
  shortDescription: Run applications on many clusters with Fleetwright
  description: |
    Adds clusters to a fleet, shows the state of an AppService on all of its clusters and why it runs
    there or not, approves and undoes rollouts, and serves a page of the fleet on this machine.
  caveats: |
    It needs a hub on which Fleetwright is installed, as a context of your kubeconfig.
    kubectl appsvc completion --help says how kubectl completes its arguments.
  platforms:
{{- range .Archives}}
    - selector: {matchLabels: {os: {{.OS}}, arch: {{.Arch}}}}
      uri: {{$.URL}}/{{.Name}}
      sha256: {{.SHA256}}
      bin: {{.Binary}}
{{- end}}
`))

// Manifest returns the krew manifest of archives that are at a URL.
func Manifest(version, url string, archives []Archive) ([]byte, error) {
	var out bytes.Buffer
	err := manifest.Execute(&out, map[string]any{"Version": version, "URL": url, "Archives": archives})
	return out.Bytes(), err
}
