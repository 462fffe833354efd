package ui

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/liveness"
	"github.com/fleetwright/fleetwright/internal/servertest"
)

var (
	hubEnv    = servertest.New("../../../config/crd/bases") // the hub that most tests share
	hub       client.Client                                 // of an administrator
	hubConfig *rest.Config                                  // of an administrator
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(servertest.Run(m.Run, connect, hubEnv))
}

func connect() (err error) {
	hubConfig = hubEnv.Config
	hub, err = newHubClient(hubConfig)
	return err
}

func newHubClient(config *rest.Config) (client.Client, error) {
	scheme := clientgoscheme.Scheme
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: scheme})
}

// create creates an object, and writes the status of our kinds.
func create(t *testing.T, object client.Object) {
	t.Helper()
	created := object.DeepCopyObject().(client.Object)
	if err := hub.Create(t.Context(), created); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.IgnoreNotFound(hub.Delete(context.Background(), created)); err != nil {
			t.Error(err)
		}
	})
	object.SetName(created.GetName())
	object.SetUID(created.GetUID())
	object.SetResourceVersion(created.GetResourceVersion())
	switch object.(type) {
	case *v1alpha1.AppService, *v1alpha1.MemberCluster:
		if err := hub.Status().Update(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
}

// newNamespace creates a namespace for one test.
func newNamespace(t *testing.T) string {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "ui-"}}
	create(t, namespace)
	return namespace.Name
}

// newApp returns an AppService with a status that the CRD accepts.
func newApp(namespace, name string, entries ...v1alpha1.ClusterStatus) *v1alpha1.AppService {
	app := &v1alpha1.AppService{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1alpha1.AppServiceSpec{Image: "web:1"},
	}
	app.Status.Clusters = entries
	app.Status.Summary = v1alpha1.ClusterSummary{Clusters: int32(len(entries)), Display: fmt.Sprintf("0/%d", len(entries))}
	return app
}

// newEntry returns an entry with three pods.
func newEntry(cluster string, phase v1alpha1.ClusterPhase) v1alpha1.ClusterStatus {
	return v1alpha1.ClusterStatus{Name: cluster, Generation: 1, ObservedGeneration: 1, Revision: 1, Phase: phase, Replicas: 3, ReadyReplicas: 3, LastTransitionTime: noon}
}

// newLease returns the Lease of an operator that renewed it at a time.
func newLease(namespace string, renewed time.Time) *coordinationv1.Lease {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: liveness.LeaseName}}
	lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = &metav1.MicroTime{Time: renewed}, new(int32(15))
	return lease
}
