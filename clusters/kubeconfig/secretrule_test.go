package kubeconfig

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

var (
	ourSecrets  = SecretRule{Namespace: "fleet", Format: FormatKubeconfig, Selector: labels.SelectorFromSet(labels.Set{"member": "true"})}
	capiSecrets = SecretRule{Namespace: "fleet", Format: FormatClusterAPI}
	argoSecrets = SecretRule{Namespace: "fleet", Format: FormatArgoCD}
)

// secret returns a Secret in the namespace fleet, after the changes.
func secret(name string, changes ...func(*corev1.Secret)) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: name}, Data: map[string][]byte{}}
	for _, change := range changes {
		change(s)
	}
	return s
}

func withSelectedLabel(s *corev1.Secret)  { metav1.SetMetaDataLabel(&s.ObjectMeta, "member", "true") }
func withClusterAPIType(s *corev1.Secret) { s.Type = clusterAPIType }
func withArgoCDLabel(s *corev1.Secret) {
	metav1.SetMetaDataLabel(&s.ObjectMeta, "argocd.argoproj.io/secret-type", "cluster")
}
func inOtherNamespace(s *corev1.Secret) { s.Namespace = "default" }
func beingDeleted(s *corev1.Secret)     { s.DeletionTimestamp = &metav1.Time{Time: metav1.Now().Time} }

func withData(key, value string) func(*corev1.Secret) {
	return func(s *corev1.Secret) { s.Data[key] = []byte(value) }
}

func TestSource_returns_the_name_of_the_member(t *testing.T) {
	tests := map[string]struct {
		rule   SecretRule
		secret *corev1.Secret
		want   string
	}{
		"kubeconfig":                         {ourSecrets, secret("east", withSelectedLabel), "east"},
		"kubeconfig, without the label":      {ourSecrets, secret("east"), ""},
		"kubeconfig, in another namespace":   {ourSecrets, secret("east", withSelectedLabel, inOtherNamespace), ""},
		"kubeconfig, being deleted":          {ourSecrets, secret("east", withSelectedLabel, beingDeleted), ""},
		"kubeconfig, of any type":            {ourSecrets, secret("east-kubeconfig", withSelectedLabel, withClusterAPIType), "east-kubeconfig"},
		"Cluster API":                        {capiSecrets, secret("east-kubeconfig", withClusterAPIType), "east"},
		"Cluster API, with the suffix twice": {capiSecrets, secret("east-kubeconfig-kubeconfig", withClusterAPIType), "east-kubeconfig"},
		"Cluster API, of another type":       {capiSecrets, secret("east-kubeconfig"), ""},
		"Cluster API, a certificate":         {capiSecrets, secret("east-ca", withClusterAPIType), ""},
		"Cluster API, only the suffix":       {capiSecrets, secret("-kubeconfig", withClusterAPIType), ""},
		"Cluster API, in another namespace":  {capiSecrets, secret("east-kubeconfig", withClusterAPIType, inOtherNamespace), ""},
		"Cluster API, being deleted":         {capiSecrets, secret("east-kubeconfig", withClusterAPIType, beingDeleted), ""},
		"Argo CD":                            {argoSecrets, secret("cluster-1", withArgoCDLabel, withData("name", "east.example")), "east.example"},
		"Argo CD, without a name":            {argoSecrets, secret("cluster-1", withArgoCDLabel), "cluster-1"},
		"Argo CD, an invalid name":           {argoSecrets, secret("cluster-1", withArgoCDLabel, withData("name", "East 1")), "cluster-1"},
		"Argo CD, a name of a MiB":           {argoSecrets, secret("cluster-1", withArgoCDLabel, withData("name", strings.Repeat("x", 1<<20))), "cluster-1"},
		"Argo CD, a name that is too long":   {argoSecrets, secret("cluster-1", withArgoCDLabel, withData("name", strings.Repeat("x", 254))), "cluster-1"},
		"Argo CD, without the label":         {argoSecrets, secret("cluster-1", withData("name", "east")), ""},
		"Argo CD, a repository": {
			argoSecrets, secret("repo", func(s *corev1.Secret) { s.Labels = map[string]string{"argocd.argoproj.io/secret-type": "repository"} }), "",
		},
		"Argo CD, in another namespace": {argoSecrets, secret("cluster-1", withArgoCDLabel, inOtherNamespace), ""},
		"Argo CD, being deleted":        {argoSecrets, secret("cluster-1", withArgoCDLabel, beingDeleted), ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := test.rule.member(test.secret); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			maySelect := SecretRules{test.rule}.MaySelect(test.secret)
			if isElsewhere := test.secret.Namespace != test.rule.Namespace; test.want != "" && !maySelect || isElsewhere && maySelect {
				t.Errorf("MaySelect returns %t", maySelect)
			}
		})
	}
}

