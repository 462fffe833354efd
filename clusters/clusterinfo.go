package clusters

import (
	"context"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/version"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/clusters/transport"
)

const (
	// infoInterval is how often the cluster info is read.
	infoInterval = 5 * time.Minute
	// infoTimeout limits one read of the cluster info, and nodePageTimeout the wait for one
	// page of nodes.
	infoTimeout, nodePageTimeout = 4 * time.Minute, 30 * time.Second
)

// clusterInfo is what a member reports about itself.
type clusterInfo struct {
	id      types.UID
	version string
	// allocatable is the sum over the nodes, or nil if it is not known.
	allocatable corev1.ResourceList
	// nodesCondition is the conditionState of the AllocatableKnown condition.
	nodesCondition conditionState
}

func (c clusterInfo) equal(other clusterInfo) bool {
	return c.id == other.id && c.version == other.version && c.nodesCondition == other.nodesCondition &&
		equality.Semantic.DeepEqual(c.allocatable, other.allocatable)
}

// maxProbeAttempts is how often a probe connects to a member that closes the connection at once.
const maxProbeAttempts = 10

// probe returns the identity of a member: the UID of its kube-system namespace. A successful probe
// shows that the member is reachable, is an API server, and accepts the credentials. The caller
// compares the identity. So one read shows what /version shows, and also that the cluster is the same.
func probe(ctx context.Context, c *transport.Client) (types.UID, error) {
	var namespace metav1.PartialObjectMetadata
	read := func() error { return c.GetJSON(ctx, "/api/v1/namespaces/"+metav1.NamespaceSystem, &namespace) }
	err := read()
	for attempt := 1; attempt < maxProbeAttempts && transport.IsClosedBeforeUse(err); attempt++ {
		err = read() // this error has no reason, and the next one probably has
	}
	if err != nil {
		return "", err
	}
	if id := string(namespace.UID); id == "" || id != transport.Truncate(transport.Sanitize(id), maxShortText) {
		// No API server returns such a UID. The UID appears in statuses and messages.
		return "", transport.ErrNotAPIServer
	}
	return namespace.UID, nil
}

// readClusterInfo returns the info of a member. Values that cannot be read keep their known state.
func (s *session) readClusterInfo(ctx context.Context, known clusterInfo) clusterInfo {
	ctx, cancel := context.WithTimeout(ctx, infoTimeout)
	defer cancel()
	var info version.Info
	if err := s.connection.GetJSON(ctx, "/version", &info); err == nil {
		known.version = transport.Truncate(transport.Sanitize(info.GitVersion), maxShortText)
	}
	switch sum, err := readAllocatable(ctx, s.connection); {
	case err == nil:
		known.allocatable = sum
		known.nodesCondition = conditionState{metav1.ConditionTrue, v1alpha1.ReasonNodesListed, "the sum over the nodes that accept pods"}
	case transport.StatusCode(err) == http.StatusForbidden:
		known.nodesCondition = conditionState{metav1.ConditionFalse, v1alpha1.ReasonForbidden, "the credentials may not list nodes"}
	case known.nodesCondition.status == "":
		known.nodesCondition = conditionState{metav1.ConditionUnknown, v1alpha1.ReasonUnhealthy, "the nodes cannot be listed: " + transport.SafeMessage(err)}
	}
	return known
}

// maxShortText is the length of the longest version or identity, in bytes.
const maxShortText = 64

// maxResourceNames is the largest number of resources that are summed.
const maxResourceNames = 64

// maxQuantity is more than any node has of any resource: an exabyte.
const maxQuantity = 1e18

// addResources adds resources to a sum, but skips quantities that no node can have.
func addResources(sum, more corev1.ResourceList) {
	for name, quantity := range more {
		total, known := sum[name]
		if !known && (len(sum) >= maxResourceNames || len(validation.IsQualifiedName(string(name))) > 0) {
			continue
		}
		// The limit is needed because adding 1 to 1e2000000000 takes a gigabyte.
		if size := quantity.AsApproximateFloat64(); size < 0 || size > maxQuantity {
			continue
		}
		total.Add(quantity)
		sum[name] = total
	}
}
