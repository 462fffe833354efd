package command_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// createEvent creates an event of an object.
func createEvent(t *testing.T, on client.Client, kind, name string, uid types.UID, eventType, reason, message string) {
	t.Helper()
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{GenerateName: "event-", Namespace: "default"},
		InvolvedObject: corev1.ObjectReference{Kind: kind, Name: name, Namespace: "default", UID: uid},
		Type:           eventType, Reason: reason, Message: message, LastTimestamp: metav1.Now(), Count: 1,
	}
	createAll(t, on, event)
}

// placeOnEast creates an AppService with entries on east and on north. A context leads to east only.
func placeOnEast(t *testing.T, member *memberEnv, name string) *v1alpha1.AppService {
	t.Helper()
	createLease(t, metav1.Now().Time)
	create(t, &v1alpha1.MemberCluster{}, "{metadata: {name: east}, status: {clusterID: "+string(member.id)+"}}")
	create(t, &v1alpha1.MemberCluster{}, "{metadata: {name: north}, status: {clusterID: another}}")
	app := &v1alpha1.AppService{}
	create(t, app, "{metadata: {name: "+name+", namespace: default}, spec: {image: nginx}}")
	setStatus(t, app, func(s *v1alpha1.AppServiceStatus) {
		for _, cluster := range []string{"east", "north"} {
			s.Clusters = append(s.Clusters, v1alpha1.ClusterStatus{Name: cluster, Phase: v1alpha1.ClusterReady, LastTransitionTime: metav1.Now()})
		}
	})
	return app
}

var anyAge = regexp.MustCompile(`(?m)^\d+s `)

func TestEvents(t *testing.T) {
	member := newMember(t)
	app := placeOnEast(t, member, "eventful")
	createEvent(t, hub, "AppService", "eventful", app.UID, corev1.EventTypeNormal, "RolloutStarted", "revision 2 goes through the stages")
	createEvent(t, hub, "AppService", "eventful", "another-uid", corev1.EventTypeNormal, "RolloutStarted", "of an earlier AppService")
	createEvent(t, member, "Pod", "eventful-7d9f8b6c5d-bcdfg", "1", corev1.EventTypeWarning, "BackOff", "restarting failed container")
	createEvent(t, member, "Pod", "eventful-api-7d9f8b6c5d-bcdfg", "1", corev1.EventTypeWarning, "BackOff", "of another Deployment")
	createEvent(t, member, "Pod", "eventful-migrate-x7k2p", "1", corev1.EventTypeWarning, "BackOff", "of a Job")
	createEvent(t, member, "Deployment", "eventful", "1", corev1.EventTypeNormal, "ScalingReplicaSet", "scaled up")
	const left = "no context of your kubeconfig is known to lead to: north\n"
	all := member.run(t, "events", "eventful")
	for _, want := range []string{"revision 2 goes through the stages", "restarting failed container", "scaled up"} {
		if !strings.Contains(all.out, want) {
			t.Errorf("want %q in:\n%s", want, all.out)
		}
	}
	if lines := strings.Count(all.out, "\n"); lines != 4 || all.code != 1 || all.errOut != left+"error: the output is not complete, as the lines above say\n" {
		t.Errorf("%+v", all)
	}
	warnings := member.run(t, "events", "eventful", "--warnings", "--cluster", "east")
	if want := "LAST SEEN   CLUSTER   TYPE      REASON    OBJECT                          MESSAGE\n" +
		"AGE          east      Warning   BackOff   Pod/eventful-7d9f8b6c5d-bcdfg   restarting failed container\n"; anyAge.ReplaceAllString(warnings.out, "AGE ") != want {
		t.Errorf("%s", warnings.out)
	}
	if got := member.run(t, "events", "eventful", "--cluster", "west"); got.code != 1 || got.errOut != "error: eventful does not run on west: see kubectl appsvc why eventful west\n" {
		t.Errorf("%+v", got)
	}
}

func TestLogs_say_what_could_not_be_read(t *testing.T) {
	member := newMember(t)
	placeOnEast(t, member, "logged")
	const left = "no context of your kubeconfig is known to lead to: north\n"
	t.Run("no Deployment", func(t *testing.T) {
		got := member.run(t, "logs", "logged")
		if got.code != 1 || !strings.Contains(got.errOut, `east: the cluster of context east: deployments.apps "logged" not found`) {
			t.Errorf("%+v", got)
		}
	})
	pods := map[string]string{"app": "logged"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: pods}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "nginx"}}}}
	createAll(t, member, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "logged", Namespace: "default"},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: pods}, Template: template}})
	t.Run("no pods", func(t *testing.T) {
		member.run(t, "logs", "logged", "--cluster", "east").check(t, result{errOut: "logged has no running pods on these clusters: see kubectl appsvc status logged\n"})
	})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "logged-1", Namespace: "default", Labels: pods}, Spec: template.Spec}
	pod.Spec.AutomountServiceAccountToken, pod.Spec.NodeName = new(false), "node-1"
	createAll(t, member, pod)
	t.Run("a pod without a kubelet", func(t *testing.T) {
		pod.Status.Phase = corev1.PodRunning
		if err := member.Status().Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
		got := member.run(t, "logs", "logged")
		if got.code != 1 || !strings.Contains(got.errOut, "[east/logged-1] ") || !strings.HasPrefix(got.errOut, left) {
			t.Errorf("%+v", got)
		}
	})
	t.Run("no cluster that a context leads to", func(t *testing.T) {
		member.run(t, "logs", "logged", "--cluster", "north").check(t, result{code: 1, errOut: left +
			"error: no cluster can be read: add a context to your kubeconfig, or use --member-context CLUSTER=CONTEXT or --member-kubeconfig\n"})
	})
	t.Run("a context that is given", func(t *testing.T) {
		got := member.run(t, "logs", "logged", "--cluster", "north", "--member-context", "north=east")
		if got.code != 1 || !strings.Contains(got.errOut, "[north/logged-1] ") {
			t.Errorf("%+v", got)
		}
	})
}

// TestEvents_of_long_names tests that pods are found whose generated names the API server cuts.
func TestEvents_of_long_names(t *testing.T) {
	member := newMember(t)
	for _, length := range []int{45, 46, 47, 48, 52, 56, 57, 58, 63} {
		t.Run(strconv.Itoa(length), func(t *testing.T) {
			name := strings.Repeat("n", length-1) + "x"
			placeOnEast(t, member, name)
			for _, owner := range []string{name + "-6b5cfddc8", name + "-85c47bb45f"} { // hashes of nine and of ten letters
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: owner + "-", Namespace: "default"}}
				pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "nginx"}}
				pod.Spec.AutomountServiceAccountToken = new(false)
				createAll(t, member, pod)
				createEvent(t, member, "Pod", pod.Name, pod.UID, corev1.EventTypeNormal, "Scheduled", "of "+owner)
				if got := member.run(t, "events", name, "--cluster", "east"); !strings.Contains(got.out, "Pod/"+pod.Name) {
					t.Errorf("no event of %s (%d letters):\n%s%s", pod.Name, len(pod.Name), got.out, got.errOut)
				}
			}
			for _, other := range []string{name[:length-1] + "-85c47bb45f-bcdfg", name[:length-1] + "-migrate-bcdfg", strings.Repeat("o", 58) + "bcdfg"} {
				createEvent(t, member, "Pod", other, "1", corev1.EventTypeNormal, "Scheduled", "of another Deployment")
			}
			if got := member.run(t, "events", name, "--cluster", "east"); strings.Contains(got.out, "of another Deployment") {
				t.Errorf("%s", got.out)
			}
		})
	}
}
