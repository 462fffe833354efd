package clusters

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
	"github.com/fleetwright/fleetwright/clusters/transport"
)

// renewalTimeout limits one renewal: a request to the member, the probe with the new token, and the
// write to the hub.
const renewalTimeout = 30 * time.Second

// renewer renews the token of a member, if its Secret asks for it. Only the goroutine of the member
// uses running and backoff. Each renewal has a separate goroutine, which uses only member.
type renewer struct {
	member *member
	// running is the renewal that is running; nil if there is none.
	running *renewal
	backoff renewalBackoff
}

// renewal is one renewal of the token of a member.
type renewal struct {
	// of is the session that asks the member, and config the kubeconfig whose token is renewed.
	of     *session
	config *kubeconfig.Config

	// done is closed when the renewal has ended. The result may be read only after that.
	done chan struct{}
	// issued is the renewal of the new token, which the Secret now has.
	issued kubeconfig.Renewal
	err    error
}

// ended returns a channel that is closed when the renewal has ended, or nil if there is none.
func (r *renewal) ended() <-chan struct{} {
	if r == nil {
		return nil
	}
	return r.done
}

// start starts a renewal of the token in use, which ends with the session at the latest.
func (r *renewer) start() {
	active := r.member.active
	next := &renewal{of: active.session, config: active.config, done: make(chan struct{})}
	r.running = next
	go func() {
		defer close(next.done)
		ctx, cancel := context.WithTimeout(next.of.ctx, renewalTimeout)
		defer cancel()
		next.issued, next.err = r.renew(ctx, next)
	}()
}

// renew asks the member for a new token, tries the token, and writes it to the Secret. The watch of
// the Secret then brings the token back, and it is swapped in place as after any other edit. renew
// returns the renewal of the new token.
// docs/decisions/the-hub-renews-tokens.md says why.
func (r *renewer) renew(ctx context.Context, next *renewal) (kubeconfig.Renewal, error) {
	m := r.member
	secret, due, err := r.readRenewable(ctx, next.config)
	if err != nil {
		return kubeconfig.Renewal{}, err
	}
	token, err := requestToken(ctx, next.of.connection, due)
	if err != nil {
		return kubeconfig.Renewal{}, err
	}
	renewed, config, rejected := secret.WithToken(token, m.options.Policy)
	if rejected != nil {
		return kubeconfig.Renewal{}, rejected
	}
	issued := renewed.Renewal(config)
	if err := checkRenewed(due, issued, time.Now()); err != nil {
		return kubeconfig.Renewal{}, err
	}
	switch id, err := m.try(ctx, config); {
	case err != nil:
		return kubeconfig.Renewal{}, &trialError{err}
	case id != next.of.info.id:
		return kubeconfig.Renewal{}, &trialError{errAnotherCluster}
	}
	return issued, m.provider.writeSecret(ctx, secret, renewed, issued)
}

// readRenewable returns the Secret of the member and the renewal that it asks for. It returns
// errSecretChanged unless the Secret has the kubeconfig that is in use, and asks for a renewal.
func (r *renewer) readRenewable(ctx context.Context, inUse *kubeconfig.Config) (*kubeconfig.MemberSecret, kubeconfig.Renewal, error) {
	m := r.member
	secret, err := m.provider.readSecret(ctx, m.secret)
	if err != nil {
		return nil, kubeconfig.Renewal{}, err
	}
	if secret == nil || secret.Name != m.name.String() {
		return nil, kubeconfig.Renewal{}, errSecretChanged
	}
	config, rejected := secret.Parse(m.options.Policy)
	if rejected != nil || !config.Equal(inUse) {
		return nil, kubeconfig.Renewal{}, errSecretChanged
	}
	due := secret.Renewal(config)
	if !due.IsPossible() {
		return nil, kubeconfig.Renewal{}, errSecretChanged
	}
	return secret, due, nil
}

// requestToken asks the member for another token like the one that is renewed.
func requestToken(ctx context.Context, member *transport.Client, like kubeconfig.Renewal) (string, error) {
	seconds := max(int64(like.Lifetime().Seconds()), minTokenSeconds)
	request := authenticationv1.TokenRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: authenticationv1.SchemeGroupVersion.String(), Kind: "TokenRequest"},
		Spec:     authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds},
	}
	if bound := like.Bound; bound.Name != "" {
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Secret", Name: bound.Name, UID: bound.UID}
	}
	path := "/api/v1/namespaces/" + url.PathEscape(like.Account.Namespace) + "/serviceaccounts/" + url.PathEscape(like.Account.Name) + "/token"
	var response authenticationv1.TokenRequest
	if err := member.PostJSON(ctx, path, &request, &response); err != nil {
		return "", &tokenRequestError{err}
	}
	return response.Status.Token, nil
}

// minTokenSeconds is the shortest lifetime that an API server accepts in a TokenRequest.
const minTokenSeconds = 600

// finish processes the result of the renewal.
func (r *renewer) finish(ctx context.Context) {
	ended, m := r.running, r.member
	r.running = nil
	if ctx.Err() != nil {
		return
	}
	now := time.Now()
	switch {
	case ended.err == nil:
		m.log.Info("Renewed the token", "expires", ended.issued.Expires)
		tokenRenewals.WithLabelValues(m.name.String(), resultRenewed).Inc()
		// Until the watch has brought the Secret back, the old token is in use.
		r.backoff = afterRenewal(now, ended.issued)
		m.shared.update(func(s *snapshot) { s.renewalFailure = "" })
	case m.active == nil || m.active.session != ended.of || m.active.config != ended.config, isTemporary(ended.err):
		// The failure says nothing about the token that is in use now.
		r.backoff = r.backoff.delayed(now, ended.config)
	default:
		message := renewalFailure(ended.err)
		m.log.Info("The renewal of the token failed", "message", message)
		tokenRenewals.WithLabelValues(m.name.String(), resultFailed).Inc()
		r.backoff = r.backoff.failed(now, ended.config)
		if r.backoff.needsReport(now, ended.err) {
			m.shared.update(func(s *snapshot) { s.renewalFailure = message })
		}
	}
}

