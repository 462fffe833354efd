package timetravel

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/framework"
)

// settings is the ConfigMap of the hub that travels with an AppService.
const settings = "settings"

// withSettings makes the pods read the ConfigMap.
func withSettings(s *v1alpha1.AppServiceSpec) {
	s.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: settings}}}}
	s.Configuration = []v1alpha1.ConfigurationSource{{Kind: v1alpha1.ConfigurationConfigMap, Name: settings}}
}

// greet writes the ConfigMap.
func (f *fleet) greet(t *testing.T, greeting string) {
	t.Helper()
	config := corev1ac.ConfigMap(settings, namespace).WithLabels(map[string]string{v1alpha1.LabelPropagate: "true"}).WithData(map[string]string{"greeting": greeting})
	if err := f.Hub.Client.Apply(t.Context(), config, client.FieldOwner("user"), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
}

// awaitGreeting waits until the Deployment of an AppService on each of these members refers to a
// ConfigMap with this greeting, and no other copy is left there.
func (f *fleet) awaitGreeting(t *testing.T, app *v1alpha1.AppService, greeting string, members ...string) {
	t.Helper()
	f.Eventually(t, fmt.Sprintf("%v to greet with %s", members, greeting), func(ctx context.Context) error {
		for _, name := range members {
			if err := checkGreeting(ctx, f.Members[name], app, greeting); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	})
}

func checkGreeting(ctx context.Context, member *framework.Cluster, app *v1alpha1.AppService, want string) error {
	deployment, err := member.Deployment(ctx, app)
	if err != nil {
		return err
	}
	var copies corev1.ConfigMapList
	if err := member.Client.List(ctx, &copies, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelAppService: app.Name}); err != nil {
		return err
	}
	if len(copies.Items) != 1 {
		return fmt.Errorf("there are %d copies", len(copies.Items))
	}
	name := deployment.Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name
	if got := copies.Items[0]; got.Name != name || got.Data["greeting"] != want {
		return fmt.Errorf("the Deployment refers to %s, and the copy %s has %v", name, got.Name, got.Data)
	}
	return nil
}
