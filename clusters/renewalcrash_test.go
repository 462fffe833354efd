package clusters_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/transport"

	"github.com/fleetwright/fleetwright/internal/leasefence" //nolint:depguard // The test ends a leadership.
	"github.com/fleetwright/fleetwright/internal/wait"
)

// A renewal has two effects: a token exists, and the Secret has it. These tests end the operator, or
// its leadership, and change the Secret, at each point in between.

// roundTripper is a function that is a http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip calls the function.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// isSecretWrite reports whether the operator writes the Secret of a member.
func isSecretWrite(r *http.Request) bool {
	return r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/secrets/")
}

// holdTokenRequest holds the next TokenRequest of the member after it arrived, until resume is
// called.
func (m *testMember) holdTokenRequest(t testing.TB) (arrived <-chan struct{}, resume func()) {
	t.Helper()
	asked, released := make(chan struct{}), make(chan struct{})
	var once sync.Once
	m.proxy.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
		if isTokenRequest(r) {
			once.Do(func() {
				body, err := io.ReadAll(r.Body) // the fence refuses a body that is not sent yet
				if err != nil {
					t.Error(err)
				}
				r.Body = io.NopCloser(bytes.NewReader(body))
				close(asked)
				<-released
			})
		}
		return false
	})
	resume = sync.OnceFunc(func() { close(released) })
	t.Cleanup(resume)
	return asked, resume
}

// heldLease is the Lease of a leader election with two replicas, without the loop of the election.
type heldLease struct {
	fence         *leasefence.Fence // of the first replica
	first, second resourcelock.Interface
}

// holdLease creates a Lease that the first replica holds, so its fence is open.
func (env *testEnv) holdLease(t testing.TB, namespace string) *heldLease {
	t.Helper()
	l := &heldLease{fence: leasefence.New(time.Hour)}
	var err, otherErr error
	l.first, err = l.fence.NewLock(env.hub.environment.Config, namespace, "leader", nil)
	l.second, otherErr = leasefence.New(time.Hour).NewLock(env.hub.environment.Config, namespace, "leader", nil)
	if err := errors.Join(err, otherErr); err != nil {
		t.Fatal(err)
	}
	if err := l.first.Create(ctx, leaseOf(l.first)); err != nil {
		t.Fatal(err)
	}
	return l
}

// takeOver makes the second replica the holder of the Lease. The first one sees that, as its
// election does.
func (l *heldLease) takeOver(t testing.TB) {
	t.Helper()
	_, _, err := l.second.Get(ctx)
	if err := errors.Join(err, l.second.Update(ctx, leaseOf(l.second))); err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.first.Get(ctx); err != nil {
		t.Fatal(err)
	}
}

// leaseOf returns a Lease that a replica holds.
func leaseOf(l resourcelock.Interface) resourcelock.LeaderElectionRecord {
	return resourcelock.LeaderElectionRecord{HolderIdentity: l.Identity(), LeaseDurationSeconds: 3600, AcquireTime: metav1.Now(), RenewTime: metav1.Now()}
}

// The successor may already have stored another token.
func TestToken_renewal_of_a_replica_that_lost_the_Lease_is_not_stored(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	const fleet = "fleet-renewal-fenced"
	if err := env.grantOperator(fleet); err != nil {
		t.Fatal(err)
	}
	lease := env.holdLease(t, fleet)
	refused := make(chan struct{})
	once := sync.OnceFunc(func() { close(refused) })
	o := env.newOperator(t, fleet, func(s *setup) {
		s.Wrap = lease.fence.Wrap
		s.wrapHub = transport.Wrappers(lease.fence.Wrap, func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				response, err := next.RoundTrip(r)
				var fenced interface{ Fenced() bool }
				if isSecretWrite(r) && errors.As(err, &fenced) {
					once()
				}
				return response, err
			})
		})
	})
	m := env.newMember(t, o, "loses-lease")
	m.permitRenewal(t)
	old := m.agedToken(t, 55*time.Minute, 100*time.Minute)
	m.join(t, withToken(old))
	arrived, resume := m.holdTokenRequest(t)
	m.askForRenewal(t)
	<-arrived
	lease.takeOver(t)
	resume()
	wait.Receive(t, refused, "a write of the Secret that the fence refuses")
	if _, token := m.storedKubeconfig(t); token != old || m.writes("secrets") != 0 {
		t.Errorf("the Secret was written %d times", m.writes("secrets"))
	}
	if count := m.tokenRequests(); count != 1 {
		t.Errorf("%d tokens were requested", count)
	}

	next, err := env.startOperator(fleet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = next.stop() })
	m.operator = next
	e := m.waitForEngagement(t, 1)
	m.waitForCredential(t, e, m.user(), tokenID(m.waitForRenewal(t, old)))
	if diff := cmp.Diff(map[string]float64{"renewed": 1, "failed": 0}, m.renewals(t)); diff != "" {
		t.Errorf("renewals (-want +got):\n%s", diff)
	}
}

