package environment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clusterinventory "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

const (
	// SecretNamespace is the namespace of the operator and of the members' kubeconfigs.
	SecretNamespace = "fleetwright-system"
	// SecretLabel, with the value "true", makes a Secret a member.
	SecretLabel = "sigs.k8s.io/multicluster-runtime-kubeconfig"

	// fieldOwner is the field manager of what a user would apply.
	fieldOwner = client.FieldOwner("e2e")
)

// NewClient returns an uncached client for the kinds of Kubernetes, of Fleetwright, and of the
// Cluster Inventory API.
func NewClient(kubeconfig []byte) (client.Client, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	config.QPS = -1
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme), clusterinventory.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("build scheme: %w", err)
	}
	return client.New(config, client.Options{Scheme: scheme})
}

// CreateAll creates the named clusters in parallel, and returns them in that order. Creating a
// cluster is mostly waiting, even on two processors.
func CreateAll(ctx context.Context, env Environment, names ...string) ([]Cluster, error) {
	clusters, errs := make([]Cluster, len(names)), make([]error, len(names))
	var group sync.WaitGroup
	for i, name := range names {
		group.Go(func() { clusters[i], errs[i] = env.Create(ctx, name) })
	}
	group.Wait()
	return clusters, errors.Join(errs...)
}

// PrepareHub applies the CRDs in a directory to the hub, waits until they are served, and creates
// the namespace of the members' Secrets.
func PrepareHub(ctx context.Context, hub client.Client, crds string) error {
	files, err := filepath.Glob(filepath.Join(crds, "*.yaml"))
	if err != nil {
		return fmt.Errorf("list CRDs: %w", err)
	}
	if len(files) == 0 {
		return fmt.Errorf("no CRDs in %s: run make generate", crds)
	}
	for _, file := range files {
		if err := ApplyFile(ctx, hub, file); err != nil {
			return err
		}
	}
	if err := Await(ctx, StartTimeout, "the CRDs to be served", func(ctx context.Context) error {
		return errors.Join(hub.List(ctx, &v1alpha1.AppServiceList{}), hub.List(ctx, &v1alpha1.MemberClusterList{}))
	}); err != nil {
		return err
	}
	namespace := corev1ac.Namespace(SecretNamespace)
	if err := hub.Apply(ctx, namespace, fieldOwner); err != nil {
		return fmt.Errorf("apply namespace %s: %w", SecretNamespace, err)
	}
	return nil
}

// ApplyFile applies each document of a YAML file, server-side.
func ApplyFile(ctx context.Context, c client.Client, file string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
		if len(object.Object) == 0 {
			continue
		}
		if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), fieldOwner, client.ForceOwnership); err != nil {
			return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
}

// Join joins a cluster to the hub's fleet, or updates its kubeconfig. Its MemberCluster gets the
// labels.
func Join(ctx context.Context, hub client.Client, member Cluster, labels map[string]string) error {
	kubeconfig, err := member.MemberKubeconfig(ctx)
	if err != nil {
		return fmt.Errorf("create a kubeconfig for member %s: %w", member.Name(), err)
	}
	return JoinWith(ctx, hub, member.Name(), kubeconfig, labels)
}

// JoinWith is [Join] with a given kubeconfig, valid or not.
func JoinWith(ctx context.Context, hub client.Client, name string, kubeconfig []byte, labels map[string]string) error {
	secret := corev1ac.Secret(name, SecretNamespace).
		WithLabels(map[string]string{SecretLabel: "true"}).
		WithLabels(labels).
		WithData(map[string][]byte{"kubeconfig": kubeconfig})
	if err := hub.Apply(ctx, secret, fieldOwner, client.ForceOwnership); err != nil {
		return fmt.Errorf("apply the Secret of member %s: %w", name, err)
	}
	return nil
}
