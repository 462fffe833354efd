package main

import (
	"context"
	"fmt"

	"sync/atomic"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kubelets stand in for the controllers and nodes of the members, on the real API servers: they
// write the status of Deployments as if all pods became ready at once, and they are the garbage
// collector of a deletion in the foreground. They run in this process and do the same for every
// writer.
type kubelets struct {
	fleet   *fleet
	enabled atomic.Bool
	queue   chan pendingWrite
}

// pendingWrite is a Deployment whose status is of an earlier generation, or that is being deleted.
type pendingWrite struct {
	cluster    string
	deployment *appsv1.Deployment
}

// statusWriters is the number of concurrent writes of a status.
const statusWriters = 32

// startKubelets starts them, until the context ends.
func startKubelets(ctx context.Context, f *fleet) *kubelets {
	k := &kubelets{fleet: f, queue: make(chan pendingWrite, 1<<17)}
	k.enabled.Store(true)
	for range statusWriters {
		go func() {
			for {
				select {
				case <-ctx.Done():
					return
				case p := <-k.queue:
					if err := k.write(ctx, p); client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
						k.fleet.observer.fail(fmt.Errorf("stand in for a controller: %w", err))
					}
				}
			}
		}()
	}
	f.observer.onDeployment = func(cluster string, deployment *appsv1.Deployment) {
		if k.enabled.Load() || deployment.DeletionTimestamp != nil {
			k.enqueue(cluster, deployment)
		}
	}
	return k
}

// enable, after disable, makes all Deployments ready, those that exist and those that follow.
func (k *kubelets) enable() {
	k.enabled.Store(true)
	for cluster, deployments := range k.fleet.observer.deployments() {
		for _, deployment := range deployments {
			k.enqueue(cluster, deployment)
		}
	}
}

// disable leaves the status of Deployments as it is.
func (k *kubelets) disable() { k.enabled.Store(false) }

func (k *kubelets) enqueue(cluster string, deployment *appsv1.Deployment) {
	if deployment.Status.ObservedGeneration != deployment.Generation || deployment.DeletionTimestamp != nil {
		k.queue <- pendingWrite{cluster, deployment}
	}
}

func (k *kubelets) write(ctx context.Context, p pendingWrite) error {
	if p.deployment.DeletionTimestamp == nil {
		return k.setReady(ctx, p.cluster, p.deployment, replicas)
	}
	// There is no ReplicaSet that has to go first.
	withoutFinalizers := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
	return k.fleet.servers.member(p.cluster).api.Patch(ctx, nameOnly(p.deployment), withoutFinalizers)
}

// setReady writes the status of a Deployment with a number of ready pods.
func (k *kubelets) setReady(ctx context.Context, cluster string, deployment *appsv1.Deployment, ready int) error {
	available := "True"
	if ready < replicas {
		available = "False"
	}
	status := fmt.Appendf(nil, `{"status":{"observedGeneration":%d,"replicas":%d,"updatedReplicas":%d,"readyReplicas":%d,"availableReplicas":%d,"conditions":[
		{"type":"Available","status":%q,"reason":"MinimumReplicas"},{"type":"Progressing","status":"True","reason":"NewReplicaSetAvailable"}]}}`,
		deployment.Generation, replicas, replicas, ready, ready, available)
	return k.fleet.servers.member(cluster).api.Status().Patch(ctx, nameOnly(deployment), client.RawPatch(types.MergePatchType, status))
}

// nameOnly returns an object that a response may be decoded into.
func nameOnly(deployment *appsv1.Deployment) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: deployment.Namespace, Name: deployment.Name}}
}
