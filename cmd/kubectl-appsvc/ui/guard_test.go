package ui

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestGuard(t *testing.T) {
	t.Parallel()
	server, address := serve(t, Options{Config: hubConfig})
	host := server.listener.Addr().String()
	_, port, _ := strings.Cut(host, ":")
	withToken := http.Header{"Authorization": {"Bearer " + server.token}}
	with := func(header http.Header, name string, values ...string) http.Header {
		copied := header.Clone()
		copied[name] = values
		return copied
	}
	for _, test := range []struct {
		name   string
		method string
		path   string
		host   string
		header http.Header
		want   int
	}{
		{name: "the page needs no token", path: "/", want: 200},
		{name: "the script of the page needs no token", path: "/page.js", want: 200},
		{name: "a file that is not there", path: "/page.js.map", want: 404},
		{name: "a path out of the page", path: "/../../server.go", want: 404},
		{name: "the stream with the token", path: "/api/stream", header: withToken, want: 200},
		{name: "the stream by the name localhost", path: "/api/stream", header: withToken, host: "localhost:" + port, want: 200},
		{name: "the stream from the own page", path: "/api/stream", header: with(with(withToken, "Origin", address), "Sec-Fetch-Site", "same-origin"), want: 200},
		{name: "no token", path: "/api/stream", header: http.Header{}, want: 401},
		{name: "a wrong token", path: "/api/stream", header: http.Header{"Authorization": {"Bearer " + strings.ToLower(server.token)}}, want: 401},
		{name: "an empty token", path: "/api/stream", header: http.Header{"Authorization": {"Bearer "}}, want: 401},
		{name: "the token as a cookie", path: "/api/stream", header: http.Header{"Cookie": {"token=" + server.token}}, want: 401},
		{name: "the token in the query", path: "/api/stream?token=" + server.token, header: http.Header{}, want: 401},
		{name: "a detail without token", path: "/api/app?namespace=a&name=b", header: http.Header{}, want: 401},
		{name: "a cluster without token", path: "/api/cluster?name=b", header: http.Header{}, want: 401},
		{name: "another host", path: "/", host: "evil.example:" + port, want: 403},
		{name: "another host with the token", path: "/api/stream", host: "evil.example", header: withToken, want: 403},
		{name: "the own name without the port", path: "/", host: "127.0.0.1", want: 403},
		{name: "another port", path: "/", host: "127.0.0.1:1", want: 403},
		{name: "another origin", path: "/api/stream", header: with(withToken, "Origin", "http://evil.example"), want: 403},
		{name: "another origin on this machine", path: "/api/stream", header: with(withToken, "Origin", "http://127.0.0.1:1"), want: 403},
		{name: "an opaque origin", path: "/api/stream", header: with(withToken, "Origin", "null"), want: 403},
		{name: "two origins", path: "/api/stream", header: with(withToken, "Origin", address, "http://evil.example"), want: 403},
		{name: "https, which this server does not speak", path: "/api/stream", header: with(withToken, "Origin", "https://"+host), want: 403},
		{name: "another site that sends no origin", path: "/api/stream", header: with(withToken, "Sec-Fetch-Site", "cross-site"), want: 403},
		{name: "a link of another site to the page", path: "/", header: http.Header{"Sec-Fetch-Site": {"cross-site"}}, want: 200},
		{name: "POST", method: http.MethodPost, path: "/api/app", header: withToken, want: 405},
		{name: "PUT", method: http.MethodPut, path: "/", want: 405},
		{name: "DELETE", method: http.MethodDelete, path: "/api/app", header: withToken, want: 405},
		{name: "OPTIONS", method: http.MethodOptions, path: "/api/stream", want: 405},
		{name: "HEAD", method: http.MethodHead, path: "/", want: 405},
	} {
		t.Run(test.name, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), test.method, address+test.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			request.Header = test.header.Clone()
			request.Host = test.host
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			if response.StatusCode != test.want {
				body, _ := io.ReadAll(io.LimitReader(response.Body, 200)) // a stream does not end
				t.Errorf("got status %d, want %d: %s", response.StatusCode, test.want, body)
			}
			for name, want := range map[string]string{
				"Content-Security-Policy":      contentSecurityPolicy,
				"X-Content-Type-Options":       "nosniff",
				"X-Frame-Options":              "DENY",
				"Referrer-Policy":              "no-referrer",
				"Cross-Origin-Resource-Policy": "same-origin",
				"Cross-Origin-Opener-Policy":   "same-origin",
				"Cache-Control":                "no-store",
				"Access-Control-Allow-Origin":  "",
				"Set-Cookie":                   "",
			} {
				if got := response.Header.Get(name); got != want {
					t.Errorf("header %s is %q, want %q", name, got, want)
				}
			}
		})
	}
}

func TestToken(t *testing.T) {
	t.Parallel()
	if a, b := newToken(), newToken(); a == b || len(a) < 26 {
		t.Errorf("got tokens %s and %s, want two different ones of 128 bits", a, b)
	}
}
