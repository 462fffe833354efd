package delivery

import (
	"context"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
)

// staleCluster is a cluster whose cache shows old versions of some objects. It does not show yet
// that objects without a UID were created.
type staleCluster struct {
	cluster.Cluster
	shown []client.Object
}

func (b staleCluster) GetClient() client.Client { return staleClient{b.Cluster.GetClient(), b.shown} }

type staleClient struct {
	client.Client
	shown []client.Object
}

func (c staleClient) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	for _, object := range c.shown {
		if reflect.TypeOf(object) == reflect.TypeOf(into) && client.ObjectKeyFromObject(object) == key {
			if object.GetUID() == "" {
				return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
			}
			reflect.ValueOf(into).Elem().Set(reflect.ValueOf(object.DeepCopyObject()).Elem())
			return nil
		}
	}
	return c.Client.Get(ctx, key, into, options...)
}
