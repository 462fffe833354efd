package kind

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	kindcluster "sigs.k8s.io/kind/pkg/cluster"
	"sigs.k8s.io/kind/pkg/cluster/nodes"
	kindexec "sigs.k8s.io/kind/pkg/exec"

	"github.com/fleetwright/fleetwright/internal/environment"
)

// cluster has no state in memory: its state is in the container, and its kubeconfigs are in dir.
type cluster struct {
	env  *Environment
	name string
	dir  string
}

// Name is part of [environment.Cluster].
func (c *cluster) Name() string { return c.name }

// Kubeconfig is part of [environment.Cluster].
func (c *cluster) Kubeconfig() []byte { return c.read("kubeconfig") }

// MemberKubeconfig is part of [environment.Cluster]. Pods of every cluster can reach its server,
// over the container network.
func (c *cluster) MemberKubeconfig(ctx context.Context) ([]byte, error) {
	return environment.MemberKubeconfig(ctx, c.Kubeconfig(), c.read("internal.kubeconfig"), filepath.Join(c.env.Root, "config"))
}

// TokenKey is part of [environment.Cluster].
func (c *cluster) TokenKey(ctx context.Context) ([]byte, error) {
	key, err := docker(ctx, "exec", c.container(), "cat", "/etc/kubernetes/pki/sa.key")
	return []byte(key + "\n"), err
}

// auditLog is the path of the API server's audit log on the node.
const auditLog = "/var/log/kubernetes/audit.log"

// Requests is part of [environment.Cluster].
func (c *cluster) Requests(ctx context.Context) ([]environment.Request, error) {
	log, err := docker(ctx, "exec", c.container(), "cat", auditLog)
	if err != nil {
		return nil, err
	}
	return environment.Requests([]byte(log + "\n"))
}

func (c *cluster) read(file string) []byte {
	content, err := os.ReadFile(filepath.Join(c.dir, file))
	if err != nil {
		return nil // the cluster is not created completely
	}
	return content
}

// kindName returns the name of the cluster, which is unique in the Docker engine.
func (c *cluster) kindName() string { return c.env.prefix + c.name }

// container returns the name of the only node and of its container.
func (c *cluster) container() string { return c.kindName() + "-control-plane" }

func (c *cluster) node() (nodes.Node, error) {
	found, err := c.env.provider.ListInternalNodes(c.kindName())
	if err != nil {
		return nil, fmt.Errorf("find the node of cluster %s: %w", c.name, err)
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("cluster %s has %d nodes, want 1", c.name, len(found))
	}
	return found[0], nil
}

func (c *cluster) create(ctx context.Context) error {
	image, err := NodeImage(ctx)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.dir, 0o750); err != nil {
		return err
	}
	policy, err := environment.WriteAuditPolicy(c.dir)
	if err != nil {
		return err
	}
	if err := c.env.provider.Create(c.kindName(),
		kindcluster.CreateWithV1Alpha4Config(configuration(policy)),
		kindcluster.CreateWithNodeImage(image),
		kindcluster.CreateWithKubeconfigPath(filepath.Join(c.dir, "kubeconfig.new")),
	); err != nil {
		return withOutput(err)
	}
	internal, err := c.env.provider.KubeConfig(c.kindName(), true)
	if err != nil {
		return err
	}
	address, err := address(ctx, c.container())
	if err != nil {
		return err
	}
	if err := errors.Join(
		os.WriteFile(filepath.Join(c.dir, "address"), []byte(address), 0o600),
		os.WriteFile(filepath.Join(c.dir, "internal.kubeconfig"), []byte(internal), 0o600),
		os.Rename(filepath.Join(c.dir, "kubeconfig.new"), filepath.Join(c.dir, "kubeconfig")),
	); err != nil {
		return err
	}
	node, err := c.node()
	if err != nil {
		return err
	}
	for image, names := range c.env.Workloads {
		if err := load(ctx, node, image, names...); err != nil {
			return err
		}
	}
	return nil
}

// withOutput adds to an error of kind the end of the output of the command that failed.
func withOutput(err error) error {
	if failed := kindexec.RunErrorForError(err); failed != nil {
		return fmt.Errorf("%w; its output ends:\n%s", err, environment.Tail(string(failed.Output), 30))
	}
	return err
}

