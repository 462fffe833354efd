package main

import (
	"context"
	"errors"

	"github.com/fleetwright/fleetwright/cmd/bench/karmada"
)

// measureKarmada measures a turn of Karmada with flags. The fleet of the turn has Karmada's hub.
func (t *turn) measureKarmada(ctx context.Context, p *peer, flags karmada.Flags) error {
	k := &karmadaWriter{peer: p, flags: flags}
	t.writer = k
	if err := errors.Join(k.serve(), k.start()); err != nil {
		return err
	}
	if err := t.measureStarted(ctx, k); err != nil {
		return k.explain(err)
	}
	return errors.Join(k.kill(), kill(k.serving)) // its API server would wait for the ends of watches
}

// measureStarted measures Karmada whose processes have started.
func (t *turn) measureStarted(ctx context.Context, k *karmadaWriter) error {
	if err := k.installation.AwaitHealthy(ctx, k.hub.api); err != nil {
		return err
	}
	if err := k.joinMembers(ctx, t.servers); err != nil {
		return err
	}
	if err := karmada.AwaitJoined(ctx, k.hub.api); err != nil {
		return err
	}
	if err := t.warmUp(ctx); err != nil {
		return err
	}
	if err := t.beforeAll(ctx); err != nil {
		return err
	}
	if !t.has("B2", "B3", "B4", "B5", "B6", "B9") {
		return nil
	}
	return (&reportingTurn{t, k}).many(ctx)
}
