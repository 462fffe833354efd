package join

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
)

func TestUnjoin_finds_the_tool_of_a_Secret(t *testing.T) {
	labeled := func(key, value string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{key: value}}}
	}
	for name, test := range map[string]struct {
		secret *corev1.Secret
		want   string
	}{
		"no Secret":                      {nil, ""},
		"a Secret of join":               {labeled(secretLabel, "true"), ""},
		"another manager":                {labeled("app.kubernetes.io/managed-by", "somebody"), ""},
		"Cluster API":                    {&corev1.Secret{Type: "cluster.x-k8s.io/secret"}, "Cluster API"},
		"a cluster of Argo CD":           {labeled("argocd.argoproj.io/secret-type", "cluster"), "Argo CD (as a cluster of its own)"},
		"a repository of Argo CD":        {labeled("argocd.argoproj.io/secret-type", "repository"), ""},
		"Argo CD, by its label":          {labeled("argocd.argoproj.io/instance", "fleet"), "Argo CD"},
		"Argo CD, by its annotation":     {&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"argocd.argoproj.io/tracking-id": "fleet"}}}, "Argo CD"},
		"a Kustomization of Flux":        {labeled("kustomize.toolkit.fluxcd.io/name", "fleet"), "Flux"},
		"a HelmRelease of Flux":          {labeled("helm.toolkit.fluxcd.io/name", "fleet"), "Flux"},
		"Helm":                           {labeled("app.kubernetes.io/managed-by", "Helm"), "Helm"},
		"a controller":                   {&corev1.Secret{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "ExternalSecret", Name: "east", Controller: new(true)}}}}, "ExternalSecret east"},
		"an owner that is no controller": {&corev1.Secret{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "ConfigMap", Name: "east"}}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := toolOf(test.secret); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestUnjoin_is_possible(t *testing.T) {
	cluster := func(ready metav1.ConditionStatus) *v1alpha1.MemberCluster {
		return &v1alpha1.MemberCluster{Status: v1alpha1.MemberClusterStatus{Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: ready, Reason: "Any"}}}}
	}
	one := hub.Residents{{Namespace: "shop", Name: "web"}: {}}
	for name, test := range map[string]struct {
		remove  bool
		cluster *v1alpha1.MemberCluster
		there   hub.Residents
		want    string
	}{
		"--retain of a cluster that is not connected":               {false, cluster(metav1.ConditionUnknown), one, ""},
		"--delete of a cluster that is connected":                   {true, cluster(metav1.ConditionTrue), one, ""},
		"--delete of a cluster that is not connected":               {true, cluster(metav1.ConditionUnknown), one, "the hub is not connected to east, so nothing can be removed from it: Ready is Unknown (Any)"},
		"--delete of a cluster that is not connected, with nothing": {true, cluster(metav1.ConditionUnknown), nil, ""},
		"--delete without a MemberCluster":                          {true, nil, one, "so nothing can be removed from it: it has no MemberCluster. Wait until it is Ready, or use --retain"},
		"--delete without a MemberCluster, with nothing":            {true, nil, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := &departure{unjoinOptions: &unjoinOptions{retain: !test.remove, remove: test.remove}, name: "east", cluster: test.cluster}
			got := ""
			if err := d.checkPossible(test.there); err != nil {
				got = err.Error()
			}
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
