package crash

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
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
	"github.com/fleetwright/fleetwright/controllers/entries/appslice"
	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/e2e/ledger"
)

// state is the visible state of an AppService, without what differs between lifecycles.
type state string

// diff returns an error unless the states are the same.
func diff(want, got state) error {
	if want == got {
		return nil
	}
	return fmt.Errorf("(-want +got):\n%s", cmp.Diff(string(want), string(got)))
}

// snapshot reads the AppService with all its entries from the hub, and the objects in its namespace
// from the members. It includes generations, and where the entries are, only if the compared
// lifecycles have the same edits.
func (f *fleet) snapshot(ctx context.Context, app *v1alpha1.AppService, generations bool) (state, error) {
	objects, placements := map[string]any{}, map[string]int64{}
	switch current, err := f.ReadApp(ctx, app); {
	case apierrors.IsNotFound(err):
		objects[hubName] = "gone"
	case err != nil:
		return "", err
	default:
		objects[hubName] = hubState(current, generations)
		for _, entry := range current.Status.Clusters {
			placements[entry.Name] = entry.Placement
		}
	}
	for _, name := range members {
		state, err := memberState(ctx, f.Members[name].Client, client.ObjectKeyFromObject(app), placements[name], generations)
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		objects[name] = state
	}
	content, err := yaml.Marshal(objects)
	if err != nil {
		return "", err
	}
	text := strings.NewReplacer(app.Namespace, "NAMESPACE", string(app.UID), "UID").Replace(string(content))
	text = copyName.ReplaceAllString(text, "${1}DIGEST")
	return state(confirmation.ReplaceAllString(text, "")), nil
}

// copyName matches the names of snapshots and copies. They end in a digest that depends on the
// namespace.
var copyName = regexp.MustCompile(`(web-settings(?:-bad)?-)[a-z0-9]{10}`)

// confirmation matches the end of the record of copies. Another process than the one that applied them
// may leave it out.
var confirmation = regexp.MustCompile(`,Deployment/[0-9a-f-]{36}`)

// failedCluster matches the cluster by which a rollout has failed, in a message.
var failedCluster = regexp.MustCompile(`\(east: [^)]*\)`)

// hubState returns the AppService without its spec, which the test writes.
func hubState(app *v1alpha1.AppService, generations bool) map[string]any {
	status := app.Status.DeepCopy()
	for i := range status.Conditions {
		status.Conditions[i].LastTransitionTime = metav1.Time{}
	}
	for i := range status.Clusters {
		status.Clusters[i].LastTransitionTime = metav1.Time{}
		if status.Clusters[i].UnavailableSince != nil {
			status.Clusters[i].UnavailableSince = &metav1.Time{}
		}
		status.Clusters[i].ReadySince = nil
		status.Clusters[i].Placement = 0
	}
	// An operator that was killed between the first slices and the first status has lost the status: a
	// cluster that has not reported then is placed again, with the next number.
	status.Placement.Count = 0
	// What is known of the failed cluster at the deadline depends on the time: that the image cannot be
	// pulled, that the Deployment has failed, or nothing.
	status.Rollout.FailedReason = ""
	for i := range status.Conditions {
		status.Conditions[i].Message = failedCluster.ReplaceAllString(status.Conditions[i].Message, "(east)")
	}
	status.Rollout.Since = nil
	for i := range status.Configuration {
		status.Configuration[i].ObservedVersion, status.Configuration[i].Since = "", nil
	}
	for i := range status.Rollout.Stages {
		status.Rollout.Stages[i].Since = metav1.Time{}
	}
	if !generations {
		status.PlannedSpecs = nil // an operator that was killed may have missed some
		status.ClustersIn = ""    // depends on where the entries were before
		status.ObservedGeneration -= app.Generation
		for i := range status.Conditions {
			status.Conditions[i].ObservedGeneration -= app.Generation
		}
		for i := range status.Clusters {
			status.Clusters[i].Generation -= app.Generation
			status.Clusters[i].ObservedGeneration -= app.Generation
			status.Clusters[i].Revision -= status.Rollout.Revision
		}
		// There are fewer revisions if an operator that was killed has missed a template.
		status.Rollout = v1alpha1.RolloutStatus{}
	}
	return map[string]any{"finalizers": app.Finalizers, "labels": app.Labels, "annotations": app.Annotations, "status": status}
}

// memberState returns the namespace and its Deployments and Services. The placement is that of the entry.
func memberState(ctx context.Context, api client.Client, key types.NamespacedName, placement int64, generations bool) (map[string]any, error) {
	state := map[string]any{}
	namespace := &corev1.Namespace{}
	if err := api.Get(ctx, client.ObjectKey{Name: key.Namespace}, namespace); client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	kinds := append(slices.Collect(maps.Values(ledger.Kinds)), corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	for _, kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := api.List(ctx, list, client.InNamespace(key.Namespace)); err != nil {
			return nil, err
		}
		for i := range list.Items {
			if list.Items[i].GetName() == "kube-root-ca.crt" {
				continue // the member's own
			}
			state[kind.Kind+" "+list.Items[i].GetName()] = normalize(list.Items[i].Object, placement, generations)
		}
	}
	// The operator never deletes a namespace. So an empty one exists after some edits, and not
	// after others.
	if len(state) > 0 || generations {
		state["namespace"] = map[string]any{"labels": namespace.Labels, "annotations": namespace.Annotations}
	}
	return state, nil
}

