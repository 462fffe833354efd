package crash

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/e2e/ledger"
)

// step is one action of the user.
type step struct {
	name string
	// change is nil for the deletion. The change of the first step sets the initial spec.
	change framework.Change
	// settings is the next content of the ConfigMap settings on the hub, or "" if it stays. It is
	// written before the change. If both changed a revision, the time between them would decide whether
	// there is one more or two.
	settings string
}

// scenario is the lifecycle of an AppService.
var scenario = []step{
	{name: "create", change: func(s *v1alpha1.AppServiceSpec) { *s = framework.NewAppService("", "").Spec }},
	{name: "edit the image", change: framework.Image("web:2")},
	{name: "edit in stages", change: inStages("web:3", patient)},
	{name: "roll back", change: inStages(missingImage, 8)},
	{name: "scale up", change: framework.Replicas(3)},
	{name: "edit what failed", change: inStages("web:4", patient)},
	{name: "scale down", change: framework.Replicas(1)},
	{name: "remove the port", change: framework.Ports()},
	{name: "add another port", change: framework.Ports(81)}, // so that the next steps remove a Service too
	{name: "add configuration", change: configured, settings: "hello"},
	{name: "change configuration", change: unchanged, settings: "hi"},
	{name: "roll back configuration", change: badSettings},
	{name: "edit what failed again", change: inStages("web:4", patient)},
	{name: "shrink to 2 members", change: on("east", "north")},
	{name: "delete"},
}

// parts are the parts of the scenario from which a sample takes one. Each is a lifecycle, and
// together they have every step. With slices, [intoStatus] is in each.
var parts = []string{
	"create,edit the image,edit in stages,roll back,scale up,edit what failed,scale down,delete",
	"create,remove the port,add another port,add configuration,change configuration,shrink to 2 members,delete",
	"create,edit in stages,add configuration,roll back configuration,edit what failed again,delete",
}

// configured makes the pods read a ConfigMap of the hub.
func configured(s *v1alpha1.AppServiceSpec) {
	s.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: settings}}}}
	s.Configuration = []v1alpha1.ConfigurationSource{{Kind: v1alpha1.ConfigurationConfigMap, Name: settings}}
}

// badSettings makes the pods read another ConfigMap, with an image that cannot be pulled.
func badSettings(s *v1alpha1.AppServiceSpec) {
	inStages(missingImage, 8)(s)
	s.Configuration[0].From = otherSettings
}

// unchanged does not change the spec.
func unchanged(*v1alpha1.AppServiceSpec) {}

// settings and otherSettings are the names of the ConfigMaps. Nothing refers to the other one at first.
const (
	settings      = "settings"
	otherSettings = "settings-bad"
)

// missingImage cannot be pulled: see stages.yaml in package kwok.
const missingImage = "web:doesnotexist"

// patient is a deadline, in seconds, that no edit of a good image misses, on a slow machine neither.
const patient = 600

// inStages makes this edit of the image and later ones reach east first, and then the others. If east
// is not available before the deadline, the edit is rolled back.
func inStages(image string, deadlineSeconds int32) framework.Change {
	return func(s *v1alpha1.AppServiceSpec) {
		s.Image = image
		s.ProgressDeadlineSeconds = new(deadlineSeconds - 5) // so that the Deployment has failed then
		s.Rollout = &v1alpha1.Rollout{
			RolloutPace:             v1alpha1.RolloutPace{MinReadySeconds: new(int32(1))},
			ProgressDeadlineSeconds: new(deadlineSeconds),
			Stages:                  []v1alpha1.RolloutStage{{Name: "canary", ClusterMatch: v1alpha1.ClusterMatch{ClusterNames: []string{"east"}}}},
		}
	}
}

// on places the AppService on clusters. It removes the placement for all clusters.
func on(clusters ...string) framework.Change {
	return func(s *v1alpha1.AppServiceSpec) {
		if len(clusters) == len(members) {
			framework.OnAllClusters(s)
			return
		}
		framework.OnClusters(clusters...)(s)
	}
}

// clustersOf returns the clusters that the spec selects.
func clustersOf(s *v1alpha1.AppServiceSpec) []string {
	if s.Placement == nil {
		return members
	}
	return s.Placement.ClusterNames
}

// newApp returns the next AppService, in a new namespace. The first action creates it.
func (f *fleet) newApp(ctx context.Context) (*v1alpha1.AppService, error) {
	f.mu.Lock()
	f.next++
	app := &v1alpha1.AppService{}
	app.Namespace, app.Name = fmt.Sprintf("%s%03d", namespacePrefix, f.next), "web"
	f.mu.Unlock()
	namespace := &corev1.Namespace{}
	namespace.Name = app.Namespace
	if err := f.Hub.Client.Create(ctx, namespace); err != nil {
		return nil, err
	}
	return app, f.writeSettings(ctx, app, otherSettings, "bad")
}

// writeSettings writes a ConfigMap of an AppService.
func (f *fleet) writeSettings(ctx context.Context, app *v1alpha1.AppService, name, content string) error {
	config := corev1ac.ConfigMap(name, app.Namespace).WithLabels(map[string]string{v1alpha1.LabelPropagate: "true"}).WithData(map[string]string{"greeting": content})
	return f.Hub.Client.Apply(ctx, config, client.FieldOwner("user"), client.ForceOwnership)
}

// take performs a step of the scenario.
func (f *fleet) take(ctx context.Context, app *v1alpha1.AppService, s step) error {
	if s.settings != "" {
		if err := f.writeSettings(ctx, app, settings, s.settings); err != nil {
			return err
		}
	}
	return f.act(ctx, app, s.change)
}

// act performs the user's action, declares the intent to the ledger, and updates app from the hub.
func (f *fleet) act(ctx context.Context, app *v1alpha1.AppService, change framework.Change) error {
	at := time.Now()
	if app.UID == "" {
		change(&app.Spec)
		if err := f.Hub.Client.Create(ctx, app); err != nil {
			return err
		}
		f.declareIntent(at, app, app.Generation)
		return nil
	}
	if err := f.Hub.Client.Get(ctx, client.ObjectKeyFromObject(app), app); err != nil {
		return err
	}
	if change == nil {
		f.ledger.AddIntent(ledger.Intent{At: at, App: app.UID, Generation: app.Generation + 1, Deleted: true})
		return f.Hub.Client.Delete(ctx, app, client.Preconditions{UID: &app.UID})
	}
	before := app.DeepCopy()
	change(&app.Spec)
	if equality.Semantic.DeepEqual(before.Spec, app.Spec) {
		return nil
	}
	f.declareIntent(at, app, before.Generation+1)
	if err := f.Hub.Client.Patch(ctx, app, client.MergeFrom(before)); err != nil {
		return err
	}
	if app.Generation != before.Generation+1 {
		return fmt.Errorf("the edit changed generation %d to %d", before.Generation, app.Generation)
	}
	return nil
}

func (f *fleet) declareIntent(at time.Time, app *v1alpha1.AppService, generation int64) {
	f.ledger.AddIntent(ledger.Intent{
		At: at, App: app.UID, Generation: generation,
		Replicas: app.DesiredReplicas(), Ports: len(app.Spec.Ports) > 0, Clusters: clustersOf(&app.Spec),
	})
}
