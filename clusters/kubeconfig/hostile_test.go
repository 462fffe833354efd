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
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"maps"
	"math/big"
	"net/url"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters/internal/cputime"
	"github.com/fleetwright/fleetwright/clusters/internal/testcert"
)

// Limits on the cost of a decision on any Secret. The hub makes the decision for anyone who may
// write a Secret.
const (
	maxDecisionTime   = 100 * time.Millisecond
	maxDecisionMemory = 50 << 20
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

// repeated returns a text repeated up to the limit on bytes.
func repeated(text string) []byte { return bytes.Repeat([]byte(text), maxBytes/len(text)) }

// entries returns a kubeconfig whose list has as many entries as the limits let through to the
// parser.
func entries(list, entry string) []byte {
	header := "kind: Config\napiVersion: v1\n" + list + ": ["
	return []byte(header + strings.Repeat(entry+",", (maxTokens-len(strings.Fields(header))-1)/countTokens([]byte(entry+","))) + "]")
}

// nested returns a text that is nested as deep as the limits let through to the parser.
func nested(before, opening, closing, after string) []byte {
	depth := (maxTokens - countTokens([]byte(before+after)) - 1) / max(1, countTokens([]byte(opening)))
	return []byte(before + strings.Repeat(opening, depth) + strings.Repeat(closing, depth) + after)
}

// numbered returns ten thousand entries of a list in the form that kubectl writes, or as many as
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

// hostileTexts returns texts that are difficult for a YAML parser or its caller.
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

// hostileServers returns server addresses. The address that a name or number leads to is checked
// when it is dialled.
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

func TestHostileKubeconfig(t *testing.T) {
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

// The cost of parsing a key grows with its length, before anything else about it is known.
func TestHostileKeyIsNotReadWhenItIsTooLong(t *testing.T) {
	_, rejected := parse(kubeconfig(t, certificate(certificateA().Certificate, bombRSA().Key)), Policy{})
	if want := fmt.Sprintf("client-key-data has more than %d bytes", maxKeyBytes); rejected == nil || rejected.Message != want {
		t.Errorf("%v, want: %s", rejected, want)
	}
}

// The limit on bytes covers everything that is read from a Secret.
func TestHostileArgoCDServerCountsToTheCap(t *testing.T) {
	config := argoCD(t, func(object, object) {})
	long := "https://canary.example/" + strings.Repeat("x", maxBytes-len(config))
	_, rejected := parseArgoCD(secret("x", withArgoCDLabel, withData("server", long), withData("config", string(config))), Policy{})
	if rejected == nil || rejected.Reason != tooLarge {
		t.Errorf("%v, want %s", rejected, tooLarge)
	}
}

// This test is not parallel, because it would count the allocations of other tests.
func TestHostileSecretCostsLittle(t *testing.T) {
	decisions := map[string]func(){}
	for name, test := range hostileKubeconfigs(t) {
		decisions[name] = func() { _, _ = parse(test.raw, Policy{}) }
	}
	for name, test := range rejectedKubeconfigs(t) {
		decisions[name] = func() { _, _ = parse(test.raw, Policy{}) }
	}
	for name, test := range acceptedKubeconfigs(t) {
		decisions[name] = func() { _, _ = parse(test.raw, Policy{}) }
	}
	for name, test := range rejectedArgoCDs(t) {
		decisions["Argo CD: "+name] = func() { _, _ = parseArgoCDConfig(test.config, test.policy) }
	}
	decisions["Argo CD: a server of a MiB"] = func() {
		_, _ = Sources{argoSecrets}.Member(secret("x", withArgoCDLabel, withData("server", strings.Repeat("x", 1<<20)))).Parse(Policy{})
	}
	for name, decide := range decisions {
		t.Run(name, func(t *testing.T) {
			took, allocated := measureCost(decide)
			if most := maxDecisionTime * slowness(); took > most || allocated > maxDecisionMemory {
				t.Errorf("took %s and %d KiB, want at most %s and %d KiB", took, allocated>>10, most, maxDecisionMemory>>10)
			}
		})
	}
}

// slowness returns the approximate factor by which the race detector slows down the tests.
func slowness() time.Duration {
	if build, known := debug.ReadBuildInfo(); known && slices.Contains(build.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return 10
	}
	return 1
}

// Every event of a Secret looks up the name, and so does the code that handles the event later.
func TestHostileNameOfAMiBIsNotValidated(t *testing.T) {
	s := secret("x", withArgoCDLabel, withData("name", strings.Repeat("x", 1<<20)))
	if _, allocated := measureCost(func() { _ = argoSecrets.member(s) }); allocated > 64<<10 {
		t.Errorf("took %d KiB", allocated>>10)
	}
}

// measureCost returns the processor time and the memory of the cheapest of three runs, because the garbage
// of other code counts too.
func measureCost(decide func()) (took time.Duration, allocated uint64) {
	took, allocated = time.Hour, 1<<63
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		took = min(took, cputime.Of(decide))
		runtime.ReadMemStats(&after)
		allocated = min(allocated, after.TotalAlloc-before.TotalAlloc)
	}
	return took, allocated
}

// rejections returns patterns for the texts of all rejections in the source. A placeholder in a
// text matches only a number or the name of a field.
var rejections = sync.OnceValue(func() []*regexp.Regexp {
	var all []*regexp.Regexp
	for _, file := range []string{"parse.go", "checks.go", "credentials.go", "argocd.go"} {
		source, err := parser.ParseFile(gotoken.NewFileSet(), file, nil, 0)
		if err != nil {
			panic(err)
		}
		ast.Inspect(source, func(node ast.Node) bool {
			call, isCall := node.(*ast.CallExpr)
			if !isCall || len(call.Args) < 2 {
				return true
			}
			if name, isName := call.Fun.(*ast.Ident); !isName || name.Name != "reject" {
				return true
			}
			text, err := strconv.Unquote(call.Args[1].(*ast.BasicLit).Value)
			if err != nil {
				panic(err)
			}
			all = append(all, regexp.MustCompile("^"+strings.NewReplacer(
				"%d", `\d+`, "%s", `(certificate-authority|client-certificate|client-key|tokenFile)`, "%q", `\["kubeconfig" "value" "value.yaml"\]`,
			).Replace(regexp.QuoteMeta(text))+"$"))
			return true
		})
	}
	return all
})

// checkQuotesNothing fails the test unless the source contains the message word for word: then it quotes
// nothing of the Secret.
func checkQuotesNothing(t testing.TB, rejected *RejectedError) {
	t.Helper()
	if strings.Contains(strings.ToLower(rejected.Message), canary) ||
		!slices.ContainsFunc(rejections(), func(text *regexp.Regexp) bool { return text.MatchString(rejected.Message) }) {
		t.Errorf("the message quotes the Secret: %s", rejected.Message)
	}
}

// checkSafe fails the test unless the connection uses TLS with a server whose CA is known, and its
// credentials go only to that server.
func checkSafe(t testing.TB, target *Config) {
	t.Helper()
	address, err := url.Parse(target.Server)
	if err != nil || address.Scheme != "https" || address.Hostname() == "" || address.User != nil || strings.ContainsAny(target.Server, "?#\r\n") {
		t.Errorf("accepted server %q: %v", target.Server, err)
	}
	if target.Insecure || target.Proxy != nil || len(target.CA) == 0 || target.CAPool == nil || target.CAPool.Equal(x509.NewCertPool()) {
		t.Errorf("accepted without a CA, or with a proxy: %+v", target)
	}
	if target.Token == "" && target.Certificate == nil || strings.ContainsFunc(target.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		t.Errorf("accepted token %q, certificate %t", target.Token, target.Certificate != nil)
	}
	if target.Certificate != nil && hasLargeKey(target.Certificate.Leaf) {
		t.Error("accepted too large a key")
	}
}

// documentedReasons lists the reasons in the API for rejecting the content of a Secret.
var documentedReasons = []string{
	v1alpha1.ReasonKubeconfigMissing, v1alpha1.ReasonKubeconfigTooLarge, v1alpha1.ReasonKubeconfigMalformed, v1alpha1.ReasonExecRefused,
	v1alpha1.ReasonAuthProviderRefused, v1alpha1.ReasonFileRefused, v1alpha1.ReasonProxyRefused, v1alpha1.ReasonImpersonationRefused,
	v1alpha1.ReasonBasicAuthRefused, v1alpha1.ReasonServerRefused, v1alpha1.ReasonInsecureTLSRefused, v1alpha1.ReasonNoCredentials,
}

// checkDecision fails the test unless the decision is either a safe Config, or a rejection that is
// documented, quotes nothing, and is the same each time.
func checkDecision(t testing.TB, decide func(Policy) (*Config, *RejectedError)) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	target, rejected := decide(Policy{})
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > maxDecisionMemory {
		t.Errorf("took %d KiB", allocated>>10)
	}
	_, again := decide(Policy{})
	switch {
	case (target == nil) == (rejected == nil):
		t.Fatalf("both or neither: %+v, %+v", target, rejected)
	case rejected == nil:
		checkSafe(t, target)
		if permitted, rejected := decide(Policy{AllowInsecureTLS: true, AllowProxy: true, AllowLoopback: true}); rejected != nil || !target.Equal(permitted) {
			t.Errorf("another decision where more is permitted: %+v", rejected)
		}
	default:
		checkQuotesNothing(t, rejected)
		if !slices.Contains(documentedReasons, rejected.Reason) {
			t.Errorf("reason %s is not documented", rejected.Reason)
		}
		if again == nil || *again != *rejected {
			t.Errorf("said otherwise the second time: %v, then %v", rejected, again)
		}
	}
}

