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
)

const (
	// Workload is the image of a small web server: it answers every request on $ADDR, by default :8080, with its host's name.
	Workload = "localhost/hello:1"

	// builtNodeImage is made by e2e/kind/build.sh, where none can be pulled.
	builtNodeImage = "localhost/kind-node:v1.36.3"
)

// docker runs the Docker client, and returns what it prints.
func docker(ctx context.Context, args ...string) (string, error) {
	var output, complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, "docker", args...)
	cmd.Stdout, cmd.Stderr = &output, &complaint
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("docker %s: %w: %s", strings.Join(args, " "), errors.Join(err, context.Cause(ctx)), bytes.TrimSpace(complaint.Bytes()))
	}
	return strings.TrimSpace(output.String()), nil
}

// imageID is the ID of an image that the Docker engine has, or nothing.
func imageID(ctx context.Context, image string) string {
	id, err := docker(ctx, "image", "inspect", "--format", "{{.Id}}", image)
	if err != nil {
		return ""
	}
	return id
}

// nodeImage is kind's own node image, if the Docker engine has it, else the one that e2e/kind/build.sh has built.
func nodeImage(ctx context.Context) (string, error) {
	for _, image := range []string{defaults.Image, builtNodeImage} {
		if imageID(ctx, image) != "" {
			return image, nil
		}
	}
	return "", fmt.Errorf("the Docker engine has neither %s nor %s: e2e/kind/images.sh gets one", defaults.Image, builtNodeImage)
}

// load puts an image of the Docker engine onto a node, unless it is there, with more names if they are given.
func load(ctx context.Context, node nodes.Node, image string, names ...string) error {
	want := imageID(ctx, image)
	if have, err := nodeutils.ImageID(node, image); err != nil || have != want {
		if err := loadArchive(ctx, node, image); err != nil {
			return fmt.Errorf("load image %s onto %s: %w", image, node, err)
		}
	}
	for _, name := range names {
		if err := node.CommandContext(ctx, "ctr", "--namespace=k8s.io", "images", "tag", "--force", image, name).Run(); err != nil {
			return fmt.Errorf("name image %s %s on %s: %w", image, name, node, err)
		}
	}
	return nil
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
	_ = reader.Close() // It never fails. If nobody reads, the writer ends.
	return errors.Join(err, <-saved)
}
