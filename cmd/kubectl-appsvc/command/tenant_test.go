package command_test

import (
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// bindIn gives a user a ClusterRole in a namespace, and nothing elsewhere.
func bindIn(t *testing.T, on client.Client, namespace, user, role string) {
	t.Helper()
	createAll(t, on, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user, Namespace: namespace},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	})
}

// newTenant returns a kubeconfig with the contexts hub and east of a user who may view one namespace:
// by config/rbac/view.yaml on the hub, and by what Kubernetes puts into its role view on the member. The
// context stranger is of a user without permissions on the member.
func newTenant(t *testing.T, m *memberEnv) string {
	t.Helper()
	createRoles(t, "view.yaml")
	bindIn(t, hub, metav1.NamespaceDefault, "tenant", "fleetwright-view")
	bindIn(t, m, metav1.NamespaceDefault, "tenant", "system:aggregate-to-view")
	file := m.contexts(t, map[string][]byte{"hub": userOf(t, hubEnvironment, "tenant"), "east": userOf(t, m.environment, "tenant"), "stranger": userOf(t, m.environment, "stranger")})
	wait.Eventually(t, func() error { // the API servers take a moment to read new bindings
		return errors.Join(mayView(t, file, "hub"), mayView(t, file, "east"))
	})
	return file
}

// mayView returns an error until the user of a context may list objects of the namespace default.
func mayView(t *testing.T, kubeconfig, contextName string) error {
	t.Helper()
	var list client.ObjectList = &appsv1.DeploymentList{}
	if contextName == "hub" {
		list = &v1alpha1.AppServiceList{}
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig},
		&clientcmd.ConfigOverrides{CurrentContext: contextName}).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: hub.Scheme()})
	if err != nil {
		return err
	}
	return c.List(t.Context(), list, client.InNamespace("default"))
}

// runPod creates a Deployment on a member, and a pod of it that runs without a kubelet.
func runPod(t *testing.T, m *memberEnv, name string) {
	t.Helper()
	labels := map[string]string{"app": name}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "nginx"}}}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name + "-1", Namespace: "default", Labels: labels}, Spec: template.Spec}
	pod.Spec.AutomountServiceAccountToken, pod.Spec.NodeName = new(false), "node-1"
	createAll(t, m, pod, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template}})
	pod.Status.Phase = corev1.PodRunning
	if err := m.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
}