// FuzzParse checks that any Secret is either rejected with a reason or safe. The seeds are all
// inputs of the tables here, and those of testdata/fuzz.
func FuzzParse(f *testing.F) {
	for _, table := range []map[string]testInput{rejectedKubeconfigs(f), hostileTexts(f), hostileServers(f)} {
		for _, test := range table {
			if len(test.raw) <= 8<<10 {
				f.Add(test.raw)
			}
		}
	}
	for _, test := range acceptedKubeconfigs(f) {
		f.Add(test.raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		checkDecision(t, func(policy Policy) (*Config, *RejectedError) { return parse(raw, policy) })
		if _, rejected := parse(raw, Policy{AllowInsecureTLS: true, AllowProxy: true}); rejected == nil {
			checkAsksForNothing(t, raw)
		}
	})
}

// checkAsksForNothing fails the test if an accepted kubeconfig names a program, a file or another user.
func checkAsksForNothing(t testing.TB, raw []byte) {
	t.Helper()
	config, err := clientcmd.Load(raw)
	if err != nil {
		t.Fatalf("accepted what client-go does not read: %v", err)
	}
	context := config.Contexts[config.CurrentContext]
	cluster, user := config.Clusters[context.Cluster], config.AuthInfos[context.AuthInfo]
	if user.Exec != nil || user.AuthProvider != nil || user.Username+user.Password+user.Impersonate != "" ||
		cluster.CertificateAuthority+user.ClientCertificate+user.ClientKey+user.TokenFile != "" {
		t.Error("accepted a program, a file or another user")
	}
}

