package clusters_test

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"

	"github.com/fleetwright/fleetwright/clusters"
	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
)

// A controller of multicluster-runtime runs on every member whose kubeconfig is in a Secret of the
// namespace "fleet". The controller is built with the returned manager
// (mcbuilder.ControllerManagedBy), which engages the controller with each member. Manager.Start
// then runs everything.
func Example() {
	wire := func(ctx context.Context, hub *rest.Config) (mcmanager.Manager, error) {
		provider, err := clusters.New(ctx, clusters.Options{
			Scheme: testScheme,
			Mapper: clusters.NewMapper(testScheme), // so that no member is asked for its API
			Watch:  []client.Object{&appsv1.Deployment{}},
		})
		if err != nil {
			return nil, err
		}
		rules := kubeconfig.SecretRules{{
			Namespace: "fleet", Format: kubeconfig.FormatKubeconfig, Selector: labels.SelectorFromSet(labels.Set{"member": "true"}),
		}}
		m, err := mcmanager.New(hub, provider, manager.Options{
			Scheme:           testScheme, // includes corev1 and v1alpha1
			LeaderElection:   true,       // only the leader connects to members
			LeaderElectionID: "my-operator",
			Cache:            cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: clusters.SecretCache(rules)}},
		})
		if err != nil {
			return nil, err
		}
		return m, provider.SetupWithManager(ctx, m.GetLocalManager(), m, rules)
	}
	_ = wire
}