// normalize removes what differs between lifecycles, and what the operator does not write. Of the number of
// the placement, it keeps whether it is that of the entry.
func normalize(object map[string]any, placement int64, generations bool) map[string]any {
	for _, path := range [][]string{
		{"status"}, {"metadata", "uid"}, {"metadata", "resourceVersion"}, {"metadata", "creationTimestamp"}, {"metadata", "generation"},
		{"metadata", "managedFields"}, {"metadata", "annotations", v1alpha1.AnnotationHash}, {"metadata", "annotations", v1alpha1.AnnotationCreated}, {"spec", "clusterIP"}, {"spec", "clusterIPs"},
	} {
		unstructured.RemoveNestedField(object, path...)
	}
	metadata, _ := object["metadata"].(map[string]any)
	if annotations, _ := metadata["annotations"].(map[string]any); annotations[v1alpha1.AnnotationPlacement] == strconv.FormatInt(placement, 10) {
		annotations[v1alpha1.AnnotationPlacement] = "that of the entry"
	}
	if owners, _ := metadata["ownerReferences"].([]any); len(owners) == 1 {
		owner, _ := owners[0].(map[string]any)
		delete(owner, "uid")
	}
	if !generations {
		unstructured.RemoveNestedField(object, "metadata", "annotations", v1alpha1.AnnotationGeneration)
		unstructured.RemoveNestedField(object, "metadata", "annotations", v1alpha1.AnnotationSpecHash)
		unstructured.RemoveNestedField(object, "metadata", "annotations", v1alpha1.AnnotationRevision)
		unstructured.RemoveNestedField(object, "metadata", "annotations", "deployment.kubernetes.io/revision")
	}
	return object
}

// checkSettled returns an error unless the AppService is Ready on its clusters and has no other
// entries, or is gone with all its objects.
func (f *fleet) checkSettled(ctx context.Context, app *v1alpha1.AppService) error {
	current, err := f.ReadApp(ctx, app)
	if apierrors.IsNotFound(err) {
		return f.checkGone(ctx, app)
	} else if err != nil {
		return err
	}
	if !current.DeletionTimestamp.IsZero() {
		return errors.New("the AppService is being deleted")
	}
	if err := checkResult(current); err != nil {
		return err
	}
	if err := errors.Join(f.checkPlace(ctx, current), f.checkConfiguration(ctx, current)); err != nil {
		return err
	}
	want := clustersOf(&current.Spec)
	if len(current.Status.Clusters) != len(want) {
		return fmt.Errorf("want the clusters %v, the status is %+v", want, current.Status)
	}
	for _, name := range want {
		// It is available when it has been Ready for a second.
		if c := current.Status.Cluster(name); c == nil || c.Phase != v1alpha1.ClusterReady || c.UnavailableSince != nil {
			return fmt.Errorf("the entry of %s is %+v", name, c)
		}
	}
	return nil
}

// checkResult returns an error unless the AppService is Ready, or its image was rolled back.
func checkResult(app *v1alpha1.AppService) error {
	if app.Spec.Image != missingImage {
		return framework.IsReady(app)
	}
	rolledOut := meta.FindStatusCondition(app.Status.Conditions, v1alpha1.ConditionRolledOut)
	if rolledOut == nil || rolledOut.Reason != v1alpha1.ReasonRolledBack {
		return fmt.Errorf("RolledOut is %+v", rolledOut)
	}
	return framework.IsObserved(app)
}

// checkPlace returns an error unless the entries of an AppService are where their number requires,
// and there are no other slices.
func (f *fleet) checkPlace(ctx context.Context, app *v1alpha1.AppService) error {
	inSlices, count := app.Status.ClustersIn == v1alpha1.ClustersInSlices, len(app.Status.Clusters)
	if appslice.BelongInSlices(count, sliceThreshold(), inSlices) != inSlices {
		return fmt.Errorf("%d entries, and clustersIn is %q", count, app.Status.ClustersIn)
	}
	stored, err := f.countSlices(ctx, app)
	if want := map[bool]int{true: v1alpha1.SliceCount, false: 0}[inSlices]; err == nil && stored != want {
		err = fmt.Errorf("clustersIn is %q, and there are %d slices", app.Status.ClustersIn, stored)
	}
	return err
}

// checkConfiguration returns an error unless the content of the ConfigMap is that of the snapshot.
func (f *fleet) checkConfiguration(ctx context.Context, app *v1alpha1.AppService) error {
	if len(app.Spec.Configuration) == 0 {
		return nil
	}
	name, config := app.Spec.Configuration[0].From, &corev1.ConfigMap{}
	if name == "" {
		name = app.Spec.Configuration[0].Name
	}
	if err := f.Hub.Client.Get(ctx, client.ObjectKey{Namespace: app.Namespace, Name: name}, config); err != nil {
		return err
	}
	want := string(config.UID) + "/" + config.ResourceVersion
	if len(app.Status.Configuration) != 1 || app.Status.Configuration[0].ObservedVersion != want {
		return fmt.Errorf("the version of the ConfigMap is %s, and the status has %+v", want, app.Status.Configuration)
	}
	return nil
}

func (f *fleet) countSlices(ctx context.Context, app *v1alpha1.AppService) (int, error) {
	var stored v1alpha1.AppServiceSliceList
	err := f.Hub.Client.List(ctx, &stored, client.InNamespace(app.Namespace))
	return len(stored.Items), err
}

// checkGone returns an error if the hub has a slice of an AppService that is gone, or a member has
// an object of it.
func (f *fleet) checkGone(ctx context.Context, app *v1alpha1.AppService) error {
	if left, err := f.countSlices(ctx, app); err != nil {
		return err
	} else if left > 0 {
		return fmt.Errorf("the AppService is gone, but it has %d slices", left)
	}
	for _, name := range members {
		for resource := range ledger.Kinds {
			if ledger.ReadObject(f.Members[name].Client, ledger.Request{Resource: resource, Namespace: app.Namespace, Name: app.Name}).Present {
				return fmt.Errorf("the AppService is gone, but %s has its %s", name, resource)
			}
		}
	}
	return nil
}
