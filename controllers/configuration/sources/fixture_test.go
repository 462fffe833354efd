package sources

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/internal/wait"
)

var (
	settings = configuration.Ref{Kind: v1alpha1.ConfigurationConfigMap, From: "settings"}
	tls      = configuration.Ref{Kind: v1alpha1.ConfigurationSecret, From: "tls"}
)

// fixture is an AppService in its own namespace, with the permissions of config/propagation, and a
// process that decides about it. The test plays the rest of the planner.
type fixture struct {
	*testing.T
	*process
	operator  string // the namespace of the operator
	app       *v1alpha1.AppService
	revisions []configuration.Revision
	passed    time.Duration // the clock is ahead by this time
}

// process is one run of Sources.
type process struct {
	*Sources
	sent  *traffic
	queue queue
	stop  func()
}

// newFixture returns a fixture whose AppService has entries for these sources.
func newFixture(t *testing.T, refs ...configuration.Ref) *fixture {
	t.Helper()
	f := newFixtureWithoutRights(t, refs...)
	for _, object := range manifests(t, "namespace.yaml") {
		object.SetNamespace(f.app.Namespace)
		f.must(hub.Create(f.Context(), object))
	}
	f.start()
	f.waitForAccess()
	return f
}

func newFixtureWithoutRights(t *testing.T, refs ...configuration.Ref) *fixture {
	t.Helper()
	f := &fixture{T: t}
	shop, operator := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "shop-"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "operator-"}}
	f.must(hub.Create(f.Context(), shop))
	f.must(hub.Create(f.Context(), operator))
	f.operator = operator.Name
	for _, object := range manifests(t, "role.yaml") {
		if object.GetNamespace() != "" {
			object.SetNamespace(operator.Name)
		}
		f.must(client.IgnoreAlreadyExists(hub.Create(f.Context(), object)))
	}
	f.app = f.newApp(shop.Name, "web", refs...)
	return f
}

// newApp creates an AppService.
func (f *fixture) newApp(namespace, name string, refs ...configuration.Ref) *v1alpha1.AppService {
	f.Helper()
	app := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	app.Spec.Image = "web:1"
	for _, ref := range refs {
		app.Spec.Configuration = append(app.Spec.Configuration, v1alpha1.ConfigurationSource{Kind: ref.Kind, Name: ref.From})
	}
	f.must(hub.Create(f.Context(), app))
	return app
}

// manifests returns the objects in a file of config/propagation.
func manifests(t *testing.T, file string) []*unstructured.Unstructured {
	t.Helper()
	content, err := os.ReadFile("../../../config/propagation/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var objects []*unstructured.Unstructured
	for _, document := range bytes.Split(content, []byte("\n---\n")) {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &object.Object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
	return objects
}

// grant replaces the rights in the namespace by these verbs, and waits until the API server follows
// them: a watch that begins with the former rights goes on for minutes.
func (f *fixture) grant(verbs map[string][]string) {
	f.Helper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: f.app.Namespace, Name: "some"}}
	for resource, allowed := range verbs {
		role.Rules = append(role.Rules, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{resource}, Verbs: allowed})
	}
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: f.app.Namespace, Name: "some"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "some"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "fleetwright-system", Name: "fleetwright-operator"}}}
	existing := &rbacv1.Role{}
	if err := hub.Get(f.Context(), client.ObjectKeyFromObject(role), existing); err == nil {
		existing.Rules = role.Rules
		f.must(hub.Update(f.Context(), existing))
	} else {
		f.must(hub.Create(f.Context(), role))
		f.must(hub.Create(f.Context(), binding))
	}
	for _, resource := range []string{"configmaps", "secrets"} {
		for _, verb := range allVerbs {
			f.waitForRight(resource, verb, slices.Contains(verbs[resource], verb))
		}
	}
}

// waitForRight waits until the operator has the right to a resource in the namespace, or no longer has
// it.
func (f *fixture) waitForRight(resource, verb string, want bool) {
	f.Helper()
	wait.Eventually(f, func() error {
		review := &authorizationv1.LocalSubjectAccessReview{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.app.Namespace},
			Spec: authorizationv1.SubjectAccessReviewSpec{
				User:               operatorUser,
				ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: f.app.Namespace, Resource: resource, Verb: verb},
			},
		}
		f.must(hub.Create(f.Context(), review))
		if review.Status.Allowed != want {
			return fmt.Errorf("%s %s is allowed: %t", verb, resource, review.Status.Allowed)
		}
		return nil
	})
}

// start starts a new process.
func (f *fixture) start() {
	f.Helper()
	f.startWith(f.app.Namespace)
}

