package clusters_test

import (
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"log"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

func respondWithCode(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(code)
	}
}

func respondAfter(delay time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(delay):
		case <-r.Context().Done():
		}
		w.WriteHeader(http.StatusOK)
	}
}

func redirect(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, "https://redirected.invalid", http.StatusTemporaryRedirect)
}

// compressedZeros is a megabyte of zeros in gzip format. Any number of copies can be concatenated.
var compressedZeros = sync.OnceValue(func() []byte {
	var zeros bytes.Buffer
	compressed := gzip.NewWriter(&zeros)
	_, _ = compressed.Write(make([]byte, 1<<20))
	_ = compressed.Close()
	return zeros.Bytes()
})

// gzipBomb sends a megabyte that decompresses to a gigabyte.
func gzipBomb(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Encoding", "gzip")
	_, _ = w.Write(bytes.Repeat(compressedZeros(), 1<<10))
}

func largeHeaders(w http.ResponseWriter, _ *http.Request) {
	for i := range 16 {
		w.Header().Set(fmt.Sprintf("X-Huge-%d", i), strings.Repeat("x", 1<<20))
	}
	w.WriteHeader(http.StatusOK)
}

// writeRepeatedly sends a piece repeatedly, up to a gigabyte.
func writeRepeatedly(w io.Writer, piece string) {
	pieces := []byte(strings.Repeat(piece, 32<<10/len(piece)))
	for sent := 0; sent < 1<<30; {
		n, err := w.Write(pieces)
		if err != nil {
			return
		}
		sent += n
	}
}

const listPrefix = `{"kind": "DeploymentList", "apiVersion": "apps/v1", "metadata": {"resourceVersion": "1"}, "items": [`

func endlessList(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, listPrefix)
	writeRepeatedly(w, `{"metadata": {"namespace": "default", "name": "x"}},`)
}

// endlessPages answers each list request with a page that has a continue token.
func endlessPages(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, strings.Replace(listPrefix, `"resourceVersion"`, `"continue": "more", "resourceVersion"`, 1)+`{"metadata": {"name": "x"}}]}`)
}

func truncatedList(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, listPrefix+`{"metadata": {"name`)
	panic(http.ErrAbortHandler)
}

func garbage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, strings.Repeat("\x00garbage\xff", 1000))
}

// expiredWatch sends the event with which an API server ends a watch whose resource version is too
// old.
func expiredWatch(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"type": "ERROR", "object": {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
		"message": "too old resource version: 1 (2)", "reason": "Expired", "code": 410}}`+"\n")
}

// expireLater sends that event after a while.
func expireLater(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if http.NewResponseController(w).Flush() != nil {
		return
	}
	select {
	case <-time.After(1500 * time.Millisecond):
		expiredWatch(w, r)
	case <-r.Context().Done():
	}
}

// slowBytes sends an event that does not end, one byte per second.
func slowBytes(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for _, b := range []byte(`{"type": "ADDED", "object": {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": {` + strings.Repeat(" ", 1000)) {
		if _, err := w.Write([]byte{b}); err != nil || http.NewResponseController(w).Flush() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}

// otherCertificate is a certificate for a name that is not a member's. It is signed by itself, and
// all members trust it.
var otherCertificate = sync.OnceValue(func() tls.Certificate {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "another"}, DNSNames: []string{"another.invalid"},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return tls.Certificate{Certificate: [][]byte{certificate}, PrivateKey: key}
})

func serverWithOtherName(t testing.TB, _ *testMember) string {
	t.Helper()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{Certificates: []tls.Certificate{otherCertificate()}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

// retryAfterADay answers with a Retry-After of a day.
func retryAfterADay(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Retry-After", "86400")
	w.WriteHeader(http.StatusServiceUnavailable)
}

// endlessError answers with an error whose body never ends.
func endlessError(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(http.StatusServiceUnavailable)
	if http.NewResponseController(w).Flush() == nil {
		<-r.Context().Done()
	}
}

// headersOnly sends the header of a response, and no body.
func headersOnly(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if http.NewResponseController(w).Flush() == nil {
		<-r.Context().Done()
	}
}
