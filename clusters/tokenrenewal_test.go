package clusters_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/tokentest"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// agedToken returns a token of the member's user with this age and lifetime.
func (m *testMember) agedToken(t testing.TB, age, lifetime time.Duration) string {
	t.Helper()
	fresh, _ := m.newToken(t)
	return m.reissue(t, fresh, age, lifetime)
}

// reissue returns a token like another one, with this age and lifetime.
func (m *testMember) reissue(t testing.TB, like string, age, lifetime time.Duration) string {
	t.Helper()
	token, err := tokentest.Reissue(m.testEnv.member.tokenKey(t), like, time.Now().Add(-age), lifetime)
	if err != nil {
		t.Fatal(err)
	}
	knownCredentials.add(signatureOf(token))
	return token
}

// tokenKey returns the key with which the API server signs tokens.
func (s *apiServer) tokenKey(t testing.TB) []byte {
	t.Helper()
	key, err := os.ReadFile(filepath.Join(filepath.Dir(s.auditLog), "sa-signer.key"))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// signatureOf returns the signature of a token, which no other token has.
func signatureOf(token string) string { return token[strings.LastIndex(token, ".")+1:] }

func tokenClaims(t testing.TB, token string) map[string]any {
	t.Helper()
	claims, err := tokentest.Claims(token)
	if err != nil {
		t.Fatal(err)
	}
	return claims
}

// claimedTime returns the time of a claim of a token.
func claimedTime(t testing.TB, token, claim string) time.Time {
	t.Helper()
	return time.Unix(int64(tokenClaims(t, token)[claim].(float64)), 0)
}

// permitRenewal lets the member's user request tokens of itself, as config/member does.
func (m *testMember) permitRenewal(t testing.TB) {
	t.Helper()
	role := &rbacv1.Role{}
	if err := readObject("../config/member/rbac.yaml", role); err != nil {
		t.Fatal(err)
	}
	role.Namespace, role.Name, role.Rules[0].ResourceNames = memberNamespace, m.name, []string{m.name}
	m.createObject(t, m.testEnv.member, role)
	m.createObject(t, m.testEnv.member, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: memberNamespace, Name: m.name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: memberNamespace, Name: m.name}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
	})
}

// askForRenewal annotates the member's Secret.
func (m *testMember) askForRenewal(t testing.TB) {
	t.Helper()
	m.updateSecret(t, func(s *corev1.Secret) { s.Annotations = map[string]string{v1alpha1.AnnotationRenewToken: "true"} })
}

// storedKubeconfig returns the kubeconfig in the member's Secret, and the token in that.
func (m *testMember) storedKubeconfig(t testing.TB) (raw []byte, token string) {
	t.Helper()
	secret := &corev1.Secret{}
	if err := m.hub.admin.Get(ctx, m.secretKey(), secret); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.Load(secret.Data["kubeconfig"])
	if err != nil {
		t.Fatal(err)
	}
	return secret.Data["kubeconfig"], config.AuthInfos["x"].Token
}

// waitForRenewal waits until the member's Secret has another token, and returns it.
func (m *testMember) waitForRenewal(t testing.TB, old string) (next string) {
	t.Helper()
	wait.Eventually(t, func() error {
		if _, next = m.storedKubeconfig(t); next == old {
			return fmt.Errorf("the Secret still has the old token: %+v", m.memberCluster(t).Status.Conditions)
		}
		return nil
	})
	return next
}

// waitForFailure waits until the MemberCluster reports that the renewal failed, with a message that
// contains a text.
func (m *testMember) waitForFailure(t testing.TB, text string) {
	t.Helper()
	m.waitForConditions(t, "Ready True Connected, CredentialsValid True RenewalFailed")
	wait.Eventually(t, func() error {
		message := meta.FindStatusCondition(m.memberCluster(t).Status.Conditions, v1alpha1.ConditionCredentialsValid).Message
		if !strings.Contains(message, text) {
			return fmt.Errorf("the message is %q, want %q", message, text)
		}
		return nil
	})
	m.waitForEvent(t, m.name, corev1.EventTypeWarning, v1alpha1.ReasonRenewalFailed)
}

// waitForAllocatable waits for the last write of an engagement: the nodes are listed after it.
func (m *testMember) waitForAllocatable(t testing.TB) {
	t.Helper()
	wait.Eventually(t, func() error {
		known := meta.FindStatusCondition(m.memberCluster(t).Status.Conditions, v1alpha1.ConditionAllocatableKnown)
		if known == nil || known.Status != metav1.ConditionTrue {
			return fmt.Errorf("AllocatableKnown is %+v", known)
		}
		return nil
	})
}

