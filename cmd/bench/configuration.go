package main

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// withConfiguration measures AppServices with a ConfigMap of the hub, which travels with them.
func (r *run) withConfiguration(ctx context.Context, o *operator) error {
	for _, step := range []struct {
		scenario, prefix string
		shared           bool // one ConfigMap for all
		measure          func(context.Context, *operator, []app) error
	}{
		{"B12", "b12", false, r.createConfigured},
		{"B13", "b13", true, r.changeShared},
		{"B14", "b14", false, r.restConfigured},
	} {
		if !r.has(step.scenario) {
			continue
		}
		apps := batch(step.prefix, r.apps)
		for i := range apps {
			apps[i].Settings = apps[i].Name
			if step.shared {
				apps[i].Settings = sharedSettings
			}
		}
		if err := r.createSettings(ctx, apps); err != nil {
			return err
		}
		if err := step.measure(ctx, o, apps); err != nil {
			return err
		}
		if err := r.deleteConfigured(ctx, o, apps); err != nil {
			return err
		}
	}
	return nil
}

// sharedSettings is the name of the ConfigMap that all AppServices share.
const sharedSettings = "shared"

// withSettings is what B14 adds to the names of B5 and B6.
const withSettings = "with configuration"

// createConfigured is B12: all AppServices at once, each with a ConfigMap of its own.
func (r *run) createConfigured(ctx context.Context, o *operator, apps []app) error {
	created := r.observer.expect(2*len(r.servers.members)*len(apps), isObject(apps))
	return r.burst(ctx, o, "B12", created, func() error { return o.apply(ctx, apps) })
}

// changeShared is B13: a change of the ConfigMap that all AppServices share, to the last Deployment
// that refers to its new content.
func (r *run) changeShared(ctx context.Context, o *operator, apps []app) error {
	objects := len(r.servers.members) * len(apps)
	if err := r.deliverConfigured(ctx, o, apps); err != nil {
		return err
	}
	if err := r.observer.awaitQuiet(ctx, settleTime); err != nil {
		return err
	}
	changed := r.observer.expect(objects, hasRevision(apps, "2"))
	return r.burst(ctx, o, "B13", changed, func() error { return r.servers.hub.api.Update(ctx, newSettings(sharedSettings, "2")) })
}

// restConfigured is B14: B6 and B5 while each AppService has a ConfigMap of its own.
func (r *run) restConfigured(ctx context.Context, o *operator, apps []app) error {
	if err := r.deliverConfigured(ctx, o, apps); err != nil {
		return err
	}
	if err := r.awaitReady(ctx, apps); err != nil {
		return err
	}
	if err := r.atRest(ctx, o, withSettings); err != nil {
		return err
	}
	return r.restart(ctx, o, apps, withSettings)
}

// deliverConfigured creates AppServices, and waits until all members have them.
func (r *run) deliverConfigured(ctx context.Context, o *operator, apps []app) error {
	if err := o.apply(ctx, apps); err != nil {
		return err
	}
	return r.awaitState(ctx, len(r.servers.members)*len(apps), hasRevision(apps, "1"), "the first revision on all members")
}

// createSettings creates the ConfigMaps of AppServices, before anything is measured.
func (r *run) createSettings(ctx context.Context, apps []app) error {
	for name := range settingsOf(apps) {
		if err := r.servers.hub.api.Create(ctx, newSettings(name, "1")); err != nil {
			return err
		}
	}
	return nil
}

// settingsOf returns the names of the ConfigMaps of AppServices.
func settingsOf(apps []app) map[string]bool {
	names := map[string]bool{}
	for _, a := range apps {
		names[a.Settings] = true
	}
	return names
}

// deleteConfigured deletes AppServices and then their ConfigMaps. It deletes revisions, snapshots and
// copies too, because no garbage collector runs: they would change the revisions and block the snapshots
// of the next AppServices of these names.
func (r *run) deleteConfigured(ctx context.Context, o *operator, apps []app) error {
	if _, err := r.delete(ctx, o, apps); err != nil {
		return err
	}
	if err := r.servers.hub.api.DeleteAllOf(ctx, &appsv1.ControllerRevision{}, client.InNamespace(namespace)); err != nil {
		return err
	}
	for _, server := range r.servers.all() {
		if err := server.api.DeleteAllOf(ctx, newSettings("", ""), client.InNamespace(namespace)); err != nil {
			return err
		}
	}
	return nil
}