func TestSources_are_tried_in_order(t *testing.T) {
	type member struct {
		Name   string
		Format SecretFormat
		Key    string
	}
	all := secret("east-kubeconfig", withSelectedLabel, withClusterAPIType, withArgoCDLabel, withData("name", "argo"))
	tests := map[string]struct {
		rules  SecretRules
		secret *corev1.Secret
		want   *member
	}{
		"the first rule":             {SecretRules{capiSecrets, argoSecrets, ourSecrets}, all, &member{"east", FormatClusterAPI, "fleet/east-kubeconfig"}},
		"another order":              {SecretRules{ourSecrets, argoSecrets, capiSecrets}, all, &member{"east-kubeconfig", FormatKubeconfig, "fleet/east-kubeconfig"}},
		"a later rule":               {SecretRules{ourSecrets, capiSecrets, argoSecrets}, secret("x", withArgoCDLabel), &member{"x", FormatArgoCD, "fleet/x"}},
		"no rule selects the Secret": {SecretRules{ourSecrets, capiSecrets, argoSecrets}, secret("x"), nil},
		"another namespace":          {SecretRules{ourSecrets, capiSecrets, argoSecrets}, secret("x", withSelectedLabel, inOtherNamespace), nil},
		"no rules":                   {nil, all, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var got *member
			if c := test.rules.Member(test.secret); c != nil {
				got = &member{c.Name, c.format, c.Key().String()}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// object is part of the JSON of Argo CD.
type object = map[string]any

// argoCD returns the config of a valid cluster Secret of Argo CD with a token, after the change.
func argoCD(tb testing.TB, change func(config, tls object)) []byte {
	tb.Helper()
	tls := object{"caData": certificateA().Certificate, "serverName": "canary-name"}
	config := object{"bearerToken": "canary-token", "tlsClientConfig": tls}
	change(config, tls)
	raw, err := json.Marshal(config)
	if err != nil {
		tb.Fatal(err)
	}
	return raw
}

// parseArgoCDConfig returns the Config or the rejection for an Argo CD Secret with this config.
func parseArgoCDConfig(config []byte, policy Policy) (*Config, *RejectedError) {
	s := secret("cluster-1", withArgoCDLabel, withData("server", "https://canary.example:6443/"), withData("config", string(config)))
	return SecretRules{argoSecrets}.Member(s).Parse(policy)
}

// acceptedArgoCD is the config of a cluster Secret that is accepted, and the fields that a
// connection uses.
type acceptedArgoCD struct {
	config []byte
	policy Policy
	want   usedArgoCDFields
}

type usedArgoCDFields struct {
	Host, ServerName, Token, Proxy string
	Certificate, Insecure          bool
}

func acceptedArgoCDs(t testing.TB) map[string]acceptedArgoCD {
	t.Helper()
	const host = "https://canary.example:6443"
	a := certificateA()
	return map[string]acceptedArgoCD{
		"a bearer token": {argoCD(t, func(object, object) {}), Policy{}, usedArgoCDFields{Host: host, ServerName: "canary-name", Token: "canary-token"}},
		"a client certificate": {
			argoCD(t, func(config, tls object) {
				delete(config, "bearerToken")
				tls["certData"], tls["keyData"] = a.Certificate, a.Key
			}), Policy{},
			usedArgoCDFields{Host: host, ServerName: "canary-name", Certificate: true},
		},
		"insecure, with --allow-insecure-members": {
			argoCD(t, func(_, tls object) {
				tls["insecure"] = true
				delete(tls, "caData")
			}), Policy{AllowInsecureTLS: true},
			usedArgoCDFields{Host: host, ServerName: "canary-name", Token: "canary-token", Insecure: true},
		},
		"a proxy, with --allow-member-proxies": {
			argoCD(t, func(config, _ object) { config["proxyUrl"] = "http://canary:3128" }), Policy{AllowProxy: true},
			usedArgoCDFields{Host: host, ServerName: "canary-name", Token: "canary-token", Proxy: "http://canary:3128"},
		},
		"null programs": {
			argoCD(t, func(config, _ object) { config["awsAuthConfig"], config["execProviderConfig"] = nil, nil }), Policy{},
			usedArgoCDFields{Host: host, ServerName: "canary-name", Token: "canary-token"},
		},
		"fields for Argo CD only": {
			argoCD(t, func(config, _ object) { config["disableCompression"] = true }), Policy{},
			usedArgoCDFields{Host: host, ServerName: "canary-name", Token: "canary-token"},
		},
	}
}

func TestArgoCD_Secret_is_accepted(t *testing.T) {
	for name, test := range acceptedArgoCDs(t) {
		t.Run(name, func(t *testing.T) {
			got, rejected := parseArgoCDConfig(test.config, test.policy)
			if rejected != nil {
				t.Fatalf("%s: %s", rejected.Reason, rejected.Message)
			}
			if diff := cmp.Diff(test.want, usedArgoCDFields{got.Server, got.ServerName, got.Token, proxyOf(got), got.Certificate != nil, got.Insecure}); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// rejectedArgoCD is the config of a cluster Secret, and the reason with which it is rejected.
type rejectedArgoCD struct {
	config []byte
	policy Policy
	want   string
}

func rejectedArgoCDs(t testing.TB) map[string]rejectedArgoCD {
	t.Helper()
	with := func(key string, value any) []byte {
		return argoCD(t, func(config, _ object) { config[key] = value })
	}
	withTLS := func(key string, value any) []byte {
		return argoCD(t, func(_, tls object) { tls[key] = value })
	}
	all := Policy{AllowInsecureTLS: true, AllowProxy: true, AllowLoopback: true}
	return map[string]rejectedArgoCD{
		"a program, with all flags":                   {with("execProviderConfig", object{"command": canary}), all, v1alpha1.ReasonExecRefused},
		"a program without a command":                 {with("execProviderConfig", object{}), Policy{}, v1alpha1.ReasonExecRefused},
		"awsAuthConfig, with all flags":               {with("awsAuthConfig", object{"clusterName": canary}), all, v1alpha1.ReasonExecRefused},
		"a user name":                                 {with("username", canary), Policy{}, v1alpha1.ReasonBasicAuthRefused},
		"a password":                                  {with("password", canary), Policy{}, v1alpha1.ReasonBasicAuthRefused},
		"a proxy":                                     {with("proxyUrl", "http://canary:3128"), Policy{AllowInsecureTLS: true}, v1alpha1.ReasonProxyRefused},
		"a proxy that is not a URL":                   {with("proxyUrl", "://canary"), all, v1alpha1.ReasonKubeconfigMalformed},
		"insecure":                                    {withTLS("insecure", true), Policy{AllowProxy: true}, v1alpha1.ReasonInsecureTLSRefused},
		"no CA, with all flags":                       {withTLS("caData", nil), all, v1alpha1.ReasonInsecureTLSRefused},
		"an invalid CA":                               {withTLS("caData", []byte(canary)), Policy{}, v1alpha1.ReasonKubeconfigMalformed},
		"a CA that is not base64":                     {withTLS("caData", "-canary-"), Policy{}, v1alpha1.ReasonKubeconfigMalformed},
		"a certificate without its key":               {withTLS("certData", certificateA().Certificate), Policy{}, v1alpha1.ReasonKubeconfigMalformed},
		"no credentials":                              {with("bearerToken", ""), Policy{}, v1alpha1.ReasonNoCredentials},
		"a token of the wrong type":                   {with("bearerToken", []string{canary}), Policy{}, v1alpha1.ReasonKubeconfigMalformed},
		"a word as insecure":                          {withTLS("insecure", canary), Policy{}, v1alpha1.ReasonKubeconfigMalformed},
		"a duplicate key, the last one a program":     {[]byte(`{"bearerToken":"canary","execProviderConfig":null,"execProviderConfig":{}}`), all, v1alpha1.ReasonExecRefused},
		"a program in uppercase":                      {with("EXECPROVIDERCONFIG", object{"command": canary}), all, v1alpha1.ReasonExecRefused},
		"a token with a line break":                   {with("bearerToken", "canary\r\nX-Canary: canary"), all, v1alpha1.ReasonKubeconfigMalformed},
		"an RSA key of more than 8192 bits in the CA": {withTLS("caData", largeRSA().Certificate), Policy{}, v1alpha1.ReasonKubeconfigMalformed},
		"nested lists up to the byte limit":           {[]byte(`{"canary":` + strings.Repeat("[", maxBytes-100)), Policy{}, v1alpha1.ReasonKubeconfigMalformed},
		"UTF-16":                                      {utf16le(string(with("x", canary))), Policy{}, v1alpha1.ReasonKubeconfigMalformed},
		"content that is not JSON":                    {[]byte("canary"), Policy{}, v1alpha1.ReasonKubeconfigMalformed},
		"truncated JSON":                              {[]byte(`{"bearerToken":"canary`), Policy{}, v1alpha1.ReasonKubeconfigMalformed},
		"a kubeconfig":                                {kubeconfig(t), Policy{}, v1alpha1.ReasonKubeconfigMalformed},
		"empty content":                               {nil, Policy{}, v1alpha1.ReasonKubeconfigMalformed},
		"64 KiB and one byte":                         {append(with("x", canary), bytes.Repeat([]byte(" "), maxBytes)...)[:maxBytes+1], Policy{}, v1alpha1.ReasonKubeconfigTooLarge},
	}
}

func TestArgoCD_Secret_is_rejected(t *testing.T) {
	for name, test := range rejectedArgoCDs(t) {
		t.Run(name, func(t *testing.T) {
			got, rejected := parseArgoCDConfig(test.config, test.policy)
			if rejected == nil {
				t.Fatalf("the Secret is accepted, for server %s", got.Server)
			}
			if rejected.Reason != test.want {
				t.Errorf("reason %s, want %s (%s)", rejected.Reason, test.want, rejected.Message)
			}
			checkQuotesNothing(t, rejected)
		})
	}
}

func TestArgoCD_Secret_needs_an_https_server(t *testing.T) {
	config := argoCD(t, func(object, object) {})
	for _, url := range []string{"", "http://canary.example", "canary.example:6443", "https://canary:canary@canary.example", "https://canary example"} {
		_, rejected := SecretRules{argoSecrets}.Member(secret("x", withArgoCDLabel, withData("server", url), withData("config", string(config)))).Parse(Policy{})
		if rejected == nil || rejected.Reason != v1alpha1.ReasonServerRefused || strings.Contains(rejected.Message, canary) {
			t.Errorf("%q: %+v", url, rejected)
		}
	}
}
