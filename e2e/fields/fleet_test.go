package fields

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	runtimeschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/internal/environment"
)

// memberName is the name of the only member, and a value in tables.yaml.
const memberName = "member"

// The test waits so long for each AppService, and so long between two looks at all of them.
const (
	patience = time.Second
	pause    = 2 * time.Millisecond
)

// fleet is a hub with one member.
type fleet struct {
	*framework.Fleet

	member *framework.Cluster
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	created, err := framework.New(t.Context(), env, memberName)
	if err == nil {
		err = environment.PrepareHub(t.Context(), created.Hub.Client, filepath.Join(config, "crd", "bases"))
	}
	if err == nil {
		err = created.StartOperator(t.Context(), 1, "--leader-elect=false", environment.Propagate)
	}
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{created, created.Members[memberName]}
	f.Join(t, memberName, map[string]string{"a": "a"}) // a value in tables.yaml
	for _, cluster := range f.All() {
		cluster.CreateNamespace(t, namespace, map[string]string{"pod-security.kubernetes.io/enforce": "privileged"})
	}
	for _, name := range []string{"a", "b"} { // what can travel
		settings, secret := &corev1.ConfigMap{Data: map[string]string{"a": name}}, &corev1.Secret{StringData: map[string]string{"a": name}}
		for _, source := range []client.Object{settings, secret} {
			source.SetNamespace(namespace)
			source.SetName(name)
			source.SetLabels(map[string]string{v1alpha1.LabelPropagate: "true"})
			if err := f.Hub.Client.Create(t.Context(), source); err != nil {
				t.Fatal(err)
			}
		}
	}
	f.Eventually(t, "the member to be Ready", func(ctx context.Context) error { return f.CheckMembersReady(ctx, memberName) })
	return f
}

// state is what the member has of each AppService, and why it does not have the spec, by name.
type state struct {
	objects     map[string]object
	undelivered map[string]error
}

