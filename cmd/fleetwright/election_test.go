package main

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// recorder is a server that records the write requests that it receives.
type recorder struct {
	*httptest.Server
	mu  sync.Mutex
	all []string
}

func newRecorder(t *testing.T, next http.Handler) *recorder {
	t.Helper()
	r := &recorder{}
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if reads := []string{http.MethodGet, http.MethodHead, http.MethodOptions}; !slices.Contains(reads, request.Method) {
			r.mu.Lock()
			r.all = append(r.all, request.Method+" "+request.URL.Path)
			r.mu.Unlock()
		}
		next.ServeHTTP(w, request)
	}))
	r.EnableHTTP2 = true
	r.StartTLS()
	t.Cleanup(func() {
		r.CloseClientConnections() // ends the watches
		r.Close()
	})
	return r
}

// newRecordingProxy returns a recorder that forwards requests to an API server with the credentials
// of a configuration.
func newRecordingProxy(t *testing.T, of *rest.Config) *recorder {
	t.Helper()
	to, err := url.Parse(of.Host)
	if err != nil {
		t.Fatal(err)
	}
	as, err := rest.TransportFor(of)
	if err != nil {
		t.Fatal(err)
	}
	return newRecorder(t, &httputil.ReverseProxy{
		Rewrite: func(request *httputil.ProxyRequest) {
			request.SetURL(to)
			request.Out.Header.Del("Authorization")
		},
		Transport: as,
		ErrorLog:  log.New(io.Discard, "", 0), // clients disconnect during watches
	})
}

// writes returns the writes so far, except those of the leader election.
func (r *recorder) writes() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.all), func(write string) bool { return strings.Contains(write, "/leases") })
}

