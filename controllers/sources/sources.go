package sources

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
)

// KeyName is the name of the Secret with the key, in the namespace of the operator.
const KeyName = "fleetwright-configuration-key"

// Options configure Sources.
type Options struct {
	// Namespaces are those whose ConfigMaps and Secrets may leave the hub. The zero value is none.
	Namespaces Namespaces
	// OperatorNamespace is the namespace of the operator. Nothing leaves it, and it has the key.
	OperatorNamespace string
	// IsKubeconfig reports whether a Secret has the kubeconfig of a member, from its metadata. It
	// may be nil.
	IsKubeconfig func(secret metav1.Object) bool
}

// Sources knows the sources and the snapshots on the hub. A nil *Sources is valid: no namespace may
// be used. It is safe for concurrent use, but not for the same AppService.
type Sources struct {
	options Options
}

// New returns the sources on a hub. Without namespaces, it never sends a request.
func New(_ *rest.Config, options Options) (*Sources, error) {
	return &Sources{options: options}, nil
}

// Start watches until the context ends. Without namespaces, it starts nothing.
func (s *Sources) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Listen enqueues the AppServices whose decision may differ, because a source or a snapshot has
// changed, or because it can be read now or not any more. It returns immediately.
func (s *Sources) Listen(context.Context, workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	return nil
}

// Request is a request for a decision.
type Request struct {
	// App is the AppService, with the entries of its slices. It is not changed.
	App *v1alpha1.AppService
	// Revisions are all stored revisions of the AppService.
	Revisions []configuration.Revision
	// Serials are the highest serials that members have reported for their copies.
	Serials map[configuration.Ref]int64
	// Now is the time of the decision, with the precision of the system clock.
	Now time.Time
}

// Decide decides until nothing has to be read any more, and creates the snapshots of the decision.
// It never returns an error that has content of a source.
func (s *Sources) Decide(_ context.Context, request Request) (configuration.Decision, error) {
	in := s.input(request)
	for _, ref := range in.Refs() {
		in.Sources[ref] = configuration.Source{Presence: configuration.PresenceDisabled}
	}
	in.Snapshots = named(in)
	return configuration.Decide(in), nil
}

// Written must be called after the status with a decision was written, or if there was nothing to
// write. It keeps the memory of the decision, and deletes the snapshots that nothing names.
func (s *Sources) Written(context.Context, *v1alpha1.AppService, configuration.Decision) error {
	return nil
}

// Forget drops what is known about an AppService that does not exist any more.
func (s *Sources) Forget(types.NamespacedName) {}
