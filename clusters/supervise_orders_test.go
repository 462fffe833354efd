package clusters

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
	"github.com/fleetwright/fleetwright/internal/explore"
	"github.com/fleetwright/fleetwright/internal/sample"
)

// memberEvent is an event for the supervisor of a member.
type memberEvent struct {
	name       string
	isPossible func(*memberWorld) bool
	happens    func(*memberWorld)
}

// role is what a call is for. There is at most one call of each role.
type role string

const (
	roleSession role = "the probe of the session"
	roleAttempt role = "the attempt"
	roleRenewal role = "the renewal"
)

func (w *memberWorld) roleOf(c *call) role {
	switch {
	case c.kind == callToken, c.on.isTrial:
		return roleRenewal
	case c.kind == callProbe && c.on == w.active():
		return roleSession
	}
	return roleAttempt
}

func (w *memberWorld) pending(r role) *call {
	for _, c := range w.calls {
		if w.roleOf(c) == r {
			return c
		}
	}
	return nil
}

// memberEvents returns all events.
func memberEvents() []memberEvent {
	always := func(*memberWorld) bool { return true }
	exists := func(w *memberWorld) bool { return w.secret != nil }
	events := []memberEvent{
		{passes, always, (*memberWorld).passTime},
		{healthyTime, func(w *memberWorld) bool { return w.active() != nil && len(w.calls) == 0 }, (*memberWorld).passHealthyTime},
		{fails, func(w *memberWorld) bool { return w.active() != nil && w.member.active.broken() == nil }, (*memberWorld).failSession},
		{getsToken, exists, func(w *memberWorld) { w.edit(w.newSecret(w.server(), 0)) }},
		{getsServer, exists, func(w *memberWorld) { w.edit(w.newSecret(w.otherServer(), 4*time.Minute)) }},
		{"the Secret gets a kubeconfig that is rejected", exists, func(w *memberWorld) { w.edit(w.rejectedSecret()) }},
		{"the Secret is deleted", exists, func(w *memberWorld) { w.edit(nil) }},
		{"the Secret is restored", func(w *memberWorld) bool { return w.secret != w.accepted && w.secret == w.shown }, func(w *memberWorld) { w.edit(w.accepted.DeepCopy()) }},
		{"the hub shows the renewed Secret", func(w *memberWorld) bool { return w.secret != w.shown }, func(w *memberWorld) { w.edit(w.secret) }},
		{"the other cluster is acknowledged", func(w *memberWorld) bool { return w.isOtherSeen && w.pinned == thisCluster && w.acknowledged == "" }, (*memberWorld).acknowledge},
	}
	for _, r := range []role{roleSession, roleAttempt, roleRenewal} {
		for _, result := range []outcome{outcomeRight, outcomeRefused, outcomeRejected, outcomeOther, outcomeStarved} {
			events = append(events, memberEvent{
				fmt.Sprintf("%s %s", r, result),
				func(w *memberWorld) bool { return w.pending(r).canBe(result) },
				func(w *memberWorld) { w.answer(w.pending(r), result) },
			})
		}
	}
	return events
}

// canBe reports whether a call can have this outcome.
func (c *call) canBe(result outcome) bool {
	switch {
	case c == nil:
		return false
	case c.kind == callEngage:
		return result == outcomeRight || result == outcomeRejected
	case c.kind == callToken:
		return result != outcomeOther && result != outcomeStarved
	}
	return true
}

func (w *memberWorld) answer(c *call, result outcome) {
	w.mu.Lock()
	w.settle(c, result)
	w.mu.Unlock()
	w.wait()
}

// passTime waits until the supervisor does something, or for ten minutes.
func (w *memberWorld) passTime() {
	select {
	case <-w.visible:
	default:
	}
	w.waitVisible(time.Now().Add(10 * time.Minute))
}

// waitVisible waits until the supervisor does something, or until a time.
func (w *memberWorld) waitVisible(end time.Time) {
	// What the test has read happens before this timer, and this timer before the next timers of the
	// supervisor. Without it, the race detector does not know that order.
	<-time.After(0)
	timer := time.NewTimer(time.Until(end))
	defer timer.Stop()
	select {
	case <-w.visible:
	case <-timer.C:
	}
	w.wait()
}

// passHealthyTime answers the probes of the session, for three minutes or until the next token request.
// It ends just after a probe, so that the next probe is always due at the same time.
func (w *memberWorld) passHealthyTime() {
	on, session := w.active(), w.member.active
	w.setAnswers(func(c *call) (outcome, bool) { return outcomeOf(on.identity), c.on == on && c.kind == callProbe })
	defer w.setAnswers(nil)
	for end := time.Now().Add(3 * time.Minute); len(w.calls) == 0 && time.Now().Before(end); {
		w.waitVisible(end)
	}
	for due := session.probeTime; session.probeTime.Equal(due); {
		w.waitVisible(due)
	}
}