func (f *fixture) startWith(namespaces string) {
	f.Helper()
	p := &process{sent: &traffic{}, queue: workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())}
	config := rest.CopyConfig(granted)
	config.Wrap(p.sent.wrap)
	parsed, err := ParseNamespaces(namespaces)
	f.must(err)
	p.Sources, err = New(config, Options{Namespaces: parsed, OperatorNamespace: f.operator, IsKubeconfig: func(secret metav1.Object) bool { return secret.GetLabels()["member"] == "true" }})
	f.must(err)
	ctx, cancel := context.WithCancel(logr.NewContext(context.Background(), logs.logger()))
	f.must(p.Listen(ctx, p.queue))
	ended := make(chan error, 1)
	go func() { ended <- p.Start(ctx) }()
	p.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			f.Error(err)
		}
		p.queue.ShutDown()
	})
	f.Cleanup(p.stop)
	f.process = p
}

// restart ends the process, and starts another.
func (f *fixture) restart() {
	f.Helper()
	f.stop()
	f.start()
	f.waitForAccess()
}

// waitForAccess waits until the watches are synced.
func (f *fixture) waitForAccess() {
	f.Helper()
	wait.Eventually(f, func() error {
		for _, w := range f.watches {
			if w.isForbidden() || !w.informer.HasSynced() {
				return fmt.Errorf("the watch of %ss is forbidden (%t) or not synced", w.kind, w.isForbidden())
			}
		}
		return nil
	})
}

// Context returns a context for the requests of the test, which are not logged.
func (f *fixture) Context() context.Context { return quietly(f.T.Context()) }

// loudly returns a context in which everything is logged.
func (f *fixture) loudly() context.Context { return logr.NewContext(f.T.Context(), logs.logger()) }

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// put creates or changes a source. All Secrets have the canary.
func (f *fixture) put(ref configuration.Ref, value string, changes ...func(metav1.Object)) {
	f.Helper()
	var object client.Object
	metadata := metav1.ObjectMeta{Namespace: f.app.Namespace, Name: ref.From, Labels: map[string]string{v1alpha1.LabelPropagate: "true"}}
	if ref.Kind == v1alpha1.ConfigurationSecret {
		object = &corev1.Secret{ObjectMeta: metadata, Data: map[string][]byte{"key": []byte(value + canary)}}
	} else {
		object = &corev1.ConfigMap{ObjectMeta: metadata, Data: map[string]string{"key": value}}
	}
	for _, change := range changes {
		change(object)
	}
	err := hub.Create(f.Context(), object)
	if apierrors.IsAlreadyExists(err) {
		object.SetResourceVersion("")
		err = hub.Update(f.Context(), object)
	}
	if apierrors.IsInvalid(err) { // the type of a Secret does not change
		f.remove(ref)
		err = hub.Create(f.Context(), object)
	}
	f.must(err)
}

func (f *fixture) remove(ref configuration.Ref) {
	f.Helper()
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: f.app.Namespace, Name: ref.From}}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(string(ref.Kind)))
	f.must(hub.Delete(f.Context(), object))
}

// waitForEvent waits until the AppService is enqueued, and empties the queue.
func (f *fixture) waitForEvent() {
	f.Helper()
	wait.Eventually(f, func() error {
		if f.queue.Len() == 0 {
			return fmt.Errorf("nothing was enqueued")
		}
		return nil
	})
	f.drain()
}

func (f *fixture) drain() {
	for f.queue.Len() > 0 {
		request, _ := f.queue.Get()
		f.queue.Done(request)
	}
}

// plan decides once, and writes the result as the planner does.
func (f *fixture) plan() (configuration.Decision, error) {
	f.Helper()
	return f.planFor(f.app, &f.revisions)
}

func (f *fixture) planFor(app *v1alpha1.AppService, revisions *[]configuration.Revision) (configuration.Decision, error) {
	f.Helper()
	f.must(hub.Get(f.Context(), client.ObjectKeyFromObject(app), app))
	decision, err := f.Decide(f.loudly(), Request{App: app, Revisions: *revisions, Now: time.Now().Add(f.passed)})
	if err != nil {
		return decision, err
	}
	if f.sent.isDead() { // it writes nothing more
		return decision, errors.New("the process is dead")
	}
	isNew := len(*revisions) == 0 && decision.Blocker == nil && !decision.IsCollecting
	if decision.NeedsRevision || isNew {
		number := app.Status.Rollout.Revision + 1
		*revisions = append(slices.Clone(*revisions), configuration.Revision{Number: number, Configuration: decision.Configuration, Template: configuration.TemplateOf(app.Spec)})
		app.Status.Rollout.Revision = number
		app.Status.Rollout.StableRevision = max(1, number-1)
	}
	app.Status.Configuration, app.Status.ConfigurationSerial = decision.Status, decision.Serial
	f.must(hub.Status().Update(f.Context(), app))
	return decision, f.Written(f.loudly(), app, decision)
}

