package karmada

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/internal/environment"
	"github.com/fleetwright/fleetwright/internal/machine"
)

// Flags are flags of the processes beyond those of the chart.
type Flags struct {
	ControllerManager   []string `json:"karmada-controller-manager,omitempty"`
	Scheduler           []string `json:"karmada-scheduler,omitempty"`
	Webhook             []string `json:"karmada-webhook,omitempty"`
	AggregatedAPIServer []string `json:"karmada-aggregated-apiserver,omitempty"`
	GarbageCollector    []string `json:"kube-controller-manager,omitempty"`
}

// GarbageCollectorName is the name of the process whose garbage collector deletes the
// ResourceBindings of a deleted Deployment: Kubernetes' own, which Karmada's chart installs.
const GarbageCollectorName = "kube-controller-manager"

// process is a process of Karmada.
type process struct {
	name, program string
	flags         []string
	// serves is set for the aggregated API server and the webhook: they are a part of the API of the hub.
	serves bool
}

// processes returns the processes with the flags of the chart. Leader election is off, as it is for
// the operator.
func (i *Installation) processes(more Flags) []process {
	ports := i.ports
	manager, scheduler, webhook := watched(ports.managerMetrics, ports.managerHealth), watched(ports.schedulerMetrics, ports.schedulerHealth), watched(ports.webhookMetrics, ports.webhookHealth)
	return []process{
		{"karmada-aggregated-apiserver", i.program("aggregated-apiserver"), append([]string{
			"--authentication-kubeconfig=" + i.kubeconfig, "--authorization-kubeconfig=" + i.kubeconfig,
			"--etcd-servers=" + i.Etcd, "--etcd-prefix=" + i.Prefix, "--tls-cert-file=" + i.file(certFile), "--tls-private-key-file=" + i.file(keyFile),
			"--audit-log-path=-", "--audit-log-maxage=0", "--audit-log-maxbackup=0", "--tls-min-version=VersionTLS13",
			"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(ports.aggregated),
		}, more.AggregatedAPIServer...), true},
		{"karmada-webhook", i.program("webhook"), append(append(webhook,
			"--bind-address=127.0.0.1", "--secure-port="+strconv.Itoa(ports.webhook), "--cert-dir="+i.file(webhookCerts),
		), more.Webhook...), true},
		{"karmada-controller-manager", i.program("controller-manager"), append(append(manager,
			"--leader-elect=false", "--cluster-status-update-frequency=10s", "--feature-gates=PropagateDeps=false",
		), more.ControllerManager...), false},
		{"karmada-scheduler", i.program("scheduler"), append(append(scheduler, "--leader-elect=false"), more.Scheduler...), false},
		{GarbageCollectorName, filepath.Join(i.Bin, "kube-controller-manager"), append([]string{
			"--leader-elect=false", "--allocate-node-cidrs=true", "--node-cidr-mask-size=24", "--cluster-cidr=10.244.0.0/16",
			"--service-cluster-ip-range=10.96.0.0/12", "--cluster-name=karmada", "--use-service-account-credentials=true",
			"--authentication-kubeconfig=" + i.kubeconfig, "--authorization-kubeconfig=" + i.kubeconfig,
			"--client-ca-file=" + i.file(caFile), "--root-ca-file=" + i.file(caFile), "--service-account-private-key-file=" + i.file(keyFile),
			"--cluster-signing-cert-file=" + i.file(caFile), "--cluster-signing-key-file=" + i.file(caKeyFile),
			"--controllers=namespace,garbagecollector,serviceaccount-token,ttl-after-finished,bootstrapsigner,tokencleaner,csrcleaner,csrsigning,clusterrole-aggregation",
			"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(ports.garbage),
		}, more.GarbageCollector...), false},
	}
}

// watched returns the flags for the metrics and the health of a process.
func watched(metrics, health int) []string {
	return []string{"--metrics-bind-address=" + address(metrics), "--health-probe-bind-address=" + address(health)}
}

func (i *Installation) program(name string) string { return filepath.Join(i.programs.dir, name) }

// Serve starts the aggregated API server and the webhook, and does not wait.
func (i *Installation) Serve(more Flags) ([]*machine.Process, error) { return i.start(more, true) }

// Start starts the controllers, and does not wait.
func (i *Installation) Start(more Flags) ([]*machine.Process, error) { return i.start(more, false) }

func (i *Installation) start(more Flags, serves bool) ([]*machine.Process, error) {
	var started []*machine.Process
	for _, p := range i.processes(more) {
		if p.serves != serves {
			continue
		}
		cmd := exec.Command(p.program, append([]string{"--kubeconfig=" + i.kubeconfig, "--v=2"}, p.flags...)...)
		process, err := i.Group.Start(p.name, cmd, i.file(p.name+".log"))
		if err != nil {
			return nil, err
		}
		started = append(started, process)
	}
	return started, nil
}

// startTimeout is the longest time until the processes are healthy on a busy machine.
const startTimeout = 3 * time.Minute

// AwaitHealthy waits until the processes respond, and the hub serves Clusters.
func (i *Installation) AwaitHealthy(ctx context.Context, hub client.Client) error {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(i.ca)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}}
	defer transport.CloseIdleConnections()
	probes := &http.Client{Transport: transport}
	return environment.Await(ctx, startTimeout, "Karmada to be healthy", func(ctx context.Context) error {
		return errors.Join(
			hub.List(ctx, clusters()),
			isHealthy(ctx, probes, "https://"+address(i.ports.webhook)+"/readyz"),
			isHealthy(ctx, probes, "http://"+address(i.ports.managerHealth)+"/healthz"),
			isHealthy(ctx, probes, "http://"+address(i.ports.schedulerHealth)+"/healthz"),
		)
	})
}

func isHealthy(ctx context.Context, probes *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := probes.Do(request)
	if err != nil {
		return err
	}
	_ = response.Body.Close() // nothing of it is read
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s responds %s", url, response.Status)
	}
	return nil
}

// AwaitNothingLeft waits until Karmada has finished all deletions: the hub has no ResourceBinding, and no
// Work of one, any more. Other Works are those of namespaces and of permissions.
func AwaitNothingLeft(ctx context.Context, hub client.Client) error {
	return environment.Await(ctx, cleanupTimeout, "Karmada to delete its ResourceBindings and Works", func(ctx context.Context) error {
		return errors.Join(
			isEmpty(ctx, hub, schema.GroupVersionKind{Group: "work.karmada.io", Version: "v1alpha2", Kind: "ResourceBinding"}),
			isEmpty(ctx, hub, schema.GroupVersionKind{Group: "work.karmada.io", Version: "v1alpha1", Kind: "Work"}, client.HasLabels{bindingLabel}),
		)
	})
}

// cleanupTimeout is longer than Karmada with its default flags needs for the AppServices of a scenario.
const cleanupTimeout = 5 * time.Minute

// bindingLabel is on the Works of a ResourceBinding.
const bindingLabel = "resourcebinding.karmada.io/permanent-id"

// isEmpty returns an error unless the hub has no object of a kind.
func isEmpty(ctx context.Context, hub client.Client, kind schema.GroupVersionKind, selected ...client.ListOption) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	if err := hub.List(ctx, list, append(selected, client.Limit(1))...); err != nil {
		return err
	}
	if len(list.Items) > 0 {
		return fmt.Errorf("%s %s is left", kind.Kind, list.Items[0].GetName())
	}
	return nil
}

// clusters returns an empty list of Clusters.
func clusters() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(clusterKind)
	return list
}
