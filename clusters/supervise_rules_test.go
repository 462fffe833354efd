package clusters

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
	"github.com/fleetwright/fleetwright/internal/explore"
)

// memberRules is what the rules remember. They compare what the supervisor does with what the member
// answered, never with the supervisor's own counters.
type memberRules struct {
	// reasons are those of the failures about which the supervisor has just decided.
	reasons []string
	// tried has each kubeconfig that was tried, and attempt is the last attempt that was seen.
	tried   map[*kubeconfig.Config]bool
	attempt *attempt
	// failed is how many attempts have failed in a row. delays is how many of them had the desired
	// state failedWith, and failedAt is when the last one failed, or a session ended.
	failed, delays int
	failedWith     desiredState
	failedAt       time.Time
	// lastTried is the desired state that the supervisor has read, or that of an attempt that is older.
	lastTried desiredState
	// isUnreachable is set when OnUnreachable was called.
	isUnreachable bool
	// token is the last token request that was seen.
	token *call
}

var outcomeReasons = map[outcome]string{outcomeRefused: v1alpha1.ReasonUnreachable, outcomeRejected: v1alpha1.ReasonUnauthorized}

// noteOutcome records how a call ended. The caller holds the lock of the world.
func (w *memberWorld) noteOutcome(c *call, result outcome) {
	w.isOtherSeen = w.isOtherSeen || result == outcomeOther
	id := identityOf(result)
	switch {
	case c.kind == callToken, c.on.isTrial:
	case c.on.engagement != nil:
		c.on.noteProbe(result)
	case c.kind == callEngage:
		if result != outcomeRight {
			w.noteFailedAttempt(c.on, v1alpha1.ReasonUnhealthy)
		}
	case result == outcomeStarved:
	case result == outcomeRefused, result == outcomeRejected:
		w.noteFailedAttempt(c.on, outcomeReasons[result])
	case w.pinned != "" && id != w.pinned && id != w.acknowledged:
		w.noteFailedAttempt(c.on, v1alpha1.ReasonIdentityChanged)
	default:
		c.on.identity = id
	}
}

// noteProbe records how a probe of a session ended.
func (c *connection) noteProbe(result outcome) {
	switch result {
	case outcomeRefused, outcomeRejected:
		c.failed++
		if c.failed == 3 {
			c.mayEnd = outcomeReasons[result]
		}
	case outcomeRight, outcomeOther:
		c.failed = 0
		if c.identity != identityOf(result) {
			c.mayEnd = v1alpha1.ReasonIdentityChanged
		}
	case outcomeStarved:
	}
}

// noteFailedAttempt records that an attempt failed. Nothing follows from it if the Secret was changed
// meanwhile.
func (w *memberWorld) noteFailedAttempt(on *connection, reason string) {
	if w.member == nil || w.member.shared.latestDesired().endsBackoff(on.want) {
		return
	}
	r := &w.rules
	r.failed++
	if r.failedWith != on.want {
		r.delays = 0
	}
	r.delays++
	r.failedWith, r.failedAt, r.reasons = on.want, time.Now(), append(r.reasons, reason)
}

// noteUnreachable is the OnUnreachable of the Provider.
func (w *memberWorld) noteUnreachable(string) {
	w.note(func() { w.rules.isUnreachable = true })
}

func broken(rule, format string, values ...any) *explore.RuleError {
	return &explore.RuleError{Rule: rule, Problem: fmt.Sprintf(format, values...)}
}

// check returns the first rule that is broken. The supervisor waits.
func (w *memberWorld) check() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.broken) > 0 {
		return w.broken[0]
	}
	for _, rule := range []func() *explore.RuleError{w.checkEnds, w.checkSessions, w.checkReport, w.checkAttempts, w.checkDelay, w.checkRenewal} {
		if err := rule(); err != nil {
			return err
		}
	}
	return nil
}

// active returns the connection of the session in use, or nil.
func (w *memberWorld) active() *connection {
	if w.member == nil || w.member.active == nil {
		return nil
	}
	return connectionOf(w.member.active.connection.HTTP)
}

// isProbing reports whether the supervisor waits for a probe of its session, and so for nothing else.
func (w *memberWorld) isProbing() bool {
	active := w.active()
	return active != nil && slices.ContainsFunc(w.calls, func(c *call) bool { return c.on == active && c.kind == callProbe })
}

// checkEnds checks that a session ends if and only if it must.
func (w *memberWorld) checkEnds() *explore.RuleError {
	for i, e := range w.engagements {
		isReplaced := i < len(w.engagements)-1
		isOver := e.ctx.Err() != nil
		if isOver && !e.isOver && !isReplaced && e.on.mayEnd == "" && w.member != nil && w.member == e.of {
			return broken("three failures", "a session ends after %d failed probes", e.on.failed)
		}
		if isOver && !e.isOver && e.on.mayEnd != "" {
			w.noteEnd(e.on.mayEnd)
		}
		if !isOver && e.on.mayEnd != "" && !w.isProbing() {
			return broken("three failures", "a session goes on although it must end: %s", e.on.mayEnd)
		}
		e.isOver = isOver
	}
	return nil
}

// noteEnd records that the session of the member has ended. The delay after a session replaces that
// after an attempt, and applies to what was tried.
func (w *memberWorld) noteEnd(reason string) {
	r := &w.rules
	r.reasons = append(r.reasons, reason)
	r.failedWith, r.failedAt, r.delays = r.lastTried, time.Now(), 0
}

