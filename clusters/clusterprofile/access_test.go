package clusterprofile

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	clientcmdv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	clusterinventory "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	"sigs.k8s.io/cluster-inventory-api/pkg/access"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
)

// apiServer returns the URL of the test API server.
func apiServer() string { return strings.TrimRight(config.Host, "/") }

// kubeconfigOf returns a kubeconfig for the test API server, after the changes.
func kubeconfigOf(t *testing.T, changes ...func(*api.Cluster, *api.AuthInfo)) []byte {
	t.Helper()
	cluster := &api.Cluster{Server: apiServer(), CertificateAuthorityData: config.CAData}
	user := &api.AuthInfo{ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}
	for _, change := range changes {
		change(cluster, user)
	}
	raw, err := clientcmd.Write(api.Config{
		Clusters:       map[string]*api.Cluster{"c": cluster},
		AuthInfos:      map[string]*api.AuthInfo{"u": user},
		Contexts:       map[string]*api.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// kubeconfigSecret returns a Secret of a member.
func kubeconfigSecret(name, key string, content []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"member": "true"}},
		Data:       map[string][]byte{key: content},
	}
}

// verified returns a MemberCluster that has accepted the kubeconfig of its Secret.
func verified(name string) *v1alpha1.MemberCluster {
	member := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{v1alpha1.AnnotationSecret: namespace + "/" + name}}}
	for kind, reason := range map[string]string{v1alpha1.ConditionReady: v1alpha1.ReasonConnected, v1alpha1.ConditionCredentialsValid: v1alpha1.ReasonAccepted} {
		member.Status.Conditions = append(member.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: metav1.Now()})
	}
	return member
}

// setCondition changes a condition that the member has.
func setCondition(member *v1alpha1.MemberCluster, kind string, status metav1.ConditionStatus, reason string) {
	for i := range member.Status.Conditions {
		if c := &member.Status.Conditions[i]; c.Type == kind {
			c.Status, c.Reason = status, reason
		}
	}
}

// provider returns the access provider for a kubeconfig of a Secret.
func provider(secret, key, server string) *clusterinventory.AccessProvider {
	location := `{"key":"` + key + `","name":"` + secret + `","namespace":"inventory"}`
	return &clusterinventory.AccessProvider{Name: "kubeconfig-secretreader", Cluster: clientcmdv1.Cluster{
		Server: server, CertificateAuthorityData: config.CAData,
		Extensions: []clientcmdv1.NamedExtension{{Name: "client.authentication.k8s.io/exec", Extension: runtime.RawExtension{Raw: []byte(location)}}},
	}}
}

