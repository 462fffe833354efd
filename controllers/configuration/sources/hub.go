package sources

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
)

// kinds are the kinds of sources and of snapshots.
var kinds = []v1alpha1.ConfigurationKind{v1alpha1.ConfigurationConfigMap, v1alpha1.ConfigurationSecret}

// resourceOf returns the resource of a kind.
func resourceOf(kind v1alpha1.ConfigurationKind) schema.GroupVersionResource {
	if kind == v1alpha1.ConfigurationSecret {
		return corev1.SchemeGroupVersion.WithResource("secrets")
	}
	return corev1.SchemeGroupVersion.WithResource("configmaps")
}

// objectKey names a ConfigMap or a Secret.
type objectKey struct {
	kind            v1alpha1.ConfigurationKind
	namespace, name string
}

func (k objectKey) String() string { return fmt.Sprintf("%s %s/%s", k.kind, k.namespace, k.name) }

// hubClient reads and writes ConfigMaps and Secrets of the hub, without a cache. Its errors have
// nothing of the content of a Secret.
type hubClient struct {
	metadata metadata.Interface
	core     corev1client.CoreV1Interface
}

func newHubClient(hub *rest.Config) (*hubClient, error) {
	config := rest.CopyConfig(hub)
	config.AcceptContentTypes, config.ContentType = "application/vnd.kubernetes.protobuf,application/json", "application/vnd.kubernetes.protobuf"
	connection, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to the hub: %w", err)
	}
	return newHubClientFor(config, connection)
}

func newHubClientFor(config *rest.Config, connection *http.Client) (*hubClient, error) {
	reader, err := metadata.NewForConfigAndClient(metadata.ConfigFor(config), connection)
	if err != nil {
		return nil, fmt.Errorf("create a client for metadata: %w", err)
	}
	core, err := corev1client.NewForConfigAndClient(config, connection)
	if err != nil {
		return nil, fmt.Errorf("create a client for ConfigMaps and Secrets: %w", err)
	}
	return &hubClient{metadata: reader, core: core}, nil
}

// quietly returns a context in which client-go does not log the bodies of requests and responses,
// which it does at a high verbosity.
func quietly(ctx context.Context) context.Context { return klog.NewContext(ctx, logr.Discard()) }

// object is what a live read found.
type object struct {
	*metav1.ObjectMeta
	content configuration.Content
}

// versionOf returns what status.configuration calls observedVersion.
func versionOf(object metav1.Object) string {
	return string(object.GetUID()) + "/" + object.GetResourceVersion()
}

// readMetadata reads an object without its content.
func (c *hubClient) readMetadata(ctx context.Context, key objectKey) (*object, error) {
	found, err := c.metadata.Resource(resourceOf(key.kind)).Namespace(key.namespace).Get(quietly(ctx), key.name, metav1.GetOptions{})
	if err != nil {
		return nil, hideContent("read the metadata of "+key.String(), key.kind, err)
	}
	return &object{ObjectMeta: stripped(&found.ObjectMeta)}, nil
}

// read reads an object with its content.
func (c *hubClient) read(ctx context.Context, key objectKey) (*object, error) {
	if key.kind == v1alpha1.ConfigurationSecret {
		secret, err := c.core.Secrets(key.namespace).Get(quietly(ctx), key.name, metav1.GetOptions{})
		if err != nil {
			return nil, hideContent("read "+key.String(), key.kind, err)
		}
		return &object{stripped(&secret.ObjectMeta), configuration.OfSecret(secret)}, nil
	}
	configMap, err := c.core.ConfigMaps(key.namespace).Get(quietly(ctx), key.name, metav1.GetOptions{})
	if err != nil {
		return nil, hideContent("read "+key.String(), key.kind, err)
	}
	return &object{stripped(&configMap.ObjectMeta), configuration.OfConfigMap(configMap)}, nil
}

// create creates an object, and returns it with the UID that it got.
func (c *hubClient) create(ctx context.Context, created configuration.Object) (result metav1.Object, err error) {
	key := objectKey{v1alpha1.ConfigurationConfigMap, created.GetNamespace(), created.GetName()}
	switch typed := created.(type) {
	case *corev1.Secret:
		key.kind = v1alpha1.ConfigurationSecret
		result, err = c.core.Secrets(key.namespace).Create(quietly(ctx), typed, metav1.CreateOptions{FieldManager: v1alpha1.ManagedBy})
	case *corev1.ConfigMap:
		result, err = c.core.ConfigMaps(key.namespace).Create(quietly(ctx), typed, metav1.CreateOptions{FieldManager: v1alpha1.ManagedBy})
	}
	if err != nil {
		return nil, hideContent("create "+key.String(), key.kind, err)
	}
	return result, nil
}

// remove deletes the object with this UID.
func (c *hubClient) remove(ctx context.Context, key objectKey, uid types.UID) error {
	only := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(uid))}
	err := c.metadata.Resource(resourceOf(key.kind)).Namespace(key.namespace).Delete(quietly(ctx), key.name, only)
	return hideContent("delete "+key.String(), key.kind, err)
}
