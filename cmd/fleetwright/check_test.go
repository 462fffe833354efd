package main

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// memberWith returns a member with these conditions: type, status and reason.
func memberWith(name string, conditions ...[3]string) *v1alpha1.MemberCluster {
	member := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, c := range conditions {
		member.Status.Conditions = append(member.Status.Conditions, metav1.Condition{
			Type: c[0], Status: metav1.ConditionStatus(c[1]), Reason: c[2], Message: "because of " + c[2], LastTransitionTime: metav1.Unix(1, 0),
		})
	}
	return member
}

func TestJudge(t *testing.T) {
	ready, credentials := v1alpha1.ConditionReady, v1alpha1.ConditionCredentialsValid
	connected := memberWith("a", [3]string{ready, "True", v1alpha1.ReasonConnected}, [3]string{credentials, "True", v1alpha1.ReasonAccepted})
	unreachable := memberWith("b", [3]string{ready, "False", v1alpha1.ReasonUnreachable})
	gone := memberWith("c", [3]string{ready, "False", v1alpha1.ReasonSecretMissing}, [3]string{credentials, "False", v1alpha1.ReasonSecretMissing})
	forbidden := memberWith("d", [3]string{ready, "False", v1alpha1.ReasonForbidden}, [3]string{credentials, "Unknown", v1alpha1.ReasonNotVerified})
	malformed := memberWith("e", [3]string{ready, "False", v1alpha1.ReasonNoConnection}, [3]string{credentials, "False", v1alpha1.ReasonKubeconfigMalformed})
	replaced := memberWith("f", [3]string{ready, "True", v1alpha1.ReasonConnected}, [3]string{credentials, "False", v1alpha1.ReasonExecRefused})
	for name, c := range map[string]struct {
		members []*v1alpha1.MemberCluster
		want    string
	}{
		"no members":                             {nil, "the hub has no members: add a cluster with kubectl appsvc join CONTEXT"},
		"a new member":                           {[]*v1alpha1.MemberCluster{memberWith("a")}, "none of 1 members is connected: kubectl appsvc doctor NAME says why"},
		"a connected member":                     {[]*v1alpha1.MemberCluster{connected}, ""},
		"only an unreachable member":             {[]*v1alpha1.MemberCluster{unreachable, gone}, "none of 2 members is connected: kubectl appsvc doctor NAME says why"},
		"one is connected, others do not answer": {[]*v1alpha1.MemberCluster{connected, unreachable, gone}, ""},
		"one is forbidden":                       {[]*v1alpha1.MemberCluster{connected, forbidden}, "1 of 2 members are refused (d): kubectl appsvc doctor NAME says what to do"},
		"a kubeconfig is malformed":              {[]*v1alpha1.MemberCluster{connected, malformed}, "1 of 2 members are refused (e): kubectl appsvc doctor NAME says what to do"},
		"a new kubeconfig is refused":            {[]*v1alpha1.MemberCluster{connected, replaced}, "1 of 2 members are refused (f): kubectl appsvc doctor NAME says what to do"},
	} {
		t.Run(name, func(t *testing.T) {
			var findings []finding
			for _, member := range c.members {
				findings = append(findings, newFinding(member))
			}
			got := ""
			if err := judge(findings); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// testCheck tests the command with a user who may only list MemberClusters.
func testCheck(t *testing.T, h *hub) {
	t.Helper()
	user, err := h.environment.AddUser(envtest.User{Name: "check"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	content, err := user.KubeConfig()
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, content, 0o600); err != nil {
		t.Fatal(err)
	}
	checkFailure(t, "read the MemberClusters from the hub at", "check", "--kubeconfig", kubeconfig)
	for _, object := range []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "check"}, Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"memberclusters"}, Verbs: []string{"list"},
		}}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "check"}, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "check"}},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "check"},
		},
	} {
		if err := h.admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	wait.Eventually(t, func() error { // a new role counts after a moment
		_, err := (&options{kubeconfig: kubeconfig}).listMembers(t.Context())
		return err
	})
	checkFailure(t, "the hub has no members", "check", "--kubeconfig", kubeconfig)

	member := memberWith("east", [3]string{v1alpha1.ConditionReady, "True", v1alpha1.ReasonConnected})
	conditions := member.Status.Conditions
	if err := h.admin.Create(t.Context(), member); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.admin.Delete(context.Background(), member); err != nil {
			t.Error(err)
		}
	})
	member.Status.Conditions = conditions
	if err := h.admin.Status().Update(t.Context(), member); err != nil {
		t.Fatal(err)
	}
	p := fleetwright(t, "check", "--kubeconfig", kubeconfig)
	code, output := p.waitForExit(t), p.output.String()
	if want := "east   Ready=True   Connected   because of Connected\n"; code != 0 || output != want {
		t.Errorf("exit code %d, got %q, want %q", code, output, want)
	}
}

// The chart's value `flags` accepts the flags of the operator, except those that other values set.
func TestFlags_of_the_chart(t *testing.T) {
	content, err := os.ReadFile("../../charts/fleetwright/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties struct {
			Flags struct {
				Properties map[string]struct{ Type string }
			}
		}
	}
	if err := json.Unmarshal(content, &schema); err != nil {
		t.Fatal(err)
	}
	// What the templates set, and what must fit them.
	reserved := []string{"kubeconfig", "context", "secret-namespace", "propagate-from", "cluster-api-namespace", "argocd-namespace", "health-probe-bind-address", "leader-elect", "leader-election-namespace"}
	var want []string
	newCommand().Flags().VisitAll(func(flag *pflag.Flag) {
		if slices.Contains(reserved, flag.Name) || strings.HasPrefix(flag.Name, "metrics-") {
			return
		}
		want = append(want, flag.Name)
		if isBool := flag.Value.Type() == "bool"; isBool != (schema.Properties.Flags.Properties[flag.Name].Type == "boolean") {
			t.Errorf("--%s has the type %s", flag.Name, flag.Value.Type())
		}
	})
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(schema.Properties.Flags.Properties))); diff != "" {
		t.Errorf("charts/fleetwright/values.schema.json (-want +got):\n%s", diff)
	}
}