// kubeconfig returns the kubeconfig of a member that is reached through the recorder.
func (r *recorder) kubeconfig() []byte {
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw})
	return fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Config", "current-context": "it", "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
		"clusters": [{"name": "it", "cluster": {"server": %q, "certificate-authority-data": %q}}], "users": [{"name": "it", "user": {"token": "x"}}]}`,
		r.URL, base64.StdEncoding.EncodeToString(authority))
}

// TestLeader_that_wakes_after_its_Lease_expired_writes_nothing stops a leader until another replica
// leads, and resumes it while an edit and drift wait for it. The resumed leader exits as soon as its
// timer fires, and on a busy machine that can be before it has tried to write. Only a leader that
// tried shows that the fence holds, so the test goes on until one did.
func TestLeader_that_wakes_after_its_Lease_expired_writes_nothing(t *testing.T) {
	h := sharedHub(t)
	h.installCRDs(t)
	operator, err := clientcmd.BuildConfigFromFlags("", h.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.delete(&coordinationv1.Lease{ObjectMeta: theLease}) }) // otherwise the next test waits until it expires
	w := &wakingLeader{hub: h, proxy: newRecordingProxy(t, operator), standbyProxy: newRecordingProxy(t, operator), member: newRecordingProxy(t, h.environment.Config)}
	w.edited, w.drifted = h.createAppService(t, "edited"), h.createAppService(t, "drifted")

	const rounds = 5
	for round := 1; !w.run(t, round); round++ {
		if t.Failed() || round == rounds {
			t.Fatalf("after %d rounds, no resumed leader has tried to write on the hub and on the member", round)
		}
	}

	third := h.replica(t)
	h.waitForLeader(t, w.last)
	h.waitForImage(t, w.edited, w.edited.Spec.Image)
	h.waitForImage(t, w.drifted, w.drifted.Spec.Image)
	h.waitForAppServiceCount(t, "alpha", 2) // the status writes of the new leader keep it
	third.signal(t, syscall.SIGTERM)
	if code := third.waitForExit(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// wakingLeader is what the rounds of a test share: an edited and a drifted AppService, and the
// identity of the last leader.
type wakingLeader struct {
	*hub
	proxy, standbyProxy, member *recorder
	edited, drifted             *v1alpha1.AppService
	last                        string
}

// run stops and resumes a leader, and reports whether that leader has tried to write the edited
// AppService's revision on the hub and the drifted Deployment on the member.
func (w *wakingLeader) run(t *testing.T, round int) bool {
	t.Helper()
	leader := replicaOn(t, hubAt(t, w.proxy.URL))
	leader.waitUntilReady(t)
	w.waitForLeader(t, w.last)
	if round == 1 {
		w.addMember(t, "alpha", w.member.kubeconfig())
	}
	known := len(w.standbyProxy.writes())
	standby := replicaOn(t, hubAt(t, w.standbyProxy.URL))
	standby.waitUntilReady(t)
	w.waitForImage(t, w.edited, w.edited.Spec.Image)
	w.waitForImage(t, w.drifted, w.drifted.Spec.Image)
	w.waitForAppServiceCount(t, "alpha", 2)

	first := w.freeze(t, leader)
	if sent := w.standbyProxy.writes()[known:]; len(sent) > 0 || strings.Contains(standby.output.String(), "fenced") {
		t.Errorf("the standby wrote %v, and logged\n%s", sent, standby.output.String())
	}
	w.last = w.waitForLeader(t, first)
	// The new leader dies, so that the old one still finds work to do when it wakes.
	standby.signal(t, syscall.SIGKILL)
	w.update(t, w.edited, func() { w.edited.Spec.Image = fmt.Sprintf("registry.example/app:%d", round+1) })
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.drifted.Namespace, Name: w.drifted.Name}}
	w.update(t, deployment, func() { deployment.Spec.Template.Spec.Containers[0].Image = "registry.example/drift" })
	onHub, onMember := len(w.proxy.writes()), len(w.member.writes())

	leader.signal(t, syscall.SIGCONT)
	if code := leader.waitForExit(t); code != 1 {
		t.Errorf("exit code %d", code)
	}
	output := leader.output.String()
	if late := slices.Concat(w.proxy.writes()[onHub:], w.member.writes()[onMember:]); len(late) > 0 {
		t.Errorf("the leader sent %v after it woke", late)
	}
	for _, want := range []string{"Successfully acquired lease", "Failed to renew lease"} {
		if !strings.Contains(output, want) {
			t.Errorf("the leader did not log %q:\n%s", want, output)
		}
	}
	if !strings.HasSuffix(output, "\nfleetwright: leader election lost\n") {
		t.Errorf("the last log lines are\n%s", output)
	}
	for _, attempt := range []string{"fenced: this replica ", `/controllerrevisions`, `/deployments/drifted`} {
		if !strings.Contains(output, attempt) {
			t.Logf("round %d: the leader exited before it logged %q", round, attempt)
			return false
		}
	}
	return true
}

// theLease is the metadata of the Lease of the leader election.
var theLease = metav1.ObjectMeta{Namespace: "fleetwright-system", Name: "fleetwright"}

// waitForLeader waits until a replica with another identity leads, and returns its identity.
func (h *hub) waitForLeader(t *testing.T, not string) string {
	t.Helper()
	var leader string
	wait.Eventually(t, func() error {
		lease := &coordinationv1.Lease{ObjectMeta: theLease}
		if err := h.admin.Get(context.Background(), client.ObjectKeyFromObject(lease), lease); err != nil {
			return err
		}
		if lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity == "" || *lease.Spec.HolderIdentity == not {
			return fmt.Errorf("no replica leads, or still %q", not)
		}
		leader = *lease.Spec.HolderIdentity
		return nil
	})
	return leader
}

// TestLease_has_the_version_of_the_leader tests that kubectl appsvc finds the version of the operator,
// and that a version that is no value of a label does not keep a replica from leading.
func TestLease_has_the_version_of_the_leader(t *testing.T) {
	for version, want := range map[string]string{"v0.1.0": "v0.1.0", "v0.1.0-3-g1234567-dirty": "v0.1.0-3-g1234567-dirty", "a version": "unknown"} {
		if got := leaseLabels(version)[v1alpha1.LabelVersion]; got != want {
			t.Errorf("%s: the Lease says %q, want %q", version, got, want)
		}
	}
	h := sharedHub(t)
	h.installCRDs(t)
	t.Cleanup(func() { h.delete(&coordinationv1.Lease{ObjectMeta: theLease}) })
	// An older version has left a Lease without labels.
	older := &coordinationv1.Lease{ObjectMeta: *theLease.DeepCopy()}
	if err := h.admin.Create(t.Context(), older); err != nil {
		t.Fatal(err)
	}
	h.replica(t).waitUntilReady(t)
	h.waitForLeader(t, "")
	lease := &coordinationv1.Lease{}
	if err := h.admin.Get(t.Context(), client.ObjectKeyFromObject(older), lease); err != nil {
		t.Fatal(err)
	}
	if got := lease.Labels[v1alpha1.LabelVersion]; got != version {
		t.Errorf("the Lease says %q, want %q", got, version)
	}
}

// freeze stops the leader just after it renewed its Lease, and not during a renewal. It returns its
// identity.
func (h *hub) freeze(t *testing.T, leader replica) string {
	t.Helper()
	lease, before := &coordinationv1.Lease{}, ""
	wait.Eventually(t, func() error {
		if err := h.admin.Get(context.Background(), client.ObjectKey{Namespace: theLease.Namespace, Name: theLease.Name}, lease); err != nil {
			return err
		}
		if before == "" {
			before = lease.ResourceVersion
		}
		if lease.ResourceVersion == before {
			return errors.New("the Lease was not renewed")
		}
		return nil
	})
	leader.signal(t, syscall.SIGSTOP)
	return *lease.Spec.HolderIdentity
}

func (r replica) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := r.command.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

// createAppService creates an AppService without placement. After the test it is deleted with its
// objects, regardless of finalizers.
func (h *hub) createAppService(t *testing.T, name string) *v1alpha1.AppService {
	t.Helper()
	meta := metav1.ObjectMeta{Namespace: "default", Name: name}
	app := &v1alpha1.AppService{ObjectMeta: meta, Spec: v1alpha1.AppServiceSpec{Image: "registry.example/app:1"}}
	if err := h.admin.Create(context.Background(), app); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.delete(&v1alpha1.AppService{ObjectMeta: meta}, &appsv1.Deployment{ObjectMeta: meta}) })
	return app
}

// delete removes the finalizers of objects and deletes the objects.
func (h *hub) delete(objects ...client.Object) {
	for _, object := range objects {
		_ = h.admin.Patch(context.Background(), object, client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"finalizers": null}}`)))
		_ = h.admin.Delete(context.Background(), object)
	}
}