// The requested token belongs to the kubeconfig that was replaced.
func TestToken_renewal_does_not_overwrite_a_kubeconfig_that_was_replaced(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	for name, age := range map[string]time.Duration{"by a fresh one": time.Minute, "by one that is due": 51 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			isDue := age > time.Hour/2
			m := env.newMember(t, env.operator, "replaced-"+memberName(name))
			m.permitRenewal(t)
			old := m.agedToken(t, 55*time.Minute, 100*time.Minute)
			e := m.join(t, withToken(old))
			arrived, resume := m.holdTokenRequest(t)
			m.askForRenewal(t)
			<-arrived
			other := m.agedToken(t, age, 100*time.Minute)
			replaced := m.kubeconfig(t, withToken(other))
			m.replaceKubeconfig(t, replaced)
			resume()
			wait.Eventually(t, func() error {
				if m.writes("secrets") == 0 {
					return errors.New("the first renewal has not tried to write")
				}
				return nil
			})
			want := other
			if isDue {
				want = m.waitForRenewal(t, other)
			}
			m.waitForCredential(t, e, m.user(), tokenID(want))
			after, _ := m.storedKubeconfig(t)
			if replaced = bytes.ReplaceAll(replaced, []byte(other), []byte(want)); !bytes.Equal(replaced, after) {
				t.Errorf("(-want +got)\n%s", cmp.Diff(string(replaced), string(after)))
			}
			if diff := cmp.Diff(tokenClaims(t, other)["kubernetes.io"], tokenClaims(t, want)["kubernetes.io"]); diff != "" {
				t.Errorf("the token is bound to something else (-want +got):\n%s", diff)
			}
			m.waitForConditions(t, summaryConnected)
			m.checkContinues(t, e)
			if got := m.renewals(t); got["failed"] != 0 || (got["renewed"] == 1) != isDue {
				t.Errorf("the renewals are %v", got)
			}
		})
	}
}

// A token that was requested is lost with the process. The old one still works, and each start
// requests one token more.
func TestOperator_that_ends_before_it_stores_the_token_renews_it_after_a_restart(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	const fleet, starts = "fleet-renewal-ends-before", 3
	reached := make(chan struct{}, 100)
	endBeforeWrite := func(s *setup) {
		s.wrapHub = func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				if !isSecretWrite(r) {
					return next.RoundTrip(r)
				}
				reached <- struct{}{}
				<-r.Context().Done()
				return nil, r.Context().Err()
			})
		}
	}
	o := env.newOperator(t, fleet, endBeforeWrite)
	m := env.newMember(t, o, "ends-before")
	m.permitRenewal(t)
	old := m.agedToken(t, 55*time.Minute, 100*time.Minute)
	m.join(t, withToken(old))
	m.waitForAllocatable(t)
	m.askForRenewal(t)
	<-reached
	if err := o.stop(); err != nil {
		t.Fatal(err)
	}
	var restarted []*operator
	for range starts - 1 {
		m.operator = m.startAgain(t, fleet, endBeforeWrite)
		restarted = append(restarted, m.operator)
		<-reached
		m.waitForEngagement(t, 1)
		m.waitForProbes(t, 1)
		if err := m.operator.stop(); err != nil {
			t.Fatal(err)
		}
	}
	if _, token := m.storedKubeconfig(t); token != old {
		t.Error("the Secret has another token")
	}
	if count := m.tokenRequests(); count != starts {
		t.Errorf("%d tokens were requested by %d starts", count, starts)
	}

	m.operator = m.startAgain(t, fleet)
	e := m.waitForEngagement(t, 1)
	m.waitForCredential(t, e, m.user(), tokenID(m.waitForRenewal(t, old)))
	m.waitForConditions(t, summaryConnected)
	for _, o := range restarted {
		if writes := env.hub.writeRequests(o); len(writes) > 0 {
			t.Errorf("the operator wrote after a restart: %v", writes)
		}
	}
}

// The Secret has the new token, so the next process uses it and renews nothing.
func TestOperator_that_ends_after_it_stored_the_token_does_not_renew_it_again(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	const fleet = "fleet-renewal-ends-after"
	written := make(chan struct{}, 100)
	o := env.newOperator(t, fleet, func(s *setup) {
		s.wrapHub = func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				response, err := next.RoundTrip(r)
				if isSecretWrite(r) && err == nil {
					_ = response.Body.Close()
					written <- struct{}{}
					<-r.Context().Done()
					return nil, r.Context().Err()
				}
				return response, err
			})
		}
	})
	m := env.newMember(t, o, "ends-after")
	m.permitRenewal(t)
	old := m.agedToken(t, 55*time.Minute, 100*time.Minute)
	m.join(t, withToken(old))
	m.askForRenewal(t)
	<-written
	if err := o.stop(); err != nil {
		t.Fatal(err)
	}
	_, next := m.storedKubeconfig(t)
	if next == old {
		t.Fatal("the Secret has the old token")
	}
	m.operator = m.startAgain(t, fleet)
	e := m.waitForEngagement(t, 1)
	m.waitForCredential(t, e, m.user(), tokenID(next))
	wait.Eventually(t, func() error {
		if at := m.memberCluster(t).Status.CredentialsExpirationTime; at == nil || !at.Time.Equal(claimedTime(t, next, "exp")) {
			return fmt.Errorf("the credentials expire at %s", at)
		}
		return nil
	})
	m.waitForProbes(t, 3)
	if _, token := m.storedKubeconfig(t); token != next {
		t.Error("the Secret has a third token")
	}
	if written, requested := m.writes("secrets"), m.tokenRequests(); written != 1 || requested != 1 {
		t.Errorf("the Secret was written %d times, for %d tokens", written, requested)
	}

	// The next restart is one at rest.
	m.waitForAllocatable(t)
	if err := m.operator.stop(); err != nil {
		t.Fatal(err)
	}
	m.operator = m.startAgain(t, fleet)
	m.waitForEngagement(t, 1)
	m.waitForProbes(t, 3)
	if writes := env.hub.writeRequests(m.operator); len(writes) > 0 {
		t.Errorf("the operator wrote after the restart at rest: %v", writes)
	}
}

// startAgain starts another operator for the Secrets of a namespace.
func (m *testMember) startAgain(t testing.TB, fleet string, changes ...func(*setup)) *operator {
	t.Helper()
	o, err := m.testEnv.startOperator(fleet, changes...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.stop() })
	return o
}
