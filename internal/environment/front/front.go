// Package front is an HTTPS proxy in front of clusters, for tests that observe, count or change the
// requests of a client. The proxy authenticates the client by a token, and a [Backend] forwards
// requests with other credentials.
package front

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	certutil "k8s.io/client-go/util/cert"
)

// silent discards the servers' messages about connections that a client closed.
var silent = log.New(io.Discard, "", 0)

// Server is an HTTPS server on a free port of 127.0.0.1, with a certificate of its own.
type Server struct {
	// Address is the host and port.
	Address string
	// CA is the certificate authority of the server.
	CA []byte
}

// Serve starts a server, which runs until the context ends.
func Serve(ctx context.Context, handler http.Handler) (*Server, error) {
	certificate, key, err := certutil.GenerateSelfSignedCertKey("127.0.0.1", []net.IP{net.IPv4(127, 0, 0, 1)}, nil)
	if err != nil {
		return nil, fmt.Errorf("create a certificate: %w", err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	_, ca := pem.Decode(certificate) // the CA's follows the server's
	listener, err := Listen(ctx)
	if err != nil {
		return nil, err
	}
	server := &http.Server{
		Handler:           handler,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          silent,
	}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() { _ = server.ServeTLS(listener, "", "") }() // ends with the context
	return &Server{Address: listener.Addr().String(), CA: ca}, nil
}

// Listen returns a listener on a free port of 127.0.0.1.
func Listen(ctx context.Context) (net.Listener, error) {
	return new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
}

// Kubeconfig returns a kubeconfig for a server, whose address may have a path, with a token.
func Kubeconfig(address string, ca []byte, token string) ([]byte, error) {
	config := clientcmdapi.NewConfig()
	config.Clusters["member"] = &clientcmdapi.Cluster{Server: "https://" + address, CertificateAuthorityData: ca}
	config.AuthInfos["fleetwright"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["member"] = &clientcmdapi.Context{Cluster: "member", AuthInfo: "fleetwright"}
	config.CurrentContext = "member"
	return clientcmd.Write(*config)
}

// Backend returns a handler that forwards requests to the server of a kubeconfig, with its
// credentials.
func Backend(kubeconfig []byte) (http.Handler, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("use kubeconfig: %w", err)
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(server)
			r.Out.Header.Del("Authorization")
		},
		Transport:     transport,
		FlushInterval: -1, // watches
		ErrorLog:      silent,
	}, nil
}

// Token returns a new token, as long as the token of a ServiceAccount.
func Token() string {
	var long strings.Builder
	for long.Len() < 900 {
		long.WriteString(rand.Text())
	}
	return long.String()
}

// HasToken reports whether a request has the token.
func HasToken(r *http.Request, token string) bool {
	return r.Header.Get("Authorization") == "Bearer "+token
}

// Body returns the body of a request that is not a GET, and leaves it readable. It ends the request
// if the client is gone.
func Body(r *http.Request) []byte {
	if r.Method == http.MethodGet {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return body
}

// Refuse responds with a Status.
func Refuse(w http.ResponseWriter, code int32, reason metav1.StatusReason) {
	Answer(w, int(code), &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: code, Reason: reason, Message: "the proxy in front of the cluster refuses this request",
	})
}

// Answer responds with an object.
func Answer(w http.ResponseWriter, code int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object) // fails only if the client is gone
}
