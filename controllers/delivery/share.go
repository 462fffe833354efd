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
)

const (
	// remembered is how many parts of objects are known for sharing: those of some 4,000 AppServices. To know less costs memory,
	// and is no error.
	remembered = 16384
	// maxShared is how many bytes a part may have, so that a member that makes up large ones cannot have them all remembered.
	maxShared = 16 << 10
)

// Transform returns what the caches of all members do to what they hold. They drop the managed fields, and what an AppService
// has in common on all members they hold together, once: with 20 AppServices, that is 100 KiB less for each member.
func Transform() toolscache.TransformFunc {
	return sharer{lru.New(remembered)}.transform
}

// sharer knows parts of objects by their content. What it hands out is read only, as everything in a cache is. It is safe
// for concurrent use.
type sharer struct {
	known *lru.Cache
}

func (s sharer) transform(object any) (any, error) {
	switch object := object.(type) {
	case *appsv1.Deployment:
		tame(&object.Spec)
		s.deployment(object)
	case *corev1.Service:
		s.service(object)
	case *autoscalingv2.HorizontalPodAutoscaler:
		tame(object)
		s.meta(&object.ObjectMeta)
	case *policyv1.PodDisruptionBudget:
		s.meta(&object.ObjectMeta)
	}
	return object, nil
}

func (s sharer) deployment(d *appsv1.Deployment) {
	s.meta(&d.ObjectMeta)
	replicas := d.Spec.Replicas // a member's own
	d.Spec.Replicas = nil
	share(s, &d.Spec)
	d.Spec.Replicas = replicas
	for i := range d.Status.Conditions { // their times are a member's own
		c := &d.Status.Conditions[i]
		said := appsv1.DeploymentCondition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message}
		share(s, &said)
		c.Type, c.Status, c.Reason, c.Message = said.Type, said.Status, said.Reason, said.Message
	}
}

func (s sharer) service(service *corev1.Service) {
	s.meta(&service.ObjectMeta)
	address, addresses := service.Spec.ClusterIP, service.Spec.ClusterIPs // a member's own
	service.Spec.ClusterIP, service.Spec.ClusterIPs = "", nil
	share(s, &service.Spec)
	service.Spec.ClusterIP, service.Spec.ClusterIPs = address, addresses
}

func (s sharer) meta(m *metav1.ObjectMeta) {
	common := metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, Labels: m.Labels, Annotations: m.Annotations}
	share(s, &common)
	m.Namespace, m.Name, m.Labels, m.Annotations, m.ManagedFields = common.Namespace, common.Name, common.Labels, common.Annotations, nil
}

// share replaces a value by the one that is known with the same content, or makes it known.
func share[T any, P interface {
	*T
	Marshal() ([]byte, error)
}](s sharer, value P) {
	content, err := value.Marshal()
	if err != nil || len(content) > maxShared {
		return
	}
	type key struct {
		kind any
		sum  [sha256.Size]byte
	}
	k := key{P(nil), sha256.Sum256(content)}
	if known, found := s.known.Get(k); found {
		*value = known.(T)
		return
	}
	s.known.Add(k, *value)
}
