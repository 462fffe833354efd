package main

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters"
	"github.com/fleetwright/fleetwright/internal/leasefence"
)

// Times of the leader election. The fence closes renewDeadline after the last renewal, and a
// standby takes over leaseDuration after it: a write that passed the fence has the difference to
// arrive. The leader renews every retryPeriod, and a standby checks every 1 to 2.2 retryPeriods
// (client-go's jitter). So a standby takes over 14 to 19.4 seconds after the leader died: in the
// worst case it checks just before the last renewal, and again just before the Lease expires. One
// write per second costs the hub as much as ten kubelets do.
//
// The log and the metric leader_election_master_status say which replica leads. There is no event,
// because the right to write core Events would be needed for it alone.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = time.Second
)

// newFencedConfigs puts a fence before everything that this replica can change, on the hub and on
// members, so that it writes only while it holds the Lease. It returns the configuration for the
// hub and sets the lock of the election and the wrapper of members. Without leader election there
// is no fence.
func (o *options) newFencedConfigs(hub *rest.Config, hubOptions *manager.Options, members *clusters.Options) (*rest.Config, error) {
	if !o.leaderElect {
		return hub, nil
	}
	fence := leasefence.New(renewDeadline)
	lock, err := fence.NewLock(hub, hubOptions.LeaderElectionNamespace, hubOptions.LeaderElectionID, leaseLabels(version))
	if err != nil {
		return nil, fmt.Errorf("create the lock of the leader election: %w", err)
	}
	hubOptions.LeaderElectionResourceLockInterface = lock
	// The first wrapper is the innermost: of these, a request passes the fence last.
	members.Wrap = transport.Wrappers(fence.Wrap, members.Wrap)
	fenced := rest.CopyConfig(hub)
	fenced.WrapTransport = transport.Wrappers(fence.Wrap, hub.WrapTransport)
	return fenced, nil
}

// leaseLabels returns the labels of the Lease: kubectl appsvc reads the version of the operator there.
// Everybody who sees AppServices may read the Lease.
func leaseLabels(version string) map[string]string {
	if len(validation.IsValidLabelValue(version)) > 0 {
		version = "unknown" // the hub would refuse the Lease
	}
	return map[string]string{v1alpha1.LabelVersion: version}
}