// FuzzParseArgoCD checks the same for cluster Secrets of Argo CD.
func FuzzParseArgoCD(f *testing.F) {
	for _, test := range rejectedArgoCDs(f) {
		if len(test.config) <= 8<<10 {
			f.Add("https://canary.example:6443", test.config)
		}
	}
	for _, test := range acceptedArgoCDs(f) {
		f.Add("https://canary.example:6443", test.config)
	}
	f.Fuzz(func(t *testing.T, server string, config []byte) {
		s := &corev1.Secret{Data: map[string][]byte{"server": []byte(server), "config": config}}
		checkDecision(t, func(policy Policy) (*Config, *RejectedError) { return parseArgoCD(s, policy) })
	})
}

// docs/kubeconfig.md lists exactly these inputs, each with its outcome.
func TestHostileInputsAreDocumented(t *testing.T) {
	kubeconfigs, argoCD := map[string]string{}, map[string]string{}
	for _, table := range []map[string]testInput{rejectedKubeconfigs(t), hostileKubeconfigs(t)} {
		for name, test := range table {
			kubeconfigs[name] = test.want
		}
	}
	for name := range acceptedKubeconfigs(t) {
		kubeconfigs[name] = accepted
	}
	for name, test := range rejectedArgoCDs(t) {
		argoCD[name] = test.want
	}
	for name := range acceptedArgoCDs(t) {
		argoCD[name] = accepted
	}
	want := map[string]map[string]string{"A kubeconfig": kubeconfigs, "A cluster Secret of Argo CD": argoCD}
	got := reasonTables(t, "../../docs/kubeconfig.md")
	delete(got, "An address that is dialled") // see package transport
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the document differs from the tests (-tests +document)\n%s", diff)
	}
}

// reasonTables returns the tables of a document whose last column is a reason: for each title of the
// first column, the reasons by input. The columns in between say what happens, and begin with
// whether the input is used or refused.
func reasonTables(t testing.TB, path string) map[string]map[string]string {
	t.Helper()
	document, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]map[string]string{}
	var title string
	for line := range strings.Lines(string(document)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case len(cells) != 3:
			title = ""
		case cells[2] == "reason":
			title = cells[0]
			all[title] = map[string]string{}
		case title == "" || strings.HasPrefix(cells[0], "---"):
		default:
			reason := strings.Trim(cells[2], "`")
			if happens, _, _ := strings.Cut(cells[1], " "); strings.Trim(happens, ":,;") != map[bool]string{true: "used", false: "refused"}[reason == accepted] {
				t.Errorf("%s: %s, and the reason is %s", cells[0], cells[1], reason)
			}
			if _, twice := all[title][cells[0]]; twice {
				t.Errorf("%s is there twice", cells[0])
			}
			all[title][cells[0]] = reason
		}
	}
	return all
}
