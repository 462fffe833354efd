package kind

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/internal/environment"
)

// deploy applies the shipped manifests, config/default, to the hub, with another image, other
// arguments and another number of replicas. It keeps the applied manifests in the directory.
func (e *Environment) deploy(ctx context.Context, hub client.Client, replicas int, args []string) error {
	built, err := e.build(ctx, "default")
	if err != nil {
		return err
	}
	manifest := &bytes.Buffer{}
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(built), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("read the output of kustomize: %w", err)
		}
		if object.GetKind() == "Deployment" {
			if err := e.adapt(object, replicas, args); err != nil {
				return fmt.Errorf("adapt the Deployment: %w", err)
			}
		}
		content, err := yaml.Marshal(object.Object)
		if err != nil {
			return err
		}
		fmt.Fprintf(manifest, "---\n%s", content)
	}
	file := filepath.Join(e.Dir, "operator.yaml")
	if err := os.WriteFile(file, manifest.Bytes(), 0o600); err != nil {
		return err
	}
	return errors.Join(environment.ApplyFile(ctx, hub, file), environment.GrantPropagation(ctx, hub, filepath.Join(e.Root, "config")))
}

// adapt changes the shipped Deployment for this environment.
func (e *Environment) adapt(deployment *unstructured.Unstructured, replicas int, args []string) error {
	containers, _, err := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	if err != nil {
		return err
	}
	if len(containers) != 1 {
		return fmt.Errorf("it has %d containers, want 1", len(containers))
	}
	container, ok := containers[0].(map[string]any)
	if !ok {
		return errors.New("its container is not an object")
	}
	all, _, err := unstructured.NestedStringSlice(container, "args")
	if err != nil {
		return err
	}
	container["image"], container["imagePullPolicy"] = e.Image, "Never" // It is on the node.
	all = append(all, "--metrics-secure=false")                         // The API server's proxy sends no token.
	return errors.Join(
		unstructured.SetNestedStringSlice(container, append(all, args...), "args"),
		unstructured.SetNestedSlice(deployment.Object, containers, "spec", "template", "spec", "containers"),
		unstructured.SetNestedField(deployment.Object, int64(replicas), "spec", "replicas"),
	)
}

// kustomize returns the path of the program.
func (e *Environment) kustomize() string { return filepath.Join(e.Root, "bin", "kustomize") }

// build returns the output of kustomize for a directory of config.
func (e *Environment) build(ctx context.Context, base string) ([]byte, error) {
	var output, complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, e.kustomize(), "build", filepath.Join(e.Root, "config", base))
	cmd.Stdout, cmd.Stderr = &output, &complaint
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("kustomize build config/%s: %w: %s", base, err, bytes.TrimSpace(complaint.Bytes()))
	}
	return output.Bytes(), nil
}
