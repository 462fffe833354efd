// Command image builds the operator's image reproducibly: the same commit and the same version of
// Go give the same image, byte for byte. It needs go and git, and no Docker engine.
//
//	image [flags] IMAGE
//
// Without -out and -push, it loads the image into the Docker engine. If no engine responds, it
// writes dist/image.tar and says how to load it.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/fleetwright/fleetwright/tools/release/oci"
	"github.com/fleetwright/fleetwright/tools/release/source"
)

type options struct {
	root, platforms, version, out, from string
	push                                bool
}

func main() {
	var o options
	flag.StringVar(&o.root, "root", "../..", "the directory of the clone")
	flag.StringVar(&o.platforms, "platforms", "", `platforms, such as "linux/amd64 linux/arm64"; by default that of the Docker engine, and to push linux/amd64 and linux/arm64`)
	flag.StringVar(&o.version, "version", "unknown", "the version that the operator reports")
	flag.StringVar(&o.out, "out", "", "write an archive to this file")
	flag.BoolVar(&o.push, "push", false, "push the image to its registry")
	flag.StringVar(&o.from, "from", "", "push this archive of an earlier -out, and build nothing")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	err := errors.New("usage: image [flags] IMAGE, such as registry.example/fleetwright:v0.1.0")
	if flag.NArg() == 1 {
		err = o.run(ctx, flag.Arg(0))
	}
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func (o *options) run(ctx context.Context, text string) error {
	tag, err := oci.ParseTag(text)
	if err != nil {
		return err
	}
	if o.from != "" {
		return o.pushArchive(ctx, tag)
	}
	engine := engineArch(ctx)
	platforms, err := o.choosePlatforms(engine)
	if err != nil {
		return err
	}
	tree, err := source.Open(ctx, o.root)
	if err != nil {
		return err
	}
	images, err := oci.Build(ctx, tree, o.version, platforms...)
	if err != nil {
		return err
	}
	if err := describe(tag, o.version, images); err != nil {
		return err
	}
	switch {
	case o.push:
		index, err := oci.NewIndex(images)
		if err != nil {
			return err
		}
		return push(ctx, tag, index)
	case o.out != "":
		return o.write(tag, images)
	case engine == "":
		o.out = filepath.Join(o.root, "dist", "image.tar")
		fmt.Fprintln(os.Stderr, "image: no Docker engine responds")
		return o.write(tag, images)
	default:
		return load(ctx, tag, images)
	}
}

// choosePlatforms returns the platforms to build for, that of the engine first.
func (o *options) choosePlatforms(engine string) ([]source.Platform, error) {
	first := engine
	if first == "" {
		first = runtime.GOARCH
	}
	fields := strings.FieldsFunc(o.platforms, func(r rune) bool { return r == ' ' || r == ',' })
	if len(fields) == 0 {
		fields = []string{"linux/" + first}
		if o.push {
			fields = []string{"linux/amd64", "linux/arm64"}
		}
	}
	var platforms []source.Platform
	for _, field := range fields {
		platform, err := source.ParsePlatform(field)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(platforms, platform) {
			platforms = append(platforms, platform)
		}
	}
	if i := slices.Index(platforms, source.Platform{OS: "linux", Arch: engine}); i > 0 && !o.push && o.out == "" {
		platforms[0], platforms[i] = platforms[i], platforms[0]
	}
	return platforms, nil
}

// describe prints the size of each image, and the digest of all.
func describe(tag name.Tag, version string, images []oci.Image) error {
	for _, image := range images {
		layers, err := image.Layers()
		if err != nil {
			return err
		}
		var size int64
		for _, layer := range layers {
			n, err := layer.Size()
			if err != nil {
				return err
			}
			size += n
		}
		id, err := image.ConfigName()
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "image: %s %s %s: %d KiB to pull, image ID %s\n", tag, version, image.Platform, size/1024, id)
	}
	return nil
}

// pushArchive pushes what an archive has.
func (o *options) pushArchive(ctx context.Context, tag name.Tag) error {
	dir, err := os.MkdirTemp("", "image")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	index, err := oci.ReadArchive(o.from, dir)
	if err != nil {
		return err
	}
	return push(ctx, tag, index)
}

// push pushes an index, and prints its name with its digest.
func push(ctx context.Context, tag name.Tag, index v1.ImageIndex) error {
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	if err := oci.Push(ctx, tag, index); err != nil {
		return err
	}
	fmt.Printf("%s@%s\n", tag.Repository, digest)
	return nil
}

// write writes the archive, and says how to load it.
func (o *options) write(tag name.Tag, images []oci.Image) error {
	if err := os.MkdirAll(filepath.Dir(o.out), 0o755); err != nil {
		return err
	}
	var archive bytes.Buffer
	if err := oci.WriteArchive(&archive, tag, images); err != nil {
		return err
	}
	if err := os.WriteFile(o.out, archive.Bytes(), 0o644); err != nil {
		return err
	}
	file, err := filepath.Abs(o.out)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, `image: wrote %s
  into Docker:         docker load --input %[1]s
  into containerd:     ctr --namespace k8s.io images import %[1]s
  to a registry:       make push IMG=%s
`, file, tag)
	return nil
}
