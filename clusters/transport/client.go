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
	"github.com/fleetwright/fleetwright/clusters/stall"
)

// Limits of a connection. A whole request has no timeout, because a timeout would end watches.
const (
	// A request whose answer is awaited ends earlier, by its Timer. These two include the stalls of
	// this process, so they are longer.
	dialTimeout           = 15 * time.Second
	tlsTimeout            = 15 * time.Second
	responseHeaderTimeout = 30 * time.Second
	// An idle connection is closed after restIdle, the connection for lists after listsIdle; see
	// transports.
	restIdle, listsIdle = 90 * time.Second, 5 * time.Second
	maxHeaderBytes      = 64 << 10
)

// Options configure a Client. All fields but UserAgent, Clock and Wrap are required.
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
	// Clock measures the stalls of this process; nil means none.
	Clock *stall.Clock
	// AllowLoopback permits connections to loopback addresses.
	AllowLoopback bool
	// Wrap wraps the round tripper that adds the credentials, so the wrapper does not see them.
	Wrap transport.WrapperFunc
}

// Client is the HTTP client of one member. Its credentials can be swapped while it is in use.
type Client struct {
	// HTTP sends requests. It has all layers except the WatchMonitor.
	HTTP *http.Client
	// Config configures clients that use HTTP. Its host is a placeholder.
	Config *rest.Config

	clock       *stall.Clock
	credentials atomic.Pointer[kubeconfig.Config]
	tracker     *connrotation.ConnectionTracker
	transports  transports
	closed      atomic.Bool
}

// New returns a Client. It does not connect yet.
func New(config *kubeconfig.Config, o Options) *Client {
	c := &Client{clock: o.Clock, tracker: connrotation.NewConnectionTracker()}
	c.credentials.Store(config)
	dialer := &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second, Control: checkAddress(o.AllowLoopback)}
	newTransport := func(idle time.Duration) *http.Transport {
		// The defaults add HTTP/2 with pings, so a silent connection is detected within 45 s.
		return utilnet.SetTransportDefaults(&http.Transport{
			Proxy:                 func(*http.Request) (*url.URL, error) { return config.Proxy, nil }, // ignores the environment's proxy
			TLSClientConfig:       c.tlsConfig(config),
			DialContext:           c.dial(connrotation.NewDialerWithTracker(dialer.DialContext, c.tracker)),
			TLSHandshakeTimeout:   tlsTimeout,
			ResponseHeaderTimeout: responseHeaderTimeout,
			// Headers are read before limits on the body apply. The default is 10 MiB for each
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
		// Following a redirect would send the credentials to a server that the kubeconfig does not
		// name.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	c.Config = &rest.Config{
		Host:      "https://" + placeholderHost + server.EscapedPath(),
		UserAgent: o.UserAgent,
		// The response limiter can only weigh JSON, so responses in any other format are refused.
		ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON},
		// All kinds of this member share one token bucket.
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
		// Only a Policy permits Insecure.
		InsecureSkipVerify: config.Insecure,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if certificate := c.credentials.Load().Certificate; certificate != nil {
				return certificate, nil
			}
			return &tls.Certificate{}, nil
		},
	}
}

// Rotate swaps the credentials in place. A new certificate requires new TLS handshakes, so Rotate
// closes the connections; watches then resume at their last resource version.
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

// dial closes a connection that is established after the Client was closed, because http.Transport
// continues to dial after the request has ended, to keep a connection for the next request.
func (c *Client) dial(dialer *connrotation.Dialer) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err == nil && c.closed.Load() {
			return nil, errors.Join(net.ErrClosed, conn.Close())
		}
		return conn, err
	}
}

// Close closes all connections for good, including connections in use. It may be called repeatedly.
func (c *Client) Close() {
	c.closed.Store(true)
	c.transports.closeIdle()
	c.tracker.CloseAll()
}

// placeholderHost replaces the address of the member in client-go's metrics and errors.
// rest_client_requests_total has the host as a label, and errors quote it. With the placeholder, no
// address appears there, which comes from the Secret, and all members share one series instead of
// having thousands.
const placeholderHost = "member"

// serverURL returns the URL of the API server.
func serverURL(config *kubeconfig.Config) *url.URL {
	server, err := url.Parse(config.Server)
	if err != nil {
		return &url.URL{} // cannot be dialled; package kubeconfig has rejected such a URL
	}
	return server
}
