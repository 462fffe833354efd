package doctor

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/duration"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/join"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/output"
	"github.com/fleetwright/fleetwright/config/member"
)

const (
	// stepTimeout bounds each check from this machine.
	stepTimeout = 10 * time.Second
	// maxClockOffset is the largest difference of two clocks that is ok: tokens and certificates
	// are valid from a time on.
	maxClockOffset = time.Minute
)

// oldestVersion and newestVersion are the oldest and the newest version of Kubernetes that is tested
// as that of a member (docs/install.md, "Versions").
var oldestVersion, newestVersion = utilversion.MustParseSemantic("v1.33.0"), utilversion.MustParseSemantic("v1.36.0")

// examination makes the checks of a cluster from this machine.
type examination struct {
	*report
	cluster hub.ContextCluster
	found   *v1alpha1.MemberCluster
	Client  hub.Client
	advice  advice
}

// run makes all checks, until one fails without which the next ones are not possible.
func (e *examination) run(ctx context.Context) {
	for _, step := range []func(context.Context) bool{e.network, e.authentication, e.identity} {
		if !step(ctx) {
			e.add(clockCheck(ctx, "clock of hub", e.Client.Config))
			return
		}
	}
	permissions := e.permissions(ctx)
	e.add(permissions)
	if permissions.outcome == checkOK {
		e.add(e.configuration(ctx)...)
		e.add(e.policy(ctx))
	}
	e.add(e.version(ctx))
	e.add(clockCheck(ctx, "clock", e.cluster.Config), clockCheck(ctx, "clock of hub", e.Client.Config))
}

// network checks DNS, TCP and TLS. With a proxy, only the requests that follow can.
func (e *examination) network(ctx context.Context) bool {
	config := e.cluster.Config
	server, err := url.Parse(config.Host)
	if err != nil || server.Hostname() == "" {
		e.add(failed("server", "the server of context %s is %q, which is not a URL: correct your kubeconfig", e.cluster.Name, config.Host))
		return false
	}
	if server.Scheme == "http" {
		e.add(failed("server", "the server of context %s is %s, without TLS; Fleetwright needs https: correct your kubeconfig", e.cluster.Name, config.Host))
		return false
	}
	if usesProxy(config, server) {
		e.add(noted("network", "context %s uses a proxy, so DNS, TCP and TLS are not checked; the hub does not use this proxy", e.cluster.Name))
		return true
	}
	address, ok := e.resolve(ctx, server)
	if !ok {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	start := time.Now()
	connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		e.add(failed("TCP", "%s does not accept a connection (%v): check that the cluster runs, the port, firewalls and the VPN", address, causeOf(err)))
		return false
	}
	defer connection.Close() //nolint:errcheck // nothing was written
	e.add(passed("TCP", "%s answers in %s", address, max(time.Since(start), time.Millisecond).Round(time.Millisecond)))
	return e.handshake(ctx, connection, server.Hostname())
}

// usesProxy reports whether client-go connects to a server through a proxy: that of the kubeconfig, or
// else of the environment. A proxy that is not valid counts, because the requests then fail with it.
func usesProxy(config *rest.Config, server *url.URL) bool {
	proxyOf := http.ProxyFromEnvironment
	if config.Proxy != nil {
		proxyOf = config.Proxy
	}
	proxy, err := proxyOf(&http.Request{URL: server})
	return proxy != nil || err != nil
}

// resolve checks the name of the server, and returns its address.
func (e *examination) resolve(ctx context.Context, server *url.URL) (string, bool) {
	host, port := server.Hostname(), server.Port()
	if port == "" {
		port = "443"
	}
	if net.ParseIP(host) != nil {
		e.add(passed("DNS", "not needed: the server is %s", host))
		return net.JoinHostPort(host, port), true
	}
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	addresses, err := net.DefaultResolver.LookupHost(ctx, host)
	if err != nil {
		e.add(failed("DNS", "%s has no address (%v): check the name in your kubeconfig, and the DNS of this machine; the DNS of the hub may differ", host, causeOf(err)))
		return "", false
	}
	e.add(passed("DNS", "%s is %s", host, strings.Join(addresses, ", ")))
	return net.JoinHostPort(host, port), true
}

