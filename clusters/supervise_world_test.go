package clusters

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
	"github.com/fleetwright/fleetwright/clusters/transport"
)

// memberWorld is a Provider with one member, in a bubble of synctest. The supervisor and its sessions
// are real. The member's API server and the hub are scripted: each request of the supervisor waits
// until the test answers it, or until its context ends.
type memberWorld struct {
	provider *Provider
	member   *member // nil while the Secret does not exist

	mu          sync.Mutex
	calls       []*call
	engagements []*scriptedEngagement
	// watched is what a controller of multicluster-runtime watches: it ends its engagement when it is
	// engaged with another Cluster.
	watched cluster.Cluster
	// visible receives a value when the supervisor has done something that the test can see.
	visible chan struct{}
	// answers, if it is not nil, answers calls at once.
	answers func(*call) (outcome, bool)
	// isTrial is set while the next connection is that of a renewal.
	isTrial bool
	// isQueued is set when the Secret is to be reconciled.
	isQueued bool
	// stopped is set after the operator was stopped. Then nothing may happen.
	stopped bool
	broken  []error // rules

	// secret is the Secret on the hub, and shown the one that the hub's cache shows.
	secret, shown *corev1.Secret
	accepted      *corev1.Secret // the last one that is accepted
	tokens        int
	pinned        types.UID // by the status of the MemberCluster
	acknowledged  types.UID
	isOtherSeen   bool // the other cluster has answered
	published     snapshot

	rules memberRules
}

// call is a request of the supervisor that waits for its answer.
type call struct {
	kind callKind
	at   time.Time
	on   *connection // nil for an engagement
	done chan outcome
}

type callKind string

const (
	callProbe  callKind = "probe"
	callToken  callKind = "token request"
	callEngage callKind = "engagement"
)

// outcome is how a call ends.
type outcome string

const (
	outcomeRight    outcome = "is answered"
	outcomeRefused  outcome = "is refused by the network"
	outcomeRejected outcome = "is rejected"
	outcomeOther    outcome = "is answered by another cluster"
	outcomeStarved  outcome = "is not sent"
)

// identities of the member, and of another cluster.
const thisCluster, otherCluster = types.UID("this"), types.UID("other")

// outcomeOf returns the answer of a cluster with this identity.
func outcomeOf(id types.UID) outcome {
	if id == otherCluster {
		return outcomeOther
	}
	return outcomeRight
}

// identityOf returns the identity in an answer.
func identityOf(result outcome) types.UID {
	if result == outcomeOther {
		return otherCluster
	}
	return thisCluster
}

// connection is a transport.Client of the supervisor, as the round tripper that Options.Wrap makes.
// Requests end here, before they get credentials: credentials_test.go tests with real API servers
// which credentials are sent.
type connection struct {
	world   *memberWorld
	isTrial bool
	// engagement is that of the session with this connection, if it was engaged.
	engagement *scriptedEngagement
	// failed is how many probes of its session have failed in a row since the member accepted config.
	failed int
	config *kubeconfig.Config
	// identity is the cluster that was connected.
	identity types.UID
	// mayEnd is the reason for which the session must end, or "".
	mayEnd string
	// want is the desired state when the supervisor made it.
	want desiredState
}

// scriptedEngagement is a call of Engage that succeeded.
type scriptedEngagement struct {
	ctx     context.Context
	cluster cluster.Cluster
	on      *connection
	of      *member
	isOver  bool
}

var (
	ordersCA     = sync.OnceValue(func() string { return base64.StdEncoding.EncodeToString(certificateA().Certificate) })
	ordersScheme = runtime.NewScheme()
	ordersRules  = kubeconfig.SecretRules{{Namespace: "fleet", Format: kubeconfig.FormatKubeconfig, Selector: labels.Everything()}}
	ordersKey    = types.NamespacedName{Namespace: "fleet", Name: "east"}
)

// newMemberWorld returns a world in a bubble, with a Secret that was just created.
func newMemberWorld(t *testing.T) *memberWorld {
	w := &memberWorld{visible: make(chan struct{}, 1)}
	provider, err := New(context.Background(), Options{
		Scheme: ordersScheme, Mapper: meta.NewDefaultRESTMapper(nil), ProbeInterval: 13 * time.Second, Wrap: w.wrap, OnUnreachable: w.noteUnreachable,
	})
	if err != nil {
		t.Fatal(err)
	}
	provider.aware, provider.onSnapshotChange = w, func(types.NamespacedName) { w.note(func() { w.isQueued = true }) }
	provider.lookUpOwner = func(context.Context, types.UID) (owner, error) { return owner{}, nil }
	provider.readSecret, provider.writeSecret = w.readSecret, w.writeSecret
	w.provider = provider
	w.edit(w.newSecret("a", 0))
	return w
}

