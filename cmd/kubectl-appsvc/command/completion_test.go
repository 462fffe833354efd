package command_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// installPlugin returns a PATH in which kubectl finds the plugin, which is this test binary, and the
// script for its completion.
func installPlugin(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	this, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs("../kubectl_complete-appsvc")
	if err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{pluginName: this, filepath.Base(script): script} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir + string(os.PathListSeparator) + os.Getenv("PATH")
}

func TestKubectl_completes_the_arguments_of_the_plugin(t *testing.T) {
	createMembers(t)
	app := &v1alpha1.AppService{}
	create(t, app, "{metadata: {name: web, namespace: default}, spec: {image: nginx:1}}")
	storeRevision(t, app, 1)
	setStatus(t, app, func(s *v1alpha1.AppServiceStatus) {
		s.Clusters = []v1alpha1.ClusterStatus{
			{Name: "east", Phase: v1alpha1.ClusterReady, LastTransitionTime: metav1.Now()},
			{Name: "north", Phase: v1alpha1.ClusterReady, LastTransitionTime: metav1.Now()},
		}
		s.Rollout = v1alpha1.RolloutStatus{Revision: 1, Stages: []v1alpha1.RolloutStageStatus{{Name: "canary", Phase: v1alpha1.StageAwaitingApproval, Since: metav1.Now()}}}
	})
	create(t, &v1alpha1.AppService{}, "{metadata: {name: db, namespace: default}, spec: {image: postgres}}")
	// With -count=2 it exists: an API server alone does not delete a namespace.
	if err := client.IgnoreAlreadyExists(hub.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "completed"}})); err != nil {
		t.Fatal(err)
	}
	create(t, &v1alpha1.AppService{}, "{metadata: {name: api, namespace: completed}, spec: {image: nginx}}")
	t.Setenv("PATH", installPlugin(t))
	t.Setenv("KUBECONFIG", hubKubeconfig)
	t.Setenv("HOME", t.TempDir())

	const noFiles = ":4\n"
	for words, want := range map[string]string{
		"status ":                              "db\nweb\n" + noFiles,
		"status web ":                          "db\n" + noFiles,
		"status -n completed ":                 "api\n" + noFiles,
		"why web ":                             "east\nnorth\nsouth\n" + noFiles,
		"why web south ":                       noFiles,
		"clusters east ":                       "north\nsouth\n" + noFiles,
		"drain south ":                         noFiles,
		"status web --output j":                "json\njsonpath\njsonpath-as-json\njsonpath-file\n" + noFiles,
		"why web -o ":                          "json\nyaml\n" + noFiles,
		"logs web --cluster ":                  "east\nnorth\n" + noFiles,
		"logs web --cluster east,":             "east,north\n" + noFiles,
		"status web --context ":                "envtest\n" + noFiles,
		"status --namespace comp":              "completed\n" + noFiles,
		"rollout approve web --stage ":         "canary\n" + noFiles,
		"rollout undo web --to-revision ":      "1\tnginx:1\n" + noFiles,
		"rollout pa":                           "pause\tPause a rollout: no cluster gets another revision\n" + noFiles,
		"status --server https://localhost:1 ": ":1\n", // an error is no completion
	} {
		t.Run(words, func(t *testing.T) {
			args := append([]string{"__complete", "appsvc"}, strings.Split(words, " ")...)
			got, err := exec.CommandContext(t.Context(), filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl"), args...).Output()
			if err != nil {
				t.Fatal(err)
			}
			prefix, kept := args[len(args)-1], ""
			for line := range strings.Lines(string(got)) {
				if strings.HasPrefix(line, prefix) || strings.HasPrefix(line, ":") { // the shell drops the others
					kept += line
				}
			}
			if diff := cmp.Diff(want, kept); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
