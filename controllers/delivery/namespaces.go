package delivery

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/podsecurity"
)

// NamespaceLabels selects labels of a namespace on the hub, beside those of pod security, which are
// always selected. Each item is a key, or a prefix of keys that ends with a slash: team.example.com/.
type NamespaceLabels []string

// ParseNamespaceLabels reads items that are separated by commas.
func ParseNamespaceLabels(text string) (NamespaceLabels, error) {
	var selected NamespaceLabels
	for item := range strings.SplitSeq(text, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		key := item
		if strings.HasSuffix(key, "/") {
			key += "any"
		}
		if problems := validation.IsQualifiedName(key); len(problems) > 0 {
			return nil, fmt.Errorf("%q is neither the key of a label nor a prefix that ends with a slash: %s", item, problems[0])
		}
		if key == v1alpha1.LabelManagedBy || strings.HasPrefix(key, v1alpha1.GroupVersion.Group+"/") {
			return nil, fmt.Errorf("%q belongs to Fleetwright", item)
		}
		selected = append(selected, item)
	}
	return selected, nil
}

// of returns the selected labels.
func (n NamespaceLabels) of(labels map[string]string) map[string]string {
	selected := map[string]string{}
	for key, value := range labels {
		isSelected := podsecurity.IsLabel(key) || slices.ContainsFunc(n, func(item string) bool {
			return key == item || strings.HasSuffix(item, "/") && strings.HasPrefix(key, item)
		})
		if isSelected {
			selected[key] = value
		}
	}
	return selected
}

// hubNamespaces reads the labels of namespaces on the hub, live: a namespace on a member gets them once
// and never again. Members that create a namespace at the same time share a read. It is safe for
// concurrent use.
type hubNamespaces struct {
	live     client.Reader
	selected NamespaceLabels
	reads    singleflight.Group
}

// labels returns the labels that a namespace on a member gets when it is created. They must not be
// modified.
func (h *hubNamespaces) labels(ctx context.Context, name string) (map[string]string, error) {
	labels, err, _ := h.reads.Do(name, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout) // others wait for it too
		defer cancel()
		found := &metav1.PartialObjectMetadata{}
		found.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
		if err := h.live.Get(ctx, client.ObjectKey{Name: name}, found); err != nil {
			return nil, fmt.Errorf("read the labels of namespace %s on the hub: %w", name, err)
		}
		return h.selected.of(found.Labels), nil
	})
	if err != nil {
		return nil, err
	}
	return labels.(map[string]string), nil
}
