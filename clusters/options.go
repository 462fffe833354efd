package clusters

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	clienttransport "k8s.io/client-go/transport"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/clusters/kubeconfig"
	"github.com/fleetwright/fleetwright/clusters/stall"
	"github.com/fleetwright/fleetwright/clusters/transport"
)

// Defaults of the Options.
const (
	DefaultUserAgent = "fleetwright"
	// DefaultQPS and DefaultBurst are more than two workers send. They stop a loop that sends
	// requests without end; a member's own priority and fairness protects it from load.
	// docs/decisions/the-member-protects-itself-from-load.md says why.
	DefaultQPS            = 200
	DefaultBurst          = 400
	DefaultReadRate       = 8 << 20
	DefaultReadBurst      = 64 << 20
	DefaultMaxListBytes   = 256 << 20
	DefaultConnectTimeout = 30 * time.Second
	DefaultProbeInterval  = 10 * time.Second
	DefaultWatchSilence   = 150 * time.Second
	DefaultMaxConnecting  = 32
	// DefaultSecretGrace is long enough to replace or restore a Secret, and to notice a wrong
	// selector.
	DefaultSecretGrace = 10 * time.Minute
)

// Options configure the connections to members. Scheme and Mapper are required. The zero value of
// every other field means its default.
type Options struct {
	// Scheme and Mapper are shared by all members. The mapper must know every kind that is used on
	// members; [NewMapper] returns one for the kinds of a scheme.
	Scheme *runtime.Scheme
	Mapper meta.RESTMapper
	// Cache is the template of each member's cache: its selectors, transforms and namespaces. Other
	// fields, such as SyncPeriod, are ignored. A transform that returns an error or panics ends the
	// session of the member.
	Cache cache.Options
	// DirectHandlers calls the handlers and predicates of controllers as soon as an object is stored, and
	// in Engage, which saves memory. They must only add to a queue, as those of Fleetwright's operator. By
	// default, a handler that takes long delays no other one, and no other member.
	DirectHandlers bool
	// Watch lists the kinds that a member's cache syncs before the member is engaged, in the forms in
	// which controllers watch them: typed, [metav1.PartialObjectMetadata] or unstructured. A member
	// that does not serve or permit one of them is not engaged. A cache refuses to wait for the
	// informer of another kind. It can be requested with [cache.BlockUntilSynced](false); its failures
	// do not end the engagement.
	Watch []client.Object
	// ReadOnly is for a process beside the operator of the same hub: the Provider writes nothing to the
	// hub, and connects to a member only after that operator has accepted its identity. By default,
	// the Provider is the operator: it writes the MemberClusters and renews tokens.
	ReadOnly bool
	// UserAgent is what members see in their audit logs. It defaults to DefaultUserAgent.
	UserAgent string
	// QPS and Burst limit the requests to one member, for all kinds together. They default to
	// DefaultQPS and DefaultBurst.
	QPS   float32
	Burst int
	// ReadRate and ReadBurst throttle the data of one member, in bytes per second and bytes: the
	// hub reads more slowly from a member that exceeds them. List elements and watch events count
	// for more than their bytes. They default to DefaultReadRate and DefaultReadBurst.
	ReadRate, ReadBurst int
	// MaxListBytes is the size of the largest list that a member may send, and the limit on the
	// memory of its cache. A member that exceeds it is disconnected. List elements count for more
	// than their bytes. While a list is read, it takes up to three times as much memory. It
	// defaults to DefaultMaxListBytes.
	MaxListBytes int64
	// ConnectTimeout limits how long the hub waits for the lists before an engagement. A list that
	// makes progress may take longer. It defaults to DefaultConnectTimeout.
	ConnectTimeout time.Duration
	// ProbeInterval is the time between two probes of a connected member, and up to a quarter more.
	// A member that fails three probes in a row is disengaged. It defaults to
	// DefaultProbeInterval.
	ProbeInterval time.Duration
	// WatchSilence is how long a watch may be silent before the member is disengaged. An API server
	// sends a bookmark each minute. It defaults to DefaultWatchSilence.
	WatchSilence time.Duration
	// MaxConnecting is how many members may list at the same time. It defaults to
	// DefaultMaxConnecting.
	MaxConnecting int
	// SecretGrace is how long a MemberCluster without an administrator's setting is kept without
	// its Secret. It defaults to DefaultSecretGrace.
	SecretGrace time.Duration
	// Policy lists what kubeconfigs may have beyond the safe defaults.
	Policy kubeconfig.Policy
	// OnUnreachable is called when an attempt to connect to a member that is not connected has failed,
	// after at least two others in a row. It must not block. By default, nothing is called.
	OnUnreachable func(name string)
	// Wrap wraps the round tripper of a member that adds the credentials, so the wrapper does not
	// see them.
	Wrap clienttransport.WrapperFunc

	// clock measures the stalls of this process.
	clock      *stall.Clock
	slots      connectSlots
	decoders   runtime.ClientNegotiator
	watched    []watchedKind // the kinds of Watch
	largeLists *transport.LargeLists
}

// complete sets the defaults, and returns an error if a field is invalid.
func (o *Options) complete() error {
	err := errors.Join(
		required("Scheme", o.Scheme != nil),
		required("Mapper", o.Mapper != nil),
		defaulted("QPS", &o.QPS, DefaultQPS, 0),
		defaulted("Burst", &o.Burst, DefaultBurst, 1),
		defaulted("ReadRate", &o.ReadRate, DefaultReadRate, 1),
		defaulted("ReadBurst", &o.ReadBurst, DefaultReadBurst, transport.MinReadBurst),
		defaulted("MaxListBytes", &o.MaxListBytes, DefaultMaxListBytes, transport.MaxEventBytes),
		defaulted("ConnectTimeout", &o.ConnectTimeout, DefaultConnectTimeout, time.Millisecond),
		defaulted("ProbeInterval", &o.ProbeInterval, DefaultProbeInterval, time.Millisecond),
		defaulted("WatchSilence", &o.WatchSilence, DefaultWatchSilence, time.Millisecond),
		defaulted("MaxConnecting", &o.MaxConnecting, DefaultMaxConnecting, 1),
		defaulted("SecretGrace", &o.SecretGrace, DefaultSecretGrace, time.Millisecond),
	)
	o.UserAgent = cmp.Or(o.UserAgent, DefaultUserAgent)
	if o.OnUnreachable == nil {
		o.OnUnreachable = func(string) {}
	}
	if err != nil {
		return err
	}
	o.slots = newConnectSlots(o.MaxConnecting)
	o.watched, err = o.watchedKinds()
	return err
}

// transport returns the options of a member's HTTP client.
func (o *Options) transport() transport.Options {
	return transport.Options{
		UserAgent: o.UserAgent, QPS: o.QPS, Burst: o.Burst, ReadRate: o.ReadRate, ReadBurst: o.ReadBurst, MaxListBytes: o.MaxListBytes,
		Clock: o.clock, AllowLoopback: o.Policy.AllowLoopback, Wrap: o.Wrap,
	}
}

func required(field string, set bool) error {
	if !set {
		return fmt.Errorf("%s is required", field)
	}
	return nil
}

// defaulted sets a zero field to its default, and returns an error if the field is below the
// minimum.
func defaulted[T cmp.Ordered](field string, value *T, byDefault, least T) error {
	var zero T
	if *value == zero {
		*value = byDefault
	}
	if *value < least {
		return fmt.Errorf("%s is %v: want 0 for the default (%v), or at least %v", field, *value, byDefault, least)
	}
	return nil
}
