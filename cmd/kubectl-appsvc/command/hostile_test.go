package command_test

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/command"
)

// hostile has escape sequences of ECMA-48 and of C1, and a character that turns the direction of a text.
const hostile = "bad\x1b[2J\x1b]0;title\x07\u009b2J\x1b[31m\u202ebad"

// createHostile creates an AppService that has the hostile text where the hub accepts any text: in an
// annotation, the environment, conditions, entries, revisions, and an event.
func createHostile(t *testing.T, member *memberEnv) *v1alpha1.AppService {
	t.Helper()
	app := placeOnEast(t, member, "hostile")
	spec := app.Spec
	app.Spec.Image, app.Spec.Env = "nginx:"+hostile, []corev1.EnvVar{{Name: "A", Value: hostile}}
	storeRevision(t, app, 1)
	app.Spec.Image = "nginx:2" + hostile
	app.Spec.Command = []string{hostile}
	storeRevision(t, app, 2)
	app.Spec = spec
	app.Annotations = map[string]string{"example.com/note": hostile}
	app.Spec.Env = []corev1.EnvVar{{Name: "A", Value: hostile}}
	app.Spec.PodAnnotations = map[string]string{"example.com/note": hostile}
	app.Spec.Rollout = &v1alpha1.Rollout{Stages: []v1alpha1.RolloutStage{{Name: "canary"}}}
	if err := hub.Update(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	setStatus(t, app, func(s *v1alpha1.AppServiceStatus) {
		s.Conditions = []metav1.Condition{
			{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "Bad", Message: hostile, LastTransitionTime: metav1.Now()},
			{Type: v1alpha1.ConditionPlaced, Status: metav1.ConditionFalse, Reason: "Bad", Message: "placed " + hostile, LastTransitionTime: metav1.Now()},
		}
		s.Rollout = v1alpha1.RolloutStatus{Revision: 2, StableRevision: 1, Phase: v1alpha1.RolloutProgressing,
			Stages: []v1alpha1.RolloutStageStatus{{Name: "(rest)", Phase: v1alpha1.StageProgressing, Since: metav1.Now()}}}
		for i := range s.Clusters {
			s.Clusters[i].Phase, s.Clusters[i].Reason, s.Clusters[i].Message = v1alpha1.ClusterFailed, "Bad", hostile
			s.Clusters[i].Revision = 1 // diff compares with it
		}
	})
	createEvent(t, hub, "AppService", "hostile", app.UID, corev1.EventTypeWarning, "Bad", hostile)
	createEvent(t, member, "Deployment", "hostile", "1", corev1.EventTypeWarning, "Bad", hostile)
	return app
}

func TestCommands_print_no_escape_sequence_of_an_object(t *testing.T) {
	member := newMember(t)
	t.Setenv("KUBECONFIG", member.kubeconfig)
	createHostile(t, member)
	setMemberStatus(t, "east", v1alpha1.MemberClusterStatus{ClusterID: member.id, Version: "v1.36.0", Conditions: []metav1.Condition{
		{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "Bad", Message: hostile, LastTransitionTime: metav1.Now()},
		{Type: v1alpha1.ConditionCredentialsValid, Status: metav1.ConditionFalse, Reason: "Bad", Message: hostile, LastTransitionTime: metav1.Now()}}})
	deployment := `{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {template: {spec: {containers: [
		{name: web, image: "` + escaped + `", env: [{name: A, value: "` + escaped + `"}]}]}}}}`
	for _, test := range []struct{ args, want string }{
		{"status hostile", "bad[2J"},
		{"rollout status hostile --watch=false", "bad[2J"},
		{"why hostile", "bad[2J"},
		{"why hostile east", "bad[2J"},
		{"rollout history hostile", "nginx:bad[2J"},
		{"rollout history hostile --revision=1", "# revision 1"},
		{"rollout history hostile --revision=2", "nginx:2bad"},
		{"diff hostile", "nginx:bad"},
		{"events hostile", "bad[2J"},
		{"clusters -o wide", "bad[2J"},
		{"clusters -o custom-columns=M:.status.conditions[*].message", "bad[2J"},
		{"clusters none" + hostile, "bad[2J"},
		{"status none" + hostile, "bad[2J"},
		{"doctor east", "bad[2J"},
		{"convert -f -", `\u202e`},
		{"__complete rollout undo hostile --to-revision ", "nginx:bad"},
		{"rollout promote hostile --revision=2", "promoted"},
		{"rollout undo hostile --to-revision=1", `bad\x1b[2J`}, // the API server quotes the image that it refuses
	} {
		t.Run(strings.ReplaceAll(test.args, hostile, "…"), func(t *testing.T) {
			out, errOut := &bytes.Buffer{}, &bytes.Buffer{}
			command.Run(t.Context(), "test", strings.Split(test.args, " "), genericiooptions.IOStreams{In: strings.NewReader(deployment), Out: out, ErrOut: errOut})
			text := out.String() + errOut.String()
			for _, c := range text {
				if c != '\n' && c != '\t' && !unicode.IsPrint(c) {
					t.Fatalf("%U is printed: %q", c, text)
				}
			}
			if !strings.Contains(text, test.want) {
				t.Errorf("the text lacks %q:\n%s", test.want, text)
			}
		})
	}
}

// escaped is the hostile text in JSON.
const escaped = `bad\u001b[2J\u001b]0;title\u0007\u009b2J\u001b[31m\u202ebad`

func TestFull_output(t *testing.T) {
	member := newMember(t)
	placeOnEast(t, member, "full")
	file := t.TempDir() + "/full.yaml"
	if err := os.WriteFile(file, []byte("{apiVersion: fleetwright.dev/v1alpha1, kind: AppService, metadata: {name: full}, spec: {image: other}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	app := read(t, &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "full"}})
	storeRevision(t, app, 1)
	createEvent(t, hub, "AppService", "full", app.UID, corev1.EventTypeNormal, "Any", "any")
	for args, code := range map[string]int{
		"clusters": 1, "clusters -o wide": 1, "clusters -o json": 1, "clusters -o custom-columns=NAME:.metadata.name": 1, "clusters --watch": 1,
		"status full": 1, "status full -o yaml": 1, "status full --watch": 1, "rollout status full --watch=false": 1,
		"why full": 1, "why full -o json": 1, "diff full -f " + file: 2, "diff full -o json -f " + file: 2,
		"rollout history full": 1, "rollout history full --revision 1": 1, "events full --cluster east": 1, "doctor east": 1,
		"cordon east": 1, "uncordon east": 1, "restart full": 1, "version": 1, "join east --dry-run --allow-loopback": 1, "join east --print-only member": 1, "unjoin north --retain -y": 1,
		"ui": 1,
	} {
		t.Run(strings.ReplaceAll(args, file, "FILE"), func(t *testing.T) {
			full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
			if err != nil {
				t.Skip(err)
			}
			defer full.Close()
			errOut := &bytes.Buffer{}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			got := command.Run(ctx, "test", append(strings.Fields(args), "--kubeconfig", member.kubeconfig), genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: full, ErrOut: errOut})
			if got != code || !strings.Contains(errOut.String(), "error: ") || !strings.Contains(errOut.String(), "no space left on device") {
				t.Errorf("exit code %d, %s", got, errOut)
			}
			if ctx.Err() != nil {
				t.Error("the command did not end by itself")
			}
		})
	}
}
