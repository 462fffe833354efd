// Command library is an example of a controller that runs on all members of a fleet, beside Fleetwright's
// operator. It writes on each MemberCluster, as an annotation, how many pods of the member are not ready:
//
//	kubectl get membercluster -o custom-columns='NAME:.metadata.name,PODS:.metadata.annotations.example\.com/pods'
//
// docs/library.md explains it line by line. It needs more than the operator on a member: member.yaml.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters"
	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
)

// scheme has the kinds of the hub and of the members.
var scheme = runtime.NewScheme()

func init() {
	utilruntime.Must(corev1.AddToScheme(scheme))
	utilruntime.Must(appsv1.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
}

// options are the flags of the command. Package controller-runtime adds -kubeconfig.
type options struct {
	namespace, metrics string
	allowLoopback      bool
}

func main() {
	var o options
	flag.StringVar(&o.namespace, "namespace", "fleetwright-system", "namespace of the members' Secrets on the hub")
	flag.StringVar(&o.metrics, "metrics-bind-address", "0", "address of /metrics, or 0 for none")
	flag.BoolVar(&o.allowLoopback, "allow-loopback", false, "permit members on this machine, as those of the demo")
	flag.Parse()
	ctrl.SetLogger(logr.FromSlogHandler(slog.NewTextHandler(os.Stderr, nil)))
	if err := run(ctrl.SetupSignalHandler(), o); err != nil {
		fmt.Fprintln(os.Stderr, "library:", err)
		os.Exit(1)
	}
}

// run runs the controller until the context ends.
func run(ctx context.Context, o options) error {
	hub, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	provider, err := clusters.New(ctx, clusters.Options{
		Scheme:    scheme,
		Mapper:    clusters.NewMapper(scheme),
		Watch:     []client.Object{&corev1.Pod{}, deploymentMetadata()},
		Cache:     cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {Transform: onlyReadiness}}},
		UserAgent: "example-pod-reporter",
		ReadOnly:  true, // Fleetwright's operator writes the MemberClusters
		Policy:    kubeconfig.Policy{AllowLoopback: o.allowLoopback},
	})
	if err != nil {
		return err
	}
	selector := labels.SelectorFromSet(labels.Set{"sigs.k8s.io/multicluster-runtime-kubeconfig": "true"})
	rules := kubeconfig.SecretRules{{Namespace: o.namespace, Format: kubeconfig.FormatKubeconfig, Selector: selector}}
	m, err := mcmanager.New(hub, provider, ctrl.Options{
		Scheme:  scheme,
		Cache:   cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: clusters.SecretCache(rules)}},
		Metrics: metricsserver.Options{BindAddress: o.metrics},
		// The priority queue of controller-runtime v0.24 may hand an item to a worker that has ended.
		Controller: config.Controller{UsePriorityQueue: new(false)},
	})
	if err != nil {
		return err
	}
	if err := provider.SetupWithManager(ctx, m.GetLocalManager(), m, rules); err != nil {
		return err
	}
	if err := setUpReporter(m); err != nil {
		return err
	}
	return m.Start(ctx)
}

// deploymentMetadata is the kind Deployment in a form that holds only metadata.
func deploymentMetadata() *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}}
}
