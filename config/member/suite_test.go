package member_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/config/member"
	"github.com/fleetwright/fleetwright/internal/servertest"
)

var (
	environment = servertest.New()
	admin       client.Client
	token       client.Client // has a token of the ServiceAccount of config/member, for all namespaces
)

func TestMain(m *testing.M) { os.Exit(servertest.Run(m.Run, connect, environment)) }

func connect() (err error) {
	ctx := context.Background()
	environment.Config.WarningHandler = rest.NoWarnings{} // on pods that fleetwright-system does not permit
	if admin, err = client.New(environment.Config, client.Options{Scheme: scheme.Scheme}); err != nil {
		return err
	}
	for _, read := range []func(...string) ([]*unstructured.Unstructured, error){member.Objects, member.Configuration} {
		objects, err := read()
		if err = errors.Join(err, applyAll(ctx, objects)); err != nil {
			return err
		}
	}
	token, err = connectAs(ctx, member.Namespace, member.ServiceAccount)
	return err
}

// applyAll applies objects as an administrator.
func applyAll(ctx context.Context, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		err := admin.Apply(ctx, client.ApplyConfigurationFromUnstructured(object.DeepCopy()), client.FieldOwner("admin"), client.ForceOwnership)
		if err != nil {
			return fmt.Errorf("apply %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// connectAs returns a client with a token of a ServiceAccount.
func connectAs(ctx context.Context, namespace, name string) (client.Client, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	request := &authenticationv1.TokenRequest{}
	if err := admin.SubResource("token").Create(ctx, account, request); err != nil {
		return nil, err
	}
	config := rest.AnonymousClientConfig(environment.Config)
	config.BearerToken, config.QPS, config.WarningHandler = request.Status.Token, -1, rest.NoWarnings{}
	return client.New(config, client.Options{Scheme: scheme.Scheme})
}