// abort waits for the end of the renewal, if there is one. The session has ended before, so the
// renewal ends at once.
func (r *renewer) abort() {
	if r.running != nil {
		<-r.running.done
		r.running = nil
	}
}

// due returns a channel that receives a value when the token in use is to be renewed, or nil if no
// renewal may start: the member is not connected, the Secret has another kubeconfig than the one in
// use, or nobody asked for renewals.
func (r *renewer) due() <-chan time.Time {
	active := r.member.active
	want, accepted := r.member.shared.latestAccepted()
	if active == nil || r.running != nil || !accepted || active.config != want.config || !want.renewal.IsPossible() {
		return nil
	}
	at := want.renewal.At
	if r.backoff.notBefore.After(at) {
		at = r.backoff.notBefore
	}
	return time.After(time.Until(at))
}

// writeSecret replaces the kubeconfig of a Secret on the hub. It returns errSecretChanged if the
// Secret is no longer the one that was read.
func (r *Reconciler) writeSecret(ctx context.Context, from, to *kubeconfig.MemberSecret, issued kubeconfig.Renewal) error {
	patch := client.MergeFromWithOptions(from.Secret, client.MergeFromWithOptimisticLock{})
	written := to.Secret.DeepCopy()
	err := r.hub.Patch(ctx, written, patch, client.FieldOwner(v1alpha1.ManagedBy))
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return errSecretChanged
	case err != nil:
		return &secretWriteError{err}
	}
	r.events.Eventf(written, nil, corev1.EventTypeNormal, v1alpha1.ReasonTokenRenewed, "Renew",
		"the token of member %s was renewed; it expires at %s", to.Name, formatTime(issued.Expires))
	return nil
}

// errSecretChanged ends a renewal because the Secret no longer has the token in use, or because
// somebody changed the Secret meanwhile. The next renewal starts with what the Secret then has.
var errSecretChanged = errors.New("the Secret was changed meanwhile")

// The steps of a renewal that can fail.
type (
	// tokenRequestError is the failure of a TokenRequest to the member.
	tokenRequestError struct{ error }
	// trialError is the failure of the new token.
	trialError struct{ error }
	// secretWriteError is the failure of the write to the hub.
	secretWriteError struct{ error }
	// unsuitableTokenError is a new token that may not replace the old one.
	unsuitableTokenError struct{ message string }
)

func (e *tokenRequestError) Unwrap() error { return e.error }
func (e *trialError) Unwrap() error        { return e.error }
func (e *secretWriteError) Unwrap() error  { return e.error }

func (e *unsuitableTokenError) Error() string { return e.message }

// isTemporary reports whether a failed renewal needs no attention: the Secret was changed, the
// session has ended, or this replica may not lead any longer.
func isTemporary(err error) bool {
	var refusal interface{ Fenced() bool }
	return errors.Is(err, errSecretChanged) || errors.Is(err, context.Canceled) || errors.As(err, &refusal) && refusal.Fenced()
}

// isRefusal reports whether a renewal failed for a reason that remains until somebody acts. Any
// other failure can end without that: the member or the hub does not answer, or is overloaded.
func isRefusal(err error) bool {
	switch code := transport.StatusCode(err); {
	case code == http.StatusRequestTimeout || code == http.StatusTooManyRequests:
		return false
	case code != 0:
		return code < http.StatusInternalServerError
	}
	return errors.As(err, new(*kubeconfig.RejectedError)) || errors.As(err, new(*unsuitableTokenError)) ||
		errors.As(err, new(*identityError)) || transport.IsWrongServer(err) || transport.CredentialAlert(err) != ""
}

// renewalFailure returns what is wrong, and what to do. It quotes no credential.
func renewalFailure(err error) string {
	var (
		request  *tokenRequestError
		trial    *trialError
		write    *secretWriteError
		rejected *kubeconfig.RejectedError
	)
	switch {
	case errors.As(err, &request):
		return requestFailure(request.error)
	case errors.As(err, &trial):
		return "the member does not accept the new token: " + conditionFor(trial.error).message
	case errors.As(err, &write):
		return writeFailure(write.error)
	case errors.As(err, &rejected):
		return rejected.Message
	}
	return transport.Sanitize(err.Error())
}

// requestFailure returns why the member issues no token.
func requestFailure(err error) string {
	switch code := transport.StatusCode(err); code {
	case http.StatusForbidden:
		return "the member does not permit it: " + transport.SafeMessage(err) + ". Apply the current rbac.yaml of config/member on the member"
	case http.StatusNotFound:
		return "the member has no such ServiceAccount: join the member again"
	}
	return "the member issues no token: " + conditionFor(err).message
}

// writeFailure returns why the hub does not store the token. It does not quote the hub's message,
// because a message about a Secret may quote the Secret.
func writeFailure(err error) string {
	switch {
	case apierrors.IsForbidden(err):
		return "the hub does not permit the write of the Secret: apply the current config/rbac on the hub"
	case apierrors.IsInvalid(err):
		return "the hub refuses the changed Secret: is it immutable?"
	case apierrors.ReasonForError(err) != metav1.StatusReasonUnknown:
		return "the hub refuses the changed Secret: " + string(apierrors.ReasonForError(err))
	}
	return "the Secret cannot be written: " + transport.SafeMessage(err)
}