func TestAccessProvider(t *testing.T) {
	everything := kubeconfig.Policy{AllowInsecureTLS: true, AllowProxy: true, AllowLoopback: true}
	ready, credentials := v1alpha1.ConditionReady, v1alpha1.ConditionCredentialsValid
	argoCD := kubeconfigSecret("east", "config", []byte(`{"bearerToken":"t","tlsClientConfig":{"caData":"eA=="}}`))
	argoCD.Labels = map[string]string{"argocd.argoproj.io/secret-type": "cluster"}
	clusterAPI := kubeconfigSecret("east-kubeconfig", "value", kubeconfigOf(t))
	clusterAPI.Type = "cluster.x-k8s.io/secret"
	named := provider("east", "kubeconfig", apiServer())
	named.Cluster.TLSServerName = "api.example"
	tests := map[string]struct {
		secret *corev1.Secret // that of a verified member if it is nil
		change func(*v1alpha1.MemberCluster)
		want   *clusterinventory.AccessProvider
	}{
		"a client certificate": {want: provider("east", "kubeconfig", apiServer())},
		"a token":              {secret: kubeconfigSecret("east", "value", kubeconfigOf(t, withToken)), want: provider("east", "value", apiServer())},
		"another server name": {
			secret: kubeconfigSecret("east", "kubeconfig", kubeconfigOf(t, func(c *api.Cluster, _ *api.AuthInfo) { c.TLSServerName = "api.example" })), want: named,
		},
		"a Secret of Cluster API":                 {secret: clusterAPI, want: provider("east-kubeconfig", "value", apiServer())},
		"a Secret of Argo CD":                     {secret: argoCD},
		"a Secret without a kubeconfig":           {secret: kubeconfigSecret("east", "other", nil)},
		"a kubeconfig that runs a program":        {secret: kubeconfigSecret("east", "kubeconfig", kubeconfigOf(t, func(_ *api.Cluster, u *api.AuthInfo) { u.Exec = &api.ExecConfig{Command: "x"} }))},
		"a proxy":                                 {secret: kubeconfigSecret("east", "kubeconfig", kubeconfigOf(t, func(c *api.Cluster, _ *api.AuthInfo) { c.ProxyURL = "http://user:password@proxy.example" }))},
		"a server whose certificate is not known": {secret: kubeconfigSecret("east", "kubeconfig", kubeconfigOf(t, func(c *api.Cluster, _ *api.AuthInfo) { c.CertificateAuthorityData, c.InsecureSkipTLSVerify = nil, true }))},
		"a member that does not answer": {
			change: func(m *v1alpha1.MemberCluster) {
				setCondition(m, ready, metav1.ConditionUnknown, v1alpha1.ReasonUnreachable)
			},
			want: provider("east", "kubeconfig", apiServer()),
		},
		"a new member": {change: func(m *v1alpha1.MemberCluster) { m.Status.Conditions = nil }},
		"a kubeconfig that the member has not accepted yet": {change: func(m *v1alpha1.MemberCluster) {
			setCondition(m, credentials, metav1.ConditionUnknown, v1alpha1.ReasonNotVerified)
		}},
		"credentials that have expired": {change: func(m *v1alpha1.MemberCluster) {
			setCondition(m, credentials, metav1.ConditionFalse, v1alpha1.ReasonExpired)
		}},
		"another cluster answers": {change: func(m *v1alpha1.MemberCluster) {
			setCondition(m, ready, metav1.ConditionFalse, v1alpha1.ReasonIdentityChanged)
		}},
		"the cluster of another member answers": {change: func(m *v1alpha1.MemberCluster) {
			setCondition(m, ready, metav1.ConditionFalse, v1alpha1.ReasonDuplicateCluster)
		}},
		"the Secret is missing": {change: func(m *v1alpha1.MemberCluster) { m.Status.SecretMissingSince = new(metav1.Now()) }},
	}
	rules := kubeconfig.SecretRules{{Namespace: namespace, Format: kubeconfig.FormatClusterAPI}, {Namespace: namespace, Format: kubeconfig.FormatArgoCD}, options.SecretRules[0]}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			member, secret := verified("east"), test.secret
			if secret == nil {
				secret = kubeconfigSecret("east", "kubeconfig", kubeconfigOf(t))
			}
			if test.change != nil {
				test.change(member)
			}
			got, err := accessProvider(member, rules.Member(secret), everything)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func withToken(_ *api.Cluster, user *api.AuthInfo) { *user = api.AuthInfo{Token: "secret-token"} }

// publishesAccess tests that a tool can connect to a member by its ClusterProfile, with the library
// and the plugin of the Cluster Inventory API. Each step needs what the previous step left.
func (hub testHub) publishesAccess(t *testing.T) {
	hub.T = t
	member, secret := verified("member"), kubeconfigSecret("member", "kubeconfig", kubeconfigOf(t))
	conditions := member.Status.Conditions
	hub.must(hub.Create(t.Context(), secret))
	hub.must(hub.Create(t.Context(), member))
	hub.change(member, func() { member.Status.ObservedGeneration, member.Status.Conditions = 1, conditions })
	hub.waitForAccess("member", *provider("member", "kubeconfig", apiServer()))

	tool, err := access.New([]access.Provider{{Name: "kubeconfig-secretreader", ExecConfig: &api.ExecConfig{
		APIVersion: "client.authentication.k8s.io/v1", Command: buildPlugin(t), ProvideClusterInfo: true, Env: []api.ExecEnvVar{{Name: "KUBECONFIG", Value: kubeconfigFile(t)}},
	}}}).BuildConfigFromCP(hub.read("member"))
	hub.must(err)
	c, err := client.New(tool, client.Options{Scheme: scheme})
	hub.must(err)
	if err := c.List(t.Context(), &corev1.NamespaceList{}); err != nil {
		t.Error("the tool cannot use the member:", err)
	}

	// It follows the Secret, and holds no credentials.
	before := secret.DeepCopy()
	secret.Data = map[string][]byte{"value": kubeconfigOf(t, withToken, func(c *api.Cluster, _ *api.AuthInfo) { c.Server = "https://member.example:6443" })}
	hub.must(hub.Patch(t.Context(), secret, client.MergeFrom(before)))
	ours := *provider("member", "value", "https://member.example:6443")
	hub.waitForAccess("member", ours)
	content, err := json.Marshal(hub.read("member"))
	hub.must(err)
	if strings.Contains(string(content), "secret-token") {
		t.Errorf("it contains the token: %s", content)
	}

	// The providers of others stay, and nothing is written without a change.
	theirs := clusterinventory.AccessProvider{Name: "theirs", Cluster: clientcmdv1.Cluster{Server: "https://theirs.example"}}
	profile := hub.read("member")
	original := profile.DeepCopy()
	profile.Status.AccessProviders = append(profile.Status.AccessProviders, theirs)
	hub.must(hub.Status().Patch(t.Context(), profile, client.MergeFrom(original)))
	hub.change(member, func() { metav1.SetMetaDataAnnotation(&member.ObjectMeta, "touched", "true") })
	hub.must(hub.Create(t.Context(), verified("later")))
	hub.eventually(func() string { // one worker reconciles later after member
		_, version := hub.profile("later")
		return cmp.Diff(true, version != "")
	})
	if diff := cmp.Diff(profile.ResourceVersion, hub.read("member").ResourceVersion); diff != "" {
		t.Errorf("the profile was written without a change (-before +after):\n%s", diff)
	}
	hub.change(member, func() {
		setCondition(member, v1alpha1.ConditionCredentialsValid, metav1.ConditionFalse, v1alpha1.ReasonUnauthorized)
	})
	hub.waitForAccess("member", theirs)
}

// read returns a ClusterProfile.
func (hub testHub) read(name string) *clusterinventory.ClusterProfile {
	hub.Helper()
	profile := &clusterinventory.ClusterProfile{}
	hub.must(hub.Get(hub.Context(), client.ObjectKey{Namespace: namespace, Name: name}, profile))
	return profile
}

// waitForAccess waits until a ClusterProfile has these access providers.
func (hub testHub) waitForAccess(name string, want ...clusterinventory.AccessProvider) {
	hub.Helper()
	hub.eventually(func() string {
		got, _ := hub.profile(name)
		return cmp.Diff(want, got.Status.AccessProviders)
	})
}

// buildPlugin builds the plugin from its Go module, and returns its path.
func buildPlugin(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig-secretreader")
	command := exec.CommandContext(t.Context(), "go", "build", "-o", file, "sigs.k8s.io/cluster-inventory-api/plugins/kubeconfig-secretreader/cmd/plugin")
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("build the plugin: %v\n%s", err, output)
	}
	return file
}

// kubeconfigFile returns a file with the credentials of the tool for the hub.
func kubeconfigFile(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "hub.kubeconfig")
	if err := os.WriteFile(file, kubeconfigOf(t), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
