package clusters

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	"k8s.io/client-go/util/connrotation"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
)

// Bounds of a connection. There is no time-out over a whole request: it would cut watches.
const (
	dialTimeout           = 5 * time.Second
	tlsTimeout            = 5 * time.Second
	responseHeaderTimeout = 30 * time.Second
	// A connection that nothing is under way on is closed after some time; that for lists soon, see transports.
	restIdle, listsIdle = 90 * time.Second, 5 * time.Second
	maxHeaderBytes      = 64 << 10
)

// connection is the HTTP side of one member. Its credentials can be swapped while it is in use.
type connection struct {
	credentials atomic.Pointer[kubeconfig.Config]
	tracker     *connrotation.ConnectionTracker
	transports  transports
	client      *http.Client
	config      *rest.Config
	closed      atomic.Bool
}

// newConnection dials nothing yet.
func (o *Options) newConnection(t *kubeconfig.Config) *connection {
	c := &connection{tracker: connrotation.NewConnectionTracker()}
	c.credentials.Store(t)
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second, Control: o.guard}
	newTransport := func(idle time.Duration) *http.Transport {
		// The defaults add HTTP/2 with pings: a silent connection is noticed within 45 s.
		return utilnet.SetTransportDefaults(&http.Transport{
			Proxy:                 func(*http.Request) (*url.URL, error) { return t.Proxy, nil }, // never the environment's
			TLSClientConfig:       c.tlsConfig(t),
			DialContext:           c.dial(connrotation.NewDialerWithTracker(dialer.DialContext, c.tracker)),
			TLSHandshakeTimeout:   tlsTimeout,
			ResponseHeaderTimeout: responseHeaderTimeout,
			// Headers are read before a body can be limited. The default is 10 MiB for each response.
			MaxResponseHeaderBytes: maxHeaderBytes,
			MaxIdleConnsPerHost:    2,
			IdleConnTimeout:        idle,
		})
	}
	c.transports = transports{lists: newTransport(listsIdle), rest: newTransport(restIdle)}
	server := serverURL(t)
	limiter := newResponseLimiter(c.transports, rate.NewLimiter(rate.Limit(o.ReadRate), o.ReadBurst), o.MaxListBytes)
	sender := &sender{next: limiter, to: server.Host, credentials: &c.credentials}
	c.client = &http.Client{
		Transport: transport.NewUserAgentRoundTripper(o.UserAgent, transport.Wrappers(o.Wrap)(sender)),
		// A redirect would carry the credentials to where the kubeconfig does not say.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	c.config = &rest.Config{
		Host:      "https://" + anyMember + server.EscapedPath(),
		UserAgent: o.UserAgent,
		// JSON: what the response limiter weighs. An answer of any other form is refused.
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON},
		// One bucket for all kinds of this member.
		RateLimiter:               flowcontrol.NewTokenBucketRateLimiter(o.QPS, o.Burst),
		WarningHandlerWithContext: rest.NoWarnings{},
	}
	return c
}

func (c *connection) tlsConfig(t *kubeconfig.Config) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		ServerName: t.ServerName,
		RootCAs:    t.CAPool,
		// Only what the administrator permits gets here.
		InsecureSkipVerify: t.Insecure,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if certificate := c.credentials.Load().Certificate; certificate != nil {
				return certificate, nil
			}
			return &tls.Certificate{}, nil
		},
	}
}

// rotate swaps the credentials in place. A new certificate needs new TLS handshakes: the connections are
// closed, and watches go on from where they were.
func (c *connection) rotate(t *kubeconfig.Config) {
	old := c.credentials.Swap(t)
	if !sameCertificate(old.Certificate, t.Certificate) {
		c.tracker.CloseAll()
	}
}

func sameCertificate(a, b *tls.Certificate) bool {
	if a == nil || b == nil {
		return a == b
	}
	return bytes.Equal(a.Certificate[0], b.Certificate[0])
}

// dial leaves nothing open that is dialled while the connection is closed: http.Transport goes on dialling after its
// request has ended, to have the result at hand for the next.
func (c *connection) dial(dialer *connrotation.Dialer) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err == nil && c.closed.Load() {
			return nil, errors.Join(net.ErrClosed, conn.Close())
		}
		return conn, err
	}
}