// waitForEvent waits for an event about an object.
func (m *testMember) waitForEvent(t testing.TB, object, kind, reason string) {
	t.Helper()
	wait.Eventually(t, func() error {
		for _, e := range m.events(t) {
			if e.Regarding.Name == object && e.Type == kind && e.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("there is no event %s of %s", reason, object)
	})
}

// renewals returns the counters of the member's renewals, by their result.
func (m *testMember) renewals(t testing.TB) map[string]float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if labels := metric.GetLabel(); family.GetName() == "fleetwright_member_credential_renewals_total" && labels[0].GetValue() == m.name {
				counts[labels[1].GetValue()] = metric.GetCounter().GetValue()
			}
		}
	}
	return counts
}

// writes returns how often the operator wrote to an object of the hub with the member's name.
func (m *testMember) writes(resource string) (count int) {
	for _, r := range m.hub.requests(m.operator.user) {
		if r.Verb == "patch" && r.ObjectRef.Resource == resource && r.ObjectRef.Name == m.name {
			count++
		}
	}
	return count
}

// tokenRequests returns how often the member's user requested a token.
func (m *testMember) tokenRequests() (count int) {
	for _, r := range m.testEnv.member.requests(m.user()) {
		if r.Verb == "create" && r.ObjectRef.Resource == "serviceaccounts" {
			count++
		}
	}
	return count
}

func isTokenRequest(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/token")
}

func TestToken_is_renewed_at_half_of_its_lifetime_in_place(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	m := env.newMember(t, env.operator, "renews")
	m.permitRenewal(t)
	const lifetime = 2 * time.Minute
	old := m.agedToken(t, 45*time.Second, lifetime)
	e := m.join(t, withToken(old))
	before, _ := m.storedKubeconfig(t)
	accepted, _ := m.link.connectionCounts()
	lists := env.member.listRequests(m.user())
	m.askForRenewal(t)

	next := m.waitForRenewal(t, old)
	if share := claimedTime(t, next, "iat").Sub(claimedTime(t, old, "iat")).Seconds() / lifetime.Seconds(); share < 0.4 {
		t.Errorf("the token was renewed after %.0f %% of its lifetime", 100*share)
	}
	if got := claimedTime(t, next, "exp").Sub(claimedTime(t, next, "iat")); got != 10*time.Minute { // the minimum of API servers
		t.Errorf("the new token lasts %s", got)
	}
	if diff := cmp.Diff(tokenClaims(t, old)["kubernetes.io"], tokenClaims(t, next)["kubernetes.io"]); diff != "" {
		t.Errorf("the new token is bound to something else (-old +new):\n%s", diff)
	}
	after, _ := m.storedKubeconfig(t)
	if want := bytes.ReplaceAll(before, []byte(old), []byte(next)); !bytes.Equal(want, after) {
		t.Errorf("more than the token was changed (-want +got)\n%s", cmp.Diff(string(want), string(after)))
	}

	m.waitForCredential(t, e, m.user(), tokenID(next))
	m.createDeployment(t, "renews-app")
	e.waitForDeployment(t, "renews-app")
	m.checkContinues(t, e)
	wait.Eventually(t, func() error {
		if at := m.memberCluster(t).Status.CredentialsExpirationTime; at == nil || !at.Time.Equal(claimedTime(t, next, "exp")) {
			return fmt.Errorf("the MemberCluster says that the credentials expire at %s", at)
		}
		return nil
	})
	m.waitForConditions(t, summaryConnected)
	if now := env.member.listRequests(m.user()); !slices.Equal(lists, now) {
		t.Errorf("the operator listed again (-before +after)\n%s", cmp.Diff(lists, now))
	}
	if now, _ := m.link.connectionCounts(); now != accepted+2 { // the trials before and after the write
		t.Errorf("%d connections were made, want 2", now-accepted)
	}
	m.waitForEvent(t, m.name, corev1.EventTypeNormal, v1alpha1.ReasonTokenRenewed)
	m.waitForProbes(t, 3)
	if diff := cmp.Diff(map[string]float64{"renewed": 1, "failed": 0}, m.renewals(t)); diff != "" {
		t.Errorf("renewals (-want +got):\n%s", diff)
	}
	if written, requested := m.writes("secrets"), m.tokenRequests(); written != 1 || requested != 1 {
		t.Errorf("the Secret was written %d times, for %d tokens", written, requested)
	}
}