// handshake checks the certificate of the server.
func (e *examination) handshake(ctx context.Context, connection net.Conn, host string) bool {
	settings, err := rest.TLSConfigFor(e.cluster.Config)
	if err != nil {
		e.add(failed("TLS", "the certificates of context %s cannot be used: %v", e.cluster.Name, err))
		return false
	}
	if settings == nil {
		settings = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	if e.cluster.Config.ExecProvider != nil {
		settings.GetClientCertificate = nil // it would run the program for credentials: see authentication
	}
	if settings.ServerName == "" {
		settings.ServerName = host
	}
	encrypted := tls.Client(connection, settings)
	if err := encrypted.HandshakeContext(ctx); err != nil {
		e.add(failed("TLS", "%s", explainHandshake(err)))
		return false
	}
	if settings.InsecureSkipVerify {
		e.add(noted("TLS", "context %s does not verify the certificate of the server; the hub would refuse that", e.cluster.Name))
		return true
	}
	leaf := encrypted.ConnectionState().PeerCertificates[0]
	e.add(certificateCheck(leaf.NotBefore, leaf.NotAfter, time.Now()))
	return true
}

// explainHandshake returns what is wrong if the TLS handshake fails, and what to do.
func explainHandshake(err error) string {
	switch {
	case errors.As(err, new(tls.RecordHeaderError)):
		return "the server does not speak TLS: check the port in your kubeconfig"
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf("the server accepts the connection and does not answer within %s: check the port, and load balancers and firewalls in between", stepTimeout)
	case errors.Is(err, io.EOF), errors.As(err, new(syscall.Errno)):
		return fmt.Sprintf("the server closes the connection (%v): check the port, and load balancers and firewalls in between", causeOf(err))
	}
	return fmt.Sprintf("%v: check the certificate-authority-data and the name of the server in your kubeconfig", causeOf(err))
}

// certificateCheck returns the check of the validity of a verified certificate. As for credentials,
// the warning begins when a tenth of the lifetime is left.
func certificateCheck(begin, end, now time.Time) check {
	const share = 10
	if end.Sub(now) < end.Sub(begin)/share {
		return failed("TLS", "the certificate of the server ends on %s: renew it", end.UTC().Format(time.DateOnly))
	}
	return passed("TLS", "the certificate of the server is valid until %s", end.UTC().Format(time.DateOnly))
}

// causeOf returns the cause of an error of the network, without the addresses.
func causeOf(err error) error {
	var operation *net.OpError
	if errors.As(err, &operation) {
		return operation.Err
	}
	var lookup *net.DNSError
	if errors.As(err, &lookup) {
		return errors.New(lookup.Err)
	}
	return err
}

// authentication checks that the server accepts the credentials.
func (e *examination) authentication(ctx context.Context) bool {
	const what = "authentication"
	user, err := hub.Within(ctx, stepTimeout, func(ctx context.Context) (string, error) {
		review := &authenticationv1.SelfSubjectReview{}
		err := e.cluster.Create(ctx, review)
		return review.Status.UserInfo.Username, err
	})
	if err == nil {
		e.add(passed(what, "you are %s", user))
		return true
	}
	if end := certificateEnd(e.cluster.Config); !end.IsZero() && time.Now().After(end) {
		e.add(failed(what, "the client certificate of context %s ended at %s: log in again", e.cluster.Name, output.FormatTime(end)))
	} else {
		e.add(failed(what, "%s", hub.ExplainContext(e.cluster.Name, err)))
	}
	return false
}

// certificateEnd returns when the client certificate in a kubeconfig ends, or zero if it has none.
func certificateEnd(config *rest.Config) time.Time {
	if config.ExecProvider != nil {
		return time.Time{}
	}
	settings, err := rest.TLSConfigFor(config)
	if err != nil || settings == nil || settings.GetClientCertificate == nil {
		return time.Time{}
	}
	found, err := settings.GetClientCertificate(&tls.CertificateRequestInfo{})
	if err != nil || found == nil || len(found.Certificate) == 0 {
		return time.Time{}
	}
	leaf, err := x509.ParseCertificate(found.Certificate[0])
	if err != nil {
		return time.Time{}
	}
	return leaf.NotAfter
}

// identity checks that the context leads to the cluster that the hub knows.
func (e *examination) identity(ctx context.Context) bool {
	id, err := hub.Within(ctx, stepTimeout, func(ctx context.Context) (types.UID, error) { return hub.ReadClusterID(ctx, e.cluster) })
	want := e.found.Status.ClusterID
	switch {
	case err != nil:
		e.add(failed("identity", "%s", hub.ExplainContext(e.cluster.Name, err)))
		return false
	case want == "":
		e.add(noted("identity", "the hub has never been connected to the cluster; the kube-system namespace of context %s has UID %s", e.cluster.Name, id))
	case id != want:
		e.add(failed("identity", "context %s leads to another cluster (UID %s) than %s (UID %s): use --member-context. "+
			"If the cluster was replaced: kubectl annotate membercluster %s %s=%s", e.cluster.Name, id, e.found.Name, want, e.found.Name, v1alpha1.AnnotationAcceptIdentity, id))
		return false
	default:
		e.add(passed("identity", "it is the cluster that the hub knows"))
	}
	return true
}

// permissions checks each permission of the ServiceAccount that config/member grants.
func (e *examination) permissions(ctx context.Context) check {
	const what = "permissions"
	result, err := hub.Within(ctx, stepTimeout, func(ctx context.Context) (check, error) { return e.checkPermissions(ctx, what), nil })
	if err != nil {
		return failed(what, "they cannot be checked: %s", hub.ExplainContext(e.cluster.Name, err))
	}
	return result
}

func (e *examination) checkPermissions(ctx context.Context, what string) check {
	account := &corev1.ServiceAccount{}
	err := e.cluster.Get(ctx, client.ObjectKey{Namespace: member.Namespace, Name: member.ServiceAccount}, account)
	if client.IgnoreNotFound(err) != nil {
		return failed(what, "%s", hub.ExplainContext(e.cluster.Name, err))
	}
	bindings, listErr := join.NamedBindings(ctx, e.cluster)
	namespaces := join.NamespacesOf(bindings)
	if err != nil {
		return noAccountCheck(what, meta.FindStatusCondition(e.found.Status.Conditions, v1alpha1.ConditionReady), e.cluster.Name, namespaces, e.advice)
	}
	reviews, err := reviewsIn(namespaces, member.Objects)
	if err = errors.Join(listErr, err); err == nil {
		err = e.ask(ctx, reviews)
	}
	if err != nil {
		return failed(what, "they cannot be checked: %s", hub.ExplainContext(e.cluster.Name, err))
	}
	return permissionCheck(what, reviews, namespaces, e.advice.forPermissions(e.cluster.Name, namespaces))
}

// noAccountCheck returns the check of a member without the ServiceAccount. ready is the condition of
// the connection, or nil.
func noAccountCheck(what string, ready *metav1.Condition, contextName string, namespaces []string, advice advice) check {
	text := fmt.Sprintf("there is no ServiceAccount %s in namespace %s", member.ServiceAccount, member.Namespace)
	if ready == nil || ready.Reason != v1alpha1.ReasonUnauthorized {
		return noted(what, "not checked: %s: it was deleted, or the hub uses another user", text)
	}
	text += ", so its tokens are not valid. " + advice.forPermissions(contextName, namespaces)
	if !advice.isJoined {
		text += ". The credentials of the hub then remain invalid. " + advice.forCredentials(contextName)
	}
	return failed(what, "%s", text)
}

// reviewsIn returns a question for each permission that objects of the member grant in some
// namespaces, or in all if none is named.
func reviewsIn(namespaces []string, objectsIn func(namespaces ...string) ([]*unstructured.Unstructured, error)) ([]*authorizationv1.SubjectAccessReview, error) {
	objects, err := objectsIn(namespaces...)
	if err != nil {
		return nil, err
	}
	grants, err := member.Grants(objects)
	if err != nil {
		return nil, err
	}
	var all []*authorizationv1.SubjectAccessReview
	for _, grant := range grants {
		for _, rule := range grant.Rules {
			all = append(all, reviewsOf(grant.Namespace, rule)...)
		}
	}
	return all, nil
}

// reviewsOf returns a question for each permission of a rule.
func reviewsOf(namespace string, rule rbacv1.PolicyRule) []*authorizationv1.SubjectAccessReview {
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	var all []*authorizationv1.SubjectAccessReview
	for _, group := range rule.APIGroups {
		for _, kind := range rule.Resources {
			resource, subresource, _ := strings.Cut(kind, "/")
			for _, verb := range rule.Verbs {
				for _, name := range names {
					all = append(all, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
						User:   "system:serviceaccount:" + member.Namespace + ":" + member.ServiceAccount,
						Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + member.Namespace, "system:authenticated"},
						ResourceAttributes: &authorizationv1.ResourceAttributes{
							Namespace: namespace, Group: group, Resource: resource, Subresource: subresource, Verb: verb, Name: name,
						},
					}})
				}
			}
		}
	}
	return all
}

