package command_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
	"github.com/fleetwright/fleetwright/config/member"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// TestJoin joins a cluster, and changes how it is joined. Each step continues where the previous one
// ended.
func TestJoin(t *testing.T) {
	m := newMember(t)
	deleteSecret(t, "east")
	join := func(t *testing.T, args ...string) result {
		t.Helper()
		return m.run(t, append([]string{"join", "east", "--allow-loopback", "--timeout", "0"}, args...)...)
	}

	t.Run("a dry run prints both sides, and changes nothing", func(t *testing.T) {
		got := join(t, "--dry-run", "--labels", "region=eu")
		for _, want := range []string{"# On the member, context east:", "kind: ClusterRoleBinding", "# On the hub", "fleetwright.dev/renew-token: \"true\"", "region: eu", "token: REQUESTED-FROM-THE-MEMBER"} {
			if !strings.Contains(got.out, want) {
				t.Errorf("%s is missing in %s%s", want, got.out, got.errOut)
			}
		}
		if readSecret(t, "east") != nil {
			t.Error("the Secret exists")
		}
		for _, object := range m.objects(t) {
			if err := m.Get(t.Context(), client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
				t.Errorf("%s %s: %v", object.GetObjectKind().GroupVersionKind().Kind, object.GetName(), err)
			}
		}
	})

	t.Run("a fresh cluster", func(t *testing.T) {
		join(t, "--labels", "region=eu,tier=gold").checkGolden(t, "join")
		m.checkObjects(t)
		secret := readSecret(t, "east")
		want := map[string]string{"sigs.k8s.io/multicluster-runtime-kubeconfig": "true", "region": "eu", "tier": "gold"}
		if diff := cmp.Diff(want, secret.Labels); diff != "" {
			t.Errorf("labels (-want +got):\n%s", diff)
		}
		want = map[string]string{v1alpha1.AnnotationRenewToken: "true", v1alpha1.AnnotationClusterID: string(m.id)}
		if diff := cmp.Diff(want, secret.Annotations); diff != "" {
			t.Errorf("annotations (-want +got):\n%s", diff)
		}
		checkLifetime(t, secret, 720*time.Hour)
		m.checkMayCreate(t, secret, "default", true)
	})

	t.Run("again, nothing but the token changes", func(t *testing.T) {
		before := readSecret(t, "east")
		join(t).checkGolden(t, "join-again")
		after := readSecret(t, "east")
		if diff := cmp.Diff([]any{before.Labels, before.Annotations}, []any{after.Labels, after.Annotations}); diff != "" {
			t.Errorf("(-before +after):\n%s", diff)
		}
		if string(before.Data["kubeconfig"]) == string(after.Data["kubeconfig"]) {
			t.Error("the token is the same")
		}
	})

	t.Run("with other labels and namespaces, it says what changed", func(t *testing.T) {
		ensureNamespace(t, m, "shop")
		ensureNamespace(t, m, "web")
		join(t, "--labels", "region=us,zone=b", "--namespaces", "shop,web", "--duration", "1h").checkGolden(t, "join-namespaces")
		m.checkObjects(t, "shop", "web")
		secret := readSecret(t, "east")
		checkLifetime(t, secret, time.Hour)
		m.checkMayCreate(t, secret, "default", false)
		m.checkMayCreate(t, secret, "shop", true)
	})

	t.Run("without the flags, the labels and the namespaces stay", func(t *testing.T) {
		if got := join(t); got.code != 0 {
			t.Fatal(got)
		}
		m.checkObjects(t, "shop", "web")
		if got := readSecret(t, "east").Labels; got["region"] != "us" || got["zone"] != "b" {
			t.Error(got)
		}
		checkLifetime(t, readSecret(t, "east"), time.Hour)
	})

	t.Run("the server and its certificate authority stay until a flag changes them", func(t *testing.T) {
		context := configOf(t, readSecret(t, "east"))
		byName := "https://localhost:" + context.Server[strings.LastIndex(context.Server, ":")+1:]
		bundle := append(bytes.Clone(context.CA), hubEnvironment.Config.CAData...)
		file := filepath.Join(t.TempDir(), "ca.crt")
		if err := os.WriteFile(file, bundle, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			args      []string
			server    string
			ca        []byte
			out, note string
		}{
			{[]string{"--member-server", byName, "--member-certificate-authority", file}, byName, bundle,
				"configured\n    server https://localhost:PORT (was https://ADDRESS)\n    certificate authority replaced\n", ""},
			{nil, byName, bundle, "configured\nNext",
				"The Secret keeps server https://localhost:PORT and a certificate authority, which context east does not have. To change that, use --member-server and --member-certificate-authority ('' takes what the context has).\n"},
			{[]string{"--member-server", ""}, context.Server, bundle, "configured\n    server https://ADDRESS (was https://localhost:PORT)\n",
				"The Secret keeps a certificate authority, "},
			{[]string{"--member-certificate-authority", ""}, context.Server, context.CA, "configured\n    certificate authority replaced\n", ""},
		} {
			got := join(t, step.args...)
			got.out, got.errOut = ports.ReplaceAllString(got.out, "localhost:PORT"), ports.ReplaceAllString(got.errOut, "localhost:PORT")
			config := configOf(t, readSecret(t, "east"))
			if got.code != 0 || !strings.Contains(got.out, step.out) || !strings.HasPrefix(got.errOut, step.note) || step.note == "" && got.errOut != "" {
				t.Errorf("%q: %v", step.args, got)
			}
			if config.Server != step.server || !bytes.Equal(config.CA, step.ca) {
				t.Errorf("%q: the Secret has server %s with\n%s", step.args, config.Server, config.CA)
			}
		}
	})

	t.Run("all labels are removed", func(t *testing.T) {
		got := join(t, "--labels", "")
		if diff := cmp.Diff(map[string]string{"sigs.k8s.io/multicluster-runtime-kubeconfig": "true"}, readSecret(t, "east").Labels); got.code != 0 || diff != "" {
			t.Error(got, diff)
		}
	})

	t.Run("a namespace that is no longer named loses its RoleBinding", func(t *testing.T) {
		got := join(t, "--namespaces", "shop")
		if !strings.Contains(got.out, "  rolebinding/fleetwright-member in namespace web deleted\n") {
			t.Error(got)
		}
		m.checkMayCreate(t, readSecret(t, "east"), "web", false)
	})

	t.Run("all namespaces again", func(t *testing.T) {
		if got := join(t, "--namespaces", "*"); got.code != 0 || !strings.Contains(got.out, "  clusterrole/fleetwright-member-namespace deleted\n") {
			t.Error(got)
		}
		m.checkObjects(t)
		m.checkMayCreate(t, readSecret(t, "east"), "web", true)
	})

	t.Run("a token that the operator has renewed is replaced", func(t *testing.T) {
		secret := readSecret(t, "east")
		patch := client.MergeFrom(secret.DeepCopy())
		secret.Data["kubeconfig"] = append(secret.Data["kubeconfig"], "# renewed\n"...)
		if err := hub.Patch(t.Context(), secret, patch, client.FieldOwner("fleetwright")); err != nil {
			t.Fatal(err)
		}
		if got := join(t); got.code != 0 {
			t.Fatal(got)
		}
		if strings.Contains(string(readSecret(t, "east").Data["kubeconfig"]), "# renewed") {
			t.Error("the kubeconfig was not written")
		}
	})

	connected := m.connect(t, "east")
	t.Run("it waits until the hub uses the new token", func(t *testing.T) {
		defer connected()
		got := m.run(t, "join", "east", "--allow-loopback", "--timeout", wait.Patience.String())
		if got.code != 0 || !strings.Contains(got.out, "  membercluster/east is Ready\n") {
			t.Error(got)
		}
	})

	t.Run("the former token is not enough", func(t *testing.T) {
		got := m.run(t, "join", "east", "--allow-loopback", "--timeout", "2s", "--duration", "2h")
		want := "error: the hub is not connected to east after 2s: it still uses the former token."
		if got.code != 3 || !strings.HasPrefix(got.errOut, want) || !strings.Contains(got.errOut, "Done: the permissions on the member, the token, the Secret on the hub. Not done: the connection of the hub.") {
			t.Error(got)
		}
	})
}

// objects returns what config/member grants.
func (m *memberEnv) objects(t *testing.T, namespaces ...string) []client.Object {
	t.Helper()
	objects, err := member.Objects(namespaces...)
	if err != nil {
		t.Fatal(err)
	}
	var all []client.Object
	for _, object := range objects {
		all = append(all, object)
	}
	return all
}

// checkObjects fails the test unless the member grants exactly what config/member does.
func (m *memberEnv) checkObjects(t *testing.T, namespaces ...string) {
	t.Helper()
	roles, bindings := &rbacv1.ClusterRoleList{}, &rbacv1.RoleBindingList{}
	if err := m.List(t.Context(), roles); err != nil {
		t.Fatal(err)
	}
	if err := m.List(t.Context(), bindings); err != nil {
		t.Fatal(err)
	}
	want, err := member.Objects(namespaces...)
	if err != nil {
		t.Fatal(err)
	}
	wantRules, gotRules := map[string][]rbacv1.PolicyRule{}, map[string][]rbacv1.PolicyRule{}
	for _, object := range want {
		if object.GetKind() == "ClusterRole" {
			role := &rbacv1.ClusterRole{}
			content, err := object.MarshalJSON()
			if err == nil {
				err = yaml.Unmarshal(content, role)
			}
			if err != nil {
				t.Fatal(err)
			}
			wantRules[role.Name] = role.Rules
		}
	}
	for _, role := range roles.Items {
		if strings.HasPrefix(role.Name, "fleetwright") {
			gotRules[role.Name] = role.Rules
		}
	}
	if diff := cmp.Diff(wantRules, gotRules); diff != "" {
		t.Errorf("ClusterRoles (-want +got):\n%s", diff)
	}
	var bound []string
	for _, binding := range bindings.Items {
		if binding.Name == member.Role {
			bound = append(bound, binding.Namespace)
		}
	}
	if diff := cmp.Diff(namespaces, bound); diff != "" {
		t.Errorf("namespaces (-want +got):\n%s", diff)
	}
}

// checkMayCreate fails the test unless the kubeconfig of the Secret may, or may not, create a
// Deployment in a namespace.
func (m *memberEnv) checkMayCreate(t *testing.T, secret *corev1.Secret, namespace string, want bool) {
	t.Helper()
	c := clientOf(t, secret)
	// The API server takes a moment to read new roles, and a ServiceAccount that replaces another one.
	wait.Eventually(t, func() error {
		deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: namespace}, Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
			},
		}}
		err := c.Create(t.Context(), deployment, client.DryRunAll)
		if want != (err == nil) || err != nil && !apierrors.IsForbidden(err) {
			return fmt.Errorf("creating a Deployment in %s is not permitted=%t: %w", namespace, want, err)
		}
		return nil
	})
}

// configOf returns how the operator reads a Secret.
func configOf(t *testing.T, secret *corev1.Secret) *kubeconfig.Config {
	t.Helper()
	rules := kubeconfig.SecretRules{{Namespace: secret.Namespace, Format: kubeconfig.FormatKubeconfig, Selector: labels.Everything()}}
	config, rejected := rules.Member(secret).Parse(kubeconfig.Policy{})
	if rejected != nil {
		t.Fatal(rejected)
	}
	return config
}

func checkLifetime(t *testing.T, secret *corev1.Secret, want time.Duration) {
	t.Helper()
	if got := time.Until(configOf(t, secret).Expiry().End); (got - want).Abs() > time.Minute {
		t.Errorf("the token is valid for %s, want %s", got, want)
	}
}

// connect writes the status of the MemberCluster as the operator does, until the test calls stop:
// the hub is connected with the token of the Secret.
func (m *memberEnv) connect(t *testing.T, name string) (stop func()) {
	t.Helper()
	cluster := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := hub.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := hub.Delete(context.Background(), cluster); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			secret := &corev1.Secret{}
			if err := hub.Get(ctx, client.ObjectKey{Namespace: secretNamespace, Name: name}, secret); err == nil {
				patch := client.MergeFrom(cluster.DeepCopy())
				cluster.Status = m.connectedStatus(configOf(t, secret).Expiry().End)
				if err := hub.Status().Patch(ctx, cluster, patch); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(50 * time.Millisecond):
			}
		}
	}()
	return func() { cancel(); <-ended }
}

func (m *memberEnv) connectedStatus(expires time.Time) v1alpha1.MemberClusterStatus {
	now := metav1.Now()
	return v1alpha1.MemberClusterStatus{
		ClusterID: m.id, Version: "v1.36.3", CredentialsExpirationTime: &metav1.Time{Time: expires},
		Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonConnected, LastTransitionTime: now},
			{Type: v1alpha1.ConditionCredentialsValid, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAccepted, LastTransitionTime: now},
		},
	}
}

func TestJoin_changes_nothing_when_it_is_refused(t *testing.T) {
	m := newMember(t)
	hubAdmin, memberAdmin := hubEnvironment.KubeConfig, m.environment.KubeConfig
	create(t, &v1alpha1.MemberCluster{}, `{metadata: {name: taken}, status: {clusterID: other}}`)
	byHand := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretNamespace, Name: "by-hand"}, Data: map[string][]byte{"kubeconfig": []byte("mine")}}
	if err := hub.Create(t.Context(), byHand, client.FieldOwner("kubectl-create")); err != nil {
		t.Fatal(err)
	}
	deleteSecret(t, byHand.Name)
	withServer := func(server string) string {
		return m.editKubeconfig(t, func(c *clientcmdapi.Config) { c.Clusters["east"].Server = server })
	}
	for name, test := range map[string]struct {
		kubeconfig string
		args       []string
		want       string
	}{
		"no context":                    {args: []string{}, want: "CONTEXT is missing: kubectl appsvc join CONTEXT"},
		"a context that does not exist": {args: []string{"west"}, want: `there is no context "west" in your kubeconfig; it has: east, hub`},
		"another file without the context": {
			args: []string{"east", "--member-kubeconfig", filepath.Join(t.TempDir(), "none")},
			want: "no such file or directory",
		},
		"a loopback address": {args: []string{"east"}, want: "the server of the member is https://ADDRESS, which is this machine only. Give the address by which the hub reaches it with --member-server." +
			" If the operator runs on this machine with --allow-loopback-members, as in a test, use --allow-loopback"},
		"a metadata service": {args: []string{"east", "--member-server", "https://169.254.169.254"}, want: "the operator would refuse https://169.254.169.254: the server's address is link-local, " +
			"multicast, unspecified, reserved or of a metadata service; a member cannot have it; use another address with --member-server"},
		"a server without TLS": {args: []string{"east", "--member-server", "http://east.example"}, want: "the operator would refuse the server of context east (ServerRefused): " +
			"server must be an https URL such as https://api.example:6443; see --member-server and --member-certificate-authority"},
		"a context that verifies no certificate": {
			kubeconfig: m.editKubeconfig(t, func(c *clientcmdapi.Config) {
				c.Clusters["east"].InsecureSkipTLSVerify, c.Clusters["east"].CertificateAuthorityData = true, nil
			}),
			args: []string{"east", "--allow-loopback"},
			want: "(InsecureTLSRefused): the kubeconfig disables the verification of the server certificate (insecure-skip-tls-verify); embed the CA instead",
		},
		"a member that does not answer": {
			kubeconfig: withServer("https://127.0.0.1:1"),
			args:       []string{"east", "--allow-loopback"},
			want:       "the cluster of context east: https://127.0.0.1:1 does not answer (connect: connection refused): check the context, the network and the VPN",
		},
		"no permission on the member": {
			kubeconfig: m.contexts(t, map[string][]byte{"hub": hubAdmin, "east": userOf(t, m.environment, "nobody")}),
			args:       []string{"east", "--allow-loopback"},
			want: `the cluster of context east: namespaces "kube-system" is forbidden: User "nobody" cannot get resource "namespaces" in API group "" in the namespace "kube-system": ` +
				"use a context of an administrator of this cluster",
		},
		"no permission on the hub": {
			kubeconfig: m.contexts(t, map[string][]byte{"hub": userOf(t, hubEnvironment, "viewer"), "east": memberAdmin}),
			args:       []string{"east", "--allow-loopback"},
			want:       "cannot list resource \"memberclusters\"",
		},
		"a namespace that does not exist": {
			args: []string{"east", "--allow-loopback", "--namespaces", "nowhere"},
			want: "the cluster of context east: namespace nowhere does not exist, and Fleetwright may not create it: kubectl --context east create namespace nowhere",
		},
		"a hub without the namespace": {
			args: []string{"east", "--allow-loopback", "--secret-namespace", "nowhere"},
			want: "the hub has no namespace nowhere: install Fleetwright there (docs/install.md), or select the hub with --context and its namespace with --secret-namespace",
		},
		"a name that another cluster has": {
			args: []string{"east", "--allow-loopback", "--name", "taken"},
			want: "the hub has another cluster of the name taken (its kube-system namespace has UID other, not UID): use --name, " +
				"or, if this cluster replaces it, first kubectl appsvc unjoin taken --retain",
		},
		"a Secret that was made by hand": {
			args: []string{"east", "--allow-loopback", "--name", "by-hand"},
			want: "the hub has a Secret fleetwright-system/by-hand that join did not write (its field managers are: kubectl-create): use --name, or replace it with --force",
		},
		"a name that is not valid":  {args: []string{"east", "--allow-loopback", "--name", "East_1"}, want: `--name is "East_1", which is not a valid name: `},
		"a label that is not valid": {args: []string{"east", "--labels", "region=e u"}, want: "--labels has region=e u, which is not a label: "},
		"a short token":             {args: []string{"east", "--duration", "5m"}, want: "--duration is 5m0s: the shortest lifetime of a token is 10m0s"},
		"an unknown side":           {args: []string{"east", "--print-only", "all"}, want: `--print-only is "all": it must be member or hub`},
	} {
		t.Run(name, func(t *testing.T) {
			file := test.kubeconfig
			if file == "" {
				file = m.kubeconfig
			}
			got := runAs(t, file, append([]string{"join", "--timeout", "1s"}, test.args...)...)
			if test.kubeconfig == "" {
				got = got.scrub()
			}
			if got.code != 1 || got.out != "" || !strings.Contains(got.errOut, test.want) || strings.Count(got.errOut, "\n") != 1 {
				t.Errorf("got exit code %d, output %q and error\n%s\nwant\n%s", got.code, got.out, got.errOut, test.want)
			}
		})
	}
	t.Run("nothing was changed", func(t *testing.T) {
		for _, object := range m.objects(t, "default") {
			if err := m.Get(t.Context(), client.ObjectKeyFromObject(object), object); !apierrors.IsNotFound(err) {
				t.Errorf("%s %s: %v", object.GetObjectKind().GroupVersionKind().Kind, object.GetName(), err)
			}
		}
		for _, name := range []string{"east", "taken"} {
			if readSecret(t, name) != nil {
				t.Errorf("Secret %s exists", name)
			}
		}
		if got := string(readSecret(t, "by-hand").Data["kubeconfig"]); got != "mine" {
			t.Error(got)
		}
	})
	t.Run("--force replaces a Secret that was made by hand", func(t *testing.T) {
		got := m.run(t, "join", "east", "--allow-loopback", "--timeout", "0", "--name", "by-hand", "--force")
		if got.code != 0 || string(readSecret(t, "by-hand").Data["kubeconfig"]) == "mine" {
			t.Error(got)
		}
	})
	t.Run("a cluster that is a member by another name", func(t *testing.T) {
		stop := m.connect(t, "by-hand")
		stop()
		cluster := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "by-hand"}}
		if err := hub.Status().Patch(t.Context(), cluster, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"clusterID":"`+string(m.id)+`"}}`))); err != nil {
			t.Fatal(err)
		}
		got := m.run(t, "join", "east", "--allow-loopback", "--timeout", "1s")
		want := "error: this cluster is already in the fleet as by-hand: to update it, use --name by-hand; to rename it, first kubectl appsvc unjoin by-hand --retain\n"
		got.check(t, result{code: 1, errOut: want})
	})
}

// TestJoin_for_GitOps tests that each side can be printed, and applied by another tool.
func TestJoin_for_GitOps(t *testing.T) {
	m := newMember(t)
	t.Run("the member's side needs no cluster", func(t *testing.T) {
		got := runWith(t, "", "join", "nowhere", "--print-only", "member", "--namespaces", "shop")
		if got.code != 0 || !strings.Contains(got.out, "namespace: shop") {
			t.Error(got)
		}
		for document := range strings.SplitSeq(got.out, "---\n") {
			object := map[string]any{}
			if err := yaml.Unmarshal([]byte(document), &object); err != nil || object["kind"] == nil {
				t.Errorf("%v: %s", err, document)
			}
		}
	})
	t.Run("the hub's side needs the ServiceAccount", func(t *testing.T) {
		got := m.run(t, "join", "east", "--allow-loopback", "--print-only", "hub")
		if got.code != 1 || got.out != "" || !strings.Contains(got.errOut, "request a token of ServiceAccount fleetwright in namespace fleetwright-system") {
			t.Error(got)
		}
	})
	t.Run("the hub's side is a Secret with a token that works", func(t *testing.T) {
		for _, object := range m.objects(t) {
			if err := m.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}
		}
		got := runAs(t, m.kubeconfig, "join", "east", "--allow-loopback", "--print-only", "hub", "--labels", "region=eu")
		if got.code != 0 || got.errOut != "" {
			t.Fatal(got)
		}
		secret := &corev1.Secret{}
		if err := yaml.UnmarshalStrict([]byte(got.out), secret); err != nil {
			t.Fatal(err)
		}
		if _, renewed := secret.Annotations[v1alpha1.AnnotationRenewToken]; renewed || secret.Labels["region"] != "eu" {
			t.Errorf("%+v", secret.ObjectMeta)
		}
		secret.Data = map[string][]byte{"kubeconfig": []byte(secret.StringData["kubeconfig"])}
		m.checkMayCreate(t, secret, "default", true)
		if readSecret(t, "east") != nil {
			t.Error("the Secret was written")
		}
	})
}

func TestJoin_makes_a_name(t *testing.T) {
	m := newMember(t)
	for name, want := range map[string]string{
		"admin@East":                      "admin-east",
		"arn:aws:eks:eu-1:123:cluster/e1": "arn-aws-eks-eu-1-123-cluster-e1",
		"gke_project_zone_name":           "gke-project-zone-name",
		"east.example":                    "east-example",
		strings.Repeat("long-", 20):       strings.TrimSuffix(strings.Repeat("long-", 13)[:63], "-"),
	} {
		t.Run(name, func(t *testing.T) {
			file := m.editKubeconfig(t, func(c *clientcmdapi.Config) { c.Contexts[name] = c.Contexts["east"] })
			got := runAs(t, file, "join", name, "--allow-loopback", "--dry-run")
			note := "The cluster is named " + want + ", because "
			if got.code != 0 || !strings.HasPrefix(got.errOut, note) || !strings.Contains(got.out, "\n  name: "+want+"\n") {
				t.Error(got)
			}
		})
	}
	t.Run("no letter", func(t *testing.T) {
		file := m.editKubeconfig(t, func(c *clientcmdapi.Config) { c.Contexts["東"] = c.Contexts["east"] })
		runAs(t, file, "join", "東", "--allow-loopback").check(t, result{code: 1, errOut: "error: no name can be made from context \"東\": set one with --name\n"})
	})
}