func TestToken_whose_renewal_the_member_refuses_is_renewed_when_it_permits_it(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	m := env.newMember(t, env.operator, "refuses")
	old := m.agedToken(t, 55*time.Minute, 100*time.Minute)
	e := m.join(t, withToken(old))
	m.askForRenewal(t)
	m.waitForFailure(t, "Apply the current rbac.yaml of config/member on the member")
	m.checkContinues(t, e)
	if got := m.renewals(t); got["failed"] == 0 || got["renewed"] != 0 {
		t.Errorf("the renewals are %v", got)
	}

	m.permitRenewal(t)
	next := m.waitForRenewal(t, old)
	m.waitForCredential(t, e, m.user(), tokenID(next))
	m.waitForConditions(t, summaryConnected)
	m.checkContinues(t, e)
}

// The operator's write is based on what it read before it asked the member.
func TestToken_renewal_does_not_overwrite_an_edit_of_the_Secret(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	m := env.newMember(t, env.operator, "edited-meanwhile")
	m.permitRenewal(t)
	old := m.agedToken(t, 55*time.Minute, 100*time.Minute)
	before := m.kubeconfig(t, withToken(old))
	m.createSecret(t, before)
	e := m.waitForEngagement(t, 1)
	asked, resume := make(chan struct{}), make(chan struct{})
	var once sync.Once
	m.proxy.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
		if isTokenRequest(r) {
			once.Do(func() { close(asked); <-resume })
		}
		return false
	})
	m.askForRenewal(t)
	<-asked
	edited := append([]byte("# edited by a person\n"), before...)
	m.replaceKubeconfig(t, edited)
	close(resume)
	next := m.waitForRenewal(t, old)
	after, _ := m.storedKubeconfig(t)
	if want := bytes.ReplaceAll(edited, []byte(old), []byte(next)); !bytes.Equal(want, after) {
		t.Errorf("(-want +got)\n%s", cmp.Diff(string(want), string(after)))
	}
	m.waitForCredential(t, e, m.user(), tokenID(next))
	m.checkContinues(t, e)
	if got := m.renewals(t); got["failed"] != 0 {
		t.Errorf("the edit counts as a failure: %v", got)
	}
}

func TestToken_that_the_hub_does_not_store_is_renewed_when_it_does(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	const fleet = "fleet-renewal-refused"
	o := env.newOperator(t, fleet)
	role := &rbacv1.Role{}
	if err := errors.Join(readObject("../config/rbac/role.yaml", role), env.hub.admin.Get(ctx, client.ObjectKey{Namespace: fleet, Name: role.Name}, role)); err != nil {
		t.Fatal(err)
	}
	permitted := role.DeepCopy()
	for i := range role.Rules {
		if slices.Contains(role.Rules[i].Resources, "secrets") {
			role.Rules[i].Verbs = []string{"list", "watch"}
		}
	}
	if err := env.hub.admin.Update(ctx, role); err != nil {
		t.Fatal(err)
	}
	m := env.newMember(t, o, "hub-refuses")
	m.permitRenewal(t)
	old := m.agedToken(t, 55*time.Minute, 100*time.Minute)
	e := m.join(t, withToken(old))
	m.askForRenewal(t)
	m.waitForFailure(t, "the hub does not permit the write of the Secret: apply the current config/rbac on the hub")
	m.checkContinues(t, e)

	permitted.ResourceVersion = role.ResourceVersion
	if err := env.hub.admin.Update(ctx, permitted); err != nil {
		t.Fatal(err)
	}
	next := m.waitForRenewal(t, old)
	m.waitForCredential(t, e, m.user(), tokenID(next))
	m.waitForConditions(t, summaryConnected)
	m.checkContinues(t, e)
}