// ask sends the questions, some at a time, and stores the answers in them.
func (e *examination) ask(ctx context.Context, reviews []*authorizationv1.SubjectAccessReview) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	for _, review := range reviews {
		group.Go(func() error { return e.cluster.Create(ctx, review) })
	}
	return group.Wait()
}

// missingOf describes the permissions that the answers deny, sorted.
func missingOf(reviews []*authorizationv1.SubjectAccessReview) []string {
	var missing []string
	for _, review := range reviews {
		if review.Status.Allowed {
			continue
		}
		a := review.Spec.ResourceAttributes
		text := a.Verb + " " + a.Resource
		if a.Subresource != "" {
			text += "/" + a.Subresource
		}
		if a.Group != "" {
			text += "." + a.Group
		}
		if a.Namespace != "" {
			text += " in " + a.Namespace
		}
		missing = append(missing, text)
	}
	slices.Sort(missing)
	return missing
}

// permissionCheck returns the check of the answers.
func permissionCheck(what string, reviews []*authorizationv1.SubjectAccessReview, namespaces []string, command string) check {
	if missing := missingOf(reviews); len(missing) > 0 {
		return failed(what, "%d of %d are missing: %s. %s", len(missing), len(reviews), strings.Join(missing, ", "), command)
	}
	scope := "in all namespaces"
	if len(namespaces) > 0 {
		scope = "writing in " + strings.Join(namespaces, ", ") + " only"
	}
	return passed(what, "all %d that Fleetwright needs, %s", len(reviews), scope)
}

