package delivery

import (
	"crypto/sha256"
	"runtime"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/delivery/copies"
	"github.com/fleetwright/fleetwright/controllers/delivery/object"
)

// Transform returns the transform function of all members' caches. It drops the managed fields, and
// interns what an AppService has in common on all members: with 20 AppServices, that saves 100 KiB
// for each member.
func Transform() toolscache.TransformFunc { return newInterner().transform }

// interner shares equal values of cached objects. They are read only, as everything in a cache is. It
// keeps a value as long as an object that has it is in memory: what no cache has any more goes with the
// next garbage collections, so that no member can fill the memory with versions of its objects. It is
// safe for concurrent use.
type interner struct {
	mu    sync.Mutex
	known map[internKey]*interned
}

// internKey identifies a value by its type and content.
type internKey struct {
	kind any
	sum  [sha256.Size]byte
}

// interned is a value that objects share.
type interned struct {
	key   internKey
	value any
	users int // how many times objects use it; guarded by the mutex of the interner
}

func newInterner() *interner { return &interner{known: map[internKey]*interned{}} }

func (i *interner) transform(cached any) (any, error) {
	switch o := cached.(type) {
	case *appsv1.Deployment:
		object.SanitizeQuantities(&o.Spec)
		releaseWith(i, o, i.deployment(o))
	case *corev1.Service:
		releaseWith(i, o, i.service(o))
	case *autoscalingv2.HorizontalPodAutoscaler:
		object.SanitizeQuantities(o)
		releaseWith(i, o, i.meta(&o.ObjectMeta))
	case *policyv1.PodDisruptionBudget:
		releaseWith(i, o, i.meta(&o.ObjectMeta))
	}
	return cached, nil
}

// releaseWith releases values when the object that uses them is garbage.
func releaseWith[T any](i *interner, object *T, values []*interned) {
	runtime.AddCleanup(object, i.release, values)
}

// release ends a use of each value, and forgets those that are not used any more.
func (i *interner) release(values []*interned) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, v := range values {
		if v.users--; v.users == 0 {
			delete(i.known, v.key)
		}
	}
}

func (i *interner) deployment(d *appsv1.Deployment) (used []*interned) {
	if record := d.Annotations[v1alpha1.AnnotationCopies]; record != "" { // it has the UID, which differs by member
		d.Annotations[v1alpha1.AnnotationCopies] = copies.WithoutUID(record, d.UID)
	}
	used = i.meta(&d.ObjectMeta)
	replicas := d.Spec.Replicas // which differ by member
	d.Spec.Replicas = nil
	used = intern(i, used, &d.Spec)
	d.Spec.Replicas = replicas
	for n := range d.Status.Conditions { // their times differ by member
		c := &d.Status.Conditions[n]
		said := appsv1.DeploymentCondition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message}
		used = intern(i, used, &said)
		c.Type, c.Status, c.Reason, c.Message = said.Type, said.Status, said.Reason, said.Message
	}
	return used
}

func (i *interner) service(service *corev1.Service) (used []*interned) {
	used = i.meta(&service.ObjectMeta)
	address, addresses := service.Spec.ClusterIP, service.Spec.ClusterIPs // which differ by member
	service.Spec.ClusterIP, service.Spec.ClusterIPs = "", nil
	used = intern(i, used, &service.Spec)
	service.Spec.ClusterIP, service.Spec.ClusterIPs = address, addresses
	return used
}

func (i *interner) meta(m *metav1.ObjectMeta) []*interned {
	common := metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name, Labels: m.Labels, Annotations: m.Annotations}
	used := intern(i, nil, &common)
	m.Namespace, m.Name, m.Labels, m.Annotations, m.ManagedFields = common.Namespace, common.Name, common.Labels, common.Annotations, nil
	return used
}

// intern replaces a value by the known one with the same content, or makes it known. It returns the used
// values with that one.
func intern[T any, P interface {
	*T
	Marshal() ([]byte, error)
}](i *interner, used []*interned, value P) []*interned {
	content, err := value.Marshal()
	if err != nil {
		return used
	}
	key := internKey{P(nil), sha256.Sum256(content)}
	i.mu.Lock()
	defer i.mu.Unlock()
	shared := i.known[key]
	if shared == nil {
		shared = &interned{key: key, value: *value}
		i.known[key] = shared
	}
	shared.users++
	*value = shared.value.(T)
	return append(used, shared)
}
