package servertest

import (
	"net"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// On a busy machine, an API server has its namespace default only after envtest has given up. Its start
// goes on: the CRDs are there, and the server stops in the end.
func TestStart_continues_after_a_wait_for_the_namespace(t *testing.T) {
	environment := New()
	Start(t, environment) // without CRDs, as if envtest had given up before it applied them

	environment.CRDDirectoryPaths = []string{"../../config/crd/bases"}
	if _, err := continueStart(environment); err != nil {
		t.Fatal(err)
	}
	clients, err := dynamic.NewForConfig(environment.Config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := clients.Resource(v1alpha1.GroupVersion.WithResource("appservices")).List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("the CRDs are missing: %v", err)
	}

	stop(environment)
	address := environment.ControlPlane.APIServer.SecureServing.ListenAddr
	if connection, err := net.Dial("tcp", net.JoinHostPort(address.Address, address.Port)); err == nil {
		_ = connection.Close()
		t.Error("the API server still runs")
	}
}
