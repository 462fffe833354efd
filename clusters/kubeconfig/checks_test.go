package kubeconfig

import (
	"bytes"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters/internal/testcert"
)

// canary is part of every value of a test kubeconfig that has no fixed content. No message may
// contain it.
const canary = "canary"

// edit changes a valid kubeconfig for one test case.
type edit func(config *api.Config, cluster *api.Cluster, user *api.AuthInfo)

// kubeconfig returns a valid kubeconfig with a token, after the edits.
func kubeconfig(tb testing.TB, edits ...edit) []byte {
	tb.Helper()
	cluster := &api.Cluster{Server: "https://canary.example:6443", TLSServerName: "canary-name", CertificateAuthorityData: certificateA().Certificate}
	user := &api.AuthInfo{Token: "canary-token"}
	config := api.NewConfig()
	config.CurrentContext = "canary-context"
	config.Contexts["canary-context"] = &api.Context{Cluster: "canary-cluster", AuthInfo: "canary-user", Namespace: "canary-namespace"}
	config.Clusters["canary-cluster"], config.AuthInfos["canary-user"] = cluster, user
	for _, change := range edits {
		change(config, cluster, user)
	}
	raw, err := clientcmd.Write(*config)
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

func onConfig(change func(*api.Config)) edit {
	return func(config *api.Config, _ *api.Cluster, _ *api.AuthInfo) { change(config) }
}

func onCluster(change func(*api.Cluster)) edit {
	return func(_ *api.Config, cluster *api.Cluster, _ *api.AuthInfo) { change(cluster) }
}

func onUser(change func(*api.AuthInfo)) edit {
	return func(_ *api.Config, _ *api.Cluster, user *api.AuthInfo) { change(user) }
}

func server(url string) edit {
	return onCluster(func(cluster *api.Cluster) { cluster.Server = url })
}

func withoutToken(_ *api.Config, _ *api.Cluster, user *api.AuthInfo) { user.Token = "" }

func certificate(certificate, key []byte) edit {
	return onUser(func(user *api.AuthInfo) { user.ClientCertificateData, user.ClientKeyData = certificate, key })
}

var (
	certificateA = sync.OnceValue(func() testcert.Pair { return testcert.New(time.Hour) })
	certificateB = sync.OnceValue(func() testcert.Pair { return testcert.New(time.Hour) })
)

// testInput is the content of a Secret, and the reason with which it is rejected.
type testInput struct {
	raw  []byte
	want string
}

// rejectedKubeconfigs returns kubeconfigs that request something forbidden, or that are incomplete.
func rejectedKubeconfigs(t testing.TB) map[string]testInput {
	t.Helper()
	return map[string]testInput{
		"a program (exec)": {
			kubeconfig(t, onUser(func(u *api.AuthInfo) {
				u.Exec = &api.ExecConfig{Command: "canary-program", APIVersion: "client.authentication.k8s.io/v1", InteractiveMode: api.NeverExecInteractiveMode}
			})),
			v1alpha1.ReasonExecRefused,
		},
		"an auth-provider": {
			kubeconfig(t, onUser(func(u *api.AuthInfo) { u.AuthProvider = &api.AuthProviderConfig{Name: "canary-provider"} })),
			v1alpha1.ReasonAuthProviderRefused,
		},
		"a file for the CA":                 {kubeconfig(t, onCluster(func(c *api.Cluster) { c.CertificateAuthority = "/canary" })), v1alpha1.ReasonFileRefused},
		"a file for the client certificate": {kubeconfig(t, onUser(func(u *api.AuthInfo) { u.ClientCertificate = "/canary" })), v1alpha1.ReasonFileRefused},
		"a file for the client key":         {kubeconfig(t, onUser(func(u *api.AuthInfo) { u.ClientKey = "/canary" })), v1alpha1.ReasonFileRefused},
		"a file for the token":              {kubeconfig(t, onUser(func(u *api.AuthInfo) { u.TokenFile = "/canary" })), v1alpha1.ReasonFileRefused},
		"a file in addition to embedded data": {
			kubeconfig(t, onUser(func(u *api.AuthInfo) { u.TokenFile, u.Token = "/canary", "canary-token" })), v1alpha1.ReasonFileRefused,
		},
		"a proxy":                                   {kubeconfig(t, onCluster(func(c *api.Cluster) { c.ProxyURL = "http://canary:3128" })), v1alpha1.ReasonProxyRefused},
		"impersonation of a user":                   {kubeconfig(t, onUser(func(u *api.AuthInfo) { u.Impersonate = canary })), v1alpha1.ReasonImpersonationRefused},
		"impersonation of a UID":                    {kubeconfig(t, onUser(func(u *api.AuthInfo) { u.ImpersonateUID = canary })), v1alpha1.ReasonImpersonationRefused},
		"impersonation of groups":                   {kubeconfig(t, onUser(func(u *api.AuthInfo) { u.ImpersonateGroups = []string{canary} })), v1alpha1.ReasonImpersonationRefused},
		"impersonation with extra fields":           {kubeconfig(t, onUser(func(u *api.AuthInfo) { u.ImpersonateUserExtra = map[string][]string{canary: nil} })), v1alpha1.ReasonImpersonationRefused},
		"a user name":                               {kubeconfig(t, onUser(func(u *api.AuthInfo) { u.Username = canary })), v1alpha1.ReasonBasicAuthRefused},
		"a password":                                {kubeconfig(t, onUser(func(u *api.AuthInfo) { u.Password = canary })), v1alpha1.ReasonBasicAuthRefused},
		"insecure-skip-tls-verify":                  {kubeconfig(t, onCluster(func(c *api.Cluster) { c.InsecureSkipTLSVerify = true })), v1alpha1.ReasonInsecureTLSRefused},
		"no CA":                                     {kubeconfig(t, onCluster(func(c *api.Cluster) { c.CertificateAuthorityData = nil })), v1alpha1.ReasonInsecureTLSRefused},
		"a server without TLS":                      {kubeconfig(t, server("http://canary.example:6443")), v1alpha1.ReasonServerRefused},
		"a server with another scheme":              {kubeconfig(t, server("ftp://canary.example")), v1alpha1.ReasonServerRefused},
		"a server without a scheme":                 {kubeconfig(t, server("canary.example:6443")), v1alpha1.ReasonServerRefused},
		"a server without a host":                   {kubeconfig(t, server("https://:6443")), v1alpha1.ReasonServerRefused},
		"a server with a user":                      {kubeconfig(t, server("https://canary:canary@canary.example")), v1alpha1.ReasonServerRefused},
		"a server with a query":                     {kubeconfig(t, server("https://canary.example?canary")), v1alpha1.ReasonServerRefused},
		"a server with a fragment":                  {kubeconfig(t, server("https://canary.example#canary")), v1alpha1.ReasonServerRefused},
		"a server that is not a URL":                {kubeconfig(t, server("https://canary example")), v1alpha1.ReasonServerRefused},
		"no server":                                 {kubeconfig(t, server("")), v1alpha1.ReasonServerRefused},
		"no credentials":                            {kubeconfig(t, withoutToken), v1alpha1.ReasonNoCredentials},
		"a key without a certificate":               {kubeconfig(t, withoutToken, certificate(nil, certificateA().Key)), v1alpha1.ReasonNoCredentials},
		"a certificate without a key":               {kubeconfig(t, certificate(certificateA().Certificate, nil)), v1alpha1.ReasonKubeconfigMalformed},
		"a key that does not match the certificate": {kubeconfig(t, certificate(certificateA().Certificate, certificateB().Key)), v1alpha1.ReasonKubeconfigMalformed},
		"an invalid client certificate":             {kubeconfig(t, certificate([]byte(canary), []byte(canary))), v1alpha1.ReasonKubeconfigMalformed},
		"an invalid CA":                             {kubeconfig(t, onCluster(func(c *api.Cluster) { c.CertificateAuthorityData = []byte(canary) })), v1alpha1.ReasonKubeconfigMalformed},
		"a key instead of the CA":                   {kubeconfig(t, onCluster(func(c *api.Cluster) { c.CertificateAuthorityData = certificateA().Key })), v1alpha1.ReasonKubeconfigMalformed},
		"no current-context":                        {kubeconfig(t, onConfig(func(c *api.Config) { c.CurrentContext = "" })), v1alpha1.ReasonKubeconfigMalformed},
		"a current-context that does not exist":     {kubeconfig(t, onConfig(func(c *api.Config) { c.CurrentContext = "canary-other" })), v1alpha1.ReasonKubeconfigMalformed},
		"a context whose cluster is missing": {
			kubeconfig(t, onConfig(func(c *api.Config) { delete(c.Clusters, "canary-cluster") })), v1alpha1.ReasonKubeconfigMalformed,
		},
		"a context whose user is missing": {
			kubeconfig(t, onConfig(func(c *api.Config) { delete(c.AuthInfos, "canary-user") })), v1alpha1.ReasonKubeconfigMalformed,
		},
		"content that is not YAML":  {[]byte("canary: [canary"), v1alpha1.ReasonKubeconfigMalformed},
		"an object of another kind": {[]byte("apiVersion: v1\nkind: Pod\nmetadata: {name: canary}"), v1alpha1.ReasonKubeconfigMalformed},
		"a field of the wrong type": {[]byte("apiVersion: v1\nkind: Config\ncurrent-context: {canary: canary}"), v1alpha1.ReasonKubeconfigMalformed},
		"binary content":            {[]byte("\x00\xff\xfecanary"), v1alpha1.ReasonKubeconfigMalformed},
		"empty content":             {nil, v1alpha1.ReasonKubeconfigMalformed},
		"more than 64 KiB":          {bytes.Repeat([]byte("canary "), 10_000), v1alpha1.ReasonKubeconfigTooLarge},
		"64 KiB and one byte":       {padded(kubeconfig(t), maxBytes+1), v1alpha1.ReasonKubeconfigTooLarge},
	}
}

func TestParse_rejects_forbidden_and_incomplete_kubeconfigs(t *testing.T) {
	for name, test := range rejectedKubeconfigs(t) {
		t.Run(name, func(t *testing.T) {
			got, rejected := parse(test.raw, Policy{})
			if rejected == nil {
				t.Fatalf("the kubeconfig is accepted, for server %s", got.Server)
			}
			if rejected.Reason != test.want {
				t.Errorf("reason %s, want %s (%s)", rejected.Reason, test.want, rejected.Message)
			}
			checkQuotesNothing(t, rejected)
			if _, again := parse(test.raw, Policy{}); *again != *rejected {
				t.Errorf("the second message differs: %s, then %s", rejected.Message, again.Message)
			}
		})
	}
}

// padded appends a comment to a kubeconfig to reach a size.
func padded(raw []byte, size int) []byte {
	return append(raw, append([]byte("#"), bytes.Repeat([]byte("x"), size-len(raw)-1)...)...)
}

// The kubeconfigs of kubeadm and minikube name several files. If the message named another file
// each time, the MemberCluster would be written in every reconciliation.
func TestRejection_of_several_files_is_stable(t *testing.T) {
	raw := kubeconfig(t, withoutToken, func(_ *api.Config, cluster *api.Cluster, user *api.AuthInfo) {
		cluster.CertificateAuthority, cluster.CertificateAuthorityData = "/canary", nil
		user.ClientCertificate, user.ClientKey = "/canary", "/canary"
	})
	_, first := parse(raw, Policy{})
	for range 100 {
		if _, again := parse(raw, Policy{}); *again != *first {
			t.Fatalf("first: %s\nthen:  %s", first.Message, again.Message)
		}
	}
}

// usedFields has the fields of a kubeconfig that a connection uses.
type usedFields struct {
	Host, ServerName, Token string
	Certificate             bool
}

// acceptedKubeconfig is a kubeconfig that is accepted, and the fields that a connection uses.
type acceptedKubeconfig struct {
	raw  []byte
	want usedFields
}

func acceptedKubeconfigs(t testing.TB) map[string]acceptedKubeconfig {
	t.Helper()
	return map[string]acceptedKubeconfig{
		"a token": {
			kubeconfig(t),
			usedFields{"https://canary.example:6443", "canary-name", "canary-token", false},
		},
		"a client certificate": {
			kubeconfig(t, withoutToken, certificate(certificateA().Certificate, certificateA().Key)),
			usedFields{"https://canary.example:6443", "canary-name", "", true},
		},
		"a token and a client certificate": {
			kubeconfig(t, certificate(certificateA().Certificate, certificateA().Key)),
			usedFields{"https://canary.example:6443", "canary-name", "canary-token", true},
		},
		"a server with a path": {
			kubeconfig(t, server("https://rancher.example/k8s/clusters/c-1")),
			usedFields{"https://rancher.example/k8s/clusters/c-1", "canary-name", "canary-token", false},
		},
		"a program in another context": {
			kubeconfig(t, onConfig(func(c *api.Config) {
				c.AuthInfos["other"] = &api.AuthInfo{Exec: &api.ExecConfig{Command: "canary"}, TokenFile: "/canary"}
				c.Contexts["other"] = &api.Context{Cluster: "canary-cluster", AuthInfo: "other"}
			})),
			usedFields{"https://canary.example:6443", "canary-name", "canary-token", false},
		},
		"64 KiB": {
			padded(kubeconfig(t), maxBytes),
			usedFields{"https://canary.example:6443", "canary-name", "canary-token", false},
		},
	}
}

func TestParse_accepts_safe_kubeconfigs(t *testing.T) {
	for name, test := range acceptedKubeconfigs(t) {
		t.Run(name, func(t *testing.T) {
			got, rejected := parse(test.raw, Policy{})
			if rejected != nil {
				t.Fatalf("%s: %s", rejected.Reason, rejected.Message)
			}
			if diff := cmp.Diff(test.want, usedFields{got.Server, got.ServerName, got.Token, got.Certificate != nil}); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestConfig_comparison_separates_server_and_credentials(t *testing.T) {
	tests := map[string]struct {
		edits             []edit
		sameServer, equal bool
	}{
		"the same":            {nil, true, true},
		"another namespace":   {[]edit{onConfig(func(c *api.Config) { c.Contexts["canary-context"].Namespace = "other" })}, true, true},
		"another token":       {[]edit{onUser(func(u *api.AuthInfo) { u.Token = "other" })}, true, false},
		"a certificate added": {[]edit{certificate(certificateA().Certificate, certificateA().Key)}, true, false},
		"another server":      {[]edit{server("https://other.example:6443")}, false, false},
		"another name":        {[]edit{onCluster(func(c *api.Cluster) { c.TLSServerName = "other" })}, false, false},
		"another CA":          {[]edit{onCluster(func(c *api.Cluster) { c.CertificateAuthorityData = certificateB().Certificate })}, false, false},
	}
	one, _ := parse(kubeconfig(t), Policy{})
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			other, rejected := parse(kubeconfig(t, test.edits...), Policy{})
			if rejected != nil {
				t.Fatal(rejected)
			}
			if one.SameServer(other) != test.sameServer || one.Equal(other) != test.equal {
				t.Errorf("same server %t, equal %t; want %t, %t", one.SameServer(other), one.Equal(other), test.sameServer, test.equal)
			}
		})
	}
}

func TestParse_reads_the_first_key_that_exists(t *testing.T) {
	ours, capi, flux := kubeconfig(t, server("https://ours")), kubeconfig(t, server("https://capi")), kubeconfig(t, server("https://flux"))
	tests := map[string]struct {
		data map[string][]byte
		want string // the server, or the reason for the rejection
	}{
		"kubeconfig":                  {map[string][]byte{"kubeconfig": ours}, "https://ours"},
		"value":                       {map[string][]byte{"value": capi}, "https://capi"},
		"value.yaml":                  {map[string][]byte{"value.yaml": flux}, "https://flux"},
		"kubeconfig before value":     {map[string][]byte{"value": capi, "kubeconfig": ours}, "https://ours"},
		"value before value.yaml":     {map[string][]byte{"value.yaml": flux, "value": capi}, "https://capi"},
		"kubeconfig, even if empty":   {map[string][]byte{"kubeconfig": nil, "value": capi}, v1alpha1.ReasonKubeconfigMalformed},
		"kubeconfig, even if invalid": {map[string][]byte{"kubeconfig": []byte(canary), "value": capi}, v1alpha1.ReasonKubeconfigMalformed},
		"none of them":                {map[string][]byte{"config": ours}, v1alpha1.ReasonKubeconfigMissing},
		"no data":                     {nil, v1alpha1.ReasonKubeconfigMissing},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			target, rejected := (&MemberSecret{format: FormatKubeconfig, Secret: &corev1.Secret{Data: test.data}}).Parse(Policy{})
			var got string
			if rejected != nil {
				got = rejected.Reason
			} else {
				got = target.Server
			}
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestUniqueKeys_explains_the_rejection(t *testing.T) {
	const (
		notString = "the content is not YAML, or has a key that is not a string"
		twice     = "the content has a duplicate key; remove one of the two"
	)
	for content, want := range map[string]string{
		"kind: Config\n? [canary]\n: x\n":    notString,
		"? {canary: x}\n: x\n":               notString,
		"null: canary\n":                     notString,
		"kind: [canary":                      notString,
		"kind: canary\nkind: Config\n":       twice,
		"users: [{name: x, name: canary}]":   twice,
		"1: x\n1: canary\n":                  twice,
		"1: x\ntrue: canary\nkind: Config\n": "", // JSON turns these keys into text
	} {
		got := ""
		if rejected := uniqueKeys([]byte(content)); rejected != nil {
			got = rejected.Message
			if rejected.Reason != v1alpha1.ReasonKubeconfigMalformed {
				t.Errorf("%q: reason %s", content, rejected.Reason)
			}
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", content, got, want)
		}
	}
}
