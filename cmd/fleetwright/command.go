package main

import (
	"cmp"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/fleetwright/fleetwright/clusters"
	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
	"github.com/fleetwright/fleetwright/controllers/configuration/sources"
	"github.com/fleetwright/fleetwright/controllers/delivery"
	"github.com/fleetwright/fleetwright/controllers/entries/appslice"
	"github.com/fleetwright/fleetwright/controllers/podsecurity"
	"github.com/fleetwright/fleetwright/internal/rewind"
)

// options are the values of the flags.
type options struct {
	kubeconfig, context     string
	secretNamespace         string
	secretSelector          string
	hubID                   string
	clusterAPINamespace     string
	argoCDNamespace         string
	secretRules             kubeconfig.SecretRules
	clusterProfiles         bool
	policy                  kubeconfig.Policy
	memberQPS               float32
	memberBurst             int
	memberMaxList           resource.QuantityValue
	probeInterval           time.Duration
	secretGrace             time.Duration
	sliceThreshold          int
	propagateFrom           string
	propagated              sources.Namespaces
	podSecurityLevel        string
	namespaceLabels         string
	copiedLabels            delivery.NamespaceLabels
	podSecurity             podsecurity.Level
	metrics                 metricsFlags
	probeAddress            string
	leaderElect             bool
	leaderElectionNamespace string
	traces                  traces
	logLevel, logFormat     string
	// restores detects restores of the hub. It is no flag.
	restores rewind.Detector
}

