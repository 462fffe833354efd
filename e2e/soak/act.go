package main

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/e2e/ledger"
	"github.com/fleetwright/fleetwright/internal/environment"
)

// revokeAfter is how long an old token stays valid after a rotation.
const revokeAfter = 20 * time.Second

// act performs an action.
func (f *fleet) act(ctx context.Context, a action) error {
	switch a.kind {
	case create, edit, move, remove:
		return f.actOnApp(ctx, a)
	case drift, lose:
		return f.disturbWorkload(ctx, a)
	case cut:
		f.setGate(a.cluster, a.mode)
	case heal:
		f.setGate(a.cluster, open)
	case drop:
		f.proxies[a.cluster].drop()
	case rotate, revoke:
		return f.rotate(ctx, a.cluster, a.kind == revoke)
	case leave:
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: environment.SecretNamespace, Name: a.cluster}}
		return f.Hub.Client.Delete(ctx, secret)
	case join:
		return f.join(ctx, a.cluster)
	case cordon, uncordon:
		patch := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, a.kind == cordon)
		member := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: a.cluster}}
		// A MemberCluster without a Secret is deleted after some time.
		return client.IgnoreNotFound(f.Hub.Client.Patch(ctx, member, client.RawPatch(types.MergePatchType, patch)))
	case kill:
		return f.kill(ctx, f.Operator.Kill)
	case stop:
		return f.kill(ctx, f.Operator.Stop)
	case start:
		return f.start(ctx, a.slices)
	default:
		return fmt.Errorf("unknown action %s", a)
	}
	return nil
}

// actOnApp creates, edits or deletes an AppService. It declares the intent to the ledger first.
func (f *fleet) actOnApp(ctx context.Context, a action) error {
	app := framework.NewAppService(namespace, a.app.name, a.app.changes()...)
	if a.kind == create {
		at := time.Now()
		if err := f.Hub.Client.Create(ctx, app); err != nil {
			return err
		}
		f.declare(at, app.UID, app.Generation, a.app)
		return nil
	}
	if err := f.Hub.Client.Get(ctx, client.ObjectKeyFromObject(app), app); err != nil {
		return err
	}
	before, next := app.DeepCopy(), app.Generation+1
	if a.kind == remove {
		f.ledger.AddIntent(ledger.Intent{At: time.Now(), App: app.UID, Generation: next, Deleted: true})
		return f.Hub.Client.Delete(ctx, app, client.Preconditions{UID: &app.UID})
	}
	for _, change := range a.app.changes() {
		change(&app.Spec)
	}
	if equality.Semantic.DeepEqual(before.Spec, app.Spec) {
		return nil
	}
	f.declare(time.Now(), app.UID, next, a.app)
	return f.Hub.Client.Patch(ctx, app, client.MergeFrom(before))
}

func (f *fleet) declare(at time.Time, app types.UID, generation int64, w wanted) {
	f.ledger.AddIntent(ledger.Intent{
		At: at, App: app, Generation: generation, Replicas: w.replicas, Ports: len(w.ports) > 0, Clusters: w.clusters,
	})
}

// changes sets all fields of a spec that the script chooses.
func (w wanted) changes() []framework.Change {
	return []framework.Change{framework.Image(w.image), framework.Replicas(w.replicas), framework.Ports(w.ports...), framework.OnClusters(w.clusters...)}
}

// disturbWorkload scales or deletes a Deployment on a member, as somebody else would. The
// Deployment may not exist yet.
func (f *fleet) disturbWorkload(ctx context.Context, a action) error {
	api := f.Members[a.cluster].Client
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: a.app.name}}
	if a.kind == lose {
		return client.IgnoreNotFound(api.Delete(ctx, deployment, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	}
	patch := fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, a.app.replicas+1)
	return client.IgnoreNotFound(api.Patch(ctx, deployment, client.RawPatch(types.MergePatchType, patch)))
}

// rotate writes a new token into the Secret of a member. The old one ends before that, or later.
func (f *fleet) rotate(ctx context.Context, member string, revokeFirst bool) error {
	p := f.proxies[member]
	p.addToken()
	if revokeFirst {
		p.revokeOld()
		return f.join(ctx, member)
	}
	time.AfterFunc(revokeAfter, p.revokeOld)
	return f.join(ctx, member)
}
