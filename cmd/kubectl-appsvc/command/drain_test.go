package command_test

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/command"
	"github.com/fleetwright/fleetwright/controllers/entries/appslice"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// createOn creates an AppService with an entry for a cluster that waits for a cluster.
func createOn(t *testing.T, name, cluster, waitsFor string) *v1alpha1.AppService {
	t.Helper()
	app := &v1alpha1.AppService{}
	create(t, app, "{metadata: {name: "+name+", namespace: default}, spec: {image: nginx}}")
	placeOn(t, app, cluster, waitsFor)
	return app
}

// placeOn replaces the entries of an AppService with one for a cluster, or with none.
func placeOn(t *testing.T, app *v1alpha1.AppService, cluster, waitsFor string) {
	t.Helper()
	setStatus(t, read(t, app), func(s *v1alpha1.AppServiceStatus) {
		s.Clusters = nil
		if cluster != "" {
			s.Clusters = []v1alpha1.ClusterStatus{removalPending(cluster, waitsFor)}
		}
	})
}

func removalPending(cluster, waitsFor string) v1alpha1.ClusterStatus {
	return v1alpha1.ClusterStatus{Name: cluster, Phase: v1alpha1.ClusterProgressing, Reason: v1alpha1.ReasonRemovalPending, LastTransitionTime: metav1.Now(),
		Message: "the removal waits for " + waitsFor, Transition: v1alpha1.ClusterTransition{Type: v1alpha1.TransitionRemovalPending, Cause: v1alpha1.CauseClustersChanged}}
}

// awaitText waits until a command has printed a text.
func awaitText(t *testing.T, out *notifier, text string) {
	t.Helper()
	eventually(t, func() bool {
		out.lock.Lock()
		defer out.lock.Unlock()
		return strings.Contains(out.text.String(), text)
	})
}

// holdListings returns a kubeconfig of the hub with which each listing of AppServices waits until the
// test has received it, and closed it.
func holdListings(t *testing.T) (kubeconfig string, listings <-chan chan struct{}) {
	t.Helper()
	held := make(chan chan struct{})
	server := startProxy(t, hubEnvironment, func(_ http.ResponseWriter, request *http.Request) bool {
		if strings.HasSuffix(request.URL.Path, "/appservices") {
			listing := make(chan struct{})
			select {
			case held <- listing:
				select {
				case <-listing:
				case <-request.Context().Done():
				}
			case <-request.Context().Done():
			}
		}
		return false
	})
	return editFile(t, hubKubeconfig, leadTo("envtest", server)), held
}

func TestDrain_follows_what_is_on_the_cluster(t *testing.T) {
	t.Parallel()
	create(t, &v1alpha1.MemberCluster{}, "metadata: {name: followed}")
	first := createOn(t, "first", "followed", "north")
	kubeconfig, listings := holdListings(t)
	_, out := newNotifier()
	_, errOut := newNotifier()
	ended := make(chan int, 1)
	go func() {
		ended <- command.Run(t.Context(), "test", []string{"drain", "followed", "--kubeconfig", kubeconfig},
			genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: out, ErrOut: errOut})
	}()
	close(wait.Receive(t, listings, "the listing before the taint"))
	close(wait.Receive(t, listings, "the first listing after it"))
	next := wait.Receive(t, listings, "the second one")
	// As if the operator placed it by what it read before the taint was set.
	second := createOn(t, "second", "followed", "north")
	placeOn(t, first, "", "")
	close(next)
	go func() {
		for listing := range listings {
			close(listing)
		}
	}()
	awaitText(t, out, "appservice/default/first is no longer on followed\n")
	awaitText(t, errOut, "appservice/default/second: RemovalPending: the removal waits for north\n")
	placeOn(t, second, "followed", "south")
	awaitText(t, errOut, "appservice/default/second: RemovalPending: the removal waits for south\n")
	placeOn(t, second, "", "")
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
	result{out: out.text.String(), errOut: errOut.text.String()}.check(t, result{
		out: "membercluster/followed is being drained\n" +
			"appservice/default/first is no longer on followed\n" +
			"appservice/default/second is no longer on followed\n" +
			"membercluster/followed drained\n",
		errOut: "appservice/default/second: RemovalPending: the removal waits for north\n" +
			"appservice/default/second: RemovalPending: the removal waits for south\n",
	})
}

