package kind

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/kind/pkg/cluster/nodeutils"

	"github.com/fleetwright/fleetwright/internal/environment"
)

// deployment is the name of the operator's Deployment and the value of podLabel of its pods.
const (
	deployment = "fleetwright"
	podLabel   = "app.kubernetes.io/name"
)

// operator is the operator's Deployment on the hub.
type operator struct {
	hub *cluster
	api client.Client
}

// hubFile returns the path of the file with the name of the hub's cluster.
func (e *Environment) hubFile() string { return filepath.Join(e.Dir, "hub") }

// StartOperator is part of [environment.Environment].
func (e *Environment) StartOperator(ctx context.Context, hub environment.Cluster, replicas int, args ...string) (environment.Operator, error) {
	if running, err := e.Operator(); err != nil || running != nil {
		return nil, errors.Join(errors.New("start the operator: an operator is running already"), err)
	}
	if err := os.WriteFile(e.hubFile(), []byte(hub.Name()), 0o600); err != nil {
		return nil, err
	}
	started, err := e.operatorOn(hub.Name())
	if err != nil {
		return nil, err
	}
	node, err := started.hub.node()
	if err != nil {
		return nil, err
	}
	if err := load(ctx, node, e.Image); err != nil {
		return nil, err
	}
	if err := e.deploy(ctx, started.api, replicas, args); err != nil {
		return nil, fmt.Errorf("deploy the operator: %w", err)
	}
	if err := environment.Await(ctx, environment.StartTimeout, "the operator to be ready", started.ready); err != nil {
		log := started.Log()
		err = errors.Join(err, started.Kill(context.WithoutCancel(ctx)))
		return nil, fmt.Errorf("start the operator: %w; its log ends:\n%s", err, environment.Tail(log, 10))
	}
	return started, nil
}

// Operator is part of [environment.Environment].
func (e *Environment) Operator() (environment.Operator, error) {
	name, err := os.ReadFile(e.hubFile())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // no operator runs: see the interface
	} else if err != nil {
		return nil, err
	}
	found, err := e.operatorOn(string(name))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	deployed := &appsv1.Deployment{}
	switch err := found.api.Get(ctx, found.key(), deployed); {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // no operator runs: see the interface
	case err != nil:
		return nil, fmt.Errorf("find the operator: %w", err)
	case *deployed.Spec.Replicas == 0:
		return nil, nil //nolint:nilnil // no operator runs: see the interface
	}
	return found, nil
}

func (e *Environment) operatorOn(hub string) (*operator, error) {
	c := e.cluster(hub)
	api, err := environment.NewClient(c.Kubeconfig())
	if err != nil {
		return nil, fmt.Errorf("use hub %s: %w", hub, err)
	}
	return &operator{hub: c, api: api}, nil
}

// IsOperatorCurrent reports whether the operator runs the image that the Docker engine has.
func (e *Environment) IsOperatorCurrent() bool {
	name, err := os.ReadFile(e.hubFile())
	if err != nil {
		return false
	}
	node, err := e.cluster(string(name)).node()
	if err != nil {
		return false
	}
	running, err := nodeutils.ImageID(node, e.Image)
	return err == nil && running == imageID(context.Background(), e.Image)
}

func (o *operator) key() client.ObjectKey {
	return client.ObjectKey{Namespace: environment.SecretNamespace, Name: deployment}
}

func (o *operator) ready(ctx context.Context) error {
	deployed := &appsv1.Deployment{}
	if err := o.api.Get(ctx, o.key(), deployed); err != nil {
		return err
	}
	if status := deployed.Status; status.ObservedGeneration != deployed.Generation || status.AvailableReplicas < *deployed.Spec.Replicas {
		return fmt.Errorf("%d of its %d pods are available", status.AvailableReplicas, *deployed.Spec.Replicas)
	}
	return nil
}

