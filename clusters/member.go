package clusters

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/fleetwright/fleetwright/clusters/stall"
)

const (
	// A session that lasted less than stableAfter is short; see sessionBackoff.
	stableAfter = 2 * time.Minute
	// Intervals are up to maxJitter longer, as a share of their length.
	maxJitter = 0.25
)

var (
	// attemptBackoff is the time between two attempts that fail. An attempt costs no more than a
	// probe.
	attemptBackoff = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: maxJitter, Steps: 10, Cap: 30 * time.Second}
	// sessionBackoff is the time between the end of a session and the next attempt. It grows with
	// short sessions, so that a member that flaps causes few events and few status writes.
	sessionBackoff = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: maxJitter, Steps: 10, Cap: 4 * time.Minute}
)

// member supervises one member cluster in one goroutine; supervise.go has its states.
type member struct {
	name     multicluster.ClusterName
	secret   types.NamespacedName
	options  *Options
	provider *Provider
	log      logr.Logger
	cancel   context.CancelFunc
	// shared is what the reconciler wants and sees.
	shared *sharedState

	// Only the member's goroutine uses the following fields.

	// active is the session in use; nil if the member is not connected.
	active *activeSession
	// attempt is the attempt that is running; nil if there is none.
	attempt *attempt
	backoff backoffState
	renewer renewer
}

// newMember returns a member that does not run yet.
func newMember(provider *Provider, name multicluster.ClusterName, secret types.NamespacedName, cancel context.CancelFunc) *member {
	m := &member{
		name:     name,
		secret:   secret,
		options:  &provider.options,
		provider: provider,
		log:      ctrl.Log.WithName("clusters").WithValues("cluster", name),
		cancel:   cancel,
		backoff:  backoffState{attempts: attemptBackoff, sessions: sessionBackoff},
	}
	m.shared = newSharedState(m.log, func() { provider.onSnapshotChange(secret) })
	m.renewer = renewer{member: m}
	return m
}

// backoffState determines when the next attempt may start.
type backoffState struct {
	// lastDesired is the desired state that attemptIfDue read last.
	lastDesired desiredState
	// retryAt is the earliest time of the next attempt.
	retryAt time.Time
	// attempts has the next delay after a failed attempt, sessions after a session.
	attempts, sessions wait.Backoff
	// probes is what the attempts have shown since the last one that succeeded.
	probes stall.Streak
}
