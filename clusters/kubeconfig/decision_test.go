package kubeconfig

import (
	"crypto/x509"
	"go/ast"
	"go/parser"
	gotoken "go/token"
	"net/url"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// rejections returns patterns for the texts of all rejections in the source. A placeholder in a
// text matches only a number or the name of a field.
var rejections = sync.OnceValue(func() []*regexp.Regexp {
	var all []*regexp.Regexp
	for _, file := range []string{"parse.go", "checks.go", "credentials.go", "argocd.go", "withtoken.go"} {
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

// checkQuotesNothing fails the test unless the source contains the message word for word, so that
// the message quotes nothing of the Secret.
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
		t.Errorf("server %q is accepted: %v", target.Server, err)
	}
	if target.Insecure || target.Proxy != nil || len(target.CA) == 0 || target.CAPool == nil || target.CAPool.Equal(x509.NewCertPool()) {
		t.Errorf("a Config without a CA or with a proxy is accepted: %+v", target)
	}
	if target.Token == "" && target.Certificate == nil || strings.ContainsFunc(target.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		t.Errorf("token %q, certificate %t is accepted", target.Token, target.Certificate != nil)
	}
	if target.Certificate != nil && hasLargeKey(target.Certificate.Leaf) {
		t.Error("a key that is too large is accepted")
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
		t.Fatalf("want a Config or a rejection, got %+v and %+v", target, rejected)
	case rejected == nil:
		checkSafe(t, target)
		if permitted, rejected := decide(Policy{AllowInsecureTLS: true, AllowProxy: true, AllowLoopback: true}); rejected != nil || !target.Equal(permitted) {
			t.Errorf("the decision differs if the policy permits more: %+v", rejected)
		}
	default:
		checkQuotesNothing(t, rejected)
		if !slices.Contains(documentedReasons, rejected.Reason) {
			t.Errorf("reason %s is not documented", rejected.Reason)
		}
		if again == nil || *again != *rejected {
			t.Errorf("the second rejection differs: %v, then %v", rejected, again)
		}
	}
}

// FuzzParse checks that any Secret is either rejected with a reason or safe. The seeds are the
// inputs of the tests in this package, and those in testdata/fuzz.
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

// checkAsksForNothing fails the test if an accepted kubeconfig names a program, a file or another
// user.
func checkAsksForNothing(t testing.TB, raw []byte) {
	t.Helper()
	config, err := clientcmd.Load(raw)
	if err != nil {
		t.Fatalf("the kubeconfig is accepted, but client-go cannot read it: %v", err)
	}
	context := config.Contexts[config.CurrentContext]
	cluster, user := config.Clusters[context.Cluster], config.AuthInfos[context.AuthInfo]
	if user.Exec != nil || user.AuthProvider != nil || user.Username+user.Password+user.Impersonate != "" ||
		cluster.CertificateAuthority+user.ClientCertificate+user.ClientKey+user.TokenFile != "" {
		t.Error("a program, a file or another user is accepted")
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
