package v1alpha1_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/entries/appslice"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	"github.com/fleetwright/fleetwright/controllers/status"
)

// No operator runs here. So that the examples show only what a client does, this file plays the
// operator in their namespace: it writes the statuses that the planner would, on the API server.

// hubConfig is that of the examples.
var hubConfig *rest.Config

// prepareExamples creates what the examples read, and plays the operator from then on.
func prepareExamples(ctx context.Context) error {
	hubConfig = environment.Config
	file := filepath.Join(environment.ControlPlane.APIServer.CertDir, "hub.kubeconfig") // removed with the API server
	if err := errors.Join(os.WriteFile(file, environment.KubeConfig, 0o600), os.Setenv("KUBECONFIG", file)); err != nil {
		return err
	}
	operator, err := client.NewWithWatch(hubConfig, client.Options{Scheme: scheme})
	if err != nil {
		return err
	}
	if err := operator.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}); err != nil {
		return err
	}
	if err := createSlicedApp(ctx, operator); err != nil {
		return err
	}
	if err := createStagedApp(ctx, operator); err != nil {
		return err
	}
	watcher, err := operator.Watch(ctx, &v1alpha1.AppServiceList{}, client.InNamespace("shop"))
	if err != nil {
		return err
	}
	go func() {
		for event := range watcher.ResultChan() {
			app, isApp := event.Object.(*v1alpha1.AppService)
			if !isApp || app.Status.ObservedGeneration == app.Generation {
				continue
			}
			if err := makeReady(ctx, operator, app); err != nil {
				fmt.Fprintln(os.Stderr, "play the operator:", err)
			}
		}
	}()
	return nil
}

// makeReady writes the status of an AppService that is placed on two clusters, and then Ready there.
func makeReady(ctx context.Context, operator client.Client, app *v1alpha1.AppService) error {
	placed := []func(*rollout.Input){placeOn("east"), placeOn("west")}
	ready := slices.Concat(placed, []func(*rollout.Input){observe("east", v1alpha1.ClusterReady), observe("west", v1alpha1.ClusterReady)})
	for _, changes := range [][]func(*rollout.Input){placed, ready} {
		app.Status = statusOf(newInput(app, changes...))
		if err := operator.Status().Update(ctx, app); err != nil {
			return err
		}
	}
	return nil
}

// createSlicedApp creates an AppService with 1,200 entries in slices.
func createSlicedApp(ctx context.Context, operator client.Client) error {
	app := newExample("proxy")
	app.Labels = map[string]string{"team": "edge"}
	if err := operator.Create(ctx, app); err != nil {
		return err
	}
	var changes []func(*rollout.Input)
	for i := range 1200 {
		name := fmt.Sprintf("member-%04d", i)
		changes = append(changes, placeOn(name), observe(name, v1alpha1.ClusterReady))
	}
	app.Status = statusOf(newInput(app, changes...))
	for _, part := range appslice.Split(app, app.Status.Clusters) {
		if err := operator.Create(ctx, part); err != nil {
			return err
		}
	}
	app.Status.ClustersIn, app.Status.Clusters = v1alpha1.ClustersInSlices, nil
	return operator.Status().Update(ctx, app)
}

// createStagedApp creates an AppService whose rollout waits for approval of a stage.
func createStagedApp(ctx context.Context, operator client.Client) error {
	app := newExample("billing")
	app.Spec.Rollout = &v1alpha1.Rollout{Stages: []v1alpha1.RolloutStage{{Name: "eu", Approval: v1alpha1.ApprovalRequired}}}
	if err := operator.Create(ctx, app); err != nil {
		return err
	}
	in := newInput(app, placeOn("east"), observe("east", v1alpha1.ClusterReady))
	decision := rollout.Plan(in)
	decision.Rollout = v1alpha1.RolloutStatus{
		Revision: 7, StableRevision: 6, Phase: v1alpha1.RolloutProgressing,
		Stages: []v1alpha1.RolloutStageStatus{{Name: "eu", Phase: v1alpha1.StageAwaitingApproval, Since: in.Now}},
	}
	app.Status = status.Compute(in, decision)
	return operator.Status().Update(ctx, app)
}

func newExample(name string) *v1alpha1.AppService {
	return &v1alpha1.AppService{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec:       v1alpha1.AppServiceSpec{Image: "registry.example/" + name + ":1"},
	}
}
