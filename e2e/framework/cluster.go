package framework

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/internal/environment"
)

// Cluster is a cluster with a client.
type Cluster struct {
	environment.Cluster

	// Client is an uncached client with the permissions of an administrator.
	Client client.Client

	starts []interval
}

// interval is the time in which a cluster started.
type interval struct{ begin, end time.Time }

func newCluster(c environment.Cluster) (*Cluster, error) {
	api, err := environment.NewClient(c.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("make a client for cluster %s: %w", c.Name(), err)
	}
	return &Cluster{Cluster: c, Client: api}, nil
}

// Start starts a stopped cluster and remembers when that was.
func (c *Cluster) Start(ctx context.Context) error {
	begin := time.Now()
	defer func() { c.starts = append(c.starts, interval{begin, time.Now()}) }()
	return c.Cluster.Start(ctx)
}

// WasStarting reports whether the cluster was starting at a time. An API server denies every
// request until it has read the roles.
func (c *Cluster) WasStarting(at time.Time) bool {
	return slices.ContainsFunc(c.starts, func(i interval) bool { return !at.Before(i.begin) && at.Before(i.end) })
}

// Kubectl runs kubectl of the bin directory against the cluster, and returns its output.
func (c *Cluster) Kubectl(t testing.TB, bin string, args ...string) string {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, c.Kubeconfig(), 0o600); err != nil {
		t.Fatal(err)
	}
	args = append(args, "--kubeconfig", kubeconfig, "--cache-dir", filepath.Join(t.TempDir(), "cache"))
	output, err := exec.CommandContext(t.Context(), filepath.Join(bin, "kubectl"), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl %v: %v\n%s", args, err, output)
	}
	return string(output)
}

// CheckAbsent returns an error if the cluster has the object.
func (c *Cluster) CheckAbsent(ctx context.Context, object client.Object) error {
	found, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%T is not an object", object)
	}
	switch err := c.Client.Get(ctx, client.ObjectKeyFromObject(object), found); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("%s: %w", c.Name(), err)
	default:
		return fmt.Errorf("%s still has %T %s", c.Name(), object, object.GetName())
	}
}

// Deployment returns the Deployment of an AppService.
func (c *Cluster) Deployment(ctx context.Context, app client.Object) (*appsv1.Deployment, error) {
	deployment := &appsv1.Deployment{}
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(app), deployment); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name(), err)
	}
	return deployment, nil
}

// CreateVolumes creates PersistentVolumes of 1Gi, as a storage class would do for claims. They are
// deleted when the test ends.
func (c *Cluster) CreateVolumes(t testing.TB, count int) {
	t.Helper()
	for i := range count {
		volume := &corev1.PersistentVolume{}
		volume.Name = fmt.Sprintf("e2e-%d", i)
		volume.Spec = corev1.PersistentVolumeSpec{
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/nowhere"}},
		}
		if err := c.Client.Create(t.Context(), volume); err != nil {
			t.Fatalf("create volume %s on %s: %v", volume.Name, c.Name(), err)
		}
		t.Cleanup(func() {
			if err := c.Client.Delete(context.Background(), volume); err != nil {
				t.Errorf("delete volume %s on %s: %v", volume.Name, c.Name(), err)
			}
		})
	}
}

// SetLoadBalancerIP sets the address of a Service of type LoadBalancer, as a cloud provider does.
func (c *Cluster) SetLoadBalancerIP(t testing.TB, key client.ObjectKey, ip string) {
	t.Helper()
	service := &corev1.Service{}
	if err := c.Client.Get(t.Context(), key, service); err != nil {
		t.Fatalf("%s: %v", c.Name(), err)
	}
	patch := client.MergeFrom(service.DeepCopy())
	service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip}}
	if err := c.Client.Status().Patch(t.Context(), service, patch); err != nil {
		t.Fatalf("%s: %v", c.Name(), err)
	}
}
