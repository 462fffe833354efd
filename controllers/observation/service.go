package observation

import (
	"cmp"
	"fmt"
	"net"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// maxAddresses is the maximum number of addresses in an entry.
const maxAddresses = 8

// WithService returns the observation with the addresses of a member's Service. While a Service of
// type LoadBalancer has no address, the cluster is not Ready, as in Helm and Argo CD.
func (o Observation) WithService(service *corev1.Service) Observation {
	if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return o
	}
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		address := cmp.Or(ingress.Hostname, ingress.IP) // reported by the member, so not trusted
		if len(validation.IsDNS1123Subdomain(address)) == 0 || net.ParseIP(address) != nil {
			o.Addresses = append(o.Addresses, address)
		}
	}
	slices.Sort(o.Addresses)
	o.Addresses = slices.Compact(o.Addresses)
	o.Addresses = o.Addresses[:min(len(o.Addresses), maxAddresses)]
	if len(o.Addresses) == 0 && o.Phase == v1alpha1.ClusterReady {
		o.Phase, o.Reason = v1alpha1.ClusterProgressing, v1alpha1.ReasonLoadBalancerPending
		o.Message = fmt.Sprintf("Service %s of type LoadBalancer has no address yet", service.Name)
	}
	return o
}
