package kind

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/environment"
)

var (
	kindFlag  = flag.Bool("kind", false, "run the tests that need a Docker engine and the images (make e2e-kind)")
	imageFlag = flag.String("image", "localhost/fleetwright:dev", "the operator's image")
	dirFlag   = flag.String("dir", ".kind", "directory of everything that the environment keeps")
)

const root = "../../.."

// TestFleet is the whole of it: a hub and a member, the operator from its image, a member with exactly the shipped rights, a
// workload that answers through its Service, an outage, and the operator's end in both ways.
func TestFleet(t *testing.T) {
	if !*kindFlag {
		t.Skip("needs a Docker engine, and is run only when asked: -kind, or make e2e-kind")
	}
	ctx := t.Context()
	env, err := New(Options{Dir: *dirFlag, Root: root, Image: *imageFlag, Workloads: []string{"localhost/web:1"}})
	must(t, err)
	must(t, env.CheckPrograms())
	must(t, env.Lock())
	must(t, env.Clean(ctx))
	t.Cleanup(func() {
		if err := env.Clean(context.Background()); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
	f := newFleet(t, env)

	app := hello("web")
	must(t, f.api.Create(ctx, app))
	took(t, "the AppService is ready", func() { f.awaitReady(t, app) })
	took(t, "its Service answers", func() { f.awaitAnswer(t, app) })

	took(t, "stop the member", func() { must(t, f.member.Stop(ctx)) })
	if err := f.member.Ready(ctx); err == nil {
		t.Error("the member is stopped, and ready")
	}
	took(t, "the hub knows", func() { f.awaitMember(t, false) })
	intruder := "fleetwright-test-intruder" // It would take the address.
	_, err = docker(ctx, "run", "--detach", "--rm", "--name="+intruder, "--network=kind", "--entrypoint=/hello", Workload)
	must(t, err)
	t.Cleanup(func() { _, _ = docker(context.Background(), "rm", "--force", intruder) })
	took(t, "start the member", func() { must(t, f.member.Start(ctx)) })
	took(t, "the hub knows", func() { f.awaitMember(t, true) })
	took(t, "its Service answers", func() { f.awaitAnswer(t, app) })

	for _, end := range []struct {
		name string
		of   func(context.Context) error
	}{{"kill", f.operator.Kill}, {"stop", f.operator.Stop}} {
		took(t, end.name+" the operator", func() { must(t, end.of(ctx)) })
		if found, err := env.Operator(); found != nil || err != nil {
			t.Errorf("%s: it is still there: %v, %v", end.name, found, err)
		}
		took(t, "start it again", func() { f.start(t) })
		f.awaitMetrics(t)
	}
	if n := strings.Count(f.operator.Log(), "msg=Starting version="); n < 3 {
		t.Errorf("the log is to tell of three operators, and tells of fewer:\n%s", f.operator.Log())
	}
}

// fleet is a hub with an operator, and one member.
type fleet struct {
	env         *Environment
	hub, member *cluster
	api         client.Client
	operator    environment.Operator
}

func newFleet(t *testing.T, env *Environment) *fleet {
	ctx := t.Context()
	f := &fleet{env: env}
	took(t, "create hub and member", func() {
		made, err := environment.CreateAll(ctx, env, "hub", "north")
		must(t, err)
		f.hub, f.member = made[0].(*cluster), made[1].(*cluster)
	})
	var err error
	f.api, err = environment.NewClient(f.hub.Kubeconfig())
	must(t, errors.Join(err, environment.PrepareHub(ctx, f.api, filepath.Join(root, "config", "crd", "bases"))))
	took(t, "start the operator", func() { f.start(t) })
	must(t, environment.Join(ctx, f.api, f.member, nil))
	took(t, "the member joins", func() { f.awaitMember(t, true) })
	return f
}

func (f *fleet) awaitMember(t *testing.T, ready bool) {
	f.eventually(t, "the member to be ready, or not", func(ctx context.Context) error {
		member := &v1alpha1.MemberCluster{}
		err := f.api.Get(ctx, client.ObjectKey{Name: "north"}, member)
		if err == nil && meta.IsStatusConditionTrue(member.Status.Conditions, v1alpha1.ConditionReady) != ready {
			err = fmt.Errorf("%+v", member.Status.Conditions)
		}
		return err
	})
}

func (f *fleet) start(t *testing.T) {
	var err error
	f.operator, err = f.env.StartOperator(t.Context(), f.hub, 1, "--log-format=text", "--member-probe-interval=1s")
	must(t, err)
}

func hello(name string) *v1alpha1.AppService {
	app := &v1alpha1.AppService{}
	app.Namespace, app.Name = metav1.NamespaceDefault, name
	app.Spec.Image = "localhost/web:1"
	replicas := int32(2)
	app.Spec.Replicas = &replicas
	app.Spec.Env = []corev1.EnvVar{{Name: "ADDR", Value: ":80"}}
	app.Spec.Ports = []v1alpha1.ServicePort{{Port: 80}}
	return app
}

func (f *fleet) awaitReady(t *testing.T, app *v1alpha1.AppService) {
	f.eventually(t, "the AppService to be ready", func(ctx context.Context) error {
		err := f.api.Get(ctx, client.ObjectKeyFromObject(app), app)
		if err == nil && !meta.IsStatusConditionTrue(app.Status.Conditions, "Ready") {
			err = fmt.Errorf("%+v", app.Status)
		}
		return err
	})
}

func (f *fleet) awaitAnswer(t *testing.T, app *v1alpha1.AppService) {
	api, err := environment.NewClient(f.member.Kubeconfig())
	must(t, err)
	f.eventually(t, "the Service to answer", func(ctx context.Context) error {
		service := &corev1.Service{}
		if err := api.Get(ctx, client.ObjectKeyFromObject(app), service); err != nil {
			return err
		}
		answer, err := f.member.Get(ctx, service.Spec.ClusterIP, 80)
		if err == nil && !strings.Contains(answer, "hello from "+app.Name+"-") {
			err = fmt.Errorf("it answers: %s", answer)
		}
		return err
	})
}

func (f *fleet) awaitMetrics(t *testing.T) {
	f.eventually(t, "the metrics", func(ctx context.Context) error {
		replicas, err := f.operator.Replicas(ctx)
		if err != nil {
			return err
		}
		if len(replicas) != 1 {
			return fmt.Errorf("%d replicas run, not one", len(replicas))
		}
		metrics, err := replicas[0].Metrics(ctx)
		if err == nil && !strings.Contains(string(metrics), "process_start_time_seconds") {
			err = fmt.Errorf("they are %s", metrics)
		}
		return err
	})
}

func (f *fleet) eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	if err := environment.Await(t.Context(), time.Minute, what, check); err != nil {
		log := ""
		if f.operator != nil {
			log = environment.Tail(f.operator.Log(), 40)
		}
		t.Fatalf("%v\n%s", err, log)
	}
}

func took(t *testing.T, what string, do func()) {
	t.Helper()
	begun := time.Now()
	do()
	t.Logf("%s: %s", what, time.Since(begun).Round(100*time.Millisecond))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
