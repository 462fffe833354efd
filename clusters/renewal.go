package clusters

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
)

// maxRenewalDelay is the longest time between two renewals of a token that fail. A token with a
// short lifetime is tried more often; see renewalDelay.
const maxRenewalDelay = 10 * time.Minute

// maxQuietPeriod is the longest time for which a failure that is no refusal is not reported. The
// alert FleetwrightTokenRenewalOverdue waits longer, so the condition says why when it fires.
const maxQuietPeriod = 5 * time.Minute

// renewalBackoff determines when the next renewal may start.
type renewalBackoff struct {
	// of is the kubeconfig of the last renewal that did not succeed, and next its next delay.
	of   *kubeconfig.Config
	next wait.Backoff
	// notBefore is the earliest time of the next renewal.
	notBefore time.Time
	// failingSince is when the first renewal of this kubeconfig failed, or zero. It is not stored: a
	// restart starts the quiet period again.
	failingSince time.Time
}

// afterRenewal returns the back-off after a renewal that succeeded: the watch brings the Secret
// back before notBefore. If another tool restores the old token again and again, it also limits how
// often the token is renewed.
func afterRenewal(now time.Time, issued kubeconfig.Renewal) renewalBackoff {
	return renewalBackoff{notBefore: now.Add(min(maxRenewalDelay, issued.Lifetime()/5))}
}

// delayed returns the back-off after a renewal that did not succeed.
func (b renewalBackoff) delayed(now time.Time, of *kubeconfig.Config) renewalBackoff {
	if b.of != of {
		most := renewalDelay(of.Lifetime())
		b = renewalBackoff{of: of, next: wait.Backoff{Duration: min(10*time.Second, most), Factor: 2, Jitter: maxJitter, Steps: 20, Cap: most}}
	}
	b.notBefore = now.Add(b.next.Step())
	return b
}

// failed returns the back-off after a renewal that failed.
func (b renewalBackoff) failed(now time.Time, of *kubeconfig.Config) renewalBackoff {
	b = b.delayed(now, of)
	if b.failingSince.IsZero() {
		b.failingSince = now
	}
	return b
}

// needsReport reports whether the failure of a renewal becomes the condition: a refusal at once,
// and any other failure when the renewals have failed for longer than the quiet period.
func (b renewalBackoff) needsReport(now time.Time, err error) bool {
	return isRefusal(err) || now.Sub(b.failingSince) >= quietPeriod(b.of.Lifetime())
}

// quietPeriod returns for how long the renewals of a token with this lifetime may fail without a
// report. Half of the lifetime is left when they start.
func quietPeriod(lifetime time.Duration) time.Duration {
	return min(maxQuietPeriod, lifetime/10)
}

// renewalDelay returns the longest delay for a token with this lifetime. Some ten renewals are
// tried in the second half of the lifetime, and more if it is long.
func renewalDelay(lifetime time.Duration) time.Duration {
	return max(time.Second, min(maxRenewalDelay, lifetime/20))
}

// checkRenewed returns an unsuitableTokenError unless a new token is for the same ServiceAccount, and
// is not due for a renewal itself.
func checkRenewed(old, issued kubeconfig.Renewal, now time.Time) error {
	switch {
	case !issued.IsPossible():
		return &unsuitableTokenError{"the member issued an unusable token: " + issued.Blocker}
	case issued.Account != old.Account || issued.Bound != old.Bound:
		return &unsuitableTokenError{"the member issued a token of another ServiceAccount, or bound to another Secret"}
	case !now.Before(issued.At):
		return &unsuitableTokenError{fmt.Sprintf("the member issued a token from %s to %s, which is over soon by the hub's clock: check both clocks",
			formatTime(issued.Issued), formatTime(issued.Expires))}
	}
	return nil
}

// credentialsAt returns the state of the credentials at a time, which depends on their expiry and
// on their renewal. A state without a status leaves the condition as it is.
func (s snapshot) credentialsAt(now time.Time) conditionState {
	if s.credentials != credentialsAccepted {
		return s.credentials
	}
	end, expires := formatTime(s.expiry.End), !s.expiry.End.IsZero()
	advice := "; renew the Secret's kubeconfig"
	if s.renewalFailure != "" && s.renewal.IsPossible() {
		advice = "; the token is not renewed: " + s.renewalFailure
	}
	switch {
	case expires && !now.Before(s.expiry.End):
		return conditionState{metav1.ConditionFalse, v1alpha1.ReasonExpired, "the credentials expired at " + end + advice}
	case expires && !now.Before(s.expiry.Warning):
		return conditionState{metav1.ConditionTrue, v1alpha1.ReasonExpiringSoon, "the credentials expire at " + end + advice}
	case s.renewal.Blocker != "":
		return conditionState{metav1.ConditionTrue, v1alpha1.ReasonNotRenewable, "annotation " + v1alpha1.AnnotationRenewToken +
			" of the Secret has no effect: " + s.renewal.Blocker + ". Write a token of a ServiceAccount that expires, or remove the annotation"}
	case !s.renewal.IsPossible() || now.Before(s.renewal.At):
		return credentialsAccepted
	case s.renewalFailure != "":
		return conditionState{metav1.ConditionTrue, v1alpha1.ReasonRenewalFailed, "the credentials expire at " + end + advice}
	}
	return conditionState{} // the renewal runs; until its result is known, a restart changes nothing
}

// formatTime returns a time in the form of the API.
func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }
