package e2e

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/config/member"
	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/internal/environment"
)

// TestPlugin joins a fresh cluster with kubectl appsvc, and removes it again. Each step continues
// where the previous one ended.
func TestPlugin(t *testing.T) {
	f := testFleet(t, notOnKind("this test connects with the kubeconfig of the Secret, whose address only the operator reaches there; e2e/install joins on kind"))
	west := f.addCluster(t, "west")
	kubeconfig := contextsOf(t, f.Hub, west)
	appsvc := func(t *testing.T, args ...string) string {
		t.Helper()
		return mustRunPlugin(t, kubeconfig, args...)
	}
	join := []string{"join", "west", "--labels", corev1.LabelTopologyRegion + "=eu", "--allow-loopback", "--timeout", "3m"}

	t.Run("join", func(t *testing.T) {
		output := appsvc(t, join...)
		if !strings.Contains(output, "  membercluster/west is Ready\n") {
			t.Error(output)
		}
	})

	app := f.createApp(t, "joined", framework.OnClusters("north", "west"))
	t.Run("an AppService runs there", func(t *testing.T) {
		f.awaitReady(t, app, "north", "west")
	})

	t.Run("doctor finds no fault", func(t *testing.T) {
		output := appsvc(t, "doctor", "west")
		if strings.Contains(output, "FAIL") || strings.Contains(output, "note") {
			t.Error(output)
		}
		t.Logf("\n%s", output)
	})

	t.Run("the credential has exactly the permissions of config/member", func(t *testing.T) {
		f.checkCredential(t, west)
	})

	t.Run("a repeated join replaces the token, and drops no connection", func(t *testing.T) {
		before, connections := f.readySince(t, "west"), f.connections(t, "west")
		appsvc(t, join...)
		if after := f.readySince(t, "west"); !after.Equal(&before) {
			t.Errorf("west is Ready since %s, before since %s", after, before)
		}
		if after := f.connections(t, "west"); after != connections {
			t.Errorf("west connected %v times before, %v times now", connections, after)
		}
	})

	t.Run("unjoin --retain leaves the workload running", func(t *testing.T) {
		appsvc(t, "unjoin", "west", "--retain", "--yes")
		if err := f.Hub.CheckAbsent(t.Context(), memberCluster("west")); err != nil {
			t.Error(err)
		}
		if err := checkRunning(t.Context(), west, app); err != nil {
			t.Error(err)
		}
	})

	t.Run("it joins again, and the AppService continues there", func(t *testing.T) {
		deployment, err := west.Deployment(t.Context(), app)
		if err != nil {
			t.Fatal(err)
		}
		appsvc(t, join...)
		f.awaitReady(t, app, "north", "west")
		if after, err := west.Deployment(t.Context(), app); err != nil || after.UID != deployment.UID {
			t.Errorf("the Deployment was replaced: %v", err)
		}
	})

	t.Run("unjoin --delete removes the workload first", func(t *testing.T) {
		output := appsvc(t, "unjoin", "west", "--delete", "--yes", "--timeout", "2m")
		if err := errors.Join(checkRemoved(t.Context(), west, app), f.Hub.CheckAbsent(t.Context(), memberCluster("west"))); err != nil {
			t.Errorf("%v\n%s", err, output)
		}
		f.awaitReady(t, app, "north")
		runPrinted(t, kubeconfig, output)
		f.checkNoPermissions(t, west)
	})
}

