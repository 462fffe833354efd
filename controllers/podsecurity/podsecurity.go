// Package podsecurity decides whether a pod template complies with the Pod Security Standards, with
// the library that the API server itself uses. It is pure.
//
//	policy := podsecurity.PolicyOf(namespace.Labels, podsecurity.Baseline)
//	if refusal := podsecurity.Refusal(template, policy); refusal != "" { … }
//
// A policy is what the labels of a namespace on the hub demand. Without the label enforce, it is a
// default. A nil policy allows everything: it is the level privileged.
//
// The version "latest" becomes the version of the library. So a stored policy means the same after
// an upgrade of Fleetwright, and an upgrade refuses nothing that was allowed.
package podsecurity

import (
	"fmt"
	"maps"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-base/version"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// Level is the level of a namespace without a label.
type Level = api.Level

const (
	// Privileged allows everything. It is also the meaning of an empty Level.
	Privileged = api.LevelPrivileged
	// Baseline forbids known ways from a pod to its node.
	Baseline = api.LevelBaseline
	// EnforceLabel is the label of a namespace that sets its level.
	EnforceLabel = api.EnforceLevelLabel
	// labelPrefix begins all labels of pod security.
	labelPrefix = "pod-security.kubernetes.io/"
)

// ParseLevel returns the level with this name.
func ParseLevel(name string) (Level, error) {
	level, err := api.ParseLevel(name)
	if err != nil {
		return "", fmt.Errorf("%q %w", name, err)
	}
	return level, nil
}

// PolicyOf returns the policy that the labels of a namespace demand, or nil if they allow
// everything. A label that is invalid demands the strictest level and the latest version, as in an
// API server.
func PolicyOf(labels map[string]string, unlabelled Level) *v1alpha1.PodSecurity {
	if unlabelled == "" {
		unlabelled = Privileged
	}
	defaults := api.Policy{Enforce: api.LevelVersion{Level: unlabelled, Version: api.LatestVersion()}}
	if _, isLabelled := labels[EnforceLabel]; !isLabelled {
		labels = nil // the version of another policy
	}
	evaluated, _ := api.PolicyToEvaluate(labels, defaults) // a policy that is valid in any case
	enforced := evaluated.Enforce
	if enforced.Level == Privileged {
		return nil
	}
	if enforced.Latest() {
		enforced.Version = libraryVersion()
	}
	return &v1alpha1.PodSecurity{Level: v1alpha1.PodSecurityLevel(enforced.Level), Version: enforced.Version.String()}
}

// Refusal returns why a policy forbids a pod template, in the words of the API server, or "".
func Refusal(template *corev1.PodTemplateSpec, demanded *v1alpha1.PodSecurity) string {
	if demanded == nil {
		return ""
	}
	level, _ := api.ParseLevel(string(demanded.Level)) // the strictest, if it is not valid
	at, err := api.ParseVersion(demanded.Version)
	if err != nil || at.Latest() {
		at = libraryVersion()
	}
	enforced := api.LevelVersion{Level: level, Version: at}
	result := policy.AggregateCheckResults(evaluator().EvaluatePod(enforced, &template.ObjectMeta, &template.Spec))
	if result.Allowed {
		return ""
	}
	return fmt.Sprintf("violates PodSecurity %q: %s", enforced.String(), result.ForbiddenDetail())
}

// Decisive returns the violation because of which a cluster must not get the template of a revision, or
// "". A first delivery must comply with the present policy. Elsewhere, the template must comply with the
// policy of its revision, or with the present one, which may allow more.
func Decisive(isFirstDelivery bool, ofRevision, ofPresent string) string {
	if isFirstDelivery || ofPresent == "" {
		return ofPresent
	}
	return ofRevision
}

// IsLabel reports whether a label of a namespace configures pod security.
func IsLabel(key string) bool { return strings.HasPrefix(key, labelPrefix) }

// SamePolicy reports whether two sets of labels demand the same.
func SamePolicy(one, other map[string]string) bool {
	return maps.Equal(enforcing(one), enforcing(other))
}

func enforcing(labels map[string]string) map[string]string {
	found := map[string]string{}
	for _, key := range []string{EnforceLabel, api.EnforceVersionLabel} {
		if value, isSet := labels[key]; isSet {
			found[key] = value
		}
	}
	return found
}

// evaluator returns the checks of the API server.
var evaluator = sync.OnceValue(func() policy.Evaluator {
	checks, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		panic(err) // the library's own checks are valid
	}
	return checks
})

// libraryVersion returns the version of Kubernetes that the library is of.
var libraryVersion = sync.OnceValue(func() api.Version {
	own, err := api.ParseVersion("v" + version.DefaultKubeBinaryVersion)
	if err != nil {
		panic(err) // a constant of the library
	}
	return own
})
