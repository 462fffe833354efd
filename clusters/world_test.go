package clusters_test

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters"
)

// The tests of this package share one hub and one member API server, and most of them one operator. Each has
// members of its own: a user of the member's API server, who comes to it by a link of its own (see link).

const (
	selectedLabel = "sigs.k8s.io/multicluster-runtime-kubeconfig"
	namespace     = "fleetwright-system" // of the operator that most tests share
)

// ctx is of the tests' own requests, also of those that clean up.
var ctx = context.Background()

func TestMain(m *testing.M) {
	flag.Parse()
	// These tests wait most of the time. Let them wait at the same time.
	if err := flag.Set("test.parallel", "64"); err != nil {
		panic(err)
	}
	log := logr.FromSlogHandler(slog.NewTextHandler(logged, nil))
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	code := m.Run()
	if started != nil {
		started.stop()
	}
	if said := logged.find(given.all()); len(said) > 0 {
		fmt.Println("FAIL: credentials in the log:", said)
		code = 1
	}
	os.Exit(code)
}

// output is the operator's log.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

var logged = &output{}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if os.Getenv("TEST_LOG") != "" {
		_, _ = os.Stderr.Write(p)
	}
	return o.text.Write(p)
}

// find returns the lines that hold one of the secrets.
func (o *output) find(secrets []string) (lines []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for line := range strings.Lines(o.text.String()) {
		if slices.ContainsFunc(secrets, func(s string) bool { return strings.Contains(line, s) }) {
			lines = append(lines, line)
		}
	}
	return lines
}

// secrets are the credentials that were given to the operator.
type secrets struct {
	mu     sync.Mutex
	values []string
}

var given = &secrets{}

func (s *secrets) add(value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values = append(s.values, value)
}

func (s *secrets) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.values)
}

// eventually waits until nothing is wrong.
func eventually(t testing.TB, within time.Duration, wrong func() error) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		err := wrong()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s: %v", within, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// world is what the tests share.
type world struct {
	dir         string
	hub, member *apiServer
	operator    *operator
}

var (
	started *world
	begin   = sync.OnceValues(func() (*world, error) {
		dir, err := os.MkdirTemp("", "fleetwright-clusters-")
		if err != nil {
			return nil, err
		}
		started = &world{dir: dir}
		return started, started.start()
	})
)

// shared returns the world, which the first test that needs it starts.
func shared(t testing.TB) *world {
	t.Helper()
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Fatal("KUBEBUILDER_ASSETS is not set: it must name the directory of etcd and kube-apiserver; `make test` builds them and sets it")
	}
	w, err := begin()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) start() error {
	var both sync.WaitGroup
	var hubErr, memberErr error
	both.Go(func() { w.hub, hubErr = startAPIServer(filepath.Join(w.dir, "hub"), "../config/crd/bases") })
	both.Go(func() { w.member, memberErr = startAPIServer(filepath.Join(w.dir, "member")) })
	both.Wait()
	if err := errors.Join(hubErr, memberErr); err != nil {
		return err
	}
	role := &rbacv1.ClusterRole{}
	if err := fromFile("../config/member/rbac.yaml", role); err != nil {
		return err
	}
	if err := w.member.admin.Create(ctx, role); err != nil {
		return err
	}
	if err := w.grant(namespace); err != nil {
		return err
	}
	var err error
	w.operator, err = w.operate(namespace)
	return err
}

func (w *world) stop() {
	if w.operator != nil {
		if err := w.operator.stop(); err != nil {
			fmt.Println("stop the operator:", err)
		}
	}
	for _, server := range []*apiServer{w.hub, w.member} {
		if server != nil {
			_ = server.environment.Stop()
		}
	}
	_ = os.RemoveAll(w.dir)
}

// apiServer is a real one, which keeps an audit log.
type apiServer struct {
	environment *envtest.Environment
	admin       client.Client
	users       sync.Mutex
	id          types.UID // of its kube-system namespace
	auditLog    string
}

