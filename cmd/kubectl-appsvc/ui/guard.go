package ui

import (
	"crypto/rand"
	"crypto/subtle"
	"net/http"
	"net/url"
	"strings"
)

// contentSecurityPolicy permits the files of this server, requests to it, and nothing else.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

// guard refuses every request that does not come from the page of this server.
// docs/decisions/the-page-needs-a-token-in-a-header.md says why.
type guard struct {
	next  http.Handler
	token string
	// hosts are the values of the header Host that name this server.
	hosts []string
}

func newToken() string { return rand.Text() }

// ServeHTTP is part of [http.Handler].
func (g *guard) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setHeaders(w.Header())
	switch {
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "this server only reads: use GET", http.StatusMethodNotAllowed)
	case !g.isOwnHost(r.Host):
		http.Error(w, "this server does not have that name: use the URL that kubectl appsvc ui printed", http.StatusForbidden)
	case !g.isOwnOrigin(r):
		http.Error(w, "requests of other sites are refused", http.StatusForbidden)
	case strings.HasPrefix(r.URL.Path, apiPrefix) && !g.hasToken(r):
		http.Error(w, "the token is missing or wrong: use the URL that kubectl appsvc ui printed", http.StatusUnauthorized)
	default:
		g.next.ServeHTTP(w, r)
	}
}

func setHeaders(header http.Header) {
	header.Set("Content-Security-Policy", contentSecurityPolicy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
}

// isOwnHost reports whether the header Host names this server. A page whose name was made to
// resolve to 127.0.0.1 (DNS rebinding) has its own name there.
func (g *guard) isOwnHost(host string) bool {
	for _, own := range g.hosts {
		if strings.EqualFold(host, own) {
			return true
		}
	}
	return false
}

// isOwnOrigin reports whether a request comes from the page of this server, as far as the browser
// says. A navigation has no Origin. It may come from anywhere, because the page itself is no
// secret.
func (g *guard) isOwnOrigin(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); strings.HasPrefix(r.URL.Path, apiPrefix) && site != "" && site != "same-origin" {
		return false
	}
	values := r.Header.Values("Origin")
	if len(values) == 0 {
		return true
	}
	origin, err := url.Parse(values[0])
	return err == nil && len(values) == 1 && origin.Scheme == "http" && strings.EqualFold(origin.Host, r.Host)
}

func (g *guard) hasToken(r *http.Request) bool {
	token, isBearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return isBearer && subtle.ConstantTimeCompare([]byte(token), []byte(g.token)) == 1
}
