package kubeconfig

import (
	"bytes"
	"unicode/utf8"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// Limits of the content. cost_test.go measures the cost of a decision.
const (
	// maxBytes is the largest kubeconfig.
	maxBytes = 64 << 10
	// maxTokens limits the YAML nodes: an empty list entry of three bytes costs the parser three
	// KiB.
	maxTokens = 4096
)

// secretKeys are the keys of a Secret that may hold its kubeconfig: those of Fleetwright and
// Cluster Inventory, of Cluster API and Rancher Fleet, and of Flux. The first key that exists is
// used.
var secretKeys = []string{"kubeconfig", "value", "value.yaml"}

// Parse returns the Config for a connection to the member, or why the Secret is rejected.
func (m *MemberSecret) Parse(policy Policy) (*Config, *RejectedError) {
	if m.format == FormatArgoCD {
		return parseArgoCD(m.Secret, policy)
	}
	if _, raw, found := m.kubeconfig(); found {
		return parse(raw, policy)
	}
	return nil, reject(v1alpha1.ReasonKubeconfigMissing, "the Secret has none of the keys %q", secretKeys)
}

// KubeconfigKey returns the key of the Secret under which its kubeconfig is, or "" if it has none. A
// Secret of Argo CD has none.
func (m *MemberSecret) KubeconfigKey() string {
	if m.format == FormatArgoCD {
		return ""
	}
	key, _, _ := m.kubeconfig()
	return key
}

// kubeconfig returns the key of the Secret that holds its kubeconfig, and the kubeconfig.
func (m *MemberSecret) kubeconfig() (key string, raw []byte, found bool) {
	for _, key := range secretKeys {
		if raw, found := m.Secret.Data[key]; found {
			return key, raw, true
		}
	}
	return "", nil, false
}

// textCheck returns why a text is rejected, or nil. It does not depend on how YAML parses the text.
type textCheck func(raw []byte) *RejectedError

// textChain lists the checks that the text of a kubeconfig must pass before it is parsed, in this
// order.
var textChain = []textCheck{
	notTooLarge,
	utf8Text,
	fewTokens,
	noAliases,
	uniqueKeys,
}

// parse decides on a kubeconfig in its raw form, because clientcmd reads the files that a
// kubeconfig names while it resolves the kubeconfig.
func parse(raw []byte, policy Policy) (*Config, *RejectedError) {
	for _, checkText := range textChain {
		if rejected := checkText(raw); rejected != nil {
			return nil, rejected
		}
	}
	config, err := clientcmd.Load(raw)
	if err != nil { // its text may quote the content
		return nil, reject(v1alpha1.ReasonKubeconfigMalformed, "the content is not a kubeconfig")
	}
	denyPlugins(config)
	context := config.Contexts[config.CurrentContext]
	if context == nil {
		return nil, reject(v1alpha1.ReasonKubeconfigMalformed, "current-context is missing or names no context of the file")
	}
	cluster, user := config.Clusters[context.Cluster], config.AuthInfos[context.AuthInfo]
	if cluster == nil || user == nil {
		return nil, reject(v1alpha1.ReasonKubeconfigMalformed, "the current context names a cluster or a user that the file does not contain")
	}
	return accept(input{cluster, user, policy})
}

// denyPlugins is a second line of defence: if a kubeconfig that names a program ever passes the
// checks, client-go still does not run the program.
func denyPlugins(config *api.Config) {
	for _, user := range config.AuthInfos {
		if user.Exec != nil {
			user.Exec.PluginPolicy = api.PluginPolicy{PolicyType: api.PluginPolicyDenyAll}
		}
	}
}

func notTooLarge(raw []byte) *RejectedError { return checkSize(len(raw)) }

func checkSize(bytes int) *RejectedError {
	if bytes > maxBytes {
		return reject(v1alpha1.ReasonKubeconfigTooLarge, "the kubeconfig has %d bytes, more than %d", bytes, maxBytes)
	}
	return nil
}

// utf8Text rejects other encodings: the YAML parser accepts UTF-16, but other readers of the Secret
// may not.
func utf8Text(raw []byte) *RejectedError {
	if !utf8.Valid(raw) {
		return reject(v1alpha1.ReasonKubeconfigMalformed, "the content is not UTF-8 text")
	}
	return nil
}

func fewTokens(raw []byte) *RejectedError {
	if countTokens(raw) > maxTokens {
		return reject(v1alpha1.ReasonKubeconfigTooLarge, "the kubeconfig has more than %d words, lists and entries; keep one context: kubectl config view --minify --flatten", maxTokens)
	}
	return nil
}

// countTokens returns an upper bound of the number of YAML nodes in a text and of their depth: a
// blank, a comma or a bracket precedes each node.
func countTokens(raw []byte) int {
	count := bytes.Count(raw, []byte(",")) + bytes.Count(raw, []byte("[")) + bytes.Count(raw, []byte("{"))
	for range bytes.FieldsSeq(raw) {
		count++
	}
	return count
}

// noAliases rejects texts with both signs of YAML aliases. The parser expands aliases: 64 KiB can
// become GiB within the parser's own limits, which count nodes and not bytes. Hardly any kubeconfig
// has both signs.
func noAliases(raw []byte) *RejectedError {
	if bytes.IndexByte(raw, '&') >= 0 && bytes.IndexByte(raw, '*') >= 0 {
		return reject(v1alpha1.ReasonKubeconfigMalformed, "the content has YAML aliases, or characters that look like them (& and *); remove them: kubectl config view --flatten")
	}
	return nil
}

// uniqueKeys requires each key to be text and to occur only once, because another reader of the
// Secret may use the other of two equal keys.
func uniqueKeys(raw []byte) *RejectedError {
	if _, err := yaml.YAMLToJSONStrict(raw); err == nil {
		return nil
	}
	if _, err := yaml.YAMLToJSON(raw); err != nil { // its text may quote the content
		return reject(v1alpha1.ReasonKubeconfigMalformed, "the content is not YAML, or has a key that is not a string")
	}
	return reject(v1alpha1.ReasonKubeconfigMalformed, "the content has a duplicate key; remove one of the two")
}