// close ends every connection, also those in use, for good.
func (c *connection) close() {
	c.closed.Store(true)
	c.transports.closeIdle()
	c.tracker.CloseAll()
}

// transports send lists over one connection, and all else over another. A connection keeps what it reads with, as large as
// the largest that it has read: 16 KiB for frames of HTTP/2 and up to 40 KiB for records of TLS after a list, few after
// what watches tell at rest. So the connection for lists is closed soon after the last one, and at rest there is only the other.
type transports struct {
	lists, rest *http.Transport
}

// RoundTrip sends the request. Of requests that read, lists and watches have a query.
func (t transports) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodGet && request.URL.RawQuery != "" && !request.URL.Query().Has("watch") {
		return t.lists.RoundTrip(request)
	}
	return t.rest.RoundTrip(request)
}

func (t transports) closeIdle() {
	t.lists.CloseIdleConnections()
	t.rest.CloseIdleConnections()
}

// anyMember stands for the address of a member in what client-go tells of a request: rest_client_requests_total has a
// label of it, and errors quote it. So no address gets there, and the members together have one series, not each its own.
const anyMember = "member"

// serverURL returns where the requests go.
func serverURL(t *kubeconfig.Config) *url.URL {
	server, err := url.Parse(t.Server)
	if err != nil {
		return &url.URL{} // which cannot be dialled; the kubeconfig was refused for it before
	}
	return server
}

// sender sends each request to the server, with the present token, and takes that out of the answers that are told of: a
// member that quotes it in an error must not bring it into a condition or a log.
type sender struct {
	next        http.RoundTripper
	to          string
	credentials *atomic.Pointer[kubeconfig.Config]
}

// RoundTrip sends the request.
func (s *sender) RoundTrip(request *http.Request) (*http.Response, error) {
	request = utilnet.CloneRequest(request)
	at := *request.URL
	at.Host = s.to
	request.URL, request.Host = &at, s.to
	credentials := s.credentials.Load()
	if credentials.Token != "" {
		request.Header.Set("Authorization", "Bearer "+credentials.Token)
	}
	response, err := s.next.RoundTrip(request)
	if err != nil || response.StatusCode < http.StatusMultipleChoices && !odd(request, response) {
		return response, err
	}
	soon(response.Header)
	response.Body = withhold(credentials.Token, response.Body)
	response.ContentLength = -1
	response.Header.Del("Content-Length")
	return response, nil
}

// odd tells of an answer to a watch that client-go takes for an error, and reads to its end.
func odd(request *http.Request, response *http.Response) bool {
	return response.StatusCode != http.StatusOK && request.URL.Query().Has("watch")
}

// maxRetryAfter is how long a member may have a request wait: client-go waits as it is told.
const maxRetryAfter = 10 * time.Second

// soon has an answer that says to come again later say so within bounds.
func soon(header http.Header) {
	later := header.Get("Retry-After")
	if seconds, err := strconv.Atoi(later); later != "" && (err != nil || seconds > int(maxRetryAfter.Seconds())) {
		header.Set("Retry-After", strconv.Itoa(int(maxRetryAfter.Seconds())))
	}
}

// errorTimeout bounds the reading of the body of an error: nothing else would, when it is a watch that fails.
const errorTimeout = 10 * time.Second

// withhold reads the body of an error, of which it keeps what is told at most, and replaces a token in it. Of a body that does not end
// well, or in time, nothing is kept: the status says what is wrong.
func withhold(token string, from io.ReadCloser) io.ReadCloser {
	timer := time.AfterFunc(errorTimeout, func() { _ = from.Close() })
	body, err := io.ReadAll(io.LimitReader(from, maxAnswer))
	timer.Stop()
	if err := errors.Join(err, from.Close()); err != nil {
		body = nil
	}
	if token != "" {
		body = bytes.ReplaceAll(body, []byte(token), []byte("(the token)"))
	}
	return io.NopCloser(bytes.NewReader(body))
}

// WrappedRoundTripper lets client-go find the transport below.
func (s *sender) WrappedRoundTripper() http.RoundTripper { return s.next }
