package kind

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"sigs.k8s.io/kind/pkg/apis/config/defaults"
	"sigs.k8s.io/kind/pkg/cluster/nodes"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"

	"github.com/fleetwright/fleetwright/internal/environment"
)

const (
	// Workload is the image of a small web server, which answers every request on ports 80 and 8080
	// with $GREETING and its host name.
	Workload = "localhost/hello:1"

	// Unprivileged is Workload for a user other than root: it listens on port 8080 only.
	Unprivileged = "localhost/hello-unprivileged:1"

	// builtNodeImage is the image that tools/kind/build.sh builds if none can be pulled.
	builtNodeImage = "localhost/kind-node:v1.36.3"
)

// docker runs the Docker client and returns its output.
func docker(ctx context.Context, args ...string) (string, error) {
	var output, complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.Stdout, cmd.Stderr = &output, &complaint
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("docker %s: %w: %s", strings.Join(args, " "), errors.Join(err, context.Cause(ctx)), bytes.TrimSpace(complaint.Bytes()))
	}
	return strings.TrimSpace(output.String()), nil
}

// imageID returns the ID of an image of the Docker engine, or "" if it has no such image.
func imageID(ctx context.Context, image string) string {
	id, err := docker(ctx, "image", "inspect", "--format", "{{.Id}}", image)
	if err != nil {
		return ""
	}
	return id
}

// NodeImage returns kind's own node image if the Docker engine has it, else builtNodeImage.
func NodeImage(ctx context.Context) (string, error) {
	for _, image := range []string{defaults.Image, builtNodeImage} {
		if imageID(ctx, image) != "" {
			return image, nil
		}
	}
	return "", fmt.Errorf("the Docker engine has neither %s nor %s: run tools/kind/images.sh", defaults.Image, builtNodeImage)
}

// load loads an image of the Docker engine onto a node, unless the node has it, and adds aliases.
func load(ctx context.Context, node nodes.Node, image string, names ...string) error {
	want := imageID(ctx, image)
	if have, err := nodeutils.ImageID(node, image); err != nil || have != want {
		if err := loadArchive(ctx, node, image); err != nil {
			return fmt.Errorf("load image %s onto %s: %w", image, node, err)
		}
	}
	if len(names) == 0 {
		return nil
	}
	args := []string{"--namespace=k8s.io", "images", "tag", "--force", image}
	for _, name := range names {
		args = append(args, fullImageName(name))
	}
	if err := node.CommandContext(ctx, "ctr", args...).Run(); err != nil {
		return fmt.Errorf("name image %s %s on %s: %w", image, strings.Join(names, ", "), node, err)
	}
	return nil
}

// fullImageName returns the full name of an image, which nodes use.
func fullImageName(name string) string {
	registry, _, found := strings.Cut(name, "/")
	switch {
	case !found:
		return "docker.io/library/" + name
	case registry == "localhost" || strings.ContainsAny(registry, ".:"):
		return name
	default:
		return "docker.io/" + name
	}
}

// Obtain pulls an image onto a cluster's node, unless the node has it, and reports whether the node
// has it now. If it cannot be pulled, the name becomes an alias of [Workload].
func (e *Environment) Obtain(ctx context.Context, of environment.Cluster, image string) (bool, error) {
	node, err := e.cluster(of.Name()).node()
	if err != nil {
		return false, err
	}
	if has, err := nodeutils.ImageID(node, fullImageName(image)); err == nil {
		return has != imageID(ctx, Workload), nil
	}
	err = node.CommandContext(ctx, "crictl", "pull", fullImageName(image)).Run()
	if err == nil || ctx.Err() != nil {
		return err == nil, err
	}
	return false, load(ctx, node, Workload, image)
}

func loadArchive(ctx context.Context, node nodes.Node, image string) error {
	reader, writer := io.Pipe()
	cmd := exec.CommandContext(ctx, "docker", "save", image)
	cmd.Stdout = writer
	saved := make(chan error, 1)
	go func() {
		err := cmd.Run()
		_ = writer.CloseWithError(err) // It never fails. Without an error the reader gets io.EOF.
		saved <- err
	}()
	err := nodeutils.LoadImageArchive(node, reader)
	_ = reader.Close() // never fails; without a reader, the writer ends
	return errors.Join(err, <-saved)
}
