package kubeconfig

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"
)

func TestWithToken_changes_only_the_token_of_the_current_user(t *testing.T) {
	from, to := jwt(`{"sub":"from"}`), jwt(`{"sub":"to"}`)
	plain := string(kubeconfig(t, token(from)))
	other := func(config *api.Config, _ *api.Cluster, user *api.AuthInfo) {
		config.AuthInfos["another"] = &api.AuthInfo{Token: user.Token}
		config.Contexts["another"] = &api.Context{Cluster: "canary-cluster", AuthInfo: "another"}
	}
	tests := map[string]struct {
		raw string
		// sameText: everything but the token is the same text, not only the same content.
		sameText bool
	}{
		"a kubeconfig":                         {plain, true},
		"a kubeconfig with comments":           {"# made by hand\n" + strings.ReplaceAll(plain, "users:", "users: # one"), true},
		"a kubeconfig with unknown fields":     {"future: 12345678901234567890\n" + plain, true},
		"a token in quotes":                    {strings.ReplaceAll(plain, from, `"`+from+`"`), true},
		"JSON":                                 {toJSON(t, plain), true},
		"a user of another context":            {string(kubeconfig(t, token(from), other)), false},
		"a token in a comment too":             {"# " + from + "\n" + plain, false},
		"a token in another user's, and JSON":  {toJSON(t, string(kubeconfig(t, token(from), other))), false},
		"unknown fields and the same token":    {"future: 12345678901234567890\n" + string(kubeconfig(t, token(from), other)), false},
		"a token with an escape, in quotes":    {strings.ReplaceAll(plain, from, `"\x63`+from[1:]+`"`), false},
		"a token of several lines":             {strings.ReplaceAll(plain, from, "\"\\\n      "+from+"\""), true},
		"a token in a block scalar of YAML":    {strings.ReplaceAll(plain, from, ">-\n      "+from), true},
		"a kubeconfig with Windows line ends":  {strings.ReplaceAll(plain, "\n", "\r\n"), true},
		"a kubeconfig without a newline after": {strings.TrimSpace(plain), true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			m := renewed([]byte(test.raw))
			m.Secret.Data["other"] = []byte("stays")
			before := m.Secret.DeepCopy()
			got, config, rejected := m.WithToken(to, Policy{})
			if rejected != nil {
				t.Fatal(rejected)
			}
			if config.Token != to {
				t.Errorf("the Config has token %s", config.Token)
			}
			changed := string(got.Secret.Data["kubeconfig"])
			if test.sameText && changed != strings.ReplaceAll(test.raw, from, to) {
				t.Errorf("(-want +got):\n%s", cmp.Diff(strings.ReplaceAll(test.raw, from, to), changed))
			}
			want := load(t, test.raw)
			want.AuthInfos["canary-user"].Token = to
			if diff := cmp.Diff(want, load(t, changed)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if strings.Contains(test.raw, "future") && !strings.Contains(changed, "future: 12345678901234567890") {
				t.Errorf("an unknown field was lost:\n%s", changed)
			}
			if diff := cmp.Diff(before, m.Secret); diff != "" {
				t.Errorf("the given Secret was changed: %s", diff)
			}
			if string(got.Secret.Data["other"]) != "stays" {
				t.Error("another key of the Secret was lost")
			}
		})
	}
}

// The member decides on the new token, so it is hostile input.
func TestWithToken_refuses_what_is_no_token(t *testing.T) {
	m := renewed(kubeconfig(t, token(jwt(`{}`))))
	for name, bad := range map[string]string{
		"nothing":                  "",
		"an opaque token":          canary,
		"a line break":             "a.b.c\n    exec: {}",
		"a quote":                  `a.b.c"`,
		"a flow collection":        "{a.b.c}",
		"a comment":                "a.b.c #",
		"four parts":               "a.b.c.d",
		"a number of three parts":  "1.2.3\x00",
		"more bytes than a header": "a.b." + strings.Repeat("c", maxTokenBytes),
	} {
		t.Run(name, func(t *testing.T) {
			_, _, rejected := m.WithToken(bad, Policy{})
			if rejected == nil {
				t.Fatal("it was used")
			}
			checkQuotesNothing(t, rejected)
		})
	}
	t.Run("in a Secret of Argo CD", func(t *testing.T) {
		argoCD := *m
		argoCD.format = FormatArgoCD
		if _, _, rejected := argoCD.WithToken("a.b.c", Policy{}); rejected == nil {
			t.Error("it was replaced")
		}
	})
}

func load(t *testing.T, raw string) *api.Config {
	t.Helper()
	config, err := clientcmd.Load([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func toJSON(t *testing.T, raw string) string {
	t.Helper()
	config, err := yaml.YAMLToJSON([]byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	return string(config)
}
