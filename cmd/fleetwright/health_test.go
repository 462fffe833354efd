package main

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/internal/wait"
)

// The cache of a stopped informer can still be read, so only this check detects that it has
// stopped.
func TestLiveness_fails_after_an_informer_has_stopped(t *testing.T) {
	h := sharedHub(t)
	hub, err := cache.New(h.environment.Config, cache.Options{})
	if err != nil {
		t.Fatal(err)
	}
	check, err := informersRunning(t.Context(), hub, []client.Object{&corev1.Namespace{}, &corev1.Secret{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := check(nil); err != nil {
		t.Errorf("before the cache is started: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- hub.Start(ctx) }()
	if !hub.WaitForCacheSync(ctx) {
		t.Fatal("the cache is not synced")
	}
	if err := check(nil); err != nil {
		t.Errorf("while it runs: %v", err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	wait.Eventually(t, func() error {
		if err := check(nil); err == nil || err.Error() != "the informer of *v1.Namespace has stopped" {
			return errors.Join(errors.New("the check does not fail"), err)
		}
		return nil
	})
}
