package karmada

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/internal/environment"
	"github.com/fleetwright/fleetwright/internal/environment/kwok"
	"github.com/fleetwright/fleetwright/internal/machine"
)

// fieldOwner is the field manager of the installation.
const fieldOwner = client.FieldOwner("karmada-installation")

// Place is where Karmada is installed.
type Place struct {
	// Dir is a directory for its files.
	Dir string
	// Bin is the directory of kube-controller-manager.
	Bin string
	// Group has the started processes.
	Group *machine.Group
	// Etcd is the URL of etcd, and Prefix is that of the hub's objects in it.
	Etcd, Prefix string
}

// Installation is an installation of Karmada.
type Installation struct {
	Place
	programs   Programs
	ca         []byte
	ports      ports
	kubeconfig string // the file
}

// ports are the ports of the processes.
type ports struct {
	aggregated, webhook, webhookMetrics, webhookHealth, managerMetrics, managerHealth, schedulerMetrics, schedulerHealth, garbage int
}

// Prepare writes the certificates, before the API server of the hub starts.
func Prepare(programs Programs, at Place) (*Installation, error) {
	if err := os.MkdirAll(at.Dir, 0o750); err != nil {
		return nil, err
	}
	ca, err := writeCertificates(at.Dir)
	if err != nil {
		return nil, err
	}
	free, err := kwok.FreePorts(at.Dir, 9)
	if err != nil {
		return nil, err
	}
	return &Installation{
		Place: at, programs: programs, ca: ca, kubeconfig: filepath.Join(at.Dir, "kubeconfig"),
		ports: ports{free[0], free[1], free[2], free[3], free[4], free[5], free[6], free[7], free[8]},
	}, nil
}

// HubFlags returns the flags of karmada-apiserver in the chart, as far as they are not about the
// addresses and the files of one machine.
func (i *Installation) HubFlags() []string {
	return []string{
		"--client-ca-file=" + i.file(caFile), "--disable-admission-plugins=StorageObjectInUseProtection", "--enable-bootstrap-token-auth=true",
		"--proxy-client-cert-file=" + i.file(frontCertFile), "--proxy-client-key-file=" + i.file(frontKeyFile),
		"--requestheader-allowed-names=" + frontProxyName, "--requestheader-client-ca-file=" + i.file(frontCAFile),
		"--requestheader-extra-headers-prefix=X-Remote-Extra-", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-username-headers=X-Remote-User",
		"--max-requests-inflight=1500", "--max-mutating-requests-inflight=500", "--tls-min-version=VersionTLS13", "--v=2",
	}
}

func (i *Installation) file(name string) string { return filepath.Join(i.Dir, name) }

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// Install applies the objects of the chart to the hub, which has an address and a CA, and writes the
// kubeconfig of the processes.
func (i *Installation) Install(ctx context.Context, hub client.Client, hubAddress string, hubCA []byte) error {
	if err := i.writeKubeconfig(hubAddress, hubCA); err != nil {
		return err
	}
	c := chart{dir: filepath.Join(i.programs.source, "charts", "karmada"), ca: i.ca, webhook: address(i.ports.webhook), aggregated: i.ports.aggregated}
	crds, err := c.crds()
	if err != nil {
		return err
	}
	objects, err := c.objects()
	if err != nil {
		return err
	}
	if err := apply(ctx, hub, crds); err != nil {
		return err
	}
	if err := environment.Await(ctx, time.Minute, "the CRDs of Karmada", func(ctx context.Context) error { return areServed(ctx, hub, crds) }); err != nil {
		return err
	}
	return apply(ctx, hub, objects)
}

// writeKubeconfig writes the kubeconfig of the processes: all have the same certificate.
func (i *Installation) writeKubeconfig(hubAddress string, hubCA []byte) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["karmada-apiserver"] = &clientcmdapi.Cluster{Server: "https://" + hubAddress, CertificateAuthorityData: hubCA}
	config.AuthInfos["karmada-apiserver"] = &clientcmdapi.AuthInfo{ClientCertificate: i.file(certFile), ClientKey: i.file(keyFile)}
	config.Contexts["karmada-apiserver"] = &clientcmdapi.Context{Cluster: "karmada-apiserver", AuthInfo: "karmada-apiserver"}
	config.CurrentContext = "karmada-apiserver"
	return clientcmd.WriteToFile(*config, i.kubeconfig)
}

func apply(ctx context.Context, hub client.Client, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		if err := hub.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), fieldOwner, client.ForceOwnership); err != nil {
			return fmt.Errorf("apply %s %s of Karmada: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return nil
}

// areServed returns an error unless all CRDs are established.
func areServed(ctx context.Context, hub client.Client, crds []*unstructured.Unstructured) error {
	var errs []error
	for _, crd := range crds {
		found := &unstructured.Unstructured{}
		found.SetGroupVersionKind(crd.GroupVersionKind())
		if err := hub.Get(ctx, client.ObjectKeyFromObject(crd), found); err != nil {
			errs = append(errs, err)
		} else if !hasCondition(found, "Established") {
			errs = append(errs, fmt.Errorf("%s is not established", crd.GetName()))
		}
	}
	return errors.Join(errs...)
}

// hasCondition reports whether a condition is True.
func hasCondition(object *unstructured.Unstructured, kind string) bool {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, each := range conditions {
		if condition, ok := each.(map[string]any); ok && condition["type"] == kind && condition["status"] == "True" {
			return true
		}
	}
	return false
}

// clusterKind is the kind of Karmada's members.
var clusterKind = schema.GroupVersionKind{Group: "cluster.karmada.io", Version: "v1alpha1", Kind: "Cluster"}
