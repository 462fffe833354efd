package kubeconfig

import (
	"encoding/json"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// maxTokenBytes is the size of the largest renewed token. A token of a ServiceAccount has some
// 1,000 bytes.
const maxTokenBytes = 16 << 10

// WithToken returns a copy of the Secret with another token for the user of the current context,
// and the Config of the copy. Everything else in the Secret stays.
func (m *MemberSecret) WithToken(token string, policy Policy) (*MemberSecret, *Config, *RejectedError) {
	key, raw, found := m.kubeconfig()
	if m.format == FormatArgoCD || !found {
		return nil, nil, reject(v1alpha1.ReasonKubeconfigMissing, "the Secret has no kubeconfig")
	}
	current, rejected := m.Parse(policy)
	if rejected != nil {
		return nil, nil, rejected
	}
	if !isPlainToken(token) {
		return nil, nil, reject(v1alpha1.ReasonKubeconfigMalformed, "the new token is not a JSON Web Token")
	}
	for _, replace := range []tokenEdit{replaceText, replaceField} {
		changed, possible := replace(raw, current.Token, token)
		if !possible {
			continue
		}
		if config, rejected := parse(changed, policy); rejected == nil && config.Token == token && config.SameServer(current) {
			return m.withContent(key, changed), config, nil
		}
	}
	return nil, nil, reject(v1alpha1.ReasonKubeconfigMalformed, "the token in the kubeconfig cannot be replaced; write it as one line")
}

// withContent returns a copy of the Secret with another value of one key.
func (m *MemberSecret) withContent(key string, content []byte) *MemberSecret {
	changed := *m
	changed.Secret = m.Secret.DeepCopy()
	changed.Secret.Data[key] = content
	return &changed
}

// isPlainToken reports whether a token has only the characters of a JSON Web Token, so that it
// needs no quotes in YAML and no escapes in JSON.
func isPlainToken(token string) bool {
	return len(token) <= maxTokenBytes && strings.Count(token, ".") == 2 && !strings.ContainsFunc(token, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' || r == '.')
	})
}

// tokenEdit replaces the token of the current user in a kubeconfig, and returns false if it cannot.
type tokenEdit func(raw []byte, from, to string) ([]byte, bool)

// replaceText replaces the only occurrence of a token in the text, so that comments and the order
// of the fields stay.
func replaceText(raw []byte, from, to string) ([]byte, bool) {
	text := string(raw)
	if from == "" || strings.Count(text, from) != 1 {
		return nil, false
	}
	return []byte(strings.Replace(text, from, to, 1)), true
}

// replaceField replaces the token of the user that the current context names, and writes the
// kubeconfig again: a user of another context may have the same token.
func replaceField(raw []byte, _, to string) ([]byte, bool) {
	var tree map[string]any
	exact := func(d *json.Decoder) *json.Decoder { d.UseNumber(); return d }
	if yaml.Unmarshal(raw, &tree, exact) != nil {
		return nil, false
	}
	name, _ := tree["current-context"].(string)
	context, found := entry(tree["contexts"], name, "context")
	if !found {
		return nil, false
	}
	name, _ = context["user"].(string)
	user, found := entry(tree["users"], name, "user")
	if !found {
		return nil, false
	}
	user["token"] = to
	changed, err := yaml.Marshal(tree)
	return changed, err == nil
}

// entry returns the value of the first entry with a name in a list of a kubeconfig.
func entry(list any, name, value string) (map[string]any, bool) {
	entries, _ := list.([]any)
	for _, each := range entries {
		if fields, _ := each.(map[string]any); fields["name"] == name {
			found, isMap := fields[value].(map[string]any)
			return found, isMap
		}
	}
	return nil, false
}