// note records something that the supervisor does.
func (w *memberWorld) note(what func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped {
		w.broken = append(w.broken, broken("stop", "something happens after the stop"))
	}
	what()
	w.signal()
}

// signal makes the test see that something has happened.
func (w *memberWorld) signal() {
	select {
	case w.visible <- struct{}{}:
	default:
	}
}

// wrap is called for each Client of the supervisor.
func (w *memberWorld) wrap(http.RoundTripper) http.RoundTripper {
	c := &connection{world: w}
	w.note(func() {
		c.want, c.isTrial, w.isTrial = w.member.shared.latestDesired(), w.isTrial, false
	})
	return c
}

// RoundTrip answers a request. Only probes and token requests wait for the test.
func (c *connection) RoundTrip(request *http.Request) (*http.Response, error) {
	if err := request.Context().Err(); err != nil {
		return nil, err
	}
	c.world.noteRequest(request.Context(), c)
	kind := callProbe
	switch {
	case request.URL.Path == "/version":
		return respond(request, http.StatusOK, `{"gitVersion":"v1"}`), nil
	case request.URL.Path == "/api/v1/nodes":
		return respond(request, http.StatusOK, `{"items":[]}`), nil
	case request.Method == http.MethodPost:
		kind = callToken
	}
	result, err := c.world.await(request.Context(), &call{kind: kind, on: c})
	if err != nil {
		return nil, err
	}
	switch {
	case result == outcomeRefused:
		return nil, syscall.ECONNREFUSED
	case result == outcomeStarved:
		return nil, syscall.EMFILE
	case result == outcomeRejected && kind == callProbe:
		return respond(request, http.StatusUnauthorized, `{}`), nil
	case result == outcomeRejected:
		return respond(request, http.StatusForbidden, `{}`), nil
	case kind == callToken:
		return respond(request, http.StatusCreated, fmt.Sprintf(`{"status":{"token":%q}}`, c.world.newToken(0))), nil
	}
	return respond(request, http.StatusOK, fmt.Sprintf(`{"metadata":{"uid":%q}}`, identityOf(result))), nil
}

func respond(request *http.Request, code int, body string) *http.Response {
	return &http.Response{StatusCode: code, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: request}
}

// noteRequest checks that a session that has ended sends no request. A request whose context is just
// being cancelled with that of its session is not one.
func (w *memberWorld) noteRequest(ctx context.Context, on *connection) {
	w.mu.Lock()
	e := on.engagement
	w.mu.Unlock()
	if e == nil || e.ctx.Err() == nil {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(time.Nanosecond): // now all goroutines wait, and no cancellation is under way
		w.mu.Lock()
		defer w.mu.Unlock()
		w.broken = append(w.broken, broken("one session", "a session that has ended sends a request"))
	}
}

// await adds a call, and returns its outcome.
func (w *memberWorld) await(ctx context.Context, c *call) (outcome, error) {
	c.at, c.done = time.Now(), make(chan outcome, 1)
	w.note(func() {
		if answer := w.answers; answer != nil {
			if result, isAnswered := answer(c); isAnswered {
				w.settle(c, result)
				return
			}
		}
		w.calls = append(w.calls, c)
	})
	select {
	case result := <-c.done:
		return result, nil
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = slices.DeleteFunc(w.calls, func(other *call) bool { return other == c })
	w.signal()
	if time.Since(c.at) >= transport.GetTimeout || c.kind == callEngage && time.Since(c.at) >= DefaultConnectTimeout {
		w.noteOutcome(c, outcomeRefused) // it timed out
	}
	return "", ctx.Err()
}

// settle ends a call. The caller holds the lock.
func (w *memberWorld) settle(c *call, result outcome) {
	w.calls = slices.DeleteFunc(w.calls, func(other *call) bool { return other == c })
	w.isTrial = c.kind == callToken && result == outcomeRight
	w.noteOutcome(c, result)
	c.done <- result
}

// Engage is called for a session whose caches are synced, and for one that is engaged.
func (w *memberWorld) Engage(ctx context.Context, _ multicluster.ClusterName, of cluster.Cluster) error {
	if w.watch(ctx, of) {
		return nil
	}
	e := &scriptedEngagement{ctx: ctx, cluster: of, on: connectionOf(of.GetHTTPClient())}
	result, err := w.await(ctx, &call{kind: callEngage, on: e.on})
	if err != nil {
		return err
	}
	if result != outcomeRight {
		return errors.New("refused by the test")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	e.of, e.on.engagement, w.watched = w.member, e, of
	w.engagements = append(w.engagements, e)
	return nil
}

// watch reports whether a Cluster is engaged, and then watches it again.
func (w *memberWorld) watch(ctx context.Context, of cluster.Cluster) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.watched = nil
	if ctx.Err() == nil && slices.ContainsFunc(w.engagements, func(e *scriptedEngagement) bool { return e.cluster == of }) {
		w.watched = of
	}
	return w.watched != nil
}

// connectionOf returns the connection below an HTTP client.
func connectionOf(of *http.Client) *connection {
	next := of.Transport
	for {
		switch layer := next.(type) {
		case *connection:
			return layer
		case interface{ WrappedRoundTripper() http.RoundTripper }:
			next = layer.WrappedRoundTripper()
		default:
			panic(fmt.Sprintf("%T hides the connection", next))
		}
	}
}

func (w *memberWorld) readSecret(context.Context, types.NamespacedName) (*kubeconfig.MemberSecret, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.shown == nil {
		return nil, nil
	}
	return ordersRules.Member(w.shown), nil
}

func (w *memberWorld) writeSecret(ctx context.Context, from, to *kubeconfig.MemberSecret, _ kubeconfig.Renewal) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	err := errSecretChanged
	w.note(func() {
		if w.secret == from.Secret {
			w.secret, err = to.Secret, nil
		}
	})
	return err
}