// apply creates or edits AppServices, so that they have these specs, and waits until the member has them.
func (f *fleet) apply(t *testing.T, specs map[string]object) state {
	t.Helper()
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(8)
	for name, spec := range specs {
		group.Go(func() error {
			patch := asJSON([]object{{"op": "replace", "path": "/spec", "value": spec}})
			app := appService(name, spec)
			err := f.Hub.Client.Patch(ctx, app, client.RawPatch(types.JSONPatchType, []byte(patch)))
			if client.IgnoreNotFound(err) == nil && err != nil {
				err = f.Hub.Client.Create(ctx, app)
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	undelivered := map[string]error{}
	count := time.Duration(len(specs))
	err := environment.Await(t.Context(), time.Minute+count*patience, "all AppServices", func(ctx context.Context) error {
		time.Sleep(count * pause)
		apps := &v1alpha1.AppServiceList{}
		if err := f.Hub.Client.List(ctx, apps, client.InNamespace(namespace)); err != nil {
			return err
		}
		clear(undelivered)
		for i := range apps.Items {
			if err := isDelivered(&apps.Items[i]); err != nil && specs[apps.Items[i].Name] != nil {
				undelivered[apps.Items[i].Name] = err
			}
		}
		return errors.Join(slices.Collect(maps.Values(undelivered))...)
	})
	if err != nil && len(undelivered) == 0 {
		t.Fatal(err)
	}
	objects, err := f.onMember(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return state{objects, undelivered}
}

// corrections returns the drift that was corrected, by the name of the AppService. Nobody else changes
// anything on the member, so there must be none.
func (f *fleet) corrections(t *testing.T) map[string]error {
	t.Helper()
	events := &eventsv1.EventList{}
	if err := f.Hub.Client.List(t.Context(), events, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	corrections := map[string]error{}
	for _, event := range events.Items {
		if event.Reason == v1alpha1.ReasonDriftCorrected {
			corrections[event.Regarding.Name] = errors.New("what was delivered is corrected: " + event.Note)
		}
	}
	return corrections
}

// isDelivered returns an error unless the member has the present spec, or the spec says that it must not
// have it now.
func isDelivered(app *v1alpha1.AppService) error {
	if err := framework.IsObserved(app); err != nil || len(app.Status.Clusters) == 0 { // the placement chooses no cluster
		return err
	}
	for i := range app.Status.Clusters {
		if entry := &app.Status.Clusters[i]; entry.ObservedGeneration == app.Generation && entry.Phase != v1alpha1.ClusterRemoving {
			return nil
		}
	}
	ready := meta.FindStatusCondition(app.Status.Conditions, v1alpha1.ConditionReady)
	switch ready.Reason {
	case v1alpha1.ReasonSuspended, v1alpha1.ReasonRolloutPaused, v1alpha1.ReasonAwaitingApproval:
		return nil
	}
	return fmt.Errorf("%s: %s", ready.Reason, ready.Message)
}

// kinds are what a member has of an AppService.
var kinds = []runtimeschema.GroupVersionKind{
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	{Version: "v1", Kind: "Service"},
	{Group: "autoscaling", Version: "v2", Kind: "HorizontalPodAutoscaler"},
	{Group: "policy", Version: "v1", Kind: "PodDisruptionBudget"},
}

// onMember returns what the member has of each AppService, by its name and then by kind.
func (f *fleet) onMember(ctx context.Context) (map[string]object, error) {
	all := map[string]object{}
	for _, kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := f.member.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return nil, err
		}
		for i := range list.Items {
			name := list.Items[i].GetName()
			if all[name] == nil {
				all[name] = object{}
			}
			all[name][kind.Kind] = comparison(&list.Items[i])
		}
	}
	for _, objects := range all {
		if deployment, found := objects["Deployment"].(object); found && objects["HorizontalPodAutoscaler"] != nil {
			delete(deployment["spec"].(object), "replicas") // they are of the autoscaler
		}
	}
	return all, nil
}

// stamps are the annotations that say for which AppService and for which of its specs an object was
// applied. applied-hash covers the name and the UID of the AppService.
var stamps = []string{
	v1alpha1.AnnotationUID, v1alpha1.AnnotationCreated, v1alpha1.AnnotationGeneration, v1alpha1.AnnotationSpecHash,
	v1alpha1.AnnotationRevision, v1alpha1.AnnotationPlacement, v1alpha1.AnnotationHash,
	"deployment.kubernetes.io/revision",
}

// digest is the end of the name of a copy. It has a key of the AppService.
var digest = regexp.MustCompile(`NAME-([ab])-[a-z0-9]{10}`)

// comparison returns the part of an object that must be the same for two AppServices with the same spec.
func comparison(o *unstructured.Unstructured) object {
	annotations := o.GetAnnotations()
	for _, stamp := range stamps {
		delete(annotations, stamp)
	}
	// The order of the copies is that in which they were needed. Without copies, an empty list may stay.
	if copies := strings.Split(annotations[v1alpha1.AnnotationCopies], ","); copies[0] != "" {
		annotations[v1alpha1.AnnotationCopies] = strings.Join(slices.Sorted(slices.Values(copies)), ",")
	} else {
		delete(annotations, v1alpha1.AnnotationCopies)
	}
	all := object{"labels": o.GetLabels(), "annotations": annotations, "spec": o.Object["spec"]}
	text := strings.NewReplacer(o.GetName(), "NAME", string(o.GetUID()), "UID").Replace(asJSON(all))
	text = digest.ReplaceAllString(text, "NAME-$1-DIGEST")
	var compared object
	if err := json.Unmarshal([]byte(text), &compared); err != nil {
		panic(err) // neither has characters that JSON escapes
	}
	if o.GetKind() == "Service" { // the API server chooses these
		spec := compared["spec"].(object)
		delete(spec, "clusterIP")
		delete(spec, "clusterIPs")
		for _, port := range spec["ports"].([]any) {
			if port := port.(object); port["nodePort"] != nil {
				port["nodePort"] = "a port"
			}
		}
	}
	return compared
}
