package kwok

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fleetwright/fleetwright/internal/environment"
)

// PodLog is the only line in the log of a simulated pod.
const PodLog = "this pod is simulated by kwok: no program runs in it, and this is its whole log"

// stages defines what kwok does to nodes and pods.
//
//go:embed stages.yaml
var stages []byte

// configuration returns kwokctl's configuration of a new cluster.
func (c *cluster) configuration() ([]byte, error) {
	ports, err := c.env.ports.take(6)
	if err != nil {
		return nil, err
	}
	// Clusters are created at the same time, and one must not read what another one writes.
	policy, err := environment.WriteAuditPolicy(filepath.Join(c.env.dir, "audit-policies", c.name))
	if err != nil {
		return nil, err
	}
	bin := func(name string) string { return filepath.Join(c.env.bin, name) }
	// One instance of each needs no leader election, and would wait for the old Lease at a restart.
	alone := map[string]any{"key": "leader-elect", "value": "false"}
	content, err := json.Marshal(map[string]any{
		"apiVersion": "config.kwok.x-k8s.io/v1alpha1",
		"kind":       "KwokctlConfiguration",
		"options": map[string]any{
			"runtime":                     "binary",
			"bindAddress":                 loopback,
			"etcdBinary":                  bin("etcd"),
			"kubeApiserverBinary":         bin("kube-apiserver"),
			"kubeControllerManagerBinary": bin("kube-controller-manager"),
			"kubeSchedulerBinary":         bin("kube-scheduler"),
			"kwokControllerBinary":        bin("kwok"),
			"kubectlBinary":               bin("kubectl"),
			"etcdPort":                    ports[0],
			"etcdPeerPort":                ports[1],
			"kubeApiserverPort":           ports[2],
			"kubeControllerManagerPort":   ports[3],
			"kubeSchedulerPort":           ports[4],
			"kwokControllerPort":          ports[5],
			// kwok renews the Lease of a node four times in this time. A restarted kwok waits that long
			// until it manages its nodes again; by default, it waits minutes.
			"nodeLeaseDurationSeconds": 10,
			"kubeAuthorization":        true,
			"kubeAuditPolicy":          policy,
		},
		"componentsPatches": []any{
			map[string]any{"name": "kube-controller-manager", "extraArgs": []any{alone}},
			map[string]any{"name": "kube-scheduler", "extraArgs": []any{alone}},
			// The clusters need not survive a power cut, and a slow disk would distort
			// measurements.
			map[string]any{"name": "etcd", "extraArgs": []any{map[string]any{"key": "unsafe-no-fsync", "value": "true"}}},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("encode the configuration: %w", err)
	}
	log, err := writePodLog(filepath.Dir(policy))
	if err != nil {
		return nil, err
	}
	return slices.Concat(content, []byte("\n---\n"), log, []byte("\n---\n"), stages), nil
}

// writePodLog writes the log that every simulated pod has into a directory, in the format of the
// Container Runtime Interface. It returns the configuration of kwok that names it.
func writePodLog(dir string) ([]byte, error) {
	file := filepath.Join(dir, "pod.log")
	line := time.Now().UTC().Format(time.RFC3339Nano) + " stdout F " + PodLog + "\n"
	if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
		return nil, fmt.Errorf("write the log of simulated pods: %w", err)
	}
	content, err := json.Marshal(map[string]any{
		"apiVersion": "kwok.x-k8s.io/v1alpha1",
		"kind":       "ClusterLogs",
		"metadata":   map[string]any{"name": "simulated"},
		"spec":       map[string]any{"logs": []any{map[string]any{"logsFile": file}}},
	})
	if err != nil {
		return nil, fmt.Errorf("encode the configuration of logs: %w", err)
	}
	return content, nil
}
