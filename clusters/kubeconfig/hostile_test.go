package kubeconfig

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"sync"
	"testing"
	"unicode/utf16"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters/internal/testcert"
)

// replaced returns a valid kubeconfig with a token, with one part replaced.
func replaced(t testing.TB, old, replacement string) []byte {
	t.Helper()
	good := string(kubeconfig(t))
	if !strings.Contains(good, old) {
		t.Fatalf("the kubeconfig has no %q", old)
	}
	return []byte(strings.Replace(good, old, replacement, 1))
}

func tokenText(t testing.TB, token string) []byte {
	t.Helper()
	return replaced(t, "token: canary-token", "token: "+token)
}

func caText(t testing.TB, ca []byte) []byte {
	t.Helper()
	return replaced(t, base64.StdEncoding.EncodeToString(certificateA().Certificate), base64.StdEncoding.EncodeToString(ca))
}

// repeated returns a text that is repeated up to the limit on bytes.
func repeated(text string) []byte { return bytes.Repeat([]byte(text), maxBytes/len(text)) }

// entries returns a kubeconfig whose list has as many entries as the token limit permits.
func entries(list, entry string) []byte {
	header := "kind: Config\napiVersion: v1\n" + list + ": ["
	return []byte(header + strings.Repeat(entry+",", (maxTokens-len(strings.Fields(header))-1)/countTokens([]byte(entry+","))) + "]")
}

// nested returns a text that is nested as deep as the token limit permits.
func nested(before, opening, closing, after string) []byte {
	depth := (maxTokens - countTokens([]byte(before+after)) - 1) / max(1, countTokens([]byte(opening)))
	return []byte(before + strings.Repeat(opening, depth) + strings.Repeat(closing, depth) + after)
}

// numbered returns a list of ten thousand entries in the form that kubectl writes, or of as many as
// fit.
func numbered(list string) []byte {
	var b strings.Builder
	b.WriteString("kind: Config\napiVersion: v1\n" + list + ":")
	for i := range 10_000 {
		fmt.Fprintf(&b, "\n- {name: %d}", i)
	}
	return []byte(b.String())[:min(b.Len(), maxBytes)]
}

