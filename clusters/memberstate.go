package clusters

import (
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
)

// desiredState is the state of a member that the reconciler requests.
type desiredState struct {
	// config is the latest accepted kubeconfig, or nil if there was none yet.
	config *kubeconfig.Config
	// renewal is the renewal of the token in config.
	renewal kubeconfig.Renewal
	// pinned is the identity of the member, or empty before the first connection.
	pinned types.UID
	// acknowledged is another identity that the member may have from now on.
	acknowledged types.UID
	// rival is the owner of the identity that the last attempt found.
	rival rival
}

// rival is the other MemberCluster that owns an identity which a member presented.
type rival struct {
	id types.UID
	owner
}

// endsBackoff reports whether a new state justifies an immediate attempt, even if an attempt with
// the previous state has just failed. A rival justifies one only if the owner of the same identity
// has changed or no longer exists. The member decides which identity it presents, so a member that
// alternates its responses must not reset the back-off.
func (d desiredState) endsBackoff(previous desiredState) bool {
	if d.config != previous.config || d.pinned != previous.pinned || d.acknowledged != previous.acknowledged {
		return true
	}
	return d.rival.id != "" && d.rival.id == previous.rival.id && d.rival != previous.rival
}

// snapshot is the observed state of a member. A conditionState without a status is not known yet.
type snapshot struct {
	ready, credentials conditionState
	info               clusterInfo
	expiry             kubeconfig.Expiry
	// renewal is the renewal that the Secret asks for, and renewalFailure why the last one failed.
	// That is empty if none failed since the credentials in use changed.
	renewal        kubeconfig.Renewal
	renewalFailure string
	// contestedID is the identity that the last attempt found, if that belongs to another member.
	contestedID types.UID
}

func (s snapshot) equal(other snapshot) bool {
	return s.ready == other.ready && s.credentials == other.credentials && s.expiry.Equal(other.expiry) && s.info.equal(other.info) &&
		s.contestedID == other.contestedID && s.renewal == other.renewal && s.renewalFailure == other.renewalFailure
}

var (
	credentialsAccepted = conditionState{metav1.ConditionTrue, v1alpha1.ReasonAccepted, "the kubeconfig is in use"}
	memberConnected     = conditionState{metav1.ConditionTrue, v1alpha1.ReasonConnected, "the member answers and its caches are synced"}
)

// recordFailure records that the member could not be reached with these credentials. The member
// stays Ready if a session continues.
func (s *snapshot) recordFailure(err error, with *kubeconfig.Config, sessionContinues bool) {
	state := conditionFor(err)
	s.contestedID = ""
	if wrong := new(identityError); errors.As(err, &wrong) {
		s.contestedID = wrong.contestedID
	}
	var refusal *kubeconfig.RejectedError
	switch {
	case errors.As(err, &refusal):
		s.credentials = conditionState{metav1.ConditionFalse, refusal.Reason, refusal.Message}
	case state.reason == v1alpha1.ReasonUnauthorized && with.HasExpired(time.Now()):
		// The expiry explains more than the response of the member.
		s.credentials = conditionState{metav1.ConditionFalse, v1alpha1.ReasonExpired,
			"the credentials expired at " + with.Expiry().End.UTC().Format(time.RFC3339) + "; renew the Secret's kubeconfig"}
	case state.reason == v1alpha1.ReasonUnauthorized:
		s.credentials = state
	case sessionContinues || s.credentials.status != metav1.ConditionTrue:
		s.credentials = conditionState{metav1.ConditionUnknown, v1alpha1.ReasonNotVerified, "the kubeconfig cannot be verified: " + state.message}
	}
	if !sessionContinues {
		s.ready = state
	}
}
