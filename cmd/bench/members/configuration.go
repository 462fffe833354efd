package main

import (
	"context"
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// settingsSize is the size of a ConfigMap.
const settingsSize = 4 << 10

// configure makes the pods of each AppService read a ConfigMap of its own, which travels, and creates
// the ConfigMaps on the hub.
func (d *delivery) configure(ctx context.Context, all []*v1alpha1.AppService) error {
	for _, app := range all {
		reference := corev1.LocalObjectReference{Name: app.Name}
		app.Spec.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: reference}}}
		app.Spec.Configuration = []v1alpha1.ConfigurationSource{{Kind: v1alpha1.ConfigurationConfigMap, Name: app.Name}}
	}
	return d.forEach(ctx, all, func(app *v1alpha1.AppService) error { return d.hub.api.Create(ctx, newSettings(app, "1")) })
}

// lateWrites is how long status writes follow a change: the operator writes at most one a second.
const lateWrites = 5 * time.Second

// changeSettings changes the ConfigMaps of all AppServices, and waits until all members have them and
// the hub knows it.
func (d *delivery) changeSettings(ctx context.Context, all []*v1alpha1.AppService) error {
	if err := d.forEach(ctx, all, func(app *v1alpha1.AppService) error { return d.hub.api.Update(ctx, newSettings(app, "2")) }); err != nil {
		return err
	}
	if err := d.awaitMembers(ctx, d.members, d.settings.objects(), len(all), func(o stored) bool { return o.revision == "2" }); err != nil {
		return err
	}
	return pause(ctx, lateWrites)
}

// newSettings returns the ConfigMap of an AppService with another content for each version.
func newSettings(app *v1alpha1.AppService, version string) *corev1.ConfigMap {
	object := &corev1.ConfigMap{Data: map[string]string{"version": version, "filler": strings.Repeat("x", settingsSize)}}
	object.Namespace, object.Name = app.Namespace, app.Name
	object.Labels = map[string]string{v1alpha1.LabelPropagate: "true"}
	return object
}

// forEach calls a function for each AppService, some at the same time.
func (d *delivery) forEach(ctx context.Context, all []*v1alpha1.AppService, do func(*v1alpha1.AppService) error) error {
	errs := make([]error, len(all))
	workqueue.ParallelizeUntil(ctx, atOnce, len(all), func(i int) { errs[i] = do(all[i]) })
	return errors.Join(errs...)
}
