package main

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// withConfiguration is B12, all AppServices at once with a ConfigMap of their own, and B13, a change of
// one ConfigMap that all AppServices share: to the last Deployment that refers to its new content.
func (r *run) withConfiguration(ctx context.Context, o *operator) error {
	if r.has("B12") {
		apps := batch("b12", r.apps)
		for i := range apps {
			apps[i].Settings = apps[i].Name
		}
		if err := r.createSettings(ctx, apps); err != nil {
			return err
		}
		created := r.observer.expect(2*len(r.servers.members)*len(apps), isObject(apps))
		if err := r.burst(ctx, o, "B12", created, func() error { return o.apply(ctx, apps) }); err != nil {
			return err
		}
		if err := r.deleteConfigured(ctx, o, apps); err != nil {
			return err
		}
	}
	if !r.has("B13") {
		return nil
	}
	apps := batch("b13", r.apps)
	for i := range apps {
		apps[i].Settings = "shared"
	}
	if err := r.createSettings(ctx, apps[:1]); err != nil {
		return err
	}
	if err := o.apply(ctx, apps); err != nil {
		return err
	}
	objects := len(r.servers.members) * len(apps)
	if err := r.awaitState(ctx, objects, hasRevision(apps, "1"), "the first revision on all members"); err != nil {
		return err
	}
	if err := r.observer.awaitQuiet(ctx, settleTime); err != nil {
		return err
	}
	changed := r.observer.expect(objects, hasRevision(apps, "2"))
	if err := r.burst(ctx, o, "B13", changed, func() error { return r.servers.hub.api.Update(ctx, newSettings("shared", "2")) }); err != nil {
		return err
	}
	return r.deleteConfigured(ctx, o, apps)
}

// createSettings creates the ConfigMap of each AppService, before anything is measured.
func (r *run) createSettings(ctx context.Context, apps []app) error {
	for _, a := range apps {
		if err := r.servers.hub.api.Create(ctx, newSettings(a.Settings, "1")); err != nil {
			return err
		}
	}
	return nil
}

// deleteConfigured deletes AppServices, and then their ConfigMaps.
func (r *run) deleteConfigured(ctx context.Context, o *operator, apps []app) error {
	if _, err := r.delete(ctx, o, apps); err != nil {
		return err
	}
	for _, a := range apps {
		if err := r.servers.hub.api.Delete(ctx, newSettings(a.Settings, "1")); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}
