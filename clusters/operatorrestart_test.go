package clusters_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/wait"
)

func TestOperator_that_restarts_writes_nothing(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	const fleet = "fleet-restart"
	o := env.newOperator(t, fleet)
	healthy, refused, unreachable := env.newMember(t, o, "restart-healthy"), env.newMember(t, o, "restart-refused"), env.newMember(t, o, "restart-unreachable")
	refused.createSecret(t, refused.kubeconfig(t, func(_ *api.Cluster, user *api.AuthInfo) { user.TokenFile = "/canary" }))
	unreachable.link.setMode(t, modeRefuse)
	unreachable.createSecret(t, unreachable.kubeconfig(t))
	refused.waitForConditions(t, "Ready False NoConnection, CredentialsValid False FileRefused")
	unreachable.waitForConditions(t, "Ready Unknown Unreachable, CredentialsValid Unknown NotVerified")
	healthy.join(t)
	// The events are Connected, Accepted; NoConnection, FileRefused; Unreachable. They are written
	// a moment after the conditions.
	const events = 5
	wait.Eventually(t, func() error {
		written := slices.DeleteFunc(slices.Clone(env.hub.writeRequests(o)), func(what string) bool { return !strings.Contains(what, "/events") })
		if len(written) != events {
			return fmt.Errorf("%d events were written, want %d", len(written), events)
		}
		return nil
	})
	healthy.waitForAllocatable(t)
	if err := o.stop(); err != nil {
		t.Fatal(err)
	}
	status := map[string]v1alpha1.MemberClusterStatus{}
	for _, m := range []*testMember{healthy, unreachable} {
		status[m.name] = m.memberCluster(t).Status
	}
	found := make(chan string, 100)
	next, err := env.startOperator(fleet, func(o *setup) { o.OnUnreachable = func(name string) { found <- name } })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = next.stop() })
	healthy.operator = next
	healthy.waitForEngagement(t, 1)
	// No event marks the absence of writes, so the test waits until the operator has made three
	// attempts to reach the unreachable member.
	wait.Receive(t, found, "the third attempt")
	if writes := env.hub.writeRequests(next); len(writes) > 0 {
		t.Errorf("the operator wrote after the restart: %v", writes)
		for _, m := range []*testMember{healthy, unreachable} {
			t.Errorf("%s: %s", m.name, cmp.Diff(status[m.name], m.memberCluster(t).Status))
		}
	}
}

// An operator that has lost the leadership must not deliver next to its successor.
func TestEnd_of_the_manager_ends_all_engagements(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	o := env.newOperator(t, "fleet-resigns")
	m := env.newMember(t, o, "resigns")
	e := m.join(t)
	o.resign()
	m.waitForEnd(t, e)
	wait.Receive(t, o.ended, "the end of the manager")
}
