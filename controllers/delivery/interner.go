package delivery

import (
	"crypto/sha256"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/lru"

	"github.com/fleetwright/fleetwright/controllers/delivery/object"
)

const (
	// maxInterned is how many values are interned: those of some 4,000 AppServices. Fewer cost
	// memory, and are no error.
	maxInterned = 16384
	// maxShared is how many bytes an interned value may have, so that a member that invents large
	// ones cannot fill the memory.
	maxShared = 16 << 10
)

// Transform returns the transform function of all members' caches. It drops the managed fields, and
// interns what an AppService has in common on all members: with 20 AppServices, that saves 100 KiB
// for each member.
func Transform() toolscache.TransformFunc {
	return interner{lru.New(maxInterned)}.transform
}

// interner shares equal values of cached objects. They are read only, as everything in a cache is.
// It is safe for concurrent use.
type interner struct {
	known *lru.Cache
}

func (i interner) transform(cached any) (any, error) {
	switch o := cached.(type) {
	case *appsv1.Deployment:
		object.SanitizeQuantities(&o.Spec)
		i.deployment(o)
	case *corev1.Service:
		i.service(o)
	case *autoscalingv2.HorizontalPodAutoscaler:
		object.SanitizeQuantities(o)
		i.meta(&o.ObjectMeta)
	case *policyv1.PodDisruptionBudget:
		i.meta(&o.ObjectMeta)
	}
	return cached, nil
}

func (i interner) deployment(d *appsv1.Deployment) {
	i.meta(&d.ObjectMeta)
	replicas := d.Spec.Replicas // which differ by member
	d.Spec.Replicas = nil
	intern(i, &d.Spec)
	d.Spec.Replicas = replicas
	for n := range d.Status.Conditions { // their times differ by member
		c := &d.Status.Conditions[n]
		said := appsv1.DeploymentCondition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message}
		intern(i, &said)
		c.Type, c.Status, c.Reason, c.Message = said.Type, said.Status, said.Reason, said.Message
	}
}

func (i interner) service(service *corev1.Service) {
	i.meta(&service.ObjectMeta)
	address, addresses := service.Spec.ClusterIP, service.Spec.ClusterIPs // which differ by member
	service.Spec.ClusterIP, service.Spec.ClusterIPs = "", nil
	intern(i, &service.Spec)
	service.Spec.ClusterIP, service.Spec.ClusterIPs = address, addresses
}

func (i interner) meta(m *metav1.ObjectMeta) {
	common := metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, Labels: m.Labels, Annotations: m.Annotations}
	intern(i, &common)
	m.Namespace, m.Name, m.Labels, m.Annotations, m.ManagedFields = common.Namespace, common.Name, common.Labels, common.Annotations, nil
}

// intern replaces a value by the known one with the same content, or makes it known.
func intern[T any, P interface {
	*T
	Marshal() ([]byte, error)
}](i interner, value P) {
	content, err := value.Marshal()
	if err != nil || len(content) > maxShared {
		return
	}
	type key struct {
		kind any
		sum  [sha256.Size]byte
	}
	k := key{P(nil), sha256.Sum256(content)}
	if known, found := i.known.Get(k); found {
		*value = known.(T)
		return
	}
	i.known.Add(k, *value)
}
