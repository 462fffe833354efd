package clusters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/version"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

const (
	// probeTimeout bounds one probe.
	probeTimeout = 5 * time.Second
	// surveyInterval is how often a member is asked for what seldom changes.
	surveyInterval = 5 * time.Minute
	// surveyTimeout bounds one survey, surveyPageTimeout how long the hub waits for one page of nodes.
	surveyTimeout, surveyPageTimeout = 4 * time.Minute, 30 * time.Second
	// maxAnswer is how many bytes of an answer to a probe are read.
	maxAnswer = 64 << 10
)

// facts are what a member says of itself.
type facts struct {
	id      types.UID
	version string
	// allocatable is the sum over the nodes; nil when it is not known.
	allocatable corev1.ResourceList
	// counted is the verdict of the AllocatableKnown condition.
	counted verdict
}

func (f facts) equal(other facts) bool {
	return f.id == other.id && f.version == other.version && f.counted == other.counted &&
		equality.Semantic.DeepEqual(f.allocatable, other.allocatable)
}

// probe asks a member who it is: the UID of its kube-system namespace. So it is seen whether it is reachable, is an API
// server, takes the credentials, and is still the same cluster.
func probe(ctx context.Context, c *connection) (types.UID, error) {
	var namespace metav1.PartialObjectMetadata
	if err := c.get(ctx, "/api/v1/namespaces/"+metav1.NamespaceSystem, &namespace); err != nil {
		return "", err
	}
	if id := string(namespace.UID); id == "" || id != cut(clean(id), maxVersion) {
		return "", errNoAPIServer // no API server gives such a UID, which goes into statuses and messages
	}
	return namespace.UID, nil
}

var errNoAPIServer = errors.New("the server answers, but not as a Kubernetes API server does")

// get reads a small JSON object. It bypasses the limits on requests and responses: a busy member is not a dead one.
func (c *connection) get(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(context.WithValue(ctx, unlimited{}, true), http.MethodGet, c.config.Host+path, http.NoBody)
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	request.Header.Set("Accept", "application/json")
	response, err := c.client.Do(request)
	for tries := 1; isUnexplained(err) && tries < 3; tries++ {
		response, err = c.client.Do(request)
	}
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	defer func() { _ = response.Body.Close() }() // read only
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return &statusError{code: response.StatusCode}
	}
	if json.Unmarshal(body, into) != nil { // its text may quote what the server sent
		return errNoAPIServer
	}
	return nil
}

// isUnexplained reports whether the server had closed the connection before the request was written. The cause, such as a TLS alert that
// demands a client certificate, is then in what was not read.
func isUnexplained(err error) bool {
	var request *url.Error
	if !errors.As(err, &request) {
		return false
	}
	var network *net.OpError
	return request.Err.Error() == "http2: client conn could not be established" || errors.As(err, &network) && network.Op == "write"
}

// survey returns what is known of a member now. What it does not tell stays as it was.
func (s *session) survey(ctx context.Context, known facts) facts {
	ctx, cancel := context.WithTimeout(ctx, surveyTimeout)
	defer cancel()
	var info version.Info
	if err := s.connection.get(ctx, "/version", &info); err == nil {
		known.version = cut(clean(info.GitVersion), maxVersion)
	}
	switch sum, err := s.connection.allocatable(ctx); {
	case err == nil:
		known.allocatable = sum
		known.counted = verdict{metav1.ConditionTrue, v1alpha1.ReasonNodesListed, "the sum over the nodes that take pods"}
	case statusCode(err) == http.StatusForbidden:
		known.counted = verdict{metav1.ConditionFalse, v1alpha1.ReasonForbidden, "the credentials may not list nodes"}
	case known.counted.status == "":
		known.counted = verdict{metav1.ConditionUnknown, v1alpha1.ReasonUnhealthy, "the nodes could not be listed: " + describe(err)}
	}
	return known
}

// maxVersion is how long a version may be.
const maxVersion = 64

// maxResources is how many kinds of resources are summed up.
const maxResources = 64

// maxQuantity is more than any node has of anything: an exabyte.
const maxQuantity = 1e18

// add adds resources to a sum, but those that nothing can have.
func add(sum, more corev1.ResourceList) {
	for name, quantity := range more {
		total, known := sum[name]
		if !known && (len(sum) >= maxResources || len(validation.IsQualifiedName(string(name))) > 0) {
			continue
		}
		if size := quantity.AsApproximateFloat64(); size < 0 || size > maxQuantity { // adding 1 to 1e2000000000 takes a gigabyte
			continue
		}
		total.Add(quantity)
		sum[name] = total
	}
}
