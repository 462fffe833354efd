package kwok

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/fleetwright/fleetwright/internal/environment"
)

// nodes is the number of simulated nodes of a cluster.
const nodes = "2"

// components are the processes of a cluster, by the names that kwokctl gives them.
var components = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok-controller"}

// cluster has no state in memory: its state is in the files and processes of dir.
type cluster struct {
	env  *Environment
	name string
	dir  string
}

// Name is part of [environment.Cluster].
func (c *cluster) Name() string { return c.name }

// Kubeconfig is part of [environment.Cluster].
func (c *cluster) Kubeconfig() []byte {
	content, err := c.flatKubeconfig()
	if err != nil {
		return nil
	}
	return content
}

// MemberKubeconfig is part of [environment.Cluster].
func (c *cluster) MemberKubeconfig(ctx context.Context) ([]byte, error) {
	return environment.MemberKubeconfig(ctx, c.Kubeconfig(), c.Kubeconfig(), c.env.config)
}

// TokenKey is part of [environment.Cluster]. kwokctl uses the key of its administrator.
func (c *cluster) TokenKey(context.Context) ([]byte, error) {
	return os.ReadFile(filepath.Join(c.dir, "pki", "admin.key"))
}

// Requests is part of [environment.Cluster].
func (c *cluster) Requests(context.Context) ([]environment.Request, error) {
	log, err := os.ReadFile(filepath.Join(c.dir, "logs", "audit.log"))
	if err != nil {
		return nil, err
	}
	return environment.Requests(log)
}

// flatKubeconfig returns kwokctl's kubeconfig with certificates instead of file names.
func (c *cluster) flatKubeconfig() ([]byte, error) {
	config, err := clientcmd.LoadFromFile(filepath.Join(c.dir, "kubeconfig.yaml"))
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig of cluster %s: %w", c.name, err)
	}
	if err := clientcmdapi.FlattenConfig(config); err != nil {
		return nil, fmt.Errorf("flatten the kubeconfig of cluster %s: %w", c.name, err)
	}
	return clientcmd.Write(*config)
}

func (c *cluster) create(ctx context.Context) error {
	config, err := c.configuration()
	if err != nil {
		return err
	}
	// Not with --wait, which returns no error when it fails.
	if err := c.kwokctl(ctx, config, "create", "cluster", "--config", "-", "--kubeconfig", "", "--timeout", environment.StartTimeout.String()); err != nil {
		return errors.Join(err, c.checkPorts())
	}
	if err := os.WriteFile(c.marker(), nil, 0o600); err != nil {
		return err
	}
	return c.complete(ctx)
}

// completeMarker is a file in the directory of a cluster that has all of kwokctl's files. Start
// can start it.
const completeMarker = "complete"

func (c *cluster) marker() string { return filepath.Join(c.dir, completeMarker) }

// complete adds missing nodes and waits until the cluster is ready. The controller manager, the
// scheduler and kwok exit when the API server does not respond for some ten seconds, and the API
// server when etcd does not. Only complete restarts them. It stops waiting when another program
// listens on the port of a component.
func (c *cluster) complete(ctx context.Context) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	scaled := false
	var taken error
	err = environment.Await(ctx, environment.StartTimeout, "cluster "+c.name+" to be ready", func(ctx context.Context) error {
		unavailable := c.checkAPIServer(ctx, client)
		if unavailable != nil && c.hasServers() {
			return unavailable
		}
		if err := c.startDead(ctx); errors.Is(err, errPortTaken) {
			taken = err
			return nil
		} else if err != nil {
			return err
		}
		if unavailable != nil {
			return unavailable
		}
		if !scaled {
			if err := c.kwokctl(ctx, nil, "scale", "node", "--replicas", nodes); err != nil {
				return err
			}
			scaled = true
		}
		return c.Ready(ctx)
	})
	return errors.Join(err, taken)
}

// startDead starts the components that have no process.
func (c *cluster) startDead(ctx context.Context) error {
	dead, err := c.dead()
	if err != nil || len(dead) == 0 {
		return err
	}
	// A component that just exited may still be closing its port.
	if err := environment.Await(ctx, 3*time.Second, "the ports of cluster "+c.name+" to be free", func(context.Context) error { return c.checkPorts() }); err != nil {
		return err
	}
	for _, component := range dead {
		// With this file, kwokctl would take any process of that ID, even a zombie, for the
		// component.
		if err := os.RemoveAll(filepath.Join(c.dir, "pids", component+".pid")); err != nil {
			return err
		}
	}
	// kwokctl waits for an API server that has exited as for one that is slow. After a short time,
	// complete starts the dead again, or waits for the slow.
	return c.kwokctl(ctx, nil, "start", "cluster", "--timeout", "30s")
}