func TestDrain_lists_again_before_it_is_drained(t *testing.T) {
	t.Parallel()
	create(t, &v1alpha1.MemberCluster{}, "metadata: {name: empty}")
	kubeconfig, listings := holdListings(t)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	ended := make(chan int, 1)
	go func() {
		ended <- command.Run(ctx, "test", []string{"drain", "empty", "--kubeconfig", kubeconfig}, streams)
	}()
	close(wait.Receive(t, listings, "the listing before the taint"))
	close(wait.Receive(t, listings, "the first listing after it"))
	second := wait.Receive(t, listings, "the second one")
	createOn(t, "late", "empty", "north")
	close(second)
	close(wait.Receive(t, listings, "the third one"))
	interrupt()
	code := <-ended
	// On a slow machine, the reason was printed before.
	printed := strings.TrimPrefix(errOut.String(), "appservice/default/late: RemovalPending: the removal waits for north\n")
	result{code, out.String(), printed}.check(t, result{code: 1, out: "membercluster/empty is being drained\n",
		errOut: "error: interrupted: 1 AppServices still run on empty; continue with the same command, or end the drain with kubectl appsvc uncordon empty\n" +
			"  default/late: RemovalPending: the removal waits for north\n"})
	t.Run("the timeout is shorter than that", func(t *testing.T) {
		create(t, &v1alpha1.MemberCluster{}, "metadata: {name: short}")
		run(t, "drain", "short", "--timeout", "1s").check(t, result{code: 3, out: "membercluster/short is being drained\n",
			errOut: "error: after 1s, no AppService is on short, but this was not checked a second time; run the same command again\n"})
	})
}

// TestDrain_reads_slices drains as a user who may list AppServices and AppServiceSlices, but not get
// them.
func TestDrain_reads_slices(t *testing.T) {
	create(t, &v1alpha1.MemberCluster{}, "metadata: {name: sliced}")
	for _, name := range []string{"slices-on", "slices-off", "slices-missing", "slices-misnamed"} {
		app := &v1alpha1.AppService{}
		create(t, app, "{metadata: {name: "+name+", namespace: default}, spec: {image: nginx}}")
		setStatus(t, app, func(s *v1alpha1.AppServiceStatus) { s.ClustersIn, s.Summary.Clusters = v1alpha1.ClustersInSlices, 1 })
		var all []v1alpha1.ClusterStatus
		if name == "slices-on" {
			all = append(all, removalPending("sliced", "north"))
		}
		slice := appslice.Split(app, all)[v1alpha1.SlotOf("sliced")]
		switch name {
		case "slices-missing":
			continue
		case "slices-misnamed":
			slice.Name += "-copy"
		}
		createAll(t, hub, slice)
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "lister"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"fleetwright.dev"}, Resources: []string{"memberclusters"}, Verbs: []string{"get", "patch"}},
		{APIGroups: []string{"fleetwright.dev"}, Resources: []string{"appservices", "appserviceslices"}, Verbs: []string{"list"}},
	}}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "lister"}}}
	createAll(t, hub, role, binding)
	runAs(t, kubeconfigOf(t, "lister"), "drain", "sliced", "--timeout", "3s").check(t, result{code: 3, out: "membercluster/sliced is being drained\n",
		errOut: "error: after 3s, 3 AppServices still run on sliced; continue with the same command, or end the drain with kubectl appsvc uncordon sliced\n" +
			"  default/slices-misnamed: its AppServiceSlice is missing; the operator writes it again\n" +
			"  default/slices-missing: its AppServiceSlice is missing; the operator writes it again\n" +
			"  default/slices-on: RemovalPending: the removal waits for north\n"})
}

func TestClusterCommands_check_their_arguments(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"cordon", "CLUSTER is missing: kubectl appsvc cordon CLUSTER..."},
		{"uncordon", "CLUSTER is missing: kubectl appsvc uncordon CLUSTER..."},
		{"drain", "CLUSTER is missing: kubectl appsvc drain CLUSTER"},
		{"drain east north", `"north" is one argument too many: kubectl appsvc drain CLUSTER`},
		{"drain east --timeout=-1s", "--timeout is -1s, and must not be negative; 0 is no limit"},
		{"unjoin east --delete --timeout=-1m", "--timeout is -1m0s, and must not be negative; 0 is no limit"},
	} {
		run(t, strings.Fields(test.args)...).check(t, result{code: 1, errOut: "error: " + test.want + "\n"})
	}
}