// version checks that the version of the cluster is supported.
func (e *examination) version(ctx context.Context) check {
	response, err := requestVersion(ctx, e.cluster.Config)
	if err != nil {
		return failed("version", "%s", hub.ExplainContext(e.cluster.Name, err))
	}
	return versionCheck(response.version)
}

func versionCheck(text string) check {
	found, err := utilversion.ParseSemantic(text)
	switch {
	case err != nil:
		return failed("version", "the server says that its version is %q: it is not a Kubernetes API server", text)
	case found.Major() == oldestVersion.Major() && found.Minor() < oldestVersion.Minor():
		return failed("version", "%s is older than %d.%d, the oldest version that is tested: upgrade the cluster", text, oldestVersion.Major(), oldestVersion.Minor())
	}
	if found.Major() > newestVersion.Major() || found.Minor() > newestVersion.Minor() {
		return noted("version", "%s is newer than %d.%d, the newest version that is tested", text, newestVersion.Major(), newestVersion.Minor())
	}
	return passed("version", "%s", text)
}

// versionResponse is the answer to a request for the version of a server.
type versionResponse struct {
	version string
	// offset is how far the clock of the server is ahead of that of this machine.
	offset time.Duration
	// hasDate reports whether the server sent its time.
	hasDate bool
}

// requestVersion asks a server for its version and its time.
func requestVersion(ctx context.Context, config *rest.Config) (versionResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return versionResponse{}, err
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return versionResponse{}, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, base.JoinPath("/version").String(), http.NoBody)
	if err != nil {
		return versionResponse{}, err
	}
	start := time.Now()
	response, err := httpClient.Do(request)
	if err != nil {
		return versionResponse{}, err
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	middle := start.Add(time.Since(start) / 2)
	if response.StatusCode != http.StatusOK {
		return versionResponse{}, fmt.Errorf("GET /version: %s", response.Status)
	}
	info := version.Info{}
	if err := json.NewDecoder(http.MaxBytesReader(nil, response.Body, 1<<20)).Decode(&info); err != nil {
		return versionResponse{}, fmt.Errorf("GET /version: %w", err)
	}
	result := versionResponse{version: info.GitVersion}
	if at, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		result.offset, result.hasDate = at.Sub(middle), true
	}
	return result, nil
}

// clockCheck compares the clock of a server with that of this machine.
func clockCheck(ctx context.Context, what string, config *rest.Config) check {
	response, err := requestVersion(ctx, config)
	switch {
	case err != nil:
		return noted(what, "not checked: %v", causeOf(err))
	case !response.hasDate:
		return noted(what, "not checked: the server does not send its time")
	}
	return offsetCheck(what, response.offset)
}

func offsetCheck(what string, offset time.Duration) check {
	switch {
	case offset > maxClockOffset:
		return failed(what, "it is %s ahead of the clock of this machine: synchronize both (NTP)", offset.Round(time.Second))
	case offset < -maxClockOffset:
		return failed(what, "it is %s behind the clock of this machine: synchronize both (NTP)", -offset.Round(time.Second))
	}
	return passed(what, "it differs from that of this machine by less than %s", duration.HumanDuration(maxClockOffset))
}
