package crash

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// change is something that the user says of an AppService.
type change func(*v1alpha1.AppServiceSpec)

// step is one act of the user.
type step struct {
	name string
	// change is nil for the deletion. That of the first step is the declaration.
	change change
}

// scenario is the life of an AppService.
var scenario = []step{
	{"declare", func(s *v1alpha1.AppServiceSpec) { image("web:1")(s); replicas(2)(s); ports(80)(s) }},
	{"edit the image", image("web:2")},
	{"scale up", replicas(3)},
	{"scale down", replicas(1)},
	{"remove the port", ports()},
	{"add another port", ports(81)}, // so that what follows takes away a Service too
	{"shrink to 2 members", on("east", "north")},
	{"delete", nil},
}

func image(name string) change {
	return func(s *v1alpha1.AppServiceSpec) { s.Image = name }
}

func replicas(n int32) change {
	return func(s *v1alpha1.AppServiceSpec) { s.Replicas = &n }
}

func ports(numbers ...int32) change {
	return func(s *v1alpha1.AppServiceSpec) {
		s.Ports = nil
		for _, number := range numbers {
			s.Ports = append(s.Ports, v1alpha1.ServicePort{Name: fmt.Sprintf("port-%d", number), Port: number, Protocol: corev1.ProtocolTCP})
		}
	}
}

func on(clusters ...string) change {
	return func(s *v1alpha1.AppServiceSpec) {
		s.Placement = nil
		if len(clusters) < len(members) {
			s.Placement = &v1alpha1.Placement{ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: clusters}}
		}
	}
}

// clustersOf are those that the spec chooses.
func clustersOf(s *v1alpha1.AppServiceSpec) []string {
	if s.Placement == nil {
		return members
	}
	return s.Placement.ClusterNames
}

// newApp returns the next AppService, which is declared by the first act. The namespace is its own.
func (f *fleet) newApp(ctx context.Context) (*v1alpha1.AppService, error) {
	f.mu.Lock()
	f.next++
	app := &v1alpha1.AppService{}
	app.Namespace, app.Name = fmt.Sprintf("life-%03d", f.next), "web"
	f.mu.Unlock()
	namespace := &corev1.Namespace{}
	namespace.Name = app.Namespace
	return app, f.hub.Create(ctx, namespace)
}

// act does what the user does, declares it to the ledger, and brings app up to date.
func (f *fleet) act(ctx context.Context, app *v1alpha1.AppService, change change) error {
	at := time.Now()
	if app.UID == "" {
		change(&app.Spec)
		if err := f.hub.Create(ctx, app); err != nil {
			return err
		}
		f.declare(at, app, app.Generation)
		return nil
	}
	if err := f.hub.Get(ctx, client.ObjectKeyFromObject(app), app); err != nil {
		return err
	}
	if change == nil {
		f.ledger.declare(intent{at: at, app: app.UID, generation: app.Generation + 1, deleted: true})
		return f.hub.Delete(ctx, app, client.Preconditions{UID: &app.UID})
	}
	before := app.DeepCopy()
	change(&app.Spec)
	if equality.Semantic.DeepEqual(before.Spec, app.Spec) {
		return nil
	}
	f.declare(at, app, before.Generation+1)
	if err := f.hub.Patch(ctx, app, client.MergeFrom(before)); err != nil {
		return err
	}
	if app.Generation != before.Generation+1 {
		return fmt.Errorf("the edit made generation %d of %d", app.Generation, before.Generation)
	}
	return nil
}

func (f *fleet) declare(at time.Time, app *v1alpha1.AppService, generation int64) {
	f.ledger.declare(intent{
		at: at, app: app.UID, generation: generation,
		replicas: app.DesiredReplicas(), ports: len(app.Spec.Ports) > 0, clusters: clustersOf(&app.Spec),
	})
}
