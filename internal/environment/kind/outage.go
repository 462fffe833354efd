package kind

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/internal/environment"
)

// Stop is part of [environment.Cluster]. It kills the container. A placeholder container gets its
// address and its name, and drops every packet, as if the machine were off.
func (c *cluster) Stop(ctx context.Context) error {
	if running, err := docker(ctx, "container", "inspect", "--format", "{{.State.Running}}", c.container()); err != nil || running == "false" {
		return err
	}
	if _, err := docker(ctx, "kill", c.container()); err != nil {
		return err
	}
	if err := c.holdAddress(ctx); err != nil {
		return fmt.Errorf("stop cluster %s: %w", c.name, err)
	}
	return nil
}

// Start is part of [environment.Cluster].
func (c *cluster) Start(ctx context.Context) error {
	if err := c.start(ctx); err != nil {
		return fmt.Errorf("start cluster %s: %w", c.name, err)
	}
	return nil
}

func (c *cluster) start(ctx context.Context) error {
	start := time.Now()
	if err := c.releaseAddress(ctx, ""); err != nil {
		return err
	}
	if _, err := docker(ctx, "start", c.container()); err != nil {
		return err
	}
	// The certificates of a control plane name its address.
	switch has, err := address(ctx, c.container()); {
	case err != nil:
		return err
	case has != string(c.read("address")):
		return fmt.Errorf("its address was %s, and is %s now", c.read("address"), has)
	}
	return environment.Await(ctx, environment.StartTimeout, "cluster "+c.name+" to be back", func(ctx context.Context) error {
		if err := c.Ready(ctx); err != nil {
			return err
		}
		return c.checkHeartbeat(ctx, start)
	})
}

// holdAddress starts the placeholder. The Docker engine assigns the lowest free address, so it
// starts containers until one gets the address.
func (c *cluster) holdAddress(ctx context.Context) error {
	image, err := NodeImage(ctx)
	if err != nil {
		return err
	}
	network, err := docker(ctx, "container", "inspect", "--format", "{{range $name, $_ := .NetworkSettings.Networks}}{{$name}}{{end}}", c.container())
	if err != nil {
		return err
	}
	want := string(c.read("address"))
	for i := range 16 {
		name := fmt.Sprintf("%s-off-%d", c.container(), i)
		if _, err := docker(ctx, "run", "--detach", "--name="+name, "--network="+network, "--network-alias="+c.container(),
			"--cap-add=NET_ADMIN", "--entrypoint=sh", image, "-c", "iptables -P INPUT DROP; exec sleep infinity"); err != nil {
			return err
		}
		has, err := address(ctx, name)
		if err != nil {
			return err
		}
		if has == want {
			return c.releaseAddress(ctx, name)
		}
	}
	return fmt.Errorf("another container has its address %s", want)
}

// releaseAddress removes the placeholders except one.
func (c *cluster) releaseAddress(ctx context.Context, but string) error {
	names, err := docker(ctx, "ps", "--all", "--filter=name=^/"+c.container()+"-off-", "--format={{.Names}}")
	if err != nil {
		return err
	}
	for _, name := range strings.Fields(names) {
		if name == but {
			continue
		}
		if _, err := docker(ctx, "rm", "--force", name); err != nil {
			return err
		}
	}
	return nil
}

// address returns the address of a container on its only network.
func address(ctx context.Context, container string) (string, error) {
	return docker(ctx, "container", "inspect", "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}", container)
}

// checkHeartbeat returns an error unless the kubelet renewed its lease after a time: at first, the
// status of the node is from before the stop.
func (c *cluster) checkHeartbeat(ctx context.Context, since time.Time) error {
	client, err := c.clientset(3 * time.Second)
	if err != nil {
		return err
	}
	lease, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, c.container(), metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("get the lease of the node of cluster %s: %w", c.name, err)
	}
	if lease.Spec.RenewTime == nil || lease.Spec.RenewTime.Time.Before(since) {
		return fmt.Errorf("the kubelet of cluster %s is not back yet", c.name)
	}
	return nil
}
