package oci

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// WriteArchive writes the images as one archive, in two formats at once: an OCI layout with an
// index of all platforms, which containerd, skopeo and newer Docker engines read, and the
// manifest.json of `docker save` for older engines. These have one platform for a name, so the
// image for the first platform has the name, and the others the name with their architecture.
func WriteArchive(w io.Writer, tag name.Tag, images []Image) error {
	index, err := NewIndex(images)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "image")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	written, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	full := strings.Replace(tag.Name(), "index.docker.io/", "docker.io/", 1)
	if err := written.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"io.containerd.image.name":          full,
		"org.opencontainers.image.ref.name": tag.TagStr(),
	})); err != nil {
		return err
	}
	manifest, err := dockerManifest(tag, images)
	if err != nil {
		return err
	}
	if err := written.WriteFile("manifest.json", manifest, 0o644); err != nil {
		return err
	}
	return pack(w, dir)
}

// dockerManifest returns the manifest.json of `docker save`, which refers to the blobs of the layout.
func dockerManifest(tag name.Tag, images []Image) ([]byte, error) {
	type entry struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	blob := func(hash v1.Hash) string { return "blobs/" + hash.Algorithm + "/" + hash.Hex }
	var entries []entry
	for i, image := range images {
		manifest, err := image.Manifest()
		if err != nil {
			return nil, err
		}
		e := entry{Config: blob(manifest.Config.Digest), RepoTags: []string{DockerName(tag, images, i)}}
		for _, layer := range manifest.Layers {
			e.Layers = append(e.Layers, blob(layer.Digest))
		}
		entries = append(entries, e)
	}
	return json.Marshal(entries)
}

// DockerName returns the name of one of the images after `docker load`. Docker shows no registry for
// Docker Hub.
func DockerName(tag name.Tag, images []Image, i int) string {
	text := strings.TrimPrefix(tag.Name(), "index.docker.io/")
	text = strings.TrimPrefix(text, "library/")
	if i > 0 {
		text += "-" + images[i].Platform.Arch
	}
	return text
}

// pack writes the files of a directory as a tar archive, sorted by name.
func pack(w io.Writer, dir string) error {
	out := tar.NewWriter(w)
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			return err
		}
		return writeFile(out, File{path, 0o644, content}, time.Unix(0, 0))
	})
	return errors.Join(err, out.Close())
}

// ReadArchive returns the index of an archive of WriteArchive. The files of the index are in the
// directory.
func ReadArchive(archive, dir string) (v1.ImageIndex, error) {
	file, err := os.Open(archive)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	if err := unpack(file, dir); err != nil {
		return nil, fmt.Errorf("%s: %w", archive, err)
	}
	outer, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, fmt.Errorf("%s is no archive of make image: %w", archive, err)
	}
	manifest, err := outer.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(manifest.Manifests) != 1 {
		return nil, fmt.Errorf("%s has %d images: want one", archive, len(manifest.Manifests))
	}
	return outer.ImageIndex(manifest.Manifests[0].Digest)
}

// unpack writes the files of a tar archive into a directory.
func unpack(r io.Reader, dir string) error {
	in := tar.NewReader(r)
	for {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg || !filepath.IsLocal(header.Name) {
			return fmt.Errorf("unexpected entry %q", header.Name)
		}
		path := filepath.Join(dir, header.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		content, err := io.ReadAll(in)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
}
