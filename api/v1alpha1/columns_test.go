package v1alpha1_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// maxLine is the width of a terminal in which a line of `kubectl get` must fit.
const maxLine = 105

func TestColumns_of_AppServices_fit_into_a_line(t *testing.T) {
	namespace := "payments-production"
	create(t, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": namespace},
	}})
	for name, status := range map[string]v1alpha1.AppServiceStatus{
		"checkout-frontend": {
			Summary:           v1alpha1.ClusterSummary{Display: "1000/1000", UpToDate: "1000/1000", ReadyReplicas: 12000},
			AvailableReplicas: new(int32(11999)),
			Conditions:        []metav1.Condition{condition(v1alpha1.ConditionReady, v1alpha1.ReasonReady, "running on 1000 clusters")},
		},
		"recommendations": {
			Summary:    v1alpha1.ClusterSummary{Display: "997/1000", UpToDate: "1000/1000", ReadyReplicas: 11940},
			Conditions: []metav1.Condition{condition(v1alpha1.ConditionReady, v1alpha1.ReasonReplicasOutOfBounds, strings.Repeat("a long message ", 20))},
		},
	} {
		app := &v1alpha1.AppService{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec:       v1alpha1.AppServiceSpec{Image: "registry.example/payments/" + name + ":1.27.3"},
		}
		create(t, app)
		updateStatus(t, app, func() { app.Status = status })
	}
	for _, args := range [][]string{
		{"get", "appsvc", "-n", namespace},
		{"get", "appsvc", "-A"},
	} {
		lines := runKubectl(t, args...)
		header := strings.Fields(lines[0])
		if args[2] == "-A" {
			header = header[1:]
		}
		if diff := cmp.Diff([]string{"NAME", "CLUSTERS", "UP-TO-DATE", "PODS", "STATUS", "AGE"}, header); diff != "" {
			t.Errorf("columns (-want +got):\n%s", diff)
		}
		checkWidth(t, lines)
	}
	wide := runKubectl(t, "get", "appsvc", "-n", namespace, "-o", "wide")
	if diff := cmp.Diff([]string{"AVAILABLE", "IMAGE", "MESSAGE"}, strings.Fields(wide[0])[6:]); diff != "" {
		t.Errorf("columns of -o wide (-want +got):\n%s", diff)
	}
	if !strings.Contains(wide[1], " 11999 ") {
		t.Errorf("there is no number of available pods in\n%s", wide[1])
	}
}

func TestColumns_of_MemberClusters_fit_into_a_line(t *testing.T) {
	for name, reasons := range map[string][2]string{
		"prod-eu-west-1": {v1alpha1.ReasonConnected, v1alpha1.ReasonAccepted},
		"prod-us-east-1": {v1alpha1.ReasonUnreachable, v1alpha1.ReasonExpiringSoon},
		"test-eu-west-1": {v1alpha1.ReasonIdentityChanged, v1alpha1.ReasonAccepted},
	} {
		member := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"topology.kubernetes.io/region": "europe-west1"},
		}}
		create(t, member)
		updateStatus(t, member, func() {
			member.Status.Version = "v1.36.1-gke.1234567"
			member.Status.AppServices = 1200
			member.Status.Conditions = []metav1.Condition{
				condition(v1alpha1.ConditionReady, reasons[0], strings.Repeat("a long message ", 20)),
				condition(v1alpha1.ConditionCredentialsValid, reasons[1], strings.Repeat("a long message ", 20)),
			}
		})
	}
	lines := runKubectl(t, "get", "mc", "-l", "topology.kubernetes.io/region")
	if diff := cmp.Diff([]string{"NAME", "STATUS", "CREDENTIALS", "REGION", "APPS", "VERSION", "AGE"}, strings.Fields(lines[0])); diff != "" {
		t.Errorf("columns (-want +got):\n%s", diff)
	}
	checkWidth(t, lines)
}

func condition(kind, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionUnknown, Reason: reason, Message: message, LastTransitionTime: metav1.Now()}
}

// create creates an object until the end of the test.
func create(t *testing.T, object client.Object) {
	t.Helper()
	if err := hub.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hub.Delete(context.Background(), object) })
}

func updateStatus(t *testing.T, object client.Object, change func()) {
	t.Helper()
	change()
	if err := hub.Status().Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// runKubectl returns the lines that kubectl prints.
func runKubectl(t *testing.T, args ...string) []string {
	t.Helper()
	kubectl, err := admin.Kubectl()
	if err != nil {
		t.Fatal(err)
	}
	stdout, stderr, err := kubectl.Run(args...)
	if err != nil {
		text, _ := io.ReadAll(stderr)
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, text)
	}
	text, err := io.ReadAll(stdout)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("kubectl %s\n%s", strings.Join(args, " "), text)
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// checkWidth checks that the lines fit even with the widest age. AGE is the last column, and the
// objects of a test are only seconds old.
func checkWidth(t *testing.T, lines []string) {
	t.Helper()
	for _, line := range lines {
		line = line[:strings.LastIndex(line, " ")+1] + "3y120d"
		if len(line) > maxLine {
			t.Errorf("%d characters:\n%s", len(line), line)
		}
	}
}
