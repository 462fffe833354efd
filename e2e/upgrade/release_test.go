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
	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/internal/environment"
)

// releases matches the directories of recorded releases. There is one.
const releases = "testdata/v*"

// kind is a kind of objects that are recorded.
type kind struct {
	schema.GroupVersionKind
	key string // the prefix of its objects in etcd
}

var (
	namespaceKind = kind{corev1.SchemeGroupVersion.WithKind("Namespace"), "namespaces"}

	// hubKinds and memberKinds are in the order of a restore.
	hubKinds = []kind{
		namespaceKind,
		{v1alpha1.GroupVersion.WithKind("MemberCluster"), "fleetwright.dev/memberclusters"},
		{v1alpha1.GroupVersion.WithKind("AppService"), "fleetwright.dev/appservices"},
	}
	memberKinds = []kind{
		namespaceKind,
		{appsv1.SchemeGroupVersion.WithKind("Deployment"), "deployments"},
		{corev1.SchemeGroupVersion.WithKind("Service"), "services/specs"},
		{autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"), "horizontalpodautoscalers"},
		{policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), "poddisruptionbudgets"},
	}
)

// listObjects returns the objects of a cluster that are recorded.
func listObjects(ctx context.Context, c *framework.Cluster, kinds []kind) ([]unstructured.Unstructured, error) {
	var all []unstructured.Unstructured
	for _, k := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(k.GroupVersionKind)
		if err := c.Client.List(ctx, list); err != nil {
			return nil, fmt.Errorf("%s: list %ss: %w", c.Name(), k.Kind, err)
		}
		all = append(all, slices.DeleteFunc(list.Items, isSystemObject)...)
	}
	return all, nil
}

// isSystemObject reports whether every cluster has the object by default. It is false for
// kube-system, whose UID is the identity of the cluster.
func isSystemObject(object unstructured.Unstructured) bool {
	namespace, name := object.GetNamespace(), object.GetName()
	if object.GetKind() == namespaceKind.Kind {
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

// writeObjects writes objects to a file, without their resource versions.
func writeObjects(file string, objects []unstructured.Unstructured) error {
	var content bytes.Buffer
	for i := range objects {
		document, err := asDocument(objects[i].DeepCopy())
		if err != nil {
			return err
		}
		content.WriteString("---\n" + document)
	}
	return os.WriteFile(file, content.Bytes(), 0o644)
}

// asDocument returns an object as YAML, with the fields of each manager on one line.
func asDocument(object *unstructured.Unstructured) (string, error) {
	unstructured.RemoveNestedField(object.Object, "metadata", "resourceVersion")
	managers, _, err := unstructured.NestedSlice(object.Object, "metadata", "managedFields")
	if err != nil {
		return "", err
	}
	var replacements []string
	for i, manager := range managers {
		fields, err := json.Marshal(manager.(map[string]any)["fieldsV1"])
		if err != nil {
			return "", err
		}
		placeholder := fmt.Sprintf("fields-%d", i)
		manager.(map[string]any)["fieldsV1"] = placeholder
		replacements = append(replacements, "fieldsV1: "+placeholder+"\n", "fieldsV1: "+string(fields)+"\n")
	}
	if len(managers) > 0 {
		if err := unstructured.SetNestedSlice(object.Object, managers, "metadata", "managedFields"); err != nil {
			return "", err
		}
	}
	content, err := yaml.Marshal(object.Object)
	return strings.NewReplacer(replacements...).Replace(string(content)), err
}

// readObjects returns the objects of a file.
func readObjects(file string) ([]unstructured.Unstructured, error) {
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
