package member_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/config/member"
	"github.com/fleetwright/fleetwright/internal/wait"
)

var refusal = regexp.MustCompile(regexp.QuoteMeta("'"+member.PolicyName+"' denied request: "+member.PolicyName+"/") + "([A-Za-z]+): ")

// resultOf returns the code of the policy with which a request was refused, or another result.
func resultOf(err error) string {
	if err == nil {
		return allowed
	}
	if code := refusal.FindStringSubmatch(err.Error()); code != nil && apierrors.IsForbidden(err) {
		return code[1]
	}
	if apierrors.IsForbidden(err) {
		return noPermission
	}
	return err.Error()
}

// The token has the permissions of config/member, with spec.configuration, in all namespaces.
func TestPolicy_limits_the_token(t *testing.T) {
	prepare(t)
	check := func(t *testing.T, want func(attempt) string) {
		t.Helper()
		for name, a := range attempts() {
			if got := resultOf(a.do(t.Context())); got != want(a) {
				t.Errorf("%s: %s, want %s", name, got, want(a))
			}
		}
	}
	t.Run("without the policy, it may do what its permissions say", func(t *testing.T) {
		check(t, func(a attempt) string { return a.without })
	})
	restrict(t)
	t.Run("with the policy, it may do less", func(t *testing.T) {
		check(t, func(a attempt) string {
			if a.without == noPermission {
				return noPermission
			}
			return a.with
		})
	})
	widen(t)
	t.Run("more permissions do not widen what the policy covers", func(t *testing.T) {
		check(t, func(a attempt) string { return a.with })
	})
	t.Run("it limits nobody else", func(t *testing.T) {
		service := service(in("kube-system", "kube-dns", nil))
		if err := admin.Patch(t.Context(), service, client.RawPatch(types.MergePatchType, []byte(`{}`)), client.DryRunAll); err != nil {
			t.Error(err)
		}
	})
}

// The API server checks an object before it evaluates the policy, and the error of an invalid object has
// the value. So the policy does not hide the content of a Secret from who knows its name. If this fails,
// the API server hides it, and docs/permissions.md promises too little.
func TestPolicy_does_not_see_a_patch_that_is_invalid(t *testing.T) {
	known := &corev1.Secret{ObjectMeta: in("kube-system", "known", nil), Data: map[string][]byte{"password": []byte("canary")}}
	if err := admin.Create(t.Context(), known); err != nil {
		t.Fatal(err)
	}
	restrict(t)
	patch := func(text string) error {
		return token.Patch(t.Context(), known.DeepCopy(), client.RawPatch(types.JSONPatchType, []byte(text)), client.DryRunAll)
	}
	if got := resultOf(patch(`[]`)); got != "SystemNamespace" {
		t.Errorf("an empty patch is %s", got)
	}
	err := patch(`[{"op":"copy","from":"/data/password","path":"/type"}]`)
	if err == nil || !strings.Contains(err.Error(), base64.StdEncoding.EncodeToString(known.Data["password"])) {
		t.Errorf("the error has not the value: %v", err)
	}
}

// restrict applies the policy, and waits until the API server enforces it.
func restrict(t *testing.T) {
	t.Helper()
	objects, err := member.Policy()
	if err = errors.Join(err, applyAll(t.Context(), objects)); err != nil {
		t.Fatal(err)
	}
	wait.Eventually(t, func() error {
		if got := resultOf(creates(service(in("kube-system", "probe", ours)))(t.Context())); got != "SystemNamespace" {
			return fmt.Errorf("to create a Service in kube-system is %s", got)
		}
		return nil
	})
}

// widen grants the token everything for the kinds of the policy.
func widen(t *testing.T) {
	t.Helper()
	all := []string{"*"}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "wide"}, Rules: []rbacv1.PolicyRule{{APIGroups: all, Resources: all, Verbs: all}}}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "wide"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "wide"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: member.Namespace, Name: member.ServiceAccount}},
	}
	if err := errors.Join(admin.Create(t.Context(), role), admin.Create(t.Context(), binding)); err != nil {
		t.Fatal(err)
	}
	wait.Eventually(t, func() error { return deletesAllOf(&corev1.Pod{}, closed)(t.Context()) })
}

// readPolicy returns the policy and its binding as typed objects, without unknown fields.
func readPolicy(t *testing.T) (*admissionregistrationv1.ValidatingAdmissionPolicy, *admissionregistrationv1.ValidatingAdmissionPolicyBinding) {
	t.Helper()
	objects, err := member.Policy()
	if err != nil {
		t.Fatal(err)
	}
	policy, binding := &admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	for i, typed := range []any{policy, binding} {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(objects[i].Object, typed, true); err != nil {
			t.Fatal(err)
		}
	}
	return policy, binding
}

// No attempt would find a namespace, an object or an error for which the policy makes an exception.
func TestPolicy_makes_no_exception(t *testing.T) {
	policy, binding := readPolicy(t)
	constraints := *policy.Spec.MatchConstraints
	constraints.ResourceRules = nil
	want := admissionregistrationv1.MatchResources{MatchPolicy: new(admissionregistrationv1.Exact)}
	if diff := cmp.Diff(want, constraints); diff != "" {
		t.Errorf("what it is evaluated for (-want +got):\n%s", diff)
	}
	if got := *policy.Spec.FailurePolicy; got != admissionregistrationv1.Fail {
		t.Errorf("failurePolicy is %s", got)
	}
	bound := admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: member.PolicyName, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
	}
	if diff := cmp.Diff(bound, binding.Spec); diff != "" {
		t.Errorf("the binding (-want +got):\n%s", diff)
	}
}

// A rule without a line would not be limited, and a line without a rule is one that was forgotten.
func TestPolicy_has_a_line_for_each_rule_that_writes(t *testing.T) {
	lines := map[string]bool{}
	policy, _ := readPolicy(t)
	for _, line := range policy.Spec.MatchConstraints.ResourceRules {
		if !slices.Equal(line.APIVersions, []string{"*"}) || !slices.Equal(line.Operations, []admissionregistrationv1.OperationType{"*"}) || line.Scope != nil || len(line.ResourceNames) > 0 {
			t.Errorf("the line for %v does not cover all requests", line.Resources)
		}
		for _, resource := range line.Resources {
			for _, group := range line.APIGroups {
				lines[resource+"."+group] = true
			}
		}
	}
	// Those with subresources are limited with them, although no rule names one.
	rules := map[string]bool{"deployments/*.apps": true, "services/*.": true, "horizontalpodautoscalers/*.autoscaling": true, "poddisruptionbudgets/*.policy": true}
	for _, read := range []func(...string) ([]*unstructured.Unstructured, error){member.Objects, member.Configuration} {
		for _, namespaces := range [][]string{nil, {"shop"}} {
			objects, err := read(namespaces...)
			if err != nil {
				t.Fatal(err)
			}
			grants, err := member.Grants(objects)
			if err != nil {
				t.Fatal(err)
			}
			for _, grant := range grants {
				for _, rule := range grant.Rules {
					if slices.ContainsFunc(rule.Verbs, func(verb string) bool { return !slices.Contains([]string{"get", "list", "watch"}, verb) }) {
						for _, resource := range rule.Resources {
							for _, group := range rule.APIGroups {
								rules[resource+"."+group] = true
							}
						}
					}
				}
			}
		}
	}
	if diff := cmp.Diff(rules, lines); diff != "" {
		t.Errorf("(-rules +lines):\n%s", diff)
	}
}
