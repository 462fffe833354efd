package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/cmd/bench/karmada"
	"github.com/fleetwright/fleetwright/internal/machine"
)

// karmadaWriter is Karmada as processes. An AppService is a Deployment and a Service on its hub, with
// a PropagationPolicy that selects both.
type karmadaWriter struct {
	*peer
	flags karmada.Flags
	// serving are the aggregated API server and the webhook, and controllers are the rest.
	serving, controllers []*machine.Process
}

// serve starts the processes that serve a part of the hub's API, and does not wait.
func (k *karmadaWriter) serve() (err error) {
	k.serving, err = k.installation.Serve(k.flags)
	return err
}

// start starts the controllers and does not wait.
func (k *karmadaWriter) start() (err error) {
	k.controllers, err = k.installation.Start(k.flags)
	return err
}

// kill kills the controllers.
func (k *karmadaWriter) kill() error { return kill(k.controllers) }

func kill(processes []*machine.Process) error {
	var errs []error
	for _, p := range processes {
		errs = append(errs, p.Kill())
	}
	return errors.Join(errs...)
}

// running returns the processes of Karmada itself. The garbage collector is a part of every hub.
func (k *karmadaWriter) running() []*machine.Process {
	return slices.DeleteFunc(slices.Concat(k.serving, k.controllers), func(p *machine.Process) bool { return p.Name == karmada.GarbageCollectorName })
}

// finishDeletions waits until nothing is left of what was deleted.
func (k *karmadaWriter) finishDeletions(ctx context.Context) error {
	return karmada.AwaitNothingLeft(ctx, k.hub.api)
}

// explain adds the ends of the logs to an error.
func (k *karmadaWriter) explain(err error) error {
	if err == nil {
		return nil
	}
	for _, p := range slices.Concat(k.serving, k.controllers) {
		err = fmt.Errorf("%w; the log of %s ends:\n%s", err, p.Name, tailOf(p.Log))
	}
	return err
}

// apply creates the objects of AppServices on the hub: the policy first, so that Karmada need not
// wait for it when it sees the others.
func (k *karmadaWriter) apply(ctx context.Context, apps []app) error {
	return each(ctx, apps, func(a app) error {
		templates, err := a.templates()
		if err != nil {
			return err
		}
		for _, object := range append([]*unstructured.Unstructured{a.policy()}, templates...) {
			if err := k.hub.api.Create(ctx, object); err != nil {
				return fmt.Errorf("create %s %s: %w", object.GetKind(), a.Name, err)
			}
		}
		return nil
	})
}

// edit changes the image of the Deployments.
func (k *karmadaWriter) edit(ctx context.Context, apps []app) error {
	return each(ctx, apps, func(a app) error {
		patch := fmt.Appendf(nil, `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":%q}]`, a.Image)
		return k.hub.api.Patch(ctx, a.onHub("apps/v1", "Deployment"), client.RawPatch(types.JSONPatchType, patch))
	})
}

// remove deletes the objects of AppServices from the hub, the policy last.
func (k *karmadaWriter) remove(ctx context.Context, apps []app) error {
	return each(ctx, apps, func(a app) error {
		for _, object := range []*unstructured.Unstructured{a.onHub("apps/v1", "Deployment"), a.onHub("v1", "Service"), a.policy()} {
			if err := k.hub.api.Delete(ctx, object); err != nil {
				return fmt.Errorf("delete %s %s: %w", object.GetKind(), a.Name, err)
			}
		}
		return nil
	})
}

// reported returns what the Deployment on the hub reports: Karmada writes the sums of the members into
// its status.
func (k *karmadaWriter) reported(object client.Object) (report, bool) {
	template, ok := object.(*unstructured.Unstructured)
	if !ok || template.GetKind() != "Deployment" {
		return report{}, false
	}
	number := func(field string) int {
		n, _, _ := unstructured.NestedInt64(template.Object, "status", field)
		return int(n)
	}
	containers, _, _ := unstructured.NestedSlice(template.Object, "spec", "template", "spec", "containers")
	var of string
	if len(containers) > 0 {
		if first, ok := containers[0].(map[string]any); ok {
			of, _ = first["image"].(string)
		}
	}
	return report{
		image: of, isCurrent: int64(number("observedGeneration")) == template.GetGeneration(),
		readyMembers: min(number("readyReplicas"), number("updatedReplicas")) / replicas, readyReplicas: number("readyReplicas"),
	}, true
}

// templates returns the Deployment and the Service for the hub: those that the operator applies to a
// member, without its annotations.
func (a app) templates() ([]*unstructured.Unstructured, error) {
	objects, err := a.render()
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		object.SetAnnotations(nil)
	}
	return objects, nil
}

// onHub returns an object of Karmada's hub by its kind, with the name of the AppService.
func (a app) onHub(version, kind string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(version)
	object.SetKind(kind)
	object.SetNamespace(namespace)
	object.SetName(a.Name)
	return object
}

// policy returns the PropagationPolicy: the Deployment and the Service on all members, with all
// replicas on each.
func (a app) policy() *unstructured.Unstructured {
	policy := a.onHub("policy.karmada.io/v1alpha1", "PropagationPolicy")
	policy.Object["spec"] = map[string]any{
		"resourceSelectors": []any{
			map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": a.Name},
			map[string]any{"apiVersion": "v1", "kind": "Service", "name": a.Name},
		},
		"placement": map[string]any{
			"clusterAffinity":   map[string]any{},
			"replicaScheduling": map[string]any{"replicaSchedulingType": "Duplicated"},
		},
	}
	return policy
}
