package upgrade

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/environment"
)

// releases are the directories of those that are recorded. One is kept.
const releases = "testdata/v*"

// kind is one whose objects are recorded.
type kind struct {
	schema.GroupVersionKind
	key string // of its objects in etcd
}

var (
	namespaces = kind{corev1.SchemeGroupVersion.WithKind("Namespace"), "namespaces"}

	// kindsOfHub and kindsOfMember are in the order in which they are restored.
	kindsOfHub = []kind{
		namespaces,
		{v1alpha1.GroupVersion.WithKind("MemberCluster"), "fleetwright.dev/memberclusters"},
		{v1alpha1.GroupVersion.WithKind("AppService"), "fleetwright.dev/appservices"},
	}
	kindsOfMember = []kind{
		namespaces,
		{appsv1.SchemeGroupVersion.WithKind("Deployment"), "deployments"},
		{corev1.SchemeGroupVersion.WithKind("Service"), "services/specs"},
		{autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"), "horizontalpodautoscalers"},
		{policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), "poddisruptionbudgets"},
	}
)

// objects are those of the kinds that a release is recorded with.
func (c *cluster) objects(ctx context.Context, kinds []kind) ([]unstructured.Unstructured, error) {
	var all []unstructured.Unstructured
	for _, k := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(k.GroupVersionKind)
		if err := c.api.List(ctx, list); err != nil {
			return nil, fmt.Errorf("%s: list %ss: %w", c.Name(), k.Kind, err)
		}
		all = append(all, slices.DeleteFunc(list.Items, isClustersOwn)...)
	}
	return all, nil
}

// isClustersOwn is of what every cluster has by itself, but not of what bears its identity.
func isClustersOwn(object unstructured.Unstructured) bool {
	namespace, name := object.GetNamespace(), object.GetName()
	if object.GetKind() == namespaces.Kind {
		if name == metav1.NamespaceSystem {
			return false
		}
		namespace = name
		if namespace == metav1.NamespaceDefault {
			return true
		}
	}
	return strings.HasPrefix(namespace, "kube-") || namespace == environment.SecretNamespace ||
		object.GetKind() == "Service" && namespace == metav1.NamespaceDefault && name == "kubernetes"
}

// write makes a file of objects, without their resource version.
func write(file string, objects []unstructured.Unstructured) error {
	var content bytes.Buffer
	for i := range objects {
		document, err := document(objects[i].DeepCopy())
		if err != nil {
			return err
		}
		content.WriteString("---\n" + document)
	}
	return os.WriteFile(file, content.Bytes(), 0o644)
}

// document is an object in YAML, with what each manager holds on a line of its own.
func document(object *unstructured.Unstructured) (string, error) {
	unstructured.RemoveNestedField(object.Object, "metadata", "resourceVersion")
	managers, _, err := unstructured.NestedSlice(object.Object, "metadata", "managedFields")
	if err != nil {
		return "", err
	}
	var held []string
	for i, manager := range managers {
		fields, err := json.Marshal(manager.(map[string]any)["fieldsV1"])
		if err != nil {
			return "", err
		}
		placeholder := fmt.Sprintf("fields-%d", i)
		manager.(map[string]any)["fieldsV1"] = placeholder
		held = append(held, "fieldsV1: "+placeholder+"\n", "fieldsV1: "+string(fields)+"\n")
	}
	if len(managers) > 0 {
		if err := unstructured.SetNestedSlice(object.Object, managers, "metadata", "managedFields"); err != nil {
			return "", err
		}
	}
	content, err := yaml.Marshal(object.Object)
	return strings.NewReplacer(held...).Replace(string(content)), err
}

// read returns the objects of a file.
func read(file string) ([]unstructured.Unstructured, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var objects []unstructured.Unstructured
	for documents := utilyaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(content))); ; {
		buffer := make([]byte, len(content))
		n, err := documents.Read(buffer)
		if errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		document, err := yaml.YAMLToJSON(buffer[:n])
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		if string(document) == "null" {
			continue
		}
		object := unstructured.Unstructured{}
		if err := object.UnmarshalJSON(document); err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		objects = append(objects, object)
	}
}
