package command_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

func TestDiff(t *testing.T) {
	createMembers(t)
	app := createStaged(t, "compared")
	edited := filepath.Join(t.TempDir(), "web.yaml")
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(edited, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const head = "apiVersion: fleetwright.dev/v1alpha1\nkind: AppService\nmetadata: {name: compared}\n"
	t.Run("without a file, what the rollout will still change", func(t *testing.T) {
		run(t, "diff", "compared").checkGolden(t, "diff-rollout")
	})
	t.Run("another image and another placement", func(t *testing.T) {
		write(head + "spec: {image: 'nginx:3', replicas: 3, placement: {clusterNames: [east]}}")
		run(t, "diff", "compared", "-f", edited).checkGolden(t, "diff-placement")
		if got := read(t, app).Spec.Image; got != "nginx:2" {
			t.Errorf("the image is %s: the dry run was saved", got)
		}
	})
	t.Run("of one cluster", func(t *testing.T) {
		if got := run(t, "diff", "compared", "east", "-f", edited); got.code != 1 || !strings.HasPrefix(got.out, "# Changed on 1 cluster: east\n") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("a field that kubectl apply removes", func(t *testing.T) {
		current := read(t, app)
		current.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: `{"spec":{"image":"nginx:2","env":[{"name":"MODE","value":"fast"}]}}`}
		if err := hub.Update(t.Context(), current); err != nil {
			t.Fatal(err)
		}
		write(head + "spec: {image: 'nginx:2', rollout: {stages: [{name: canary, limit: 1}, {name: eu, approval: Required}]}}")
		got := run(t, "diff", "compared", "east", "-f", edited)
		if got.code != 1 || !strings.Contains(got.out, "MODE") || strings.Contains(got.out, "-  replicas: 3") {
			t.Errorf("%+v", got)
		}
	})
	const onHostNetwork = `, overrides: [{name: net, clusterNames: [east], patches: [{target: Deployment, operations: [{op: add, path: /spec/template/spec/hostNetwork, value: true}]}]}]}`
	t.Run("pods that the namespace forbids, with an assumption", func(t *testing.T) {
		write(head + "spec: {image: 'nginx:2', placement: {clusterNames: [east]}" + onHostNetwork)
		got := run(t, "diff", "compared", "east", "-f", edited)
		const want = "# Refused on 1 cluster: east\n" + `violates PodSecurity "baseline:v1.36": host namespaces (hostNetwork=true) ` +
			"(assuming baseline, the default of the operator's --pod-security-level, because namespace default has no label pod-security.kubernetes.io/enforce)\n"
		if got.code != 1 || got.out != want {
			t.Errorf("%+v, want %s", got, want)
		}
	})
	t.Run("pods that the label of the namespace forbids", func(t *testing.T) {
		for name, level := range map[string]string{"lax": "privileged", "strict": "baseline"} {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-", Labels: map[string]string{"pod-security.kubernetes.io/enforce": level}}}
			if err := hub.Create(t.Context(), namespace); err != nil {
				t.Fatal(err)
			}
			content := strings.Replace(head, "compared", "new, namespace: "+namespace.Name, 1) + "spec: {image: nginx, placement: {clusterNames: [east]}" + onHostNetwork
			got := runWith(t, content, "--kubeconfig", hubKubeconfig, "diff", "new", "-f", "-")
			isRefused := strings.Contains(got.out, `violates PodSecurity "baseline:v1.36": host namespaces (hostNetwork=true) (namespace `+namespace.Name+` has the label pod-security.kubernetes.io/enforce=baseline)`)
			if got.code != 1 || isRefused != (level == "baseline") || strings.Contains(got.out, "assuming") {
				t.Errorf("%s: %+v", level, got)
			}
		}
	})
	t.Run("a new AppService, from the standard input", func(t *testing.T) {
		got := runWith(t, strings.Replace(head, "compared", "new", 1)+"spec: {image: nginx, placement: {clusterNames: [east]}}",
			"--kubeconfig", hubKubeconfig, "diff", "new", "-f", "-")
		if got.code != 1 || !strings.HasPrefix(got.out, "# Added on 1 cluster: east\n") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("the same spec on a cluster that has it", func(t *testing.T) {
		setStatus(t, read(t, app), func(s *v1alpha1.AppServiceStatus) {
			s.Clusters = []v1alpha1.ClusterStatus{{Name: "east", Revision: 2, Replicas: 3, Phase: v1alpha1.ClusterReady, LastTransitionTime: s.Clusters[0].LastTransitionTime}}
		})
		run(t, "diff", "compared", "east").check(t, result{})
	})
	t.Run("a cluster that does not exist", func(t *testing.T) {
		run(t, "diff", "compared", "west").check(t, result{code: 2, errOut: "error: the hub has no cluster west: see kubectl appsvc clusters\n"})
	})
	t.Run("an unknown flag, and no AppService", func(t *testing.T) {
		run(t, "diff", "compared", "--none").check(t, result{code: 2, errOut: "error: unknown flag: --none\n"})
		run(t, "diff").check(t, result{code: 2, errOut: "error: APP is missing: kubectl appsvc diff APP [CLUSTER] [-f FILE]\n"})
	})
	for name, test := range map[string]struct{ content, want string }{
		"an unknown field":       {head + "spec: {image: nginx, replica: 3}", `.spec.replica: field not declared in schema`},
		"an invalid value":       {head + "spec: {image: nginx, replicas: -1}", `spec.replicas`},
		"another AppService":     {strings.Replace(head, "compared", "other", 1), "has no AppService compared of fleetwright.dev/v1alpha1"},
		"a file that is no YAML": {"{", "read " + edited},
	} {
		t.Run(name, func(t *testing.T) {
			write(test.content)
			if got := run(t, "diff", "compared", "-f", edited); got.code != 2 || !strings.Contains(got.errOut, test.want) {
				t.Errorf("want %q in %+v", test.want, got)
			}
		})
	}
}