func (w *memberWorld) setAnswers(answers func(*call) (outcome, bool)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers = answers
}

// failSession makes the session fail as a panic of its decoder does.
func (w *memberWorld) failSession() {
	w.mu.Lock()
	w.active().mayEnd = v1alpha1.ReasonUnhealthy
	w.mu.Unlock()
	w.member.active.undecodable.Store(true)
	w.member.active.signalFailure()
	w.wait()
}

func (w *memberWorld) rejectedSecret() *corev1.Secret {
	secret := w.accepted.DeepCopy()
	secret.Data = nil
	return secret
}

// server returns the server in the last Secret that was accepted.
func (w *memberWorld) server() string { return w.accepted.Annotations["server"] }

func (w *memberWorld) otherServer() string {
	if w.server() == "a" {
		return "b"
	}
	return "a"
}

func (w *memberWorld) acknowledge() {
	w.acknowledged = otherCluster
	w.edit(w.shown)
}

// key describes everything that the future depends on, also what the rules remember. Times are in it by
// their order.
func (w *memberWorld) key() string {
	m := w.member
	if m == nil {
		return fmt.Sprintf("no Secret; pinned %s, acknowledged %q", w.pinned, w.acknowledged)
	}
	names := map[any]string{}
	name := func(kind string, of any) string {
		if names[of] == "" {
			names[of] = fmt.Sprint(kind, len(names))
		}
		return names[of]
	}
	config := func(c *kubeconfig.Config) string {
		if c == nil {
			return "none"
		}
		return name("config", c) + "@" + name("server", c.Server)
	}
	var b strings.Builder
	want, isAccepted := m.shared.latestAccepted()
	fmt.Fprintf(&b, "%s; wants %s accepted %t, read %s", m.state(), config(want.config), isAccepted, config(m.backoff.lastDesired.config))
	fmt.Fprintf(&b, "; shown %t; pinned %s, acknowledged %q, seen %t", w.secret == w.shown, w.pinned, w.acknowledged, w.isOtherSeen)
	if a := m.active; a != nil {
		fmt.Fprintf(&b, "; session %s of %s, %v, broken %t, stable %t", config(a.config), a.info.id, a.probes, a.broken() != nil, time.Since(a.since) >= stableAfter)
	}
	if a := m.attempt; a != nil {
		fmt.Fprintf(&b, "; attempt %s retry %t swap %t decided %t", config(a.want.config), a.isRetry, a.previous != nil && a.previous == m.active, a.decided.Load())
	}
	if r := m.renewer.running; r != nil {
		fmt.Fprintf(&b, "; renewal of %s, this session %t", config(r.config), m.active != nil && r.of == m.active.session)
	}
	for _, c := range w.calls {
		fmt.Fprintf(&b, "; %s %s", w.roleOf(c), c.kind)
	}
	fmt.Fprintf(&b, "; delays %s %s, %v", min(m.backoff.attempts.Duration, 4*time.Second), min(m.backoff.sessions.Duration, 4*time.Second), m.backoff.probes)
	fmt.Fprintf(&b, "; times %v; renewal of %s failing %t", w.times(), config(m.renewer.backoff.of), !m.renewer.backoff.failingSince.IsZero())
	if active := w.active(); active != nil {
		fmt.Fprintf(&b, "; failed %d, must end %q", active.failed, active.mayEnd)
	}
	fmt.Fprintf(&b, "; attempts failed %d, %d", min(w.rules.failed, 3), min(w.rules.delays, 3))
	seen := w.published
	fmt.Fprintf(&b, "; reported %s %s %s %t", seen.ready.reason, seen.credentials.reason, seen.info.id, seen.renewalFailure != "")
	return b.String()
}

// times returns what is due, in the order of the times.
func (w *memberWorld) times() (order []string) {
	type due struct {
		what string
		at   time.Time
	}
	m := w.member
	all := []due{{"now", time.Now()}, {"attempt", m.backoff.retryAt}}
	if m.active != nil {
		all = append(all, due{"probe", m.active.probeTime})
		if at := m.shared.latestDesired().renewal.At; m.renewer.running == nil && m.active.config == m.shared.latestDesired().config {
			if at.Before(m.renewer.backoff.notBefore) {
				at = m.renewer.backoff.notBefore
			}
			all = append(all, due{"renewal", at})
		}
	}
	slices.SortStableFunc(all, func(a, b due) int { return cmp.Compare(a.at.UnixNano(), b.at.UnixNano()) })
	for _, d := range all {
		order = append(order, d.what)
	}
	return order
}

func hashOf(text string) uint64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(text))
	return hash.Sum64()
}