// checkSessions checks that there is at most one session, and that a session that has ended is not
// used again. While a probe is on its way, a new session may be there beside the old one.
func (w *memberWorld) checkSessions() *explore.RuleError {
	live := slices.DeleteFunc(slices.Clone(w.engagements), func(e *scriptedEngagement) bool { return e.ctx.Err() != nil })
	most := 1
	if w.isProbing() {
		most = 2
	}
	if len(live) > most {
		return broken("one session", "%d sessions", len(live))
	}
	if active := w.active(); active != nil && (active.engagement == nil || active.engagement.ctx.Err() != nil) {
		return broken("one session", "the supervisor uses a session that has ended")
	}
	return w.checkGet(live)
}

// checkGet checks that Get returns the Cluster of a session from the beginning of its engagement until
// its end, and that a controller watches what Get returns.
func (w *memberWorld) checkGet(live []*scriptedEngagement) *explore.RuleError {
	got, err := w.provider.Get(context.Background(), "east")
	i := slices.IndexFunc(w.calls, func(c *call) bool { return c.kind == callEngage })
	switch isEngaging := i >= 0; {
	case isEngaging && (err != nil || connectionOf(got.GetHTTPClient()) != w.calls[i].on):
		return broken("one session", "Get does not return the session that is being engaged: %v", err)
	case isEngaging:
	case slices.ContainsFunc(live, func(e *scriptedEngagement) bool { return e.cluster == got }) != (len(live) > 0) || err == nil && len(live) == 0:
		return broken("one session", "Get returns a session: %t; %d sessions are there", err == nil, len(live))
	case err == nil && w.watched != got:
		return broken("one session", "a controller does not watch the session that Get returns")
	}
	return nil
}

// checkReport checks that the state that is reported is the last one that was decided.
func (w *memberWorld) checkReport() *explore.RuleError {
	if w.member == nil {
		return nil
	}
	observed := w.member.shared.observed()
	if !observed.equal(w.published) {
		return broken("report", "nobody is told that the state is %+v", observed)
	}
	if w.isProbing() {
		return nil
	}
	isConnected := w.member.state() == stateConnected
	if isConnected != (observed.ready.status == metav1.ConditionTrue) {
		return broken("report", "the state is %s, and reported as %s", w.member.state(), observed.ready.reason)
	}
	reasons := w.rules.reasons
	w.rules.reasons = nil
	if isConnected {
		return nil
	}
	if reason := observed.ready.reason; len(reasons) > 0 && !slices.Contains(reasons, reason) {
		return broken("report", "%s is reported, and the failures were %v", reason, reasons)
	}
	return nil
}

// checkAttempts checks that a Secret that was changed is tried.
func (w *memberWorld) checkAttempts() *explore.RuleError {
	m := w.member
	if m == nil || w.isProbing() {
		return nil
	}
	want := m.shared.latestDesired()
	w.rules.lastTried = want
	if m.attempt != nil && want.endsBackoff(m.attempt.want) {
		w.rules.lastTried = m.attempt.want
	}
	if active := w.active(); active != nil {
		w.rules.tried[m.active.config] = true
		if m.active.config == want.config { // the last attempt has succeeded
			w.rules.failed = 0
		}
		if active.config != m.active.config { // the member has accepted other credentials
			active.config, active.failed = m.active.config, 0
		}
	}
	if m.attempt != nil {
		w.rules.tried[m.attempt.want.config] = true
		isPublishing := slices.ContainsFunc(w.calls, func(c *call) bool { return c.kind == callEngage })
		if m.attempt.want.config != want.config && !isPublishing {
			return broken("change", "an attempt with an old kubeconfig goes on")
		}
		return nil
	}
	if want.config != nil && !w.rules.tried[want.config] {
		return broken("change", "a new kubeconfig is not tried")
	}
	return nil
}

// checkDelay checks the times between attempts.
func (w *memberWorld) checkDelay() *explore.RuleError {
	m, r := w.member, &w.rules
	if m == nil {
		return nil
	}
	if r.isUnreachable && (r.failed < 3 || m.active != nil) {
		return broken("three failures", "OnUnreachable is called after %d failed attempts, in state %s", r.failed, m.state())
	}
	r.isUnreachable = false
	longest := attemptBackoff.Cap
	if len(w.engagements) > 0 {
		longest = sessionBackoff.Cap
	}
	if delay := time.Until(m.backoff.retryAt); delay > longest*5/4 {
		return broken("back-off", "the next attempt is in %s", delay)
	}
	if m.attempt == nil || m.attempt == r.attempt {
		return nil
	}
	r.attempt = m.attempt
	least := min(time.Second<<max(0, min(r.delays-1, 10)), attemptBackoff.Cap)
	if since := time.Since(r.failedAt); r.failedWith == m.attempt.want && since < least {
		return broken("back-off", "an attempt begins %s after %d have failed", since, r.delays)
	}
	return nil
}

// checkRenewal checks that only the token in use is renewed, and only if the Secret has it.
func (w *memberWorld) checkRenewal() *explore.RuleError {
	var requests []*call
	for _, c := range w.calls {
		if c.kind == callToken {
			requests = append(requests, c)
		}
	}
	switch {
	case len(requests) > 1:
		return broken("renewal", "%d token requests", len(requests))
	case len(requests) == 0 || requests[0] == w.rules.token:
		return nil
	}
	w.rules.token = requests[0]
	if want, isAccepted := w.member.shared.latestAccepted(); w.active() != requests[0].on || !isAccepted || w.member.active.config != want.config {
		return broken("renewal", "a token is renewed that the Secret does not have, or that is not in use")
	}
	return nil
}
