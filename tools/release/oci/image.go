// Package oci assembles the operator's image without a Docker engine, writes it to an archive and
// pushes it. The same files and the same time give the same bytes.
package oci

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/fleetwright/fleetwright/tools/release/roots"
	"github.com/fleetwright/fleetwright/tools/release/source"
)

// Image is the image for one platform.
type Image struct {
	v1.Image
	Platform source.Platform
	Operator []byte // the program in it
}

// File is a file of the image. Its path has no leading slash.
type File struct {
	Path    string
	Mode    int64
	Content []byte
}

// Build builds the operator and returns its images, one for each platform.
func Build(ctx context.Context, tree *source.Tree, version string, platforms ...source.Platform) ([]Image, error) {
	var certificates bytes.Buffer
	if err := roots.Write(&certificates); err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp("", "image")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(work) }()
	var images []Image
	for _, platform := range platforms {
		if platform.OS != "linux" {
			return nil, fmt.Errorf("the platform of an image must be linux/amd64, linux/arm64 or another one of Linux, not %s", platform)
		}
		out := filepath.Join(work, platform.Arch)
		if err := tree.Build(ctx, "./cmd/fleetwright", version, platform, out); err != nil {
			return nil, err
		}
		operator, err := os.ReadFile(out)
		if err != nil {
			return nil, err
		}
		image, err := Assemble(tree, version, platform, []File{
			{"etc/ssl/certs/ca-certificates.crt", 0o644, certificates.Bytes()},
			{"fleetwright", 0o755, operator},
		})
		if err != nil {
			return nil, err
		}
		image.Operator = operator
		images = append(images, image)
	}
	return images, nil
}

// Assemble returns an image of one layer with these files.
func Assemble(tree *source.Tree, version string, platform source.Platform, files []File) (Image, error) {
	content, err := archive(files, tree.Time)
	if err != nil {
		return Image{}, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer),
		tarball.WithCompressionLevel(gzip.DefaultCompression), tarball.WithCompressedCaching)
	if err != nil {
		return Image{}, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(base, mutate.Addendum{
		Layer:     layer,
		MediaType: types.OCILayer,
		History:   v1.History{Created: v1.Time{Time: tree.Time}, CreatedBy: "make image"},
	})
	if err != nil {
		return Image{}, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return Image{}, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = platform.OS, platform.Arch, v1.Time{Time: tree.Time}
	config.Config = v1.Config{
		User:       "65532:65532",
		Env:        []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		Entrypoint: []string{"/fleetwright"},
		Labels:     labels(version, tree.Revision),
	}
	image, err = mutate.ConfigFile(image, config)
	return Image{Image: image, Platform: platform}, err
}

// labels returns the labels that the Dockerfile also has.
func labels(version, revision string) map[string]string {
	const prefix = "org.opencontainers.image."
	return map[string]string{
		prefix + "title":       "fleetwright",
		prefix + "description": "Runs AppServices, declared once on a hub cluster, on every member cluster",
		prefix + "source":      "https://github.com/fleetwright/fleetwright",
		prefix + "licenses":    "Apache-2.0",
		prefix + "version":     version,
		prefix + "revision":    revision,
	}
}

// archive returns a tar archive of the files and their directories.
func archive(files []File, modified time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	written := map[string]bool{}
	for _, file := range files {
		var parents []string
		for dir := path.Dir(file.Path); dir != "." && !written[dir]; dir = path.Dir(dir) {
			written[dir] = true
			parents = append(parents, dir)
		}
		for _, dir := range slices.Backward(parents) {
			header := &tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755, ModTime: modified, Format: tar.FormatUSTAR}
			if err := w.WriteHeader(header); err != nil {
				return nil, err
			}
		}
		if err := writeFile(w, file, modified); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}

// writeFile writes a file to a tar archive, as root's.
func writeFile(w *tar.Writer, file File, modified time.Time) error {
	header := &tar.Header{Typeflag: tar.TypeReg, Name: file.Path, Mode: file.Mode, Size: int64(len(file.Content)), ModTime: modified, Format: tar.FormatUSTAR}
	if err := w.WriteHeader(header); err != nil {
		return err
	}
	_, err := w.Write(file.Content)
	return err
}

// NewIndex returns an index of the images, by which each node gets the image for its platform.
func NewIndex(images []Image) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var errs []error
	for _, image := range images {
		_, err := image.Digest() // so that AppendManifests, which returns no error, has none
		errs = append(errs, err)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image.Image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: image.Platform.OS, Architecture: image.Platform.Arch}},
		})
	}
	return index, errors.Join(errs...)
}