// update changes an object as an administrator does.
func (h *hub) update(t *testing.T, object client.Object, by func()) {
	t.Helper()
	if err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if err := h.admin.Get(context.Background(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		by()
		return h.admin.Update(context.Background(), object)
	}); err != nil {
		t.Fatal(err)
	}
}

// waitForImage waits until the Deployment of an AppService has the image.
func (h *hub) waitForImage(t *testing.T, app *v1alpha1.AppService, image string) {
	t.Helper()
	wait.Eventually(t, func() error {
		deployment := &appsv1.Deployment{}
		if err := h.admin.Get(context.Background(), client.ObjectKeyFromObject(app), deployment); err != nil {
			return err
		}
		if runs := deployment.Spec.Template.Spec.Containers[0].Image; runs != image {
			return fmt.Errorf("%s runs %s, not %s", app.Name, runs, image)
		}
		return nil
	})
}

// waitForAppServiceCount waits until status.appServices of a MemberCluster has the number.
func (h *hub) waitForAppServiceCount(t *testing.T, name string, want int32) {
	t.Helper()
	wait.Eventually(t, func() error {
		member := &v1alpha1.MemberCluster{}
		if err := h.admin.Get(context.Background(), client.ObjectKey{Name: name}, member); err != nil {
			return err
		}
		if got := member.Status.AppServices; got != want {
			return fmt.Errorf("%s has %d AppServices, want %d", name, got, want)
		}
		return nil
	})
}