// newToken returns a token of this age. Half of its lifetime of five minutes later, it is due.
func (w *memberWorld) newToken(age time.Duration) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tokens++
	issued := time.Now().Add(-age)
	return jwt(fmt.Sprintf(`{"sub":"system:serviceaccount:fleet:hub","jti":"%d","iat":%d,"exp":%d}`, w.tokens, issued.Unix(), issued.Add(5*time.Minute).Unix()))
}

// newSecret returns a Secret with a token of this age.
func (w *memberWorld) newSecret(server string, age time.Duration) *corev1.Secret {
	content := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","contexts":[{"name":"c","context":{"cluster":"c","user":"c"}}],`+
		`"clusters":[{"name":"c","cluster":{"server":"https://%s.example","certificate-authority-data":%q}}],"users":[{"name":"c","user":{"token":%q}}]}`,
		server, ordersCA(), w.newToken(age))
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: ordersKey.Namespace, Name: ordersKey.Name, Annotations: map[string]string{v1alpha1.AnnotationRenewToken: "true", "server": server}},
		Data:       map[string][]byte{"kubeconfig": []byte(content)},
	}
}

// edit changes the Secret on the hub; nil deletes it.
func (w *memberWorld) edit(secret *corev1.Secret) {
	w.mu.Lock()
	w.secret, w.shown, w.isQueued = secret, secret, true
	if secret != nil && len(secret.Data) > 0 {
		w.accepted = secret
	}
	w.mu.Unlock()
	w.wait()
}

// wait waits until the supervisor waits for the test, the member or a timer. Meanwhile it reconciles
// the Secret, as the Reconciler does.
func (w *memberWorld) wait() {
	synctest.Wait()
	for w.isQueued {
		w.isQueued = false
		w.reconcile()
		synctest.Wait()
	}
}

// parsed has the kubeconfigs by their content, because their parser takes longer than all else.
var parsed sync.Map

// parseOnce is Parse of a Secret with a cache. It returns another Config each time.
func parseOnce(secret *kubeconfig.MemberSecret) (*kubeconfig.Config, *kubeconfig.RejectedError) {
	content := string(secret.Secret.Data["kubeconfig"])
	if known, ok := parsed.Load(content); ok {
		config := *known.(*kubeconfig.Config)
		return &config, nil
	}
	config, rejected := secret.Parse(kubeconfig.Policy{})
	if rejected == nil {
		parsed.Store(content, config)
	}
	return config, rejected
}

func (w *memberWorld) setMember(m *member) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.member, w.published, w.rules = m, snapshot{}, memberRules{tried: map[*kubeconfig.Config]bool{}}
}

func (w *memberWorld) reconcile() {
	var secret *kubeconfig.MemberSecret
	if w.shown != nil {
		secret = ordersRules.Member(w.shown)
	}
	w.provider.removeMembers(ordersKey, secret)
	if secret == nil {
		w.setMember(nil)
		return
	}
	if w.member == nil {
		w.setMember(w.provider.ensureMember(multicluster.ClusterName(secret.Name), secret.Key()))
		synctest.Wait()
		w.member.log, w.member.shared.log = logr.Discard(), logr.Discard()
	}
	config, rejected := parseOnce(secret)
	w.member.shared.setDesired(desiredState{config: config, renewal: secret.Renewal(config), pinned: w.pinned, acknowledged: w.acknowledged}, rejected)
	w.published = w.member.shared.observed()
	if id := w.published.info.id; id != "" && id != w.pinned { // the write of the status triggers another reconciliation
		w.pinned, w.isQueued = id, true
	}
}