// A member decides on its responses. Whatever it answers, the Secret keeps the token that works,
// and the member is supervised as before.
func TestToken_that_does_not_work_is_not_stored(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	type newFault func(_ testing.TB, _ *testMember, old string) fault
	respond := func(token func(_ testing.TB, _ *testMember, old string) string) newFault {
		return func(t testing.TB, m *testMember, old string) fault {
			body := fmt.Sprintf(`{"kind":"TokenRequest","apiVersion":"authentication.k8s.io/v1","status":{"token":%q}}`, token(t, m, old))
			return func(w http.ResponseWriter, r *http.Request) bool {
				if !isTokenRequest(r) {
					return false
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusCreated)
				_, _ = w.Write([]byte(body))
				return true
			}
		}
	}
	do := func(handle http.HandlerFunc) newFault {
		return func(testing.TB, *testMember, string) fault {
			return func(w http.ResponseWriter, r *http.Request) bool {
				if !isTokenRequest(r) {
					return false
				}
				handle(w, r)
				return true
			}
		}
	}
	tests := map[string]struct {
		fault newFault
		want  string
	}{
		"because its signature is wrong": {respond(func(t testing.TB, m *testMember, old string) string {
			token := m.reissue(t, old, 0, time.Hour)
			return strings.ReplaceAll(token, signatureOf(token), strings.Repeat("A", len(signatureOf(token))))
		}), "the member does not accept the new token: the member rejects the credentials"},
		"because it is of another account": {respond(func(t testing.TB, m *testMember, _ string) string {
			return env.newMemberWithoutRole(t, m.operator, m.name+"-stranger").agedToken(t, 0, time.Hour)
		}), "the member issued a token of another ServiceAccount, or bound to another Secret"},
		"because it is not bound to the Secret": {respond(func(t testing.TB, m *testMember, _ string) string {
			return m.agedToken(t, 0, time.Hour)
		}), "the member issued a token of another ServiceAccount, or bound to another Secret"},
		"because it is as old as the current one": {respond(func(t testing.TB, m *testMember, old string) string {
			return m.reissue(t, old, 55*time.Minute, 100*time.Minute)
		}), "which is over soon by the hub's clock: check both clocks"},
		"because it is no token": {respond(func(testing.TB, *testMember, string) string { return "canary" }), "the new token is not a JSON Web Token"},
		"because it would change the kubeconfig": {
			respond(func(testing.TB, *testMember, string) string { return "a.b.c\n    exec: {command: canary}" }), "the new token is not a JSON Web Token",
		},
		"because the response quotes the old one": {do(quoteToken(http.StatusForbidden)), "no: (the token)"},
		"because the member rejects and quotes it": {func(_ testing.TB, _ *testMember, old string) fault {
			return func(w http.ResponseWriter, r *http.Request) bool {
				if !isProbe(r) || r.Header.Get("Authorization") == "Bearer "+old {
					return false
				}
				quoteToken(http.StatusForbidden)(w, r)
				return true
			}
		}, "the member does not accept the new token: the credentials lack a permission"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := env.newMember(t, env.operator, "bad-token-"+memberName(strings.TrimPrefix(name, "because ")))
			m.permitRenewal(t)
			old := m.agedToken(t, 55*time.Minute, 100*time.Minute)
			e := m.join(t, withToken(old))
			m.proxy.setFault(test.fault(t, m, old))
			m.askForRenewal(t)
			m.waitForFailure(t, test.want)
			m.checkContinues(t, e)
			if _, token := m.storedKubeconfig(t); token != old {
				t.Errorf("the Secret has another token: %v", tokenClaims(t, token))
			}
			m.proxy.setFault(nil)
			m.waitForCredential(t, e, m.user(), tokenID(m.waitForRenewal(t, old)))
			m.checkContinues(t, e)
		})
	}
}

// The next attempt repairs a single failure, so nobody is asked to look at it.
func TestToken_whose_renewal_fails_once_is_renewed_without_a_report(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	for name, fail := range map[string]http.HandlerFunc{
		"because the member is overloaded":       func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) },
		"because the member is not available":    func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"because the stream of the request ends": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"because the response ends early": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusCreated)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
		"because the request hangs": hang,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := env.newMember(t, env.operator, "fails-once-"+memberName(strings.TrimPrefix(name, "because ")))
			m.permitRenewal(t)
			old := m.agedToken(t, 55*time.Minute, 100*time.Minute)
			e := m.join(t, withToken(old))
			var failed atomic.Bool
			m.proxy.setFault(func(w http.ResponseWriter, r *http.Request) bool {
				if !isTokenRequest(r) || failed.Swap(true) {
					return false
				}
				fail(w, r)
				return true
			})
			m.askForRenewal(t)
			m.waitForCredential(t, e, m.user(), tokenID(m.waitForRenewal(t, old)))
			m.waitForEvent(t, m.name, corev1.EventTypeNormal, v1alpha1.ReasonTokenRenewed)
			m.waitForConditions(t, summaryConnected)
			m.checkContinues(t, e)
			if diff := cmp.Diff(map[string]float64{"renewed": 1, "failed": 1}, m.renewals(t)); diff != "" {
				t.Errorf("renewals (-want +got):\n%s", diff)
			}
			for _, event := range m.events(t) {
				if event.Regarding.Name == m.name && event.Reason == v1alpha1.ReasonRenewalFailed {
					t.Errorf("there is an event: %s", event.Note)
				}
			}
		})
	}
}

