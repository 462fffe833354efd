package clusters

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
	"github.com/fleetwright/fleetwright/clusters/transport"
)

func TestCredentialsValid_follows_the_renewal(t *testing.T) {
	issued := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	renewal := kubeconfig.Renewal{Issued: issued, At: issued.Add(45 * time.Hour), Expires: issued.Add(100 * time.Hour)}
	expiry := kubeconfig.Expiry{Warning: issued.Add(90 * time.Hour), End: renewal.Expires}
	const failed, due = "True RenewalFailed: the credentials expire at 2030-01-05T04:00:00Z; the token is not renewed: no", 45 * time.Hour
	tests := map[string]struct {
		known snapshot
		after time.Duration // since the token was issued
		want  string
	}{
		"before the renewal":                    {snapshot{renewal: renewal, expiry: expiry}, due - 1, "True Accepted: the kubeconfig is in use"},
		"while the renewal runs":                {snapshot{renewal: renewal, expiry: expiry}, due, " : "},
		"after the renewal failed":              {snapshot{renewal: renewal, expiry: expiry, renewalFailure: "no"}, due, failed},
		"just before the warning":               {snapshot{renewal: renewal, expiry: expiry, renewalFailure: "no"}, 90*time.Hour - 1, failed},
		"at the warning":                        {snapshot{renewal: renewal, expiry: expiry, renewalFailure: "no"}, 90 * time.Hour, strings.Replace(failed, "RenewalFailed", "ExpiringSoon", 1)},
		"at the warning, before the first try":  {snapshot{renewal: renewal, expiry: expiry}, 90 * time.Hour, "True ExpiringSoon: the credentials expire at 2030-01-05T04:00:00Z; renew the Secret's kubeconfig"},
		"at the expiry":                         {snapshot{renewal: renewal, expiry: expiry, renewalFailure: "no"}, 100 * time.Hour, strings.NewReplacer("True RenewalFailed", "False Expired", "expire at", "expired at").Replace(failed)},
		"after the annotation was removed":      {snapshot{expiry: expiry, renewalFailure: "no"}, due, "True Accepted: the kubeconfig is in use"},
		"with a token that is not renewable":    {snapshot{renewal: kubeconfig.Renewal{Blocker: "why"}}, due, "True NotRenewable: annotation fleetwright.dev/renew-token of the Secret has no effect: why. Write a token of a ServiceAccount that expires, or remove the annotation"},
		"with a certificate that expires":       {snapshot{renewal: kubeconfig.Renewal{Blocker: "why"}, expiry: expiry}, 90 * time.Hour, "True ExpiringSoon: the credentials expire at 2030-01-05T04:00:00Z; renew the Secret's kubeconfig"},
		"with a later token, due in the future": {snapshot{renewal: renewal, expiry: expiry, renewalFailure: "no"}, due - 1, "True Accepted: the kubeconfig is in use"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.known.credentials = credentialsAccepted
			got := test.known.credentialsAt(issued.Add(test.after))
			if text := fmt.Sprintf("%s %s: %s", got.status, got.reason, got.message); text != test.want {
				t.Errorf("got  %s\nwant %s", text, test.want)
			}
			refused := conditionState{"False", v1alpha1.ReasonExecRefused, "no exec"}
			test.known.credentials = refused
			if got := test.known.credentialsAt(issued.Add(test.after)); got != refused {
				t.Errorf("a rejected kubeconfig is reported as %+v", got)
			}
		})
	}
}