// Kill is part of [environment.Operator]. It freezes the processes before it scales the Deployment
// down and kills them, because the kubelet restarts a container that exits.
func (o *operator) Kill(ctx context.Context) error {
	logged := o.followLogs(ctx)
	if err := errors.Join(
		o.signal(ctx, "STOP"),
		o.scale(ctx, 0),
		environment.Await(ctx, 30*time.Second, "the operator's pods to be deleted", func(ctx context.Context) error {
			return o.noPods(ctx, func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
		}),
		o.signal(ctx, "KILL"),
		o.awaitEnd(ctx),
	); err != nil {
		return fmt.Errorf("kill the operator: %w", err)
	}
	return logged()
}

// Stop is part of [environment.Operator].
func (o *operator) Stop(ctx context.Context) error {
	logged := o.followLogs(ctx)
	if err := errors.Join(o.scale(ctx, 0), o.awaitEnd(ctx)); err != nil {
		return fmt.Errorf("stop the operator: %w", err)
	}
	return logged()
}

func (o *operator) scale(ctx context.Context, replicas int32) error {
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	object := &appsv1.Deployment{}
	object.Namespace, object.Name = o.key().Namespace, o.key().Name
	return client.IgnoreNotFound(o.api.Patch(ctx, object, patch))
}

// signal sends a signal to each process of the operator on the hub's node, if there is one.
func (o *operator) signal(ctx context.Context, name string) error {
	_, err := docker(ctx, "exec", o.hub.container(), "bash", "-c", "pkill -"+name+" -x "+deployment+" || [[ $? == 1 ]]")
	return err
}

func (o *operator) awaitEnd(ctx context.Context) error {
	return environment.Await(ctx, 45*time.Second, "the operator to end", func(ctx context.Context) error {
		return o.noPods(ctx, func(*corev1.Pod) bool { return false })
	})
}

// noPods returns an error if the operator has pods, except those that ignore reports.
func (o *operator) noPods(ctx context.Context, ignore func(*corev1.Pod) bool) error {
	pods, err := o.pods(ctx)
	if err != nil {
		return err
	}
	var left []string
	for i := range pods {
		if !ignore(&pods[i]) {
			left = append(left, pods[i].Name)
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("these pods still exist: %s", strings.Join(left, ", "))
	}
	return nil
}

func (o *operator) pods(ctx context.Context) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	err := o.api.List(ctx, list, client.InNamespace(o.key().Namespace), client.MatchingLabels{podLabel: deployment})
	return list.Items, err
}

// Replicas is part of [environment.Operator]. It returns the processes on the hub's node. The host
// name of a process is the name of its pod.
func (o *operator) Replicas(ctx context.Context) ([]environment.Replica, error) {
	listed, err := docker(ctx, "exec", o.hub.container(), "bash", "-c",
		`for pid in $(pgrep -x `+deployment+`); do echo "$pid $(tr '\0' '\n' </proc/$pid/environ | sed -n 's/^HOSTNAME=//p')"; done`)
	if err != nil {
		return nil, err
	}
	var replicas []environment.Replica
	for line := range strings.Lines(listed) {
		if words := strings.Fields(line); len(words) == 2 {
			replicas = append(replicas, &replica{operator: o, pid: words[0], pod: words[1]})
		}
	}
	return replicas, nil
}

// replica is the process of one of the operator's pods.
type replica struct {
	operator *operator
	pid, pod string
}

// Name is part of [environment.Replica].
func (r *replica) Name() string { return r.pod }

// Signal is part of [environment.Replica].
func (r *replica) Signal(ctx context.Context, signal syscall.Signal) error {
	if _, err := docker(ctx, "exec", r.operator.hub.container(), "kill", fmt.Sprintf("-%d", int(signal)), r.pid); err != nil {
		return fmt.Errorf("send %s to process %s of pod %s: %w", signal, r.pid, r.pod, err)
	}
	return nil
}

// metricsPort is the port metrics of the shipped Deployment.
const metricsPort = "8443"

// Metrics is part of [environment.Replica].
func (r *replica) Metrics(ctx context.Context) ([]byte, error) {
	client, err := r.operator.hub.clientset(10 * time.Second)
	if err != nil {
		return nil, err
	}
	return client.CoreV1().Pods(environment.SecretNamespace).ProxyGet("http", r.pod, metricsPort, "/metrics", nil).DoRaw(ctx)
}
