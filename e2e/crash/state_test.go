package crash

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// state is what can be seen of an AppService, in words that are the same in every life.
type state string

// diff is an error unless the states are the same.
func diff(want, got state) error {
	if want == got {
		return nil
	}
	return fmt.Errorf("(-undisturbed +there):\n%s", cmp.Diff(string(want), string(got)))
}

// snapshot reads the AppService on the hub, and what the members hold in its namespace. Of what generations there are it
// tells only when the lives that are compared have the same edits.
func (f *fleet) snapshot(ctx context.Context, app *v1alpha1.AppService, generations bool) (state, error) {
	seen := map[string]any{}
	now := &v1alpha1.AppService{}
	switch err := f.hub.Get(ctx, client.ObjectKeyFromObject(app), now); {
	case apierrors.IsNotFound(err):
		seen[hubName] = "gone"
	case err != nil:
		return "", err
	default:
		seen[hubName] = onHub(now, generations)
	}
	for _, name := range members {
		there, err := onMember(ctx, f.api[name], client.ObjectKeyFromObject(app), generations)
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		seen[name] = there
	}
	content, err := yaml.Marshal(seen)
	if err != nil {
		return "", err
	}
	return state(strings.NewReplacer(app.Namespace, "NAMESPACE", string(app.UID), "UID").Replace(string(content))), nil
}

// onHub is the AppService but for its spec, which is the test's own.
func onHub(app *v1alpha1.AppService, generations bool) map[string]any {
	status := app.Status.DeepCopy()
	for i := range status.Conditions {
		status.Conditions[i].LastTransitionTime = metav1.Time{}
	}
	for i := range status.Clusters {
		status.Clusters[i].LastTransitionTime = metav1.Time{}
	}
	if !generations {
		status.PlannedSpecs = nil // an operator that was killed may not have seen all of them
		status.ObservedGeneration -= app.Generation
		for i := range status.Conditions {
			status.Conditions[i].ObservedGeneration -= app.Generation
		}
		for i := range status.Clusters {
			status.Clusters[i].Generation -= app.Generation
			status.Clusters[i].ObservedGeneration -= app.Generation
		}
	}
	return map[string]any{"finalizers": app.Finalizers, "labels": app.Labels, "annotations": app.Annotations, "status": status}
}

// onMember is the namespace, and the Deployment and the Service of the AppService's name in it.
func onMember(ctx context.Context, api client.Client, key types.NamespacedName, generations bool) (map[string]any, error) {
	there := map[string]any{}
	namespace := &corev1.Namespace{}
	if err := api.Get(ctx, client.ObjectKey{Name: key.Namespace}, namespace); client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	for _, kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := api.List(ctx, list, client.InNamespace(key.Namespace)); err != nil {
			return nil, err
		}
		for i := range list.Items {
			there[kind.Kind+" "+list.Items[i].GetName()] = normal(list.Items[i].Object, generations)
		}
	}
	// A namespace is never deleted; so one that nothing is in any more is there after some edits, and not after others.
	if len(there) > 0 || generations {
		there["namespace"] = map[string]any{"labels": namespace.Labels, "annotations": namespace.Annotations}
	}
	return there, nil
}

// normal takes away what differs between two lives, and what others than the operator write.
func normal(object map[string]any, generations bool) map[string]any {
	for _, path := range [][]string{
		{"status"}, {"metadata", "uid"}, {"metadata", "resourceVersion"}, {"metadata", "creationTimestamp"}, {"metadata", "generation"},
		{"metadata", "managedFields"}, {"metadata", "annotations", v1alpha1.AnnotationHash}, {"metadata", "annotations", v1alpha1.AnnotationCreated}, {"spec", "clusterIP"}, {"spec", "clusterIPs"},
	} {
		unstructured.RemoveNestedField(object, path...)
	}
	if !generations {
		unstructured.RemoveNestedField(object, "metadata", "annotations", v1alpha1.AnnotationGeneration)
		unstructured.RemoveNestedField(object, "metadata", "annotations", v1alpha1.AnnotationSpecHash)
		unstructured.RemoveNestedField(object, "metadata", "annotations", "deployment.kubernetes.io/revision")
	}
	return object
}

// settled is nil when the hub says that the AppService runs as it is declared, on its clusters and on no other; or is gone with all
// that the members had of it.
func (f *fleet) settled(ctx context.Context, app *v1alpha1.AppService) error {
	now := &v1alpha1.AppService{}
	if err := f.hub.Get(ctx, client.ObjectKeyFromObject(app), now); apierrors.IsNotFound(err) {
		return f.gone(ctx, app)
	} else if err != nil {
		return err
	}
	if !now.DeletionTimestamp.IsZero() {
		return errors.New("it is being deleted")
	}
	ready, want := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionReady), clustersOf(&now.Spec)
	if now.Status.ObservedGeneration != now.Generation || ready == nil || ready.Status != metav1.ConditionTrue || len(now.Status.Clusters) != len(want) {
		return fmt.Errorf("at generation %d the status is %+v", now.Generation, now.Status)
	}
	for _, name := range want {
		if row := now.Status.Cluster(name); row == nil || row.Phase != v1alpha1.ClusterReady {
			return fmt.Errorf("the row of %s is %+v", name, row)
		}
	}
	return nil
}

func (f *fleet) gone(ctx context.Context, app *v1alpha1.AppService) error {
	for _, name := range members {
		for resource := range kinds {
			if look(f.api[name], request{resource: resource, namespace: app.Namespace, name: app.Name}).present {
				return fmt.Errorf("the AppService is gone, and %s has its %s", name, resource)
			}
		}
	}
	return nil
}