func TestRenewed_token_is_checked(t *testing.T) {
	issued := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	now := issued.Add(time.Hour)
	old := kubeconfig.Renewal{
		Account: types.NamespacedName{Namespace: "a", Name: "b"}, Bound: kubeconfig.BoundSecret{Name: "s", UID: "1"},
		Issued: issued, At: issued.Add(time.Hour), Expires: issued.Add(2 * time.Hour),
	}
	next := func(change func(*kubeconfig.Renewal)) kubeconfig.Renewal {
		r := old
		r.Issued, r.At, r.Expires = now, now.Add(time.Hour), now.Add(2*time.Hour)
		change(&r)
		return r
	}
	tests := map[string]struct {
		issued kubeconfig.Renewal
		want   string
	}{
		"a token like the old one":       {next(func(*kubeconfig.Renewal) {}), ""},
		"a token of a shorter life":      {next(func(r *kubeconfig.Renewal) { r.At, r.Expires = now.Add(time.Minute), now.Add(2*time.Minute) }), ""},
		"a token of another account":     {next(func(r *kubeconfig.Renewal) { r.Account.Name = "c" }), "the member issued a token of another ServiceAccount, or bound to another Secret"},
		"a token that is bound to more":  {next(func(r *kubeconfig.Renewal) { r.Bound = kubeconfig.BoundSecret{Name: "s", UID: "2"} }), "the member issued a token of another ServiceAccount, or bound to another Secret"},
		"a token that does not expire":   {kubeconfig.Renewal{Blocker: "the token does not expire"}, "the member issued an unusable token: the token does not expire"},
		"the old token":                  {old, "the member issued a token from 2030-01-01T00:00:00Z to 2030-01-01T02:00:00Z, which is over soon by the hub's clock: check both clocks"},
		"a token that is due at once":    {next(func(r *kubeconfig.Renewal) { r.At = now }), "the member issued a token from 2030-01-01T01:00:00Z to 2030-01-01T03:00:00Z, which is over soon by the hub's clock: check both clocks"},
		"a token of a clock that is off": {next(func(r *kubeconfig.Renewal) { r.At = now.Add(-1) }), "the member issued a token from 2030-01-01T01:00:00Z to 2030-01-01T03:00:00Z, which is over soon by the hub's clock: check both clocks"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := checkRenewed(old, test.issued, now); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestRenewals_that_fail_are_delayed(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for lifetime, most := range map[time.Duration]time.Duration{
		10 * time.Minute: 30 * time.Second, time.Hour: 3 * time.Minute, 24 * time.Hour: 10 * time.Minute, 8760 * time.Hour: 10 * time.Minute,
	} {
		var b renewalBackoff
		config := tokenWithLifetime(now, lifetime)
		var delays []time.Duration
		for range 20 {
			b = b.delayed(now, config)
			delays = append(delays, b.notBefore.Sub(now))
		}
		if delays[0] < 10*time.Second || delays[0] > 13*time.Second {
			t.Errorf("%s: the first delay is %s", lifetime, delays[0])
		}
		if longest := slices.Max(delays); longest < most || longest > most*5/4 {
			t.Errorf("%s: the longest delay is %s, want %s to a quarter more", lifetime, longest, most)
		}
		if b = b.delayed(now, tokenWithLifetime(now, lifetime)); b.notBefore.Sub(now) > 13*time.Second {
			t.Errorf("%s: another token is delayed by %s", lifetime, b.notBefore.Sub(now))
		}
	}
	issued := kubeconfig.Renewal{Issued: now, Expires: now.Add(10 * time.Minute)}
	if pause := afterRenewal(now, issued).notBefore.Sub(now); pause != 2*time.Minute {
		t.Errorf("the pause after a renewal is %s", pause)
	}
}

func TestFailure_of_a_renewal_is_reported(t *testing.T) {
	status := func(code int) error { return &tokenRequestError{&transport.StatusError{Code: code}} }
	network := func(err error) error {
		return &tokenRequestError{&url.Error{Op: "Post", URL: "https://canary", Err: err}}
	}
	secrets := schema.GroupResource{Resource: "secrets"}
	const always, never = time.Duration(0), time.Duration(-1)
	const hour, year = time.Hour, 8760 * time.Hour
	tests := map[string]struct {
		err      error
		lifetime time.Duration
		after    time.Duration // since the first failure
	}{
		"a member that forbids it":                   {status(http.StatusForbidden), year, always},
		"a member without the account":               {status(http.StatusNotFound), year, always},
		"a member without the Secret of the token":   {status(http.StatusConflict), year, always},
		"a member that refuses the request":          {status(http.StatusUnprocessableEntity), year, always},
		"a member that rejects the old token":        {status(http.StatusUnauthorized), year, always},
		"a member that rejects the new token":        {&trialError{&transport.StatusError{Code: http.StatusUnauthorized}}, year, always},
		"another cluster":                            {&trialError{errAnotherCluster}, year, always},
		"a server with another certificate":          {network(&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}), year, always},
		"an unsuitable token":                        {&unsuitableTokenError{"unsuitable"}, year, always},
		"a token that the checks reject":             {&kubeconfig.RejectedError{Reason: "any"}, year, always},
		"a hub that forbids the write":               {&secretWriteError{apierrors.NewForbidden(secrets, "canary", errors.New("canary"))}, year, always},
		"an immutable Secret":                        {&secretWriteError{apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "canary", nil)}, year, always},
		"an overloaded member":                       {status(http.StatusTooManyRequests), year, 5 * time.Minute},
		"an overloaded member, and a short lifetime": {status(http.StatusTooManyRequests), 10 * time.Minute, time.Minute},
		"a slow member":                              {status(http.StatusRequestTimeout), hour, 5 * time.Minute},
		"a member that has failed":                   {status(http.StatusInternalServerError), hour, 5 * time.Minute},
		"a member behind a proxy that has failed":    {status(http.StatusBadGateway), 20 * time.Minute, 2 * time.Minute},
		"a member that starts":                       {status(http.StatusServiceUnavailable), hour, 5 * time.Minute},
		"a page of a proxy":                          {&tokenRequestError{transport.ErrNotAPIServer}, hour, 5 * time.Minute},
		"a dropped connection":                       {network(io.EOF), hour, 5 * time.Minute},
		"a response that ends early":                 {&tokenRequestError{io.ErrUnexpectedEOF}, hour, 5 * time.Minute},
		"a timeout":                                  {network(context.DeadlineExceeded), hour, 5 * time.Minute},
		"a timeout of the trial":                     {&trialError{fmt.Errorf("probe: %w", context.DeadlineExceeded)}, hour, 5 * time.Minute},
		"an overloaded hub":                          {&secretWriteError{apierrors.NewTooManyRequests("canary", 1)}, hour, 5 * time.Minute},
		"a webhook of the hub that does not answer":  {&secretWriteError{apierrors.NewInternalError(errors.New("canary"))}, hour, 5 * time.Minute},
		"a hub that does not answer":                 {&secretWriteError{&url.Error{Op: "Patch", URL: "https://canary", Err: syscall.ECONNREFUSED}}, hour, 5 * time.Minute},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
			config := tokenWithLifetime(now, test.lifetime)
			backoff := renewalBackoff{}.failed(now, config)
			backoff = backoff.failed(now.Add(time.Second), config) // the first failure counts
			reportedAfter := never
			for after := always; after <= time.Hour && reportedAfter == never; after += time.Second {
				if backoff.needsReport(now.Add(after), test.err) {
					reportedAfter = after
				}
			}
			if reportedAfter != test.after {
				t.Errorf("reported after %s, want %s", reportedAfter, test.after)
			}
		})
	}
	t.Run("another token", func(t *testing.T) {
		now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
		backoff := renewalBackoff{}.failed(now, tokenWithLifetime(now, hour))
		later := now.Add(hour)
		if backoff = backoff.failed(later, tokenWithLifetime(now, year)); backoff.needsReport(later, status(http.StatusBadGateway)) {
			t.Error("the failures of the token before it count")
		}
	})
	t.Run("after an edit of the Secret", func(t *testing.T) {
		now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
		config := tokenWithLifetime(now, hour)
		backoff := renewalBackoff{}.delayed(now, config) // no failure
		later := now.Add(hour)
		if backoff = backoff.failed(later, config); backoff.needsReport(later, status(http.StatusBadGateway)) {
			t.Error("the edit counts as the first failure")
		}
	})
}

