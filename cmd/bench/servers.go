package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/environment"
	"github.com/fleetwright/fleetwright/internal/environment/front"
	"github.com/fleetwright/fleetwright/internal/environment/kwok"
	"github.com/fleetwright/fleetwright/internal/machine"
)

// startTimeout is the longest time until all API servers are ready on a busy machine.
const startTimeout = 5 * time.Minute

// The names of the hubs: of the operator, and of Karmada. The members have the names of memberName.
const (
	hubName        = "hub"
	karmadaHubName = "karmada-hub"
)

// isHub reports whether a name is that of a hub.
func isHub(name string) bool { return name == hubName || name == karmadaHubName }

// etcdName is the name of the process.
const etcdName = "etcd"

func memberName(i int) string { return fmt.Sprintf("member-%02d", i+1) }

// server is an API server without controllers.
type server struct {
	name    string
	address string // host and port
	process *machine.Process
	// admin is the kubeconfig of an administrator, operator that of the operator's ServiceAccount.
	admin, operator []byte
	// api and http have the permissions of an administrator. Their writes are counted.
	api    client.WithWatch
	http   *http.Client
	writes *writeCounter
}

// servers are the API servers of a fleet and their etcd.
type servers struct {
	bin, dir string
	etcd     string // the URL
	shared   credentials
	hub      *server // of the writer whose turn it is
	members  []*server
}

func (s *servers) all() []*server { return append([]*server{s.hub}, s.members...) }

// kubeconfigs returns the kubeconfigs of the members with the permissions of the operator, by name.
func (s *servers) kubeconfigs() map[string][]byte {
	all := map[string][]byte{}
	for _, member := range s.members {
		all[member.name] = member.operator
	}
	return all
}

// startServers starts etcd and the API servers, and waits until all are ready. A fleet shares one
// etcd, and each API server has a prefix of its own in it.
func startServers(ctx context.Context, group *machine.Group, bin, dir string, members int) (*servers, error) {
	ports, err := kwok.FreePorts(dir, members+3)
	if err != nil {
		return nil, err
	}
	shared, err := writeCredentials(dir)
	if err != nil {
		return nil, err
	}
	s := &servers{bin: bin, dir: dir, shared: shared, etcd: "http://" + address(ports[0])}
	peers := "http://" + address(ports[1])
	etcd := exec.Command(filepath.Join(bin, "etcd"), "--data-dir="+filepath.Join(dir, "etcd"), "--unsafe-no-fsync", "--log-level=warn",
		"--quota-backend-bytes="+strconv.Itoa(8<<30), "--auto-compaction-mode=periodic", "--auto-compaction-retention=5m",
		"--listen-client-urls="+s.etcd, "--advertise-client-urls="+s.etcd, "--listen-peer-urls="+peers,
		"--initial-advertise-peer-urls="+peers, "--initial-cluster=default="+peers)
	if _, err := group.Start(etcdName, etcd, filepath.Join(dir, "etcd.log")); err != nil {
		return nil, err
	}
	audit, err := auditFlags(dir)
	if err != nil {
		return nil, err
	}
	if s.hub, err = startServer(group, bin, dir, hubName, s.etcd, ports[2], shared, audit...); err != nil {
		return nil, err
	}
	for i := range members {
		member, err := startServer(group, bin, dir, memberName(i), s.etcd, ports[3+i], shared)
		if err != nil {
			return nil, err
		}
		s.members = append(s.members, member)
	}
	return s, s.prepare(ctx)
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

func startServer(group *machine.Group, bin, dir, name, etcd string, port int, shared credentials, more ...string) (*server, error) {
	s := &server{name: name, address: address(port), writes: &writeCounter{}}
	flags := []string{
		"--etcd-servers=" + etcd, "--etcd-prefix=/" + name,
		"--bind-address=127.0.0.1", "--secure-port=" + strconv.Itoa(port), "--endpoint-reconciler-type=none",
		"--tls-cert-file=" + shared.certificate, "--tls-private-key-file=" + shared.key, "--cert-dir=" + filepath.Join(dir, name),
		"--token-auth-file=" + shared.tokens, "--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount",
		"--service-account-issuer=https://" + s.address, "--service-account-key-file=" + shared.key, "--service-account-signing-key-file=" + shared.key,
		"--service-cluster-ip-range=10.0.0.0/16", "--allow-privileged",
	}
	cmd := exec.Command(filepath.Join(bin, "kube-apiserver"), append(flags, more...)...)
	var err error
	if s.process, err = group.Start(name, cmd, filepath.Join(dir, name+".log")); err != nil {
		return nil, err
	}
	if s.admin, err = front.Kubeconfig(s.address, shared.ca, shared.token); err != nil {
		return nil, err
	}
	return s, s.connect()
}

// connect creates the clients of a server.
func (s *server) connect() error {
	config, err := clientcmd.RESTConfigFromKubeConfig(s.admin)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	config.QPS = -1
	config.Wrap(s.writes.wrap)
	if s.http, err = rest.HTTPClientFor(config); err != nil {
		return fmt.Errorf("use kubeconfig: %w", err)
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return fmt.Errorf("build scheme: %w", err)
	}
	s.api, err = client.NewWithWatch(config, client.Options{Scheme: scheme, HTTPClient: s.http})
	return err
}

// prepare waits until all API servers are ready, and creates what the writers need on them.
func (s *servers) prepare(ctx context.Context) error {
	errs := make([]error, len(s.all()))
	var group sync.WaitGroup
	for i, server := range s.all() {
		group.Go(func() { errs[i] = server.prepare(ctx) })
	}
	group.Wait()
	return errors.Join(errs...)
}

func (s *server) prepare(ctx context.Context) (err error) {
	if err := s.awaitReady(ctx); err != nil {
		return err
	}
	if s.name == hubName {
		if err := environment.PrepareHub(ctx, s.api, filepath.Join(configDir, "crd", "bases")); err != nil {
			return err
		}
		s.operator, err = environment.OperatorKubeconfig(ctx, s.admin, configDir)
	} else {
		s.operator, err = environment.RequestMemberKubeconfig(ctx, s.admin, configDir)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	return s.api.Create(ctx, newNamespace())
}

// awaitReady waits until the API server is ready.
func (s *server) awaitReady(ctx context.Context) error {
	if err := environment.Await(ctx, startTimeout, s.name+" to be ready", func(ctx context.Context) error {
		if s.process.HasExited() {
			return errors.New("it has exited")
		}
		return s.ready(ctx)
	}); err != nil {
		return fmt.Errorf("%w; its log ends:\n%s", err, tailOf(s.process.Log))
	}
	return nil
}

// ready returns an error unless the API server is ready.
func (s *server) ready(ctx context.Context) error {
	_, err := s.get(ctx, "/readyz")
	return err
}

// get returns the response to a request for a path.
func (s *server) get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+s.address+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	return do(s.http, request)
}

// do returns the body of a successful response.
func do(c *http.Client, request *http.Request) ([]byte, error) {
	response, err := c.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s responds %s", request.URL, response.Status)
	}
	return io.ReadAll(response.Body)
}

func tailOf(log string) string {
	content, err := os.ReadFile(log)
	if err != nil {
		return err.Error()
	}
	return environment.Tail(string(content), 10)
}