func newCommand() *cobra.Command {
	o := &options{memberMaxList: resource.QuantityValue{Quantity: *resource.NewQuantity(clusters.DefaultMaxListBytes, resource.BinarySI)}}
	command := &cobra.Command{
		Use:   "fleetwright",
		Short: "Run AppServices on many Kubernetes clusters",
		Long: `Fleetwright runs AppServices, declared once on a hub cluster, on every member cluster that
they are placed on, and gathers the state of all of them in that one object.
A member is added by a Secret on the hub that holds its kubeconfig.`,
		Version:       version,
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := setUpLogging(o.logLevel, o.logFormat); err != nil {
				return err
			}
			if err := limitMemory(memlimit.FromCgroup, ctrl.Log); err != nil {
				return err
			}
			return run(command.Context(), o)
		},
	}
	o.addFlags(command)
	command.AddCommand(&cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(command.OutOrStdout(), "fleetwright %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}, newCheckCommand())
	return command
}

// addHubFlags adds the flags that select the hub.
func (o *options) addHubFlags(command *cobra.Command) {
	f := command.Flags()
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig `file` of the hub; defaults to $KUBECONFIG, the service account of the pod, or ~/.kube/config")
	f.StringVar(&o.context, "context", "", "`context` of the kubeconfig; defaults to its current context")
}

func (o *options) addFlags(command *cobra.Command) {
	o.addHubFlags(command)
	f := command.Flags()
	f.StringVar(&o.secretNamespace, "secret-namespace", "fleetwright-system", "`namespace` on the hub with the kubeconfig Secrets of members")
	f.StringVar(&o.secretSelector, "secret-selector", "sigs.k8s.io/multicluster-runtime-kubeconfig=true", "label `selector` of the Secrets")
	f.StringVar(&o.hubID, "hub-id", "", "`identity` of the hub, stored on every object on a member; defaults to the UID of the hub's kube-system namespace. A rebuilt hub with the identity of its predecessor takes over its workloads")
	f.StringVar(&o.clusterAPINamespace, "cluster-api-namespace", "", "`namespace` on the hub with kubeconfig Secrets of Cluster API (CLUSTER-kubeconfig), which become members too; empty disables it")
	f.StringVar(&o.argoCDNamespace, "argocd-namespace", "", "`namespace` on the hub with cluster Secrets of Argo CD, which become members too; empty disables it")
	f.BoolVar(&o.clusterProfiles, "publish-cluster-profiles", false, "publish a ClusterProfile (sigs.k8s.io/cluster-inventory-api) for each member, in the namespace of the Secrets")
	f.BoolVar(&o.policy.AllowLoopback, "allow-loopback-members", false, "allow members with loopback addresses, for a demonstration on one machine")
	f.BoolVar(&o.policy.AllowInsecureTLS, "allow-insecure-members", false, "allow kubeconfigs that disable the verification of the server certificate")
	f.BoolVar(&o.policy.AllowProxy, "allow-member-proxies", false, "allow kubeconfigs with a proxy (proxy-url)")
	f.Float32Var(&o.memberQPS, "member-qps", clusters.DefaultQPS, "average number of requests per second to one member; its own priority and fairness protects it from load, so lower this only for a very small member")
	f.IntVar(&o.memberBurst, "member-burst", clusters.DefaultBurst, "maximum burst of requests to one member")
	f.Var(&o.memberMaxList, "member-max-list", "maximum `size` of a list response of a member, and of its cache; the operator's memory limit should be four times as large")
	f.DurationVar(&o.probeInterval, "member-probe-interval", clusters.DefaultProbeInterval, "interval of the health probes of a member; three consecutive failures make it unreachable")
	f.IntVar(&o.sliceThreshold, "slice-threshold", appslice.DefaultThreshold, "`number` of entries of one AppService above which they move from its status to AppServiceSlices")
	f.DurationVar(&o.secretGrace, "secret-grace", clusters.DefaultSecretGrace, "how long a MemberCluster is kept without its Secret; a MemberCluster with settings of an administrator is kept permanently")
	f.StringVar(&o.propagateFrom, "propagate-from", "", "`namespaces` on the hub whose labelled ConfigMaps and Secrets may travel with AppServices (spec.configuration), separated by commas, or * for all; empty disables it. The permissions are in config/propagation")
	f.StringVar(&o.podSecurityLevel, "pod-security-level", string(podsecurity.Baseline), "`level` of the Pod Security Standards for AppServices in namespaces on the hub without the label pod-security.kubernetes.io/enforce: privileged, baseline or restricted")
	f.StringVar(&o.namespaceLabels, "namespace-labels", "", "`keys` of labels, and prefixes of keys that end with a slash, separated by commas: a namespace that is created on a member gets these labels of the namespace on the hub, and always those of pod security")
	o.metrics.addFlags(f)
	f.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", "`address` of /healthz and /readyz; 0 disables them")
	f.BoolVar(&o.leaderElect, "leader-elect", true, "use leader election, so that only one of several replicas is active")
	f.StringVar(&o.leaderElectionNamespace, "leader-election-namespace", "", "`namespace` of the Lease for leader election; defaults to the namespace of the Secrets")
	f.StringVar(&o.traces.endpoint, "tracing-endpoint", "", "`URL` of an OpenTelemetry collector for traces of edits (OTLP over HTTP, such as http://otel-collector:4318); empty disables tracing")
	f.Float64Var(&o.traces.sample, "tracing-sample", 1, "`share` of the edits to trace, greater than 0 and at most 1")
	f.StringVar(&o.logLevel, "log-level", "info", "debug, info, warn or error")
	f.StringVar(&o.logFormat, "log-format", "json", "json or text")
}

// minMemberList is the minimum of --member-max-list, because one object can have 4 MiB.
const minMemberList = 4 << 20

// maxSliceThreshold is the maximum of --slice-threshold. An entry without any text has at most 1,058
// bytes, so the status of so many entries always fits into etcd.
const maxSliceThreshold = 1300

// check returns an error if the options are invalid.
func (o *options) check() error {
	switch {
	case o.secretNamespace == "":
		return errors.New("--secret-namespace is empty: Secrets of every namespace would become members; set a namespace")
	case o.memberQPS <= 0:
		return fmt.Errorf("--member-qps %v: want more than 0", o.memberQPS)
	case o.memberBurst < 1:
		return fmt.Errorf("--member-burst %d: want 1 or more", o.memberBurst)
	case o.memberMaxList.Value() < minMemberList:
		return fmt.Errorf("--member-max-list %s: want %s or more", o.memberMaxList.String(), resource.NewQuantity(minMemberList, resource.BinarySI))
	case o.probeInterval <= 0:
		return fmt.Errorf("--member-probe-interval %v: want more than 0", o.probeInterval)
	case o.secretGrace <= 0:
		return fmt.Errorf("--secret-grace %v: want more than 0", o.secretGrace)
	case o.sliceThreshold < 1 || o.sliceThreshold > maxSliceThreshold:
		return fmt.Errorf("--slice-threshold %d: want 1 to %d, because more entries may not fit into one object of the hub", o.sliceThreshold, maxSliceThreshold)
	}
	if err := cmp.Or(o.traces.check(), o.metrics.check()); err != nil {
		return err
	}
	var err error
	if o.propagated, err = sources.ParseNamespaces(o.propagateFrom); err != nil {
		return fmt.Errorf("--propagate-from %s: %w", o.propagateFrom, err)
	}
	if o.podSecurity, err = podsecurity.ParseLevel(o.podSecurityLevel); err != nil {
		return fmt.Errorf("--pod-security-level %w", err)
	}
	if o.copiedLabels, err = delivery.ParseNamespaceLabels(o.namespaceLabels); err != nil {
		return fmt.Errorf("--namespace-labels: %w", err)
	}
	return o.findSecretRules()
}

// findSecretRules sets the rules for the Secrets of members from the options.
func (o *options) findSecretRules() error {
	selector, err := labels.Parse(o.secretSelector)
	if err != nil {
		return fmt.Errorf("--secret-selector %q: %w", o.secretSelector, err)
	}
	if selector.Empty() {
		return fmt.Errorf("--secret-selector is empty: every Secret of namespace %s would become a member; set a selector", o.secretNamespace)
	}
	o.secretRules = kubeconfig.SecretRules{{Namespace: o.secretNamespace, Format: kubeconfig.FormatKubeconfig, Selector: selector}}
	if o.clusterAPINamespace != "" {
		o.secretRules = append(o.secretRules, kubeconfig.SecretRule{Namespace: o.clusterAPINamespace, Format: kubeconfig.FormatClusterAPI})
	}
	if o.argoCDNamespace != "" {
		o.secretRules = append(o.secretRules, kubeconfig.SecretRule{Namespace: o.argoCDNamespace, Format: kubeconfig.FormatArgoCD})
	}
	return nil
}

func setUpLogging(level, format string) error {
	var at slog.Level
	if err := at.UnmarshalText([]byte(level)); err != nil {
		return fmt.Errorf("--log-level %q: want debug, info, warn or error", level)
	}
	var handler slog.Handler
	switch strings.ToLower(format) {
	case "json":
		handler = slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: at})
	case "text":
		handler = slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: at})
	default:
		return fmt.Errorf("--log-format %q: want json or text", format)
	}
	handler = newLineLimiter(handler)
	logger := logr.FromSlogHandler(handler)
	ctrl.SetLogger(logger)
	klog.SetLogger(logger)
	// The servers of net/http write to the standard logger.
	log.SetFlags(0)
	log.SetOutput(slog.NewLogLogger(handler, slog.LevelWarn).Writer())
	return nil
}