const auditPolicy = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"], "rules": [
	{"level": "None", "userGroups": ["system:masters"]}, {"level": "Metadata"}]}`

func startAPIServer(dir string, crds ...string) (*apiServer, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	s := &apiServer{environment: &envtest.Environment{CRDDirectoryPaths: crds, ErrorIfCRDPathMissing: true, ControlPlaneStartTimeout: time.Minute}}
	policy := filepath.Join(dir, "policy.json")
	s.auditLog = filepath.Join(dir, "audit.log")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return nil, err
	}
	s.environment.ControlPlane.GetAPIServer().Configure().Set("audit-policy-file", policy).Set("audit-log-path", s.auditLog)
	as, err := s.environment.Start()
	if err != nil {
		return nil, err
	}
	if s.admin, err = client.New(as, client.Options{Scheme: kinds}); err != nil {
		return nil, err
	}
	system := &corev1.Namespace{}
	var found error
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if found = s.admin.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); found == nil {
			break
		}
	}
	s.id = system.UID
	return s, found
}

// as returns how to come to the server as a user, with a new client certificate.
func (s *apiServer) as(name string) *rest.Config {
	s.users.Lock() // envtest's authority is not safe for concurrent use
	defer s.users.Unlock()
	user, err := s.environment.AddUser(envtest.User{Name: name}, nil)
	if err != nil {
		panic(err)
	}
	return rest.CopyConfig(user.Config())
}

// address is the server's host and port.
func (s *apiServer) address() string {
	at, err := url.Parse(s.environment.Config.Host)
	if err != nil {
		panic(err)
	}
	return at.Host
}

// request is one that the API server served.
type request struct {
	Verb string
	URI  string `json:"requestURI"`
	User struct {
		Username string
		Extra    map[string][]string
	}
	ObjectRef struct{ Resource, Name string }
}

// served are the requests of a user, each of them once: a watch when it has begun.
func (s *apiServer) served(user string) (requests []request) {
	file, err := os.Open(s.auditLog)
	if err != nil {
		panic(err)
	}
	defer func() { _ = file.Close() }()
	seen := map[string]bool{}
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return requests // a last line without an end is still being written
		}
		var entry struct {
			request
			AuditID string
		}
		if err := errors.Join(err, json.Unmarshal(line, &entry)); err != nil {
			panic(err)
		}
		if entry.User.Username == user && !seen[entry.AuditID] {
			seen[entry.AuditID] = true
			requests = append(requests, entry.request)
		}
	}
}

// lists are the requests of a user that read all objects of a kind.
func (s *apiServer) lists(user string) (lists []string) {
	for _, r := range s.served(user) {
		if r.Verb == "list" || strings.Contains(r.URI, "sendInitialEvents=true") {
			lists = append(lists, r.URI)
		}
	}
	return lists
}

// writes are the requests of a user that change something.
func (s *apiServer) writes(user string) (writes []string) {
	for _, r := range s.served(user) {
		if !slices.Contains([]string{"get", "list", "watch"}, r.Verb) {
			writes = append(writes, r.Verb+" "+r.URI)
		}
	}
	return writes
}

var kinds = func() *runtime.Scheme {
	kinds := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(kinds), v1alpha1.AddToScheme(kinds)); err != nil {
		panic(err)
	}
	return kinds
}()

// operator is the part of the real one that this package is.
type operator struct {
	namespace, user string
	provider        *clusters.Provider
	engagements     *recorder
	// resign stops the manager only, as when the leadership is lost; exit ends the process.
	resign, exit context.CancelFunc
	ended        chan struct{}
	err          error
}

// grant makes a namespace of Secrets on the hub, and lets the operator of that namespace do what the role in
// config/rbac grants, changed, and no more.
func (w *world) grant(namespace string, changes ...func(*rbacv1.ClusterRole)) error {
	user := rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "operator-of-" + namespace}
	clusterRole, role := &rbacv1.ClusterRole{}, &rbacv1.Role{}
	if err := errors.Join(fromFile("../config/rbac/role.yaml", clusterRole), fromFile("../config/rbac/role.yaml", role)); err != nil {
		return err
	}
	role.Namespace, clusterRole.Name = namespace, namespace
	for _, change := range changes {
		change(clusterRole)
	}
	meta := metav1.ObjectMeta{Namespace: namespace, Name: namespace}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		clusterRole,
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: namespace}, Subjects: []rbacv1.Subject{user},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterRole.Name},
		},
		role,
		&rbacv1.RoleBinding{
			ObjectMeta: meta, Subjects: []rbacv1.Subject{user},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		},
	} {
		if err := w.hub.admin.Create(ctx, object); client.IgnoreAlreadyExists(err) != nil {
			return err
		}
	}
	return nil
}

// fromFile reads the first object of that kind in a file of many.
func fromFile(path string, object client.Object) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	kind, err := apiutil.GVKForObject(object, kinds)
	if err != nil {
		return err
	}
	for _, document := range strings.Split(string(raw), "\n---\n") {
		if slices.Contains(strings.Split(document, "\n"), "kind: "+kind.Kind) {
			return yaml.Unmarshal([]byte(document), object)
		}
	}
	return fmt.Errorf("%s has no %s", path, kind.Kind)
}

// operate runs an operator for the Secrets of a namespace. Options are those of cmd/fleetwright, but for
// the interval of the probes, changed.
func (w *world) operate(namespace string, changes ...func(*clusters.Options)) (*operator, error) {
	options := memberOptions()
	for _, change := range changes {
		change(&options)
	}
	o := &operator{namespace: namespace, user: "operator-of-" + namespace, engagements: &recorder{}, ended: make(chan struct{})}
	lifetime, exit := context.WithCancel(ctx)
	running, resign := context.WithCancel(lifetime)
	o.provider, o.resign, o.exit = clusters.New(lifetime, options), resign, exit
	sources := clusters.Sources{{Namespace: namespace, Form: clusters.FormKubeconfig, Selector: labels.SelectorFromSet(labels.Set{selectedLabel: "true"})}}
	again := true
	m, err := mcmanager.New(w.hub.as(o.user), o.provider, manager.Options{
		Scheme:     kinds,
		Cache:      cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: sources.Cache()}},
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: &again}, // there are several in this process
	})
	if err != nil {
		return nil, err
	}
	index := o.provider.IndexField(ctx, &appsv1.Deployment{}, imageIndex, images)
	if err := errors.Join(index, m.Add(o.engagements), o.provider.SetupWithManager(lifetime, m.GetLocalManager(), m, sources)); err != nil {
		return nil, err
	}
	go func() {
		defer close(o.ended)
		o.err = m.Start(running)
	}()
	return o, nil
}

// own runs an operator for one test, in a namespace of its own.
func (w *world) own(t testing.TB, namespace string, changes ...func(*clusters.Options)) *operator {
	t.Helper()
	if err := w.grant(namespace); err != nil {
		t.Fatal(err)
	}
	o, err := w.operate(namespace, changes...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := o.stop(); err != nil {
			t.Error(err)
		}
	})
	return o
}

// stop ends the operator and waits for its end.
func (o *operator) stop() error {
	o.exit()
	<-o.ended
	return o.err
}

func memberOptions() clusters.Options {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(appsv1.SchemeGroupVersion.WithKind("Deployment"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Service"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Namespace"), meta.RESTScopeRoot)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	return clusters.Options{
		Scheme: kinds,
		Mapper: mapper,
		Cache: cache.Options{
			DefaultLabelSelector: labels.SelectorFromSet(labels.Set{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}),
			DefaultTransform:     cache.TransformStripManagedFields(),
		},
		Watch:          watched(),
		UserAgent:      "fleetwright/test",
		QPS:            20,
		Burst:          40,
		ConnectTimeout: 30 * time.Second,
		MaxConnecting:  32,
		ProbeInterval:  2 * time.Second,
		Policy:         clusters.Policy{AllowLoopback: true},
	}
}

// imageIndex is a field index that all members' caches get.
const imageIndex = "image"

func images(object client.Object) (images []string) {
	for _, c := range object.(*appsv1.Deployment).Spec.Template.Spec.Containers {
		images = append(images, c.Image)
	}
	return images
}

func watched() []client.Object { return []client.Object{&appsv1.Deployment{}, &corev1.Service{}} }

// engagement is one call of Engage.
type engagement struct {
	ctx     context.Context
	cluster cluster.Cluster
	at      time.Time
	// inStep: its caches were. seamless: the one before, of this name, had not ended.
	inStep, seamless bool
}

// recorder is engaged with every member, in the place of delivery.
type recorder struct {
	mu     sync.Mutex
	byName map[multicluster.ClusterName][]engagement
	// refuse makes Engage fail for a name.
	refuse multicluster.ClusterName
	// holds make the next Engage for a name wait.
	holds map[multicluster.ClusterName]*hold
}

// hold is reached by an Engage, which then waits until it is released.
type hold struct{ reached, released chan struct{} }

func (r *recorder) hold(name string) *hold {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := &hold{reached: make(chan struct{}), released: make(chan struct{})}
	if r.holds == nil {
		r.holds = map[multicluster.ClusterName]*hold{}
	}
	r.holds[multicluster.ClusterName(name)] = h
	return h
}

func (r *recorder) wait(name multicluster.ClusterName) {
	r.mu.Lock()
	h := r.holds[name]
	delete(r.holds, name)
	r.mu.Unlock()
	if h != nil {
		close(h.reached)
		<-h.released
	}
}

func (r *recorder) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (r *recorder) Engage(ctx context.Context, name multicluster.ClusterName, member cluster.Cluster) error {
	r.wait(name)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	e := engagement{ctx: ctx, cluster: member, at: time.Now(), inStep: true, seamless: true}
	for _, object := range watched() {
		informer, err := member.GetCache().GetInformer(ctx, object, cache.BlockUntilSynced(false))
		e.inStep = e.inStep && err == nil && informer.HasSynced()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse == name {
		return errors.New("not now")
	}
	if before := r.byName[name]; len(before) > 0 {
		e.seamless = before[len(before)-1].ctx.Err() == nil
	}
	if r.byName == nil {
		r.byName = map[multicluster.ClusterName][]engagement{}
	}
	r.byName[name] = append(r.byName[name], e)
	return nil
}

// of are the engagements of a member, from the first to the newest.
func (r *recorder) of(name string) []engagement {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.byName[multicluster.ClusterName(name)])
}

func (r *recorder) setRefuse(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.refuse = multicluster.ClusterName(name)
}

// summary tells the two conditions of a MemberCluster.
func summary(mc *v1alpha1.MemberCluster) string {
	ready := cmp.Or(meta.FindStatusCondition(mc.Status.Conditions, v1alpha1.ConditionReady), &metav1.Condition{})
	credentials := cmp.Or(meta.FindStatusCondition(mc.Status.Conditions, v1alpha1.ConditionCredentialsValid), &metav1.Condition{})
	return fmt.Sprintf("Ready %s %s, CredentialsValid %s %s", ready.Status, ready.Reason, credentials.Status, credentials.Reason)
}

// joined is what a MemberCluster shows when all is well.
// The credentials of a test environment end within the week.
const joined = "Ready True Connected, CredentialsValid True ExpiringSoon"