// tokenWithLifetime returns a Config with a token that is issued now and has this lifetime.
func tokenWithLifetime(now time.Time, lifetime time.Duration) *kubeconfig.Config {
	return &kubeconfig.Config{Token: jwt(fmt.Sprintf(`{"iat":%d,"exp":%d}`, now.Unix(), now.Add(lifetime).Unix()))}
}

// fenced is the error of a replica that no longer leads.
type fenced struct{ error }

func (fenced) Fenced() bool { return true }

func TestRenewal_failure_says_what_to_do(t *testing.T) {
	secrets := schema.GroupResource{Resource: "secrets"}
	tests := map[string]struct {
		err  error
		want string // empty if it needs no attention
	}{
		"a member that refuses": {
			&tokenRequestError{&transport.StatusError{Code: http.StatusForbidden}},
			"the member does not permit it: the server answers 403 Forbidden. Apply the current rbac.yaml of config/member on the member",
		},
		"a member without the account": {
			&tokenRequestError{&transport.StatusError{Code: http.StatusNotFound}}, "the member has no such ServiceAccount: join the member again",
		},
		"a member that is overloaded": {
			&tokenRequestError{&transport.StatusError{Code: http.StatusTooManyRequests}}, "the member issues no token: the server answers 429 Too Many Requests",
		},
		"a member that does not answer": {
			&tokenRequestError{&url.Error{Op: "Post", URL: "https://canary", Err: context.DeadlineExceeded}}, "the member issues no token: the member does not answer: timed out",
		},
		"a member that is no API server": {
			&tokenRequestError{transport.ErrNotAPIServer}, "the member issues no token: " + transport.ErrNotAPIServer.Error(),
		},
		"a token that does not work": {
			&trialError{&transport.StatusError{Code: http.StatusUnauthorized}}, "the member does not accept the new token: the member rejects the credentials; renew the Secret's kubeconfig",
		},
		"a token of another cluster": {
			&trialError{errAnotherCluster}, "the member does not accept the new token: " + errAnotherCluster.message,
		},
		"a hub that refuses": {
			&secretWriteError{apierrors.NewForbidden(secrets, "canary", errors.New("canary"))}, "the hub does not permit the write of the Secret: apply the current config/rbac on the hub",
		},
		"an immutable Secret": {
			&secretWriteError{apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Secret").GroupKind(), "canary", nil)}, "the hub refuses the changed Secret: is it immutable?",
		},
		"a hub that is overloaded": {
			&secretWriteError{apierrors.NewTooManyRequests("canary", 1)}, "the hub refuses the changed Secret: TooManyRequests",
		},
		"a hub that does not answer": {
			&secretWriteError{&url.Error{Op: "Patch", URL: "https://canary", Err: context.DeadlineExceeded}}, "the Secret cannot be written: timed out",
		},
		"a Secret that was changed":    {errSecretChanged, ""},
		"the end of the session":       {&tokenRequestError{fmt.Errorf("post: %w", context.Canceled)}, ""},
		"the end of the leadership":    {&secretWriteError{fmt.Errorf("patch: %w", fenced{errors.New("fenced")})}, ""},
		"the end of it, at the member": {&tokenRequestError{&url.Error{Op: "Post", URL: "https://canary", Err: fenced{errors.New("fenced")}}}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if isTemporary(test.err) != (test.want == "") {
				t.Errorf("isTemporary is %t", isTemporary(test.err))
			}
			if got := renewalFailure(test.err); test.want != "" && got != test.want || strings.Contains(got, "canary") {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}