// Ready is part of [environment.Cluster].
func (c *cluster) Ready(ctx context.Context) error {
	if dead, err := c.dead(); err != nil || len(dead) > 0 {
		return errors.Join(fmt.Errorf("cluster %s has no process for %s", c.name, strings.Join(dead, ", ")), err)
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	if err := c.checkAPIServer(ctx, client); err != nil {
		return err
	}
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the nodes of cluster %s: %w", c.name, err)
	}
	if !slices.ContainsFunc(list.Items, isNodeReady) {
		return fmt.Errorf("cluster %s has no ready node", c.name)
	}
	return nil
}

// client returns a client with a short timeout.
func (c *cluster) client() (*kubernetes.Clientset, error) {
	kubeconfig, err := c.flatKubeconfig()
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig of cluster %s: %w", c.name, err)
	}
	config.Timeout = 3 * time.Second
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig of cluster %s: %w", c.name, err)
	}
	return client, nil
}

// checkAPIServer returns an error unless the API server is ready.
func (c *cluster) checkAPIServer(ctx context.Context, client *kubernetes.Clientset) error {
	if err := client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
		return fmt.Errorf("check that the API server of cluster %s is ready: %w", c.name, err)
	}
	return nil
}

// dead returns the components that have no process, a component after those that it needs.
func (c *cluster) dead() ([]string, error) {
	processes, err := processesIn(c.dir)
	if err != nil {
		return nil, err
	}
	dead := slices.Clone(components)
	for _, p := range processes {
		dead = slices.DeleteFunc(dead, func(name string) bool { return name == filepath.Base(p.program) })
	}
	return dead, nil
}

// hasServers reports whether etcd and the API server have processes.
func (c *cluster) hasServers() bool {
	dead, err := c.dead()
	return err == nil && !slices.Contains(dead, "etcd") && !slices.Contains(dead, "kube-apiserver")
}

func isNodeReady(node corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// Stop is part of [environment.Cluster]. It does not use kwokctl, which trusts the process IDs in
// its files: after a reboot, they may belong to other processes.
func (c *cluster) Stop(ctx context.Context) error {
	if err := endAll(ctx, c.dir, syscall.SIGKILL); err != nil {
		return fmt.Errorf("stop cluster %s: %w", c.name, err)
	}
	return nil
}

// Start is part of [environment.Cluster].
func (c *cluster) Start(ctx context.Context) error {
	endTurn, err := awaitTurn(ctx)
	if err != nil {
		return err
	}
	defer endTurn()
	ctx, cancel := context.WithTimeout(ctx, environment.StartTimeout)
	defer cancel()
	if err := c.start(ctx); err != nil {
		return fmt.Errorf("start cluster %s: %w%s", c.name, err, c.diagnosis(err))
	}
	return nil
}

func (c *cluster) start(ctx context.Context) error {
	if _, err := os.Stat(c.marker()); err != nil {
		return errors.New("it was not created completely")
	}
	// A command of a killed process may still be running.
	if err := endAll(ctx, c.kwokctlProgram(), syscall.SIGKILL); err != nil {
		return err
	}
	return c.complete(ctx)
}

// Delete is part of [environment.Cluster].
func (c *cluster) Delete(ctx context.Context) error {
	if err := endAll(ctx, c.dir, syscall.SIGKILL); err != nil {
		return fmt.Errorf("delete cluster %s: %w", c.name, err)
	}
	// The marker first: a cluster that lacks files is not complete.
	if err := os.Remove(c.marker()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete cluster %s: %w", c.name, err)
	}
	if err := os.RemoveAll(c.dir); err != nil {
		return fmt.Errorf("delete cluster %s: %w", c.name, err)
	}
	return nil
}

// diagnosis returns the last log lines of the first dead component, which the others depend on,
// unless the error says enough.
func (c *cluster) diagnosis(of error) string {
	dead, err := c.dead()
	if err != nil || len(dead) == 0 || errors.Is(of, errPortTaken) {
		return ""
	}
	log, err := os.ReadFile(filepath.Join(c.dir, "logs", dead[0]+".log"))
	if err != nil {
		return "" // not started yet
	}
	return fmt.Sprintf("\n%s is not running; its log ends:\n%s", dead[0], environment.Tail(string(log), 8))
}
