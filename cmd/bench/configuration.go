package main

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// configured are AppServices with a ConfigMap of the hub, which travels with them, in a turn of the
// operator.
type configured struct {
	*operatorTurn
	appServices []app
}

// withConfiguration measures the scenarios of AppServices with a ConfigMap.
func (t *operatorTurn) withConfiguration(ctx context.Context) error {
	for _, step := range []struct {
		scenario, prefix string
		shared           bool // one ConfigMap for all
		measure          func(*configured, context.Context) error
	}{
		{"B12", "b12", false, (*configured).createAll},
		{"B13", "b13", true, (*configured).changeShared},
		{"B14", "b14", false, (*configured).atRestAndRestart},
	} {
		if !t.has(step.scenario) {
			continue
		}
		apps := batch(step.prefix, t.apps)
		for i := range apps {
			apps[i].Settings = apps[i].Name
			if step.shared {
				apps[i].Settings = sharedSettings
			}
		}
		c := &configured{operatorTurn: t, appServices: apps}
		if err := c.createSettings(ctx); err != nil {
			return err
		}
		if err := step.measure(c, ctx); err != nil {
			return err
		}
		if err := c.deleteWithSettings(ctx); err != nil {
			return err
		}
	}
	return nil
}

// sharedSettings is the name of the ConfigMap that all AppServices share.
const sharedSettings = "shared"

// withSettings is what B14 adds to the names of B5 and B6.
const withSettings = "with configuration"

// createAll is B12: all AppServices at once, each with a ConfigMap of its own.
func (c *configured) createAll(ctx context.Context) error {
	created := c.observer.expect(2*len(c.servers.members)*len(c.appServices), isObject(c.appServices))
	return c.burst(ctx, "B12", created, func() error { return c.writer.apply(ctx, c.appServices) })
}

// changeShared is B13: a change of the ConfigMap that all AppServices share, to the last Deployment
// that refers to its new content.
func (c *configured) changeShared(ctx context.Context) error {
	objects := len(c.servers.members) * len(c.appServices)
	if err := c.deliver(ctx); err != nil {
		return err
	}
	if err := c.observer.awaitQuiet(ctx, settleTime); err != nil {
		return err
	}
	changed := c.observer.expect(objects, hasRevision(c.appServices, "2"))
	return c.burst(ctx, "B13", changed, func() error { return c.servers.hub.api.Update(ctx, newSettings(sharedSettings, "2")) })
}

// atRestAndRestart is B14: B6 and B5 while each AppService has a ConfigMap of its own.
func (c *configured) atRestAndRestart(ctx context.Context) error {
	if err := c.deliver(ctx); err != nil {
		return err
	}
	if err := c.awaitReady(ctx, c.appServices); err != nil {
		return err
	}
	if err := c.atRest(ctx, withSettings); err != nil {
		return err
	}
	return c.restart(ctx, c.appServices, withSettings)
}

// deliver creates AppServices, and waits until all members have them.
func (c *configured) deliver(ctx context.Context) error {
	if err := c.writer.apply(ctx, c.appServices); err != nil {
		return err
	}
	return c.observer.awaitState(ctx, len(c.servers.members)*len(c.appServices), hasRevision(c.appServices, "1"), "the first revision on all members")
}

// createSettings creates the ConfigMaps of AppServices, before anything is measured.
func (c *configured) createSettings(ctx context.Context) error {
	for name := range settingsOf(c.appServices) {
		if err := c.servers.hub.api.Create(ctx, newSettings(name, "1")); err != nil {
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

// deleteWithSettings deletes AppServices and then their ConfigMaps. It deletes revisions, snapshots
// and copies too, because no garbage collector runs: they would change the revisions and block the
// snapshots of the next AppServices of these names.
func (c *configured) deleteWithSettings(ctx context.Context) error {
	if err := c.delete(ctx, c.appServices); err != nil {
		return err
	}
	if err := c.servers.hub.api.DeleteAllOf(ctx, &appsv1.ControllerRevision{}, client.InNamespace(namespace)); err != nil {
		return err
	}
	for _, server := range c.servers.all() {
		if err := server.api.DeleteAllOf(ctx, newSettings("", ""), client.InNamespace(namespace)); err != nil {
			return err
		}
	}
	return nil
}