// stop stops the operator: the supervisor ends at once, and then nothing happens any more.
func (w *memberWorld) stop() error {
	w.provider.endMembers()
	ended := make(chan struct{})
	go func() {
		w.provider.running.Wait()
		close(ended)
	}()
	synctest.Wait()
	select {
	case <-ended:
	default:
		return broken("stop", "the supervisor does not end")
	}
	for _, e := range w.engagements {
		if e.ctx.Err() == nil {
			return broken("stop", "a session goes on")
		}
	}
	if _, err := w.provider.Get(context.Background(), "east"); err == nil {
		return broken("stop", "Get returns a session")
	}
	w.mu.Lock()
	w.stopped = true
	w.mu.Unlock()
	time.Sleep(time.Hour)
	synctest.Wait()
	if len(w.broken) > 0 {
		return w.broken[0]
	}
	return nil
}

// heal makes the member and the hub work: then the member connects, and stays connected.
func (w *memberWorld) heal() error {
	w.mu.Lock()
	w.answers = func(c *call) (outcome, bool) {
		if c.kind == callProbe {
			return outcomeOf(cmp.Or(c.on.identity, w.pinned)), true
		}
		return outcomeRight, true
	}
	for _, c := range slices.Clone(w.calls) {
		result, _ := w.answers(c)
		w.settle(c, result)
	}
	w.mu.Unlock()
	w.edit(w.secret)
	for end := time.Now().Add(6 * time.Minute); !w.isDone() && time.Now().Before(end); w.waitVisible(end) {
		if w.secret != w.shown {
			w.edit(w.secret)
		}
	}
	if !w.isDone() {
		return broken("progress", "the member works, and the state is %s, reported as %s", w.member.state(), w.published.ready.reason)
	}
	w.waitVisible(time.Now().Add(time.Minute)) // a renewal may have begun
	return w.check()
}

// isDone reports whether the member is connected with the kubeconfig of its Secret, if it has one.
func (w *memberWorld) isDone() bool {
	if w.member == nil {
		return true
	}
	want := w.member.shared.latestDesired().config
	return want == nil || w.member.active != nil && w.member.active.config == want && w.published.ready.status == metav1.ConditionTrue
}

// path is a sequence of events, and the state to which it leads.
type path struct {
	events []int // indexes of orders.events
	// key is the hash of the state. possible has one bit for each event that is possible in the state.
	key      uint64
	possible uint32
}

// orders explores the orders of events.
type orders struct {
	*testing.T
	events []memberEvent

	mu sync.Mutex
	// replays is how many worlds were created. lost is how many paths were given up; see follow.
	replays, lost int
}

// replay replays a path in a new world, calls the function, and stops the operator. It returns false if
// the world went another way: timers have a jitter, and select is random if several channels are ready.
// The rules are checked in any case.
func (o *orders) replay(p path, then func(*memberWorld) error) (isThere bool, err error) {
	o.mu.Lock()
	o.replays++
	o.mu.Unlock()
	synctest.Test(o.T, func(t *testing.T) {
		w := newMemberWorld(t)
		err = w.check()
		for _, event := range p.events {
			if err != nil || !o.events[event].isPossible(w) {
				break
			}
			o.events[event].happens(w)
			err = w.check()
		}
		if isThere = err == nil && (p.key == 0 || hashOf(w.key()) == p.key); isThere {
			err = then(w)
		}
		err = cmp.Or(err, w.stop())
	})
	return isThere, err
}

// maxReplays is how often a path is replayed until it leads to its state again.
const maxReplays = 20

