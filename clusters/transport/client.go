package transport

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
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

// Limits of a connection. There is no timeout for a whole request, because it would end watches.
const (
	dialTimeout           = 5 * time.Second
	tlsTimeout            = 5 * time.Second
	responseHeaderTimeout = 30 * time.Second
	// An idle connection is closed after some time, that for lists after a few seconds, see
	// transports.
	restIdle, listsIdle = 90 * time.Second, 5 * time.Second
	maxHeaderBytes      = 64 << 10
)

// Options configure a Client. All fields but UserAgent and Wrap are required.
type Options struct {
	// UserAgent is what the member sees in its audit log.
	UserAgent string
	// QPS and Burst limit the requests over all kinds.
	QPS   float32
	Burst int
	// ReadRate and ReadBurst throttle what the member sends, in bytes per second and bytes.
	// ReadBurst is at least MinReadBurst.
	ReadRate, ReadBurst int
	// MaxListBytes is the largest response to a list. It is at least MaxEventBytes.
	MaxListBytes int64
	// AllowLoopback permits loopback addresses.
	AllowLoopback bool
	// Wrap is put around the round tripper that adds the credentials, so it does not see them.
	Wrap transport.WrapperFunc
}

// Client is the HTTP client of one member. Its credentials can be swapped while it is in use.
type Client struct {
	// HTTP sends requests. It has all layers except the WatchMonitor.
	HTTP *http.Client
	// Config is for clients that are made with HTTP. It has a placeholder for the host.
	Config *rest.Config

	credentials atomic.Pointer[kubeconfig.Config]
	tracker     *connrotation.ConnectionTracker
	transports  transports
	closed      atomic.Bool
}

// New returns a Client, and connects to nothing yet.
func New(config *kubeconfig.Config, o Options) *Client {
	c := &Client{tracker: connrotation.NewConnectionTracker()}
	c.credentials.Store(config)
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second, Control: checkAddress(o.AllowLoopback)}
	newTransport := func(idle time.Duration) *http.Transport {
		// The defaults add HTTP/2 with pings: a silent connection is noticed within 45 s.
		return utilnet.SetTransportDefaults(&http.Transport{
			Proxy:                 func(*http.Request) (*url.URL, error) { return config.Proxy, nil }, // never the environment's
			TLSClientConfig:       c.tlsConfig(config),
			DialContext:           c.dial(connrotation.NewDialerWithTracker(dialer.DialContext, c.tracker)),
			TLSHandshakeTimeout:   tlsTimeout,
			ResponseHeaderTimeout: responseHeaderTimeout,
			// Headers are read before a body can be limited. The default is 10 MiB for each
			// response.
			MaxResponseHeaderBytes: maxHeaderBytes,
			MaxIdleConnsPerHost:    2,
			IdleConnTimeout:        idle,
		})
	}
	c.transports = transports{lists: newTransport(listsIdle), rest: newTransport(restIdle)}
	server := serverURL(config)
	limiter := newResponseLimiter(c.transports, rate.NewLimiter(rate.Limit(o.ReadRate), o.ReadBurst), o.MaxListBytes)
	auth := &authTransport{next: limiter, host: server.Host, credentials: &c.credentials}
	c.HTTP = &http.Client{
		Transport: transport.NewUserAgentRoundTripper(o.UserAgent, transport.Wrappers(o.Wrap)(auth)),
		// A redirect would carry the credentials to where the kubeconfig does not say.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	c.Config = &rest.Config{
		Host:      "https://" + placeholderHost + server.EscapedPath(),
		UserAgent: o.UserAgent,
		// JSON: what the response limiter weighs. An answer of any other form is refused.
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON},
		// One bucket for all kinds of this member.
		RateLimiter:               flowcontrol.NewTokenBucketRateLimiter(o.QPS, o.Burst),
		WarningHandlerWithContext: rest.NoWarnings{},
	}
	return c
}

func (c *Client) tlsConfig(config *kubeconfig.Config) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		ServerName: config.ServerName,
		RootCAs:    config.CAPool,
		// Only a Policy permits it.
		InsecureSkipVerify: config.Insecure,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if certificate := c.credentials.Load().Certificate; certificate != nil {
				return certificate, nil
			}
			return &tls.Certificate{}, nil
		},
	}
}

// Rotate swaps the credentials in place. A new certificate needs new TLS handshakes, so the
// connections are closed, and watches resume where they were.
func (c *Client) Rotate(config *kubeconfig.Config) {
	old := c.credentials.Swap(config)
	if !sameCertificate(old.Certificate, config.Certificate) {
		c.tracker.CloseAll()
	}
}

func sameCertificate(a, b *tls.Certificate) bool {
	if a == nil || b == nil {
		return a == b
	}
	return bytes.Equal(a.Certificate[0], b.Certificate[0])
}

// dial closes a connection that is established after the Client was closed: http.Transport
// continues to dial after the request has ended, to have a connection for the next one.
func (c *Client) dial(dialer *connrotation.Dialer) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err == nil && c.closed.Load() {
			return nil, errors.Join(net.ErrClosed, conn.Close())
		}
		return conn, err
	}
}

// Close closes all connections for good, including those in use. It may be called again.
func (c *Client) Close() {
	c.closed.Store(true)
	c.transports.closeIdle()
	c.tracker.CloseAll()
}

// transports send lists over one connection, and all else over another. A connection keeps what it
// reads with, as large as the largest that it has read: 16 KiB for frames of HTTP/2 and up to 40
// KiB for records of TLS after a list, few after what watches tell at rest. So the connection for
// lists is closed soon after the last one, and at rest there is only the other.
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

// placeholderHost replaces the address of the member in metrics and errors of client-go:
// rest_client_requests_total has the host as a label, and errors quote it. No address gets there,
// and all members share one series.
const placeholderHost = "member"

// serverURL returns the URL of the API server.
func serverURL(config *kubeconfig.Config) *url.URL {
	server, err := url.Parse(config.Server)
	if err != nil {
		return &url.URL{} // cannot be dialled; package kubeconfig has rejected such a URL
	}
	return server
}