// TestTenant runs each command that reads as a user with a RoleBinding of fleetwright-view in one
// namespace, who may read no MemberCluster, no Lease of the operator and no event of the hub.
func TestTenant(t *testing.T) {
	m := newMember(t)
	create(t, &v1alpha1.MemberCluster{}, "{metadata: {name: east}, status: {clusterID: "+string(m.id)+"}}")
	app := createStaged(t, "rented")
	setStatus(t, app, func(s *v1alpha1.AppServiceStatus) {
		s.Placement.Excluded = []v1alpha1.ExcludedClusters{{Reason: v1alpha1.ReasonTaintNotTolerated, Count: 5, Examples: []string{"south"}, Requirements: []string{"gpu:NoSchedule"}}}
	})
	runPod(t, m, "rented")
	createEvent(t, m, "Pod", "rented-7d9f8b6c5d-bcdfg", "1", corev1.EventTypeWarning, "BackOff", "restarting failed container")
	tenant := newTenant(t, m)

	const role = "ask an administrator of the hub for a ClusterRoleBinding of the ClusterRole fleetwright-view\n"
	const east = "--member-context=east=east"
	for name, test := range map[string]struct {
		args      []string
		code      int
		out, note []string // parts of the output and of the error stream
	}{
		"status": {args: []string{"status", "rented"}, code: 3,
			out: []string{"revision 2 waits for approval of stage eu", "whether the operator runs is not known: you may not get the Lease"}},
		"status of all namespaces": {args: []string{"status", "-A"}, code: 1,
			note: []string{"cannot list resource \"appservices\"", strings.TrimSpace(role) + ", or name a namespace that you may read with --namespace\n"}},
		"history":    {args: []string{"rollout", "history", "rented"}, out: []string{"nginx:2"}},
		"a revision": {args: []string{"rollout", "history", "rented", "--revision", "2"}, out: []string{"+image: nginx:2"}},
		"why": {args: []string{"why", "rented"},
			out: []string{"rented is placed on 2 of 3 clusters", "east, north\n  chosen: the operator has placed it there\n  replicas: 3, as the operator has planned it",
				"south\n  not chosen (TaintNotTolerated): spec.placement.tolerations do not tolerate its\n  taint gpu:NoSchedule"},
			note: []string{"you may not list MemberClusters, so this is what the operator has decided", "; 4 more clusters are excluded", role}},
		"why of a cluster": {args: []string{"why", "rented", "north", "-o", "json"}, out: []string{`"chosen": true`}, note: []string{role}},
		"why of a cluster that the status does not name": {args: []string{"why", "rented", "west"}, code: 1, note: []string{"error: the status of rented does not name cluster west\n"}},
		"diff": {args: []string{"diff", "rented"}, code: 1, out: []string{"# Changed on 1 cluster: north\n", "image: nginx:1\n+      - env:"},
			note: []string{"you may not list MemberClusters, so this compares the clusters that have rented", role}},
		"diff of a cluster without a change":  {args: []string{"diff", "rented", "east"}, note: []string{role}},
		"diff of a cluster that has no entry": {args: []string{"diff", "rented", "west"}, code: 2, note: []string{"error: the status of rented does not name cluster west\n"}},
		"logs by a context":                   {args: []string{"logs", "rented", "--cluster", "east", east}, code: 1, note: []string{"[east/rented-1] "}},
		"logs without a role on the member": {args: []string{"logs", "rented", "--cluster", "north", "--member-context=north=stranger"}, code: 1,
			note: []string{`north: the cluster of context stranger: deployments.apps "rented" is forbidden`, "ask an administrator of this cluster for the ClusterRole view in this namespace\n"}},
		"logs without a context": {args: []string{"logs", "rented"}, code: 1,
			note: []string{"the identities of clusters are in the MemberClusters, which you may not list, so no context is searched for: east, north\n",
				"  name the contexts, as in --member-context east=CONTEXT, or " + role, "error: no cluster can be read"}},
		"events by a context": {args: []string{"events", "rented", east}, code: 1, out: []string{"Pod/rented-7d9f8b6c5d-bcdfg"},
			note: []string{"so no context is searched for: north\n", `(hub): list the events of AppService rented: events is forbidden: User "tenant"`, "ask an administrator of the hub for the ClusterRole view in this namespace"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := runAs(t, tenant, test.args...)
			t.Logf("$ kubectl appsvc %s\n%s%s", strings.Join(test.args, " "), got.errOut, got.out)
			if got.code != test.code {
				t.Errorf("exit code %d, want %d", got.code, test.code)
			}
			checkParts(t, got.out, test.out)
			checkParts(t, got.errOut, test.note)
			if test.note == nil && got.errOut != "" {
				t.Errorf("error stream: %s", got.errOut)
			}
		})
	}
	t.Run("events that cannot be read are not called missing", func(t *testing.T) {
		got := runAs(t, tenant, "events", "rented", "--cluster", "north", "--member-context=north=stranger")
		if got.code != 1 || got.out != "" || strings.Contains(got.errOut, "No events found") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("a context for each cluster needs no MemberCluster", func(t *testing.T) {
		got := runAs(t, tenant, "events", "rented", "--member-context", "east=east,north=east")
		if strings.Contains(got.errOut, "MemberCluster") || strings.Count(got.out, "Pod/rented-7d9f8b6c5d-bcdfg") != 2 {
			t.Errorf("%+v", got)
		}
	})
}

// checkParts fails the test for each part that a text does not have.
func checkParts(t *testing.T, text string, parts []string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("want %q in:\n%s", part, text)
		}
	}
}