// follow replays a path until it leads to its state, and calls the function there. It returns false if
// the world went another way each time: then the path is lost.
func (o *orders) follow(p path, then func(*memberWorld) error) (bool, error) {
	for range maxReplays {
		if isThere, err := o.replay(p, then); isThere || err != nil {
			return isThere, err
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.lost++
	return false, nil
}

// extend returns a path that continues with an event, and false if the event is not possible.
func (o *orders) extend(p path, event int) (next path, isThere bool, err error) {
	if p.possible&(1<<event) == 0 {
		return path{}, false, nil
	}
	return o.confirm(func() (next path, isThere bool, err error) {
		isThere, err = o.follow(p, func(w *memberWorld) error {
			o.events[event].happens(w)
			err := w.check()
			next = o.pathOf(w, append(slices.Clone(p.events), event))
			return err
		})
		return next, isThere, err
	})
}

// confirm takes a step until the path leads to the new state a second time. A state to which its path
// leads rarely would be lost later, with all that follows from it.
func (o *orders) confirm(step func() (path, bool, error)) (next path, isThere bool, err error) {
	for range maxReplays {
		next, isThere, err = step()
		if err != nil || !isThere {
			return next, isThere, err
		}
		if isAgain, err := o.replay(next, func(*memberWorld) error { return nil }); isAgain || err != nil {
			return next, isAgain, err
		}
	}
	return next, true, nil
}

// pathOf returns the path by which the world came to its state.
func (o *orders) pathOf(w *memberWorld, events []int) path {
	p := path{events: events, key: hashOf(w.key())}
	for i, event := range o.events {
		if event.isPossible(w) {
			p.possible |= 1 << i
		}
	}
	return p
}

// begin returns the path of the events with these names. The test fails if they break a rule.
func (o *orders) begin(names ...string) path {
	o.Helper()
	var events []int
	for _, name := range names {
		events = append(events, slices.IndexFunc(o.events, func(e memberEvent) bool { return e.name == name }))
	}
	begin, isThere, err := o.confirm(func() (path, bool, error) {
		var there path
		isThere, err := o.follow(path{events: events}, func(w *memberWorld) error {
			there = o.pathOf(w, events)
			return nil
		})
		return there, isThere, err
	})
	if err != nil || !isThere {
		o.Fatalf("%q is possible: %t, %v", names, isThere, err)
	}
	return begin
}

// The names of events that tests use.
const (
	passes      = "time passes"
	healthyTime = "the member answers for three minutes"
	fails       = "the session fails"
	getsToken   = "the Secret gets another token"
	getsServer  = "the Secret gets another server and a token that is due"
	connects    = "the attempt is answered"
	refused     = "the attempt is refused by the network"
	unprobed    = "the probe of the session is refused by the network"
)

// The attempt to connect to the new server can no longer be cancelled when the Secret gets a token. A
// session that fails then does not delay the attempt with the token.
func TestEdit_during_an_attempt_is_tried_at_once_although_the_session_failed(t *testing.T) {
	t.Parallel()
	o := &orders{T: t, events: memberEvents()}
	o.begin(connects, connects, getsServer, connects, getsToken, fails, connects)
}

// TestEvery_order_of_events_for_a_member lets all events happen to the supervisor of a member, in every
// order up to a depth, and checks the rules after each event. From each state it also checks that the
// supervisor ends at once when the operator stops, and that the member connects when everything works.
//
// The supervisor cannot be driven without its goroutine, because it has no function from a state and an
// event to the next state. checkHealth sends a probe and waits for the answer. An attempt and a renewal
// are goroutines. The delays are timers, and decisions read the clock. So the real supervisor runs in a
// bubble of synctest. The bubble knows when all its goroutines wait, and then moves the time. The test
// replaces the network, at Options.Wrap, and the hub, at the functions of the Provider. Sessions are
// real, but their caches watch nothing.
//
// A goroutine cannot be copied, so each step replays its path from the beginning. States with the same
// key are explored once.
func TestEvery_order_of_events_for_a_member(t *testing.T) {
	t.Parallel()
	depth, leastStates := 5, 4000
	if _, isSample := sample.Number(); isSample {
		depth, leastStates = 3, 500
	}
	o := &orders{T: t, events: memberEvents()}
	world := explore.World[path]{Key: func(p path) uint64 { return p.key }}
	for _, start := range []struct {
		name   string
		events []string
	}{
		{"a new Secret", nil},
		{"a connected member", []string{connects, connects}},
		{"a token that is due", []string{connects, connects, healthyTime}},
		{"two failed probes", []string{connects, connects, passes, unprobed, passes, unprobed}},
		{"two failed attempts", []string{refused, passes, refused}},
		{"a move that is almost complete", []string{connects, connects, getsServer, connects}},
	} {
		world.Starts = append(world.Starts, explore.Start[path]{Name: start.name, State: o.begin(start.events...)})
	}
	for i, event := range o.events {
		world.Actions = append(world.Actions, explore.Action[path]{Name: event.name, Do: func(p path) (path, bool, error) { return o.extend(p, i) }})
	}
	world.Healthy = []explore.Healthy[path]{{
		Name: "everything works",
		Heal: func(p path) path { return p },
		Next: func(p path) (path, bool, error) {
			_, err := o.follow(p, (*memberWorld).heal)
			return p, false, err
		},
	}}
	result := explore.Explore(world, explore.Limits{Depth: depth, HealthyEvery: 1, HealthySteps: 1})
	t.Logf("%d states %v, %d steps, %d paths lost, %d replays", result.States, result.Levels, result.Steps, o.lost, o.replays)
	for _, v := range result.Violations {
		t.Errorf("%v, after %s, and then %q %s", v.Error, v.Start, v.Trace, v.Healthy)
	}
	if result.States < leastStates || o.lost > result.Steps/20 {
		t.Error("too few states, or too many paths lost")
	}
	for i, taken := range result.Taken {
		if taken == 0 {
			t.Errorf("%q never happened", o.events[i].name)
		}
	}
}