func TestToken_whose_renewal_keeps_failing_is_reported(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	for name, test := range map[string]struct {
		fail http.HandlerFunc
		want string
	}{
		"because the member is not available": {
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
			"the member issues no token: the server answers 503 Service Unavailable",
		},
		"because the response is HTML": {
			func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusCreated)
				_, _ = w.Write([]byte("<html>canary</html>"))
			},
			"the server answers, but not as a Kubernetes API server does",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := env.newMember(t, env.operator, "keeps-failing-"+memberName(strings.TrimPrefix(name, "because ")))
			m.permitRenewal(t)
			const lifetime = 4 * time.Minute // a tenth of it is the time without a report
			old := m.agedToken(t, lifetime/2, lifetime)
			e := m.join(t, withToken(old))
			var first atomic.Pointer[time.Time]
			m.proxy.setFault(func(w http.ResponseWriter, r *http.Request) bool {
				if !isTokenRequest(r) {
					return false
				}
				first.CompareAndSwap(nil, new(time.Now()))
				test.fail(w, r)
				return true
			})
			m.askForRenewal(t)
			m.waitForFailure(t, test.want)
			failedFor := time.Since(*first.Load())
			if count := m.renewals(t)["failed"]; failedFor < lifetime/10 || count < 3 {
				t.Errorf("the failure was reported after %s and %v attempts", failedFor, count)
			}
			m.checkContinues(t, e)
			m.proxy.setFault(nil)
			m.waitForCredential(t, e, m.user(), tokenID(m.waitForRenewal(t, old)))
			m.waitForConditions(t, summaryConnected)
			m.checkContinues(t, e)
		})
	}
}

func TestToken_renewal_that_hangs_does_not_delay_the_supervision(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	m := env.newMember(t, env.operator, "renewal-hangs")
	e := m.join(t, withToken(m.agedToken(t, 55*time.Minute, 100*time.Minute)))
	asked, ended := make(chan struct{}), make(chan struct{})
	var once sync.Once
	m.proxy.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if !isTokenRequest(r) {
			return false
		}
		m.proxy.countFault()
		once.Do(func() {
			close(asked)
			hang(w, r)
			close(ended)
		})
		return true
	})
	m.askForRenewal(t)
	<-asked
	m.waitForProbes(t, 2)
	if count := m.proxy.faults(); count != 1 {
		t.Errorf("%d tokens were requested at the same time", count)
	}
	select {
	case <-ended:
		t.Error("the probes waited for the end of the renewal")
	default:
	}
	m.deleteSecret(t)
	m.waitForEnd(t, e)
	wait.Receive(t, ended, "the end of the renewal, which ends with its session")
}