func memberCluster(name string) *v1alpha1.MemberCluster {
	return &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

// contextsOf writes a kubeconfig with a context for each cluster, as an administrator has it. The
// first one is the current context.
func contextsOf(t *testing.T, clusters ...*framework.Cluster) string {
	t.Helper()
	merged := clientcmdapi.NewConfig()
	merged.CurrentContext = clusters[0].Name()
	for _, c := range clusters {
		config, err := clientcmd.Load(c.Kubeconfig())
		if err != nil {
			t.Fatal(err)
		}
		current := config.Contexts[config.CurrentContext]
		merged.Clusters[c.Name()], merged.AuthInfos[c.Name()] = config.Clusters[current.Cluster], config.AuthInfos[current.AuthInfo]
		merged.Contexts[c.Name()] = &clientcmdapi.Context{Cluster: c.Name(), AuthInfo: c.Name()}
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*merged, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// plugin runs the built plugin on the hub, and returns its output.
func (f *fleet) plugin(t *testing.T, args ...string) string {
	t.Helper()
	return mustRunPlugin(t, contextsOf(t, f.Hub), args...)
}

// mustRunPlugin runs the built plugin by kubectl, and returns its output.
func mustRunPlugin(t *testing.T, kubeconfig string, args ...string) string {
	t.Helper()
	output, err := runPlugin(t, kubeconfig, args...)
	if err != nil {
		t.Fatalf("kubectl appsvc %s: %v\n%s", strings.Join(args, " "), err, output)
	}
	return output
}

// runPlugin runs the built plugin by kubectl, and returns its output.
func runPlugin(t *testing.T, kubeconfig string, args ...string) (string, error) {
	t.Helper()
	return runWithBin(t, kubeconfig, "kubectl", append([]string{"appsvc"}, args...)...)
}

// runWithBin runs a program with a kubeconfig, and with the directory of the programs in its PATH.
func runWithBin(t *testing.T, kubeconfig, program string, args ...string) (string, error) {
	t.Helper()
	bin, err := filepath.Abs(*binFlag)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(bin, "kubectl-appsvc")); err != nil {
		t.Fatalf("%s lacks kubectl-appsvc: run make build", bin)
	}
	if program == "kubectl" {
		program = filepath.Join(bin, program)
	}
	command := exec.CommandContext(t.Context(), program, args...)
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	output, err := command.CombinedOutput()
	return string(output), err
}

// checkCredential fails the test unless the kubeconfig on the hub has exactly the permissions of
// config/member on its cluster.
func (f *fleet) checkCredential(t *testing.T, c *framework.Cluster) {
	t.Helper()
	secret := &corev1.Secret{}
	if err := f.Hub.Client.Get(t.Context(), client.ObjectKey{Namespace: environment.SecretNamespace, Name: c.Name()}, secret); err != nil {
		t.Fatal(err)
	}
	joined, err := environment.NewClient(secret.Data["kubeconfig"])
	if err != nil {
		t.Fatal(err)
	}
	objects, err := member.Objects()
	if err != nil {
		t.Fatal(err)
	}
	grants, err := member.Grants(objects)
	if err != nil {
		t.Fatal(err)
	}
	for _, namespace := range []string{"default", environment.SecretNamespace} {
		want := map[string]bool{}
		for _, grant := range grants {
			if grant.Namespace == "" || grant.Namespace == namespace {
				maps.Copy(want, permissionsOf(grant.Rules))
			}
		}
		got := reviewRules(t, joined, namespace)
		// Each user has these, by roles such as system:basic-user.
		for permission := range reviewRules(t, anyAccount(t, c), namespace) {
			delete(got, permission)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("permissions in %s (-config/member +credential):\n%s", namespace, diff)
		}
	}
}

// anyAccount returns a client of a ServiceAccount to which nothing is granted.
func anyAccount(t *testing.T, c *framework.Cluster) client.Client {
	t.Helper()
	config, err := environment.RequestAccountKubeconfig(t.Context(), c.Kubeconfig(), "default")
	if err != nil {
		t.Fatal(err)
	}
	api, err := environment.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	return api
}

// reviewRules returns the permissions of a client in a namespace, as the API server reports them.
func reviewRules(t *testing.T, api client.Client, namespace string) map[string]bool {
	t.Helper()
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: namespace}}
	if err := api.Create(t.Context(), review); err != nil {
		t.Fatal(err)
	}
	if review.Status.Incomplete {
		t.Fatalf("the review is incomplete: %s", review.Status.EvaluationError)
	}
	var rules []rbacv1.PolicyRule
	for _, r := range review.Status.ResourceRules {
		rules = append(rules, rbacv1.PolicyRule{Verbs: r.Verbs, APIGroups: r.APIGroups, Resources: r.Resources, ResourceNames: r.ResourceNames})
	}
	permissions := permissionsOf(rules)
	for _, r := range review.Status.NonResourceRules {
		for _, url := range r.NonResourceURLs {
			permissions[fmt.Sprintf("%v %s", r.Verbs, url)] = true
		}
	}
	return permissions
}

// permissionsOf returns each permission of rules as a text.
func permissionsOf(rules []rbacv1.PolicyRule) map[string]bool {
	permissions := map[string]bool{}
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					permissions[strings.TrimSpace(verb+" "+qualify(resource, group)+" "+strings.Join(rule.ResourceNames, ","))] = true
				}
			}
		}
	}
	return permissions
}

// runPrinted runs the command that unjoin printed.
func runPrinted(t *testing.T, kubeconfig, output string) {
	t.Helper()
	var script strings.Builder
	for line := range strings.Lines(output) {
		if strings.HasPrefix(line, "  ") && (script.Len() > 0 || strings.HasPrefix(line, "  kubectl ")) {
			script.WriteString(line)
		}
	}
	if script.Len() == 0 {
		t.Fatalf("no command was printed:\n%s", output)
	}
	if output, err := runWithBin(t, kubeconfig, "bash", "-euo", "pipefail", "-c", script.String()); err != nil {
		t.Errorf("%s: %v\n%s", script.String(), err, output)
	}
}

// checkNoPermissions waits until a cluster has nothing of config/member.
func (f *fleet) checkNoPermissions(t *testing.T, c *framework.Cluster) {
	t.Helper()
	objects, err := member.Objects()
	if err != nil {
		t.Fatal(err)
	}
	f.Eventually(t, "west to have nothing of config/member", func(ctx context.Context) error {
		var errs []error
		for _, object := range slices.Backward(objects) {
			errs = append(errs, c.CheckAbsent(ctx, object))
		}
		return errors.Join(errs...)
	})
}