// indented returns a text that is nested by indentation.
func indented() []byte {
	var b strings.Builder
	for i := 0; b.Len()+i+8 < maxBytes; i++ {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return []byte(b.String())
}

func billionLaughs() []byte {
	lines := []string{"a: &a [canary,canary,canary,canary,canary,canary,canary,canary,canary]"}
	for c := 'b'; c <= 'i'; c++ {
		lines = append(lines, fmt.Sprintf("%c: &%c [%s]", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", c-1), 9), ",")))
	}
	return []byte(strings.Join(lines, "\n"))
}

func inUTF16(order binary.AppendByteOrder, text string) []byte {
	var raw []byte
	for _, unit := range utf16.Encode([]rune("\ufeff" + text)) {
		raw = order.AppendUint16(raw, unit)
	}
	return raw
}

func utf16le(text string) []byte { return inUTF16(binary.LittleEndian, text) }

// newRSA returns a certificate with an RSA key of this many bits. Its factors are odd but not
// necessarily prime, so that the key is made quickly at any length. Code that only reads a key
// cannot detect this.
func newRSA(bits int) testcert.Pair {
	one, exponent := big.NewInt(1), big.NewInt(65537)
	factor := func() *big.Int {
		for {
			p, err := rand.Int(rand.Reader, new(big.Int).Lsh(one, uint(bits/2)))
			if err != nil {
				panic(err)
			}
			for _, set := range []int{0, bits/2 - 1, bits/2 - 2} {
				p.SetBit(p, set, 1)
			}
			if new(big.Int).ModInverse(exponent, new(big.Int).Sub(p, one)) != nil {
				return p
			}
		}
	}
	for {
		p, q := factor(), factor()
		p1, q1 := new(big.Int).Sub(p, one), new(big.Int).Sub(q, one)
		order := new(big.Int).Div(new(big.Int).Mul(p1, q1), new(big.Int).GCD(nil, nil, p1, q1))
		d, inverse := new(big.Int).ModInverse(exponent, order), new(big.Int).ModInverse(q, p)
		if d == nil || inverse == nil {
			continue
		}
		n := new(big.Int).Mul(p, q)
		key, err := asn1.Marshal(struct {
			Version             int
			N                   *big.Int
			E                   int
			D, P, Q, DP, DQ, QI *big.Int
		}{0, n, 65537, d, p, q, new(big.Int).Mod(d, p1), new(big.Int).Mod(d, q1), inverse})
		if err != nil {
			panic(err)
		}
		signer := certificateA().TLS()
		certificate, err := x509.CreateCertificate(rand.Reader, signer.Leaf, signer.Leaf, &rsa.PublicKey{N: n, E: 65537}, signer.PrivateKey)
		if err != nil {
			panic(err)
		}
		return testcert.Pair{
			Certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
			Key:         pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: key}),
		}
	}
}

var (
	largestRSA = sync.OnceValue(func() testcert.Pair { return newRSA(maxRSABits) })
	largeRSA   = sync.OnceValue(func() testcert.Pair { return newRSA(maxRSABits + 16) })
	bombRSA    = sync.OnceValue(func() testcert.Pair { return newRSA(4 * maxRSABits) })
)

// recoded changes the type and the headers of a PEM block.
func recoded(raw []byte, kind string, headers map[string]string) []byte {
	block, _ := pem.Decode(raw)
	return pem.EncodeToMemory(&pem.Block{Type: kind, Headers: headers, Bytes: block.Bytes})
}

const (
	malformed     = v1alpha1.ReasonKubeconfigMalformed
	tooLarge      = v1alpha1.ReasonKubeconfigTooLarge
	serverRefused = v1alpha1.ReasonServerRefused
	accepted      = v1alpha1.ReasonAccepted
)

// hostileTexts returns texts that are difficult for a YAML parser or for its caller.
func hostileTexts(t testing.TB) map[string]testInput {
	t.Helper()
	long := strings.Repeat(canary, 4000)
	good := string(kubeconfig(t))
	return map[string]testInput{
		"an alias bomb (billion laughs)":                    {billionLaughs(), malformed},
		"an alias bomb of one long string":                  {[]byte("a: &a " + long + "\nb: [" + strings.Repeat("*a,", 2000) + "]"), malformed},
		"an alias":                                          {replaced(t, "token: canary-token", "token: &t canary-token\n    as: *t"), malformed},
		"an anchor without an alias":                        {tokenText(t, "&canary canary-token"), accepted},
		"a merge key (<<)":                                  {replaced(t, "token: canary-token", "<<: {token: canary-token}"), accepted},
		"a merge key with a program":                        {replaced(t, "token: canary-token", "<<: {exec: {command: canary}}"), v1alpha1.ReasonExecRefused},
		"a merge key in addition to the same key":           {replaced(t, "token: canary-token", "<<: {token: canary}\n    token: canary-token"), malformed},
		"nested lists up to the byte limit":                 {repeated("["), tooLarge},
		"nested maps up to the byte limit":                  {repeated("{"), tooLarge},
		"nested lists up to the token limit":                {nested("a: ", "[", "]", ""), malformed},
		"nested maps up to the token limit":                 {nested("", "{a: ", "}", ""), malformed},
		"nested maps in an extension up to the token limit": {nested("extensions: [{name: a, extension: ", `{"":`, "}", "}]"), malformed},
		"nested block lists":                                {bytes.Repeat([]byte("- "), maxTokens), malformed},
		"nested complex keys":                               {bytes.Repeat([]byte("? "), maxTokens), malformed},
		"maps nested by indentation":                        {indented(), malformed},
		"a duplicate key":                                   {tokenText(t, "canary\n    token: canary-token"), malformed},
		"a duplicate key at the top level":                  {[]byte(good + "current-context: canary-context\n"), malformed},
		"many duplicates of a key":                          {[]byte("{" + strings.Repeat("a,", maxTokens-2) + "}"), malformed},
		"two contexts with the same name":                   {replaced(t, "current-context:", "- {name: canary-context, context: {cluster: canary, user: canary}}\ncurrent-context:"), malformed},
		"a NUL byte":                                        {tokenText(t, "canary\x00token"), malformed},
		"an escaped NUL in the token":                       {tokenText(t, `"canary\0token"`), malformed},
		"UTF-16, little-endian":                             {utf16le(good), malformed},
		"UTF-16, big-endian":                                {inUTF16(binary.BigEndian, good), malformed},
		"UTF-8 with a byte order mark":                      {[]byte("\ufeff" + good), accepted},
		"invalid UTF-8":                                     {tokenText(t, "canary\xff\xfe"), malformed},
		"10,000 contexts":                                   {numbered("contexts"), tooLarge},
		"10,000 users":                                      {numbered("users"), tooLarge},
		"10,000 clusters":                                   {numbered("clusters"), tooLarge},
		"empty contexts up to the token limit":              {entries("contexts", "~"), malformed},
		"empty users up to the token limit":                 {entries("users", "~"), malformed},
		"users of the wrong type up to the token limit":     {entries("users", `"":""`), malformed},
		"empty clusters up to the token limit":              {entries("clusters", "~"), malformed},
		"maps up to the token limit":                        {entries("extensions", "{a}"), malformed},
		"10 MB":                                             {bytes.Repeat([]byte(canary+"\n"), 10<<20/7), tooLarge},
		"whitespace only":                                   {[]byte(" \n \n"), malformed},
		"tabs for indentation":                              {replaced(t, "\n    ", "\n\t"), malformed},
		"comments only":                                     {repeated("#canary"), malformed},
		"quotes that are not closed":                        {repeated(`"`), malformed},
		"a token of 60,000 digits":                          {tokenText(t, strings.Repeat("1", 60_000)), accepted},
		"a second document":                                 {[]byte(good + "---\nkind: Pod\nmetadata: {name: canary}\n"), accepted},
		"a kubeconfig as the second document":               {[]byte("---\n{}\n---\n" + good), malformed},
		"a kubeconfig with another apiVersion":              {replaced(t, "apiVersion: v1", "apiVersion: canary/v9"), malformed},
		"neither kind nor apiVersion":                       {[]byte(strings.NewReplacer("kind: Config\n", "", "apiVersion: v1\n", "").Replace(good)), accepted},
		"unknown fields":                                    {[]byte(good + "canary: {canary: [canary]}\n"), accepted},
		"a cluster that is null":                            {[]byte(`{"clusters":[{"name":"canary","cluster":null}],"users":[{"name":"canary","user":{"token":"canary"}}],"contexts":[{"name":"canary","context":{"cluster":"canary","user":"canary"}}],"current-context":"canary"}`), v1alpha1.ReasonInsecureTLSRefused},
		"the tag !!binary":                                  {tokenText(t, "!!binary Y2FuYXJ5LXRva2Vu"), accepted},
		"the tag !!binary with invalid UTF-8":               {tokenText(t, "!!binary Y2FuYXJ5/w=="), malformed},
		"the tag !!python/object":                           {tokenText(t, "!!python/object:os.system canary-token"), accepted},
		"a number as the token":                             {tokenText(t, "12345678"), malformed},
		"yes as the token":                                  {tokenText(t, "yes"), malformed},
		"null as the token":                                 {tokenText(t, "~"), v1alpha1.ReasonNoCredentials},
		"a list as the token":                               {tokenText(t, "[canary]"), malformed},
		"a number as the current-context":                   {replaced(t, "current-context: canary-context", "current-context: 1"), malformed},
		"a word as insecure-skip-tls-verify":                {replaced(t, "server:", "insecure-skip-tls-verify: canary\n    server:"), malformed},
		"a token with a line break at the end":              {tokenText(t, "|\n      canary-token"), malformed},
		"a token with a line break and a header":            {tokenText(t, `"canary\r\nX-Canary: canary"`), malformed},
		"a token with a control character":                  {tokenText(t, `"canary\x7f"`), malformed},
		"a token with a space":                              {tokenText(t, "canary canary"), malformed},
		"a token that is not ASCII":                         {tokenText(t, "canary-ключ"), malformed},
		"names of 10 KB": {
			[]byte(strings.NewReplacer("canary-user", long[:10_000], "canary-name", long[:10_000]).Replace(good)), accepted,
		},
	}
}

// hostileServers returns server addresses. The address to which a name or a number resolves is
// checked when it is dialled.
func hostileServers(t testing.TB) map[string]testInput {
	t.Helper()
	at := func(address string) []byte { return kubeconfig(t, server(address)) }
	return map[string]testInput{
		"a server with an empty user":         {at("https://@canary.example"), serverRefused},
		"a server with an empty query":        {at("https://canary.example?"), serverRefused},
		"a server with an empty fragment":     {at("https://canary.example#"), serverRefused},
		"a server without slashes":            {at("https:canary.example"), serverRefused},
		"a server with a backslash":           {at(`https://canary.example\@canary`), serverRefused},
		"a server with a line break":          {at("https://canary.example\r\nX-Canary: canary"), serverRefused},
		"a server with the scheme unix":       {at("unix:///canary/canary.sock"), serverRefused},
		"a server with the scheme file":       {at("file:///canary"), serverRefused},
		"a server without a port":             {at("https://canary.example"), accepted},
		"a server in uppercase":               {at("HTTPS://CANARY.EXAMPLE:6443"), accepted},
		"a server with port 0":                {at("https://canary.example:0"), serverRefused},
		"a server with port 99999":            {at("https://canary.example:99999"), serverRefused},
		"a server with a word as the port":    {at("https://canary.example:canary"), serverRefused},
		"a server with a name of 10 KB":       {at("https://" + strings.Repeat("canary.", 1400) + "example"), accepted},
		"a server with an international name": {at("https://канарейка.example:6443"), accepted},
		"a server with an IPv6 zone":          {at("https://[fe80::1%25canary]:6443"), accepted},
		"a server at 0.0.0.0":                 {at("https://0.0.0.0:6443"), accepted},
		"a server at 2130706433 (127.0.0.1)":  {at("https://2130706433:6443"), accepted},
		"a server at 0x7f.1 (127.0.0.1)":      {at("https://0x7f.1:6443"), accepted},
		"a server at 127.1 (127.0.0.1)":       {at("https://127.1:6443"), accepted},
		"a server at 169.254.169.254":         {at("https://169.254.169.254"), accepted},
		"a server at ::ffff:169.254.169.254":  {at("https://[::ffff:169.254.169.254]"), accepted},
		"a server at 64:ff9b::a9fe:a9fe":      {at("https://[64:ff9b::a9fe:a9fe]"), accepted},
	}
}

// hostileCertificates returns bundles and keys that are expensive, or that are invalid but look
// valid.
func hostileCertificates(t testing.TB) map[string]testInput {
	t.Helper()
	a := certificateA()
	client := func(crt, key []byte) []byte { return kubeconfig(t, withoutToken, certificate(crt, key)) }
	most := (maxBytes - len(kubeconfig(t))) * 3 / 4
	return map[string]testInput{
		"a CA with as many certificates as fit":                {caText(t, bytes.Repeat(a.Certificate, most/len(a.Certificate))), accepted},
		"a CA with as many invalid blocks as fit":              {caText(t, bytes.Repeat([]byte("-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n"), most/60)), malformed},
		"a CA with blocks that are not closed":                 {caText(t, bytes.Repeat([]byte("-----BEGIN CERTIFICATE-----\n"), most/28)), malformed},
		"a CA with text around it":                             {caText(t, slices.Concat([]byte("canary\n"), a.Certificate, []byte("canary\n"))), accepted},
		"a CA with a valid and an invalid certificate":         {caText(t, append(slices.Clip(a.Certificate), "-----BEGIN CERTIFICATE-----\nY2FuYXJ5\n-----END CERTIFICATE-----\n"...)), malformed},
		"a CA in PEM with headers":                             {caText(t, recoded(a.Certificate, "CERTIFICATE", map[string]string{"Canary": canary})), malformed},
		"a CA with an RSA key of 8192 bits":                    {caText(t, largestRSA().Certificate), accepted},
		"a CA with a larger RSA key":                           {caText(t, largeRSA().Certificate), malformed},
		"a client's RSA key of 8192 bits":                      {client(largestRSA().Certificate, largestRSA().Key), accepted},
		"a client's larger RSA key":                            {client(largeRSA().Certificate, largeRSA().Key), malformed},
		"a client's RSA key of 32,768 bits":                    {client(a.Certificate, bombRSA().Key), malformed},
		"a client's RSA key for a certificate of another type": {client(a.Certificate, largestRSA().Key), malformed},
		"a client's certificate and key swapped":               {client(a.Key, a.Certificate), malformed},
		"a client's key with text around it":                   {client(a.Certificate, slices.Concat([]byte("canary\n"), a.Key, []byte("canary\n"))), accepted},
		"an encrypted client key": {
			client(a.Certificate, recoded(a.Key, "ENCRYPTED PRIVATE KEY", nil)[:200]), malformed,
		},
		"an encrypted client key in the legacy format": {
			client(a.Certificate, pem.EncodeToMemory(&pem.Block{
				Type: "EC PRIVATE KEY", Headers: map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-256-CBC,00"}, Bytes: []byte(canary),
			})), malformed,
		},
		"as many client certificates as fit": {client(bytes.Repeat(a.Certificate, (most-1000)/len(a.Certificate)), a.Key), accepted},
	}
}

func hostileKubeconfigs(t testing.TB) map[string]testInput {
	t.Helper()
	all := hostileTexts(t)
	maps.Copy(all, hostileServers(t))
	maps.Copy(all, hostileCertificates(t))
	return all
}

func TestHostile_kubeconfig_is_rejected_or_safe(t *testing.T) {
	for name, test := range hostileKubeconfigs(t) {
		t.Run(name, func(t *testing.T) {
			target, rejected := parse(test.raw, Policy{})
			got := accepted
			if rejected != nil {
				got = rejected.Reason
				checkQuotesNothing(t, rejected)
			} else {
				checkSafe(t, target)
			}
			if got != test.want {
				t.Errorf("%s, want %s (%v)", got, test.want, rejected)
			}
		})
	}
}

// The cost of parsing a key grows with its length, so the length is checked first.
func TestHostile_key_that_is_too_long_is_not_parsed(t *testing.T) {
	_, rejected := parse(kubeconfig(t, certificate(certificateA().Certificate, bombRSA().Key)), Policy{})
	if want := fmt.Sprintf("client-key-data has more than %d bytes", maxKeyBytes); rejected == nil || rejected.Message != want {
		t.Errorf("%v, want: %s", rejected, want)
	}
}

// The limit on bytes covers all that is read from a Secret.
func TestHostile_server_of_Argo_CD_counts_towards_the_byte_limit(t *testing.T) {
	config := argoCD(t, func(object, object) {})
	long := "https://canary.example/" + strings.Repeat("x", maxBytes-len(config))
	_, rejected := parseArgoCD(secret("x", withArgoCDLabel, withData("server", long), withData("config", string(config))), Policy{})
	if rejected == nil || rejected.Reason != tooLarge {
		t.Errorf("%v, want %s", rejected, tooLarge)
	}
}
