package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterinventory "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// hubKinds returns the kinds that the operator watches on the hub.
func (o *options) hubKinds() []client.Object {
	kinds := []client.Object{&v1alpha1.AppService{}, &v1alpha1.AppServiceSlice{}, &v1alpha1.MemberCluster{}, &corev1.Secret{}, namespaceMetadata()}
	if o.clusterProfiles {
		kinds = append(kinds, &clusterinventory.ClusterProfile{})
	}
	return kinds
}

// namespaceMetadata returns the kind of the metadata of namespaces, of which the labels are used.
func namespaceMetadata() client.Object {
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	return metadata
}

// informersRunning returns a check that fails when an informer of the hub has stopped. The operator
// must then be restarted, because it would work with outdated caches. The informers of a kind in
// several namespaces count as stopped when all of them have stopped.
func informersRunning(ctx context.Context, hub cache.Cache, kinds []client.Object) (healthz.Checker, error) {
	informers := make([]cache.Informer, len(kinds))
	for i, kind := range kinds {
		informer, err := hub.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("watch %T: %w", kind, err)
		}
		informers[i] = informer
	}
	return func(*http.Request) error {
		if i := slices.IndexFunc(informers, cache.Informer.IsStopped); i >= 0 {
			return fmt.Errorf("the informer of %T has stopped", kinds[i])
		}
		return nil
	}, nil
}