func TestSecret_with_the_annotation_and_nothing_to_renew_says_so(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	endless := func(t *testing.T, m *testMember) []kubeconfigEdit {
		fresh, _ := m.newToken(t)
		claims := tokenClaims(t, fresh)
		delete(claims, "kubernetes.io")
		// A token from a Secret of type service-account-token.
		for key, value := range map[string]string{
			"iss": "kubernetes/serviceaccount", "kubernetes.io/serviceaccount/namespace": memberNamespace,
			"kubernetes.io/serviceaccount/service-account.name": m.name, "kubernetes.io/serviceaccount/service-account.uid": string(m.account.UID),
		} {
			claims[key] = value
		}
		bound := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: memberNamespace, Name: m.name + "-endless", Annotations: map[string]string{corev1.ServiceAccountNameKey: m.name}},
			Type:       corev1.SecretTypeServiceAccountToken,
		}
		m.createObject(t, env.member, bound)
		claims["kubernetes.io/serviceaccount/secret.name"] = bound.Name
		for _, key := range []string{"exp", "iat", "nbf", "aud", "jti"} {
			delete(claims, key)
		}
		token, err := tokentest.Sign(env.member.tokenKey(t), fresh, claims)
		if err != nil {
			t.Fatal(err)
		}
		knownCredentials.add(signatureOf(token))
		bound.Data = map[string][]byte{corev1.ServiceAccountTokenKey: []byte(token)}
		if err := env.member.admin.Update(ctx, bound); err != nil {
			t.Fatal(err)
		}
		return []kubeconfigEdit{withToken(token)}
	}
	tests := map[string]struct {
		edits func(*testing.T, *testMember) []kubeconfigEdit
		want  string
	}{
		"because the token does not expire": {endless, "the token does not expire"},
		"because of a client certificate": {func(t *testing.T, m *testMember) []kubeconfigEdit {
			m.proxy, m.ca, m.link = nil, env.member.environment.Config.CAData, newNetworkLink(t, env.member.address())
			user := env.member.userConfig("certified-" + m.name)
			m.grantMemberRole(t, rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "certified-" + m.name})
			return []kubeconfigEdit{withCertificate(user.CertData, user.KeyData)}
		}, "the kubeconfig has a client certificate, and only tokens are renewed"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			operator := env.operator
			if strings.Contains(name, "certificate") {
				operator = env.newOperator(t, "fleet-renewal-certificate") // see TestKubeconfig_rotation
			}
			m := env.newMember(t, operator, "nothing-"+memberName(strings.TrimPrefix(name, "because ")))
			m.permitRenewal(t)
			e := m.join(t, test.edits(t, m)...)
			before, _ := m.storedKubeconfig(t)
			m.askForRenewal(t)
			m.waitForConditions(t, "Ready True Connected, CredentialsValid True NotRenewable")
			message := meta.FindStatusCondition(m.memberCluster(t).Status.Conditions, v1alpha1.ConditionCredentialsValid).Message
			if !strings.Contains(message, test.want) {
				t.Errorf("the message is %q", message)
			}
			m.waitForEvent(t, m.name, corev1.EventTypeWarning, v1alpha1.ReasonNotRenewable)
			if after, _ := m.storedKubeconfig(t); !bytes.Equal(before, after) {
				t.Error("the Secret was changed")
			}
			m.updateSecret(t, func(s *corev1.Secret) { s.Annotations = nil })
			m.waitForConditions(t, summaryConnected)
			m.checkContinues(t, e)
			if got := m.renewals(t); len(got) > 0 {
				t.Errorf("there are metrics of renewals: %v", got)
			}
		})
	}
}

// When a renewal is due follows from the token, so a restart renews nothing that is not due. Nor
// does it change what the conditions say before it has tried.
func TestOperator_that_restarts_renews_nothing_again(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	const fleet = "fleet-renewal-restart"
	o := env.newOperator(t, fleet)
	renewed, refused := env.newMember(t, o, "restart-renewed"), env.newMember(t, o, "restart-refused-renewal")
	renewed.permitRenewal(t)
	old := map[*testMember]string{}
	for _, m := range []*testMember{renewed, refused} {
		old[m] = m.agedToken(t, 55*time.Minute, 100*time.Minute)
		m.join(t, withToken(old[m]))
		m.askForRenewal(t)
	}
	next := renewed.waitForRenewal(t, old[renewed])
	renewed.waitForConditions(t, summaryConnected)
	refused.waitForFailure(t, "rbac.yaml")
	renewed.waitForAllocatable(t)
	refused.waitForAllocatable(t)
	wait.Eventually(t, func() error {
		if at := renewed.memberCluster(t).Status.CredentialsExpirationTime; at == nil || !at.Time.Equal(claimedTime(t, next, "exp")) {
			return fmt.Errorf("the credentials expire at %s", at)
		}
		return nil
	})
	if err := o.stop(); err != nil {
		t.Fatal(err)
	}
	asked, refusals := renewed.tokenRequests(), refused.tokenRequests()
	again, err := env.startOperator(fleet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = again.stop() })
	for _, m := range []*testMember{renewed, refused} {
		m.operator = again
	}
	renewed.waitForEngagement(t, 1)
	wait.Eventually(t, func() error {
		if refused.tokenRequests() == refusals {
			return errors.New("the refused renewal was not tried again")
		}
		return nil
	})
	renewed.waitForProbes(t, 3)
	refused.waitForProbes(t, 1)
	if now := renewed.tokenRequests(); now != asked {
		t.Errorf("%d tokens were requested before the restart, %d now", asked, now)
	}
	if writes := env.hub.writeRequests(again); len(writes) > 0 {
		t.Errorf("the operator wrote after the restart: %v", writes)
	}
}
