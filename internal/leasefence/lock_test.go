package leasefence

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/fleetwright/fleetwright/internal/servertest"
)

func TestLock_opens_and_closes_the_fence(t *testing.T) {
	hub := servertest.New()
	servertest.Start(t, hub)
	locks := map[string]resourcelock.Interface{}
	fences := map[string]*Fence{"first": New(testRenewDeadline), "second": New(testRenewDeadline)}
	for name, f := range fences {
		var err error
		if locks[name], err = f.NewLock(hub.Config, metav1.NamespaceDefault, "fence", nil); err != nil {
			t.Fatal(err)
		}
	}
	first, second := locks["first"], locks["second"]
	heldBy := func(identity string) resourcelock.LeaderElectionRecord {
		return resourcelock.LeaderElectionRecord{HolderIdentity: identity, LeaseDurationSeconds: 15, AcquireTime: metav1.Now(), RenewTime: metav1.Now()}
	}
	get := func(l resourcelock.Interface) error { _, _, err := l.Get(t.Context()); return err }
	create := func(l resourcelock.Interface) error { return l.Create(t.Context(), heldBy(l.Identity())) }
	acquire := func(l resourcelock.Interface) error { return l.Update(t.Context(), heldBy(l.Identity())) }
	release := func(l resourcelock.Interface) error { return l.Update(t.Context(), heldBy("")) }
	checkHolder := func(l resourcelock.Interface) error {
		record, _, err := l.Get(t.Context())
		if err == nil && record.HolderIdentity != l.Identity() {
			err = fmt.Errorf("held by %q", record.HolderIdentity)
		}
		return err
	}
	for _, step := range []struct {
		name  string
		do    func() error
		fails bool
		open  string // whose fence is open
	}{
		{name: "the first replica finds no Lease", do: func() error { return get(first) }, fails: true},
		{name: "the first creates the Lease", do: func() error { return create(first) }, open: "first"},
		{name: "the second cannot create it", do: func() error { return create(second) }, fails: true, open: "first"},
		{name: "the second reads it", do: func() error { return get(second) }, open: "first"},
		{name: "the first renews it", do: func() error { return acquire(first) }, open: "first"},
		{name: "the second acquires an outdated version", do: func() error { return acquire(second) }, fails: true, open: "first"},
		{name: "the first releases it", do: func() error { return release(first) }},
		{name: "the second reads the release", do: func() error { return get(second) }},
		{name: "the second acquires it", do: func() error { return acquire(second) }, open: "second"},
		{name: "the first cannot renew it", do: func() error { return acquire(first) }, fails: true, open: "second"},
		{
			name: "the first wakes with a recent renewal and reads the new holder",
			do:   func() error { fences["first"].open(time.Now()); return get(first) }, open: "second",
		},
		{
			name: "the second misses the renew deadline and cannot release it",
			do:   func() error { fences["second"].open(time.Now().Add(-testRenewDeadline)); return release(second) }, fails: true,
		},
		{name: "the second still holds it", do: func() error { return checkHolder(second) }},
	} {
		if err := step.do(); (err != nil) != step.fails {
			t.Fatalf("%s: %v", step.name, err)
		}
		for name, f := range fences {
			if err := f.check(); (err == nil) != (name == step.open) {
				t.Errorf("%s: the fence of the %s replica returns %v", step.name, name, err)
			}
		}
	}
}
