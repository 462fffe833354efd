package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/fleetwright/fleetwright/tools/release/oci"
)

// engineArch returns the architecture of the Docker engine, or nothing if none responds in time.
func engineArch(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "docker", "version", "--format", "{{.Server.Arch}}").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// load loads the images into the Docker engine. It deletes the images that had their names, unless
// they have others.
func load(ctx context.Context, tag name.Tag, images []oci.Image) error {
	var names, old []string
	for i := range images {
		names = append(names, oci.DockerName(tag, images, i))
		old = append(old, imageID(ctx, names[i]))
	}
	reader, writer := io.Pipe()
	go func() { _ = writer.CloseWithError(oci.WriteArchive(writer, tag, images)) }() // docker load reads the error
	command := exec.CommandContext(ctx, "docker", "load", "--quiet")
	command.Stdin = reader
	out, err := command.CombinedOutput()
	_ = reader.Close() // never fails; without a reader, the writer ends
	if err != nil {
		return fmt.Errorf("docker load: %w: %s", err, bytes.TrimSpace(out))
	}
	var loaded []string
	for i := range images {
		id := imageID(ctx, names[i])
		if id != "" {
			loaded = append(loaded, names[i])
		}
		if id != old[i] {
			removeUnnamed(ctx, old[i])
		}
	}
	// An engine with containerd's image store has all platforms under the first name.
	if !slices.Contains(loaded, names[0]) {
		return fmt.Errorf("docker load did not load %s: %s", names[0], bytes.TrimSpace(out))
	}
	fmt.Fprintf(os.Stderr, "image: loaded %s into the Docker engine\n", strings.Join(loaded, ", "))
	return nil
}

// imageID returns the ID of the image with a name, or nothing.
func imageID(ctx context.Context, text string) string {
	out, err := exec.CommandContext(ctx, "docker", "image", "inspect", "--format", "{{.Id}}", text).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// removeUnnamed deletes an image without a name. An image that a container uses stays.
func removeUnnamed(ctx context.Context, id string) {
	if id == "" {
		return
	}
	out, err := exec.CommandContext(ctx, "docker", "image", "inspect", "--format", "{{len .RepoTags}}", id).Output()
	if err == nil && strings.TrimSpace(string(out)) == "0" {
		_ = exec.CommandContext(ctx, "docker", "image", "rm", id).Run()
	}
}