// configuration returns kind's configuration. The API server logs the operator's requests, by an
// audit policy in a file of this machine.
func configuration(policy string) *v1alpha4.Cluster {
	const onNode = "/etc/kubernetes/audit-policy.yaml"
	return &v1alpha4.Cluster{
		Nodes: []v1alpha4.Node{{
			Role:        v1alpha4.ControlPlaneRole,
			ExtraMounts: []v1alpha4.Mount{{HostPath: policy, ContainerPath: onNode, Readonly: true}},
		}},
		// GOGC is that of the other API servers of tests: see the Makefile.
		// etcd need not wait for the disk, because the clusters need not survive a power cut. The
		// controller manager keeps its leader election: without it, it exits when the API server
		// does not respond for ten seconds. By default, a kubelet updates the files of a ConfigMap in a
		// running pod after a minute. kubeadm's own patience is four minutes at most, which is too short on
		// a machine that has other work.
		KubeadmConfigPatches: []string{`
kind: InitConfiguration
timeouts:
  controlPlaneComponentHealthCheck: 10m
  kubeletHealthCheck: 10m
  kubernetesAPICall: 10m
  etcdAPICall: 10m
`, `
kind: ClusterConfiguration
apiServer:
  extraEnvs:
    - {name: GOGC, value: "400"}
  extraArgs:
    - {name: audit-policy-file, value: ` + onNode + `}
    - {name: audit-log-path, value: ` + auditLog + `}
  extraVolumes:
    - {name: audit-policy, hostPath: ` + onNode + `, mountPath: ` + onNode + `, readOnly: true, pathType: File}
    - {name: audit-log, hostPath: ` + path.Dir(auditLog) + `, mountPath: ` + path.Dir(auditLog) + `, pathType: DirectoryOrCreate}
etcd:
  local:
    extraEnvs:
      - {name: GOGC, value: "400"}
    extraArgs:
      - {name: unsafe-no-fsync, value: "true"}
`, `
kind: KubeletConfiguration
syncFrequency: 10s
`},
	}
}

// Ready is part of [environment.Cluster].
func (c *cluster) Ready(ctx context.Context) error {
	client, err := c.clientset(3 * time.Second)
	if err != nil {
		return err
	}
	if err := client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error(); err != nil {
		return fmt.Errorf("check that the API server of cluster %s is ready: %w", c.name, err)
	}
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list the nodes of cluster %s: %w", c.name, err)
	}
	if !slices.ContainsFunc(list.Items, isNodeReady) {
		return fmt.Errorf("cluster %s has no ready node", c.name)
	}
	// Pods reach members by name.
	dns, err := client.AppsV1().Deployments(metav1.NamespaceSystem).Get(ctx, "coredns", metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get the DNS server of cluster %s: %w", c.name, err)
	}
	if dns.Status.ReadyReplicas == 0 {
		return fmt.Errorf("cluster %s has no ready DNS server", c.name)
	}
	return nil
}

func (c *cluster) clientset(timeout time.Duration) (*kubernetes.Clientset, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(c.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("use the kubeconfig of cluster %s: %w", c.name, err)
	}
	config.Timeout = timeout
	return kubernetes.NewForConfig(config)
}

func isNodeReady(node corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(condition corev1.NodeCondition) bool {
		return condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
	})
}

// Delete is part of [environment.Cluster].
func (c *cluster) Delete(ctx context.Context) error {
	if err := c.releaseAddress(ctx, ""); err != nil {
		return fmt.Errorf("delete cluster %s: %w", c.name, err)
	}
	// Without a path, kind would edit the kubeconfig of the user.
	if err := c.env.provider.Delete(c.kindName(), filepath.Join(c.dir, "kubeconfig")); err != nil {
		return fmt.Errorf("delete cluster %s: %w", c.name, err)
	}
	if err := os.RemoveAll(c.dir); err != nil {
		return fmt.Errorf("delete cluster %s: %w", c.name, err)
	}
	return nil
}

// Get requests http://HOST:PORT/ from the cluster's node, which can also reach the addresses of its
// Services, and returns the response body.
func (c *cluster) Get(ctx context.Context, host string, port int32) (string, error) {
	// Some node images have no curl.
	request := fmt.Sprintf(`exec 3<>/dev/tcp/%s/%d; printf 'GET / HTTP/1.0\r\nHost: %[1]s\r\n\r\n' >&3; cat <&3`, host, port)
	answer, err := docker(ctx, "exec", c.container(), "timeout", "5", "bash", "-c", request)
	if err != nil {
		return "", fmt.Errorf("request %s:%d from cluster %s: %w", host, port, c.name, err)
	}
	head, body, _ := strings.Cut(answer, "\r\n\r\n")
	if status, _, _ := strings.Cut(head, "\r\n"); !strings.HasSuffix(status, " 200 OK") {
		return "", fmt.Errorf("request %s:%d from cluster %s: the response is %q", host, port, c.name, status)
	}
	return body, nil
}