// settle decides until there is nothing to do soon. It does not wait: the clock is set ahead.
func (f *fixture) settle() configuration.Decision {
	f.Helper()
	for range 20 {
		decision, err := f.plan()
		for errors.Is(err, ErrNotSynced) {
			time.Sleep(10 * time.Millisecond)
			decision, err = f.plan()
		}
		f.must(err)
		if decision.RecheckAfter == 0 || decision.RecheckAfter >= retryRefused {
			return decision
		}
		f.passed += decision.RecheckAfter
	}
	f.Fatal("the decisions do not end")
	return configuration.Decision{}
}

// waitForReason settles until the source has a reason, and returns its status.
func (f *fixture) waitForReason(ref configuration.Ref, reason string) v1alpha1.ConfigurationStatus {
	f.Helper()
	var status v1alpha1.ConfigurationStatus
	wait.Eventually(f, func() error {
		f.settle()
		if status = f.status(ref); status.Reason != reason {
			return fmt.Errorf("%+v has reason %q (%s), want %q", ref, status.Reason, status.Message, reason)
		}
		return nil
	})
	return status
}

// status returns the status of a source.
func (f *fixture) status(ref configuration.Ref) v1alpha1.ConfigurationStatus {
	f.Helper()
	for _, status := range f.app.Status.Configuration {
		if status.Kind == ref.Kind && status.From == ref.From {
			return status
		}
	}
	f.Fatalf("status.configuration lacks %+v: %+v", ref, f.app.Status.Configuration)
	return v1alpha1.ConfigurationStatus{}
}

// stored returns the snapshots on the hub, by name.
func (f *fixture) stored() map[string]configuration.Content {
	f.Helper()
	var configMaps corev1.ConfigMapList
	var secrets corev1.SecretList
	labelled := client.HasLabels{v1alpha1.LabelAppService}
	f.must(hub.List(f.Context(), &configMaps, client.InNamespace(f.app.Namespace), labelled))
	f.must(hub.List(f.Context(), &secrets, client.InNamespace(f.app.Namespace), labelled))
	all := map[string]configuration.Content{}
	for i := range configMaps.Items {
		all[configMaps.Items[i].Name] = configuration.OfConfigMap(&configMaps.Items[i])
	}
	for i := range secrets.Items {
		all[secrets.Items[i].Name] = configuration.OfSecret(&secrets.Items[i])
	}
	return all
}

// value returns the content of the snapshot that a source has in use.
func (f *fixture) value(ref configuration.Ref) string {
	f.Helper()
	return strings.TrimSuffix(string(f.stored()[f.status(ref).Snapshot].Data["key"]), canary)
}

// traffic records the requests of a process.
type traffic struct {
	mu    sync.Mutex
	lines []string
	// allowed is the number of requests until the process is dead, if it is not negative, as after
	// kill.
	allowed  int
	isKilled bool
	wasDead  bool // when it was to send a request
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func (f *traffic) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		_, path, _ := strings.Cut(r.URL.Path, "/api/v1/namespaces/")
		_, path, _ = strings.Cut(path, "/")
		isWatch := r.URL.Query().Has("labelSelector")
		if isWatch || strings.Contains(r.URL.Path, "authorization") {
			return next.RoundTrip(r)
		}
		verb := r.Method
		if strings.Contains(r.Header.Get("Accept"), "PartialObjectMetadata") && verb == http.MethodGet {
			verb = "METADATA"
		}
		f.mu.Lock()
		isDead := f.isKilled && f.allowed <= 0
		f.wasDead = f.wasDead || isDead
		f.allowed--
		if !isDead {
			f.lines = append(f.lines, verb+" "+path)
		}
		f.mu.Unlock()
		if isDead {
			return nil, fmt.Errorf("the process is dead")
		}
		response, err := next.RoundTrip(r)
		return response, err
	})
}

// killAfter lets the process send only this number of requests.
func (f *traffic) killAfter(number int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.isKilled, f.allowed = true, number
}

// isDead reports whether the process was killed before it was done.
func (f *traffic) isDead() bool {
	if f == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wasDead
}

// take returns the requests since the last call.
func (f *traffic) take() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	lines := f.lines
	f.lines = nil
	return lines
}
