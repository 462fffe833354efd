package workload

import (
	"cmp"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// service returns the Service, or nil if there are no ports.
func service(app *v1alpha1.AppService) typedObject {
	if len(app.Spec.Ports) == 0 {
		return nil
	}
	service := &corev1.Service{Spec: corev1.ServiceSpec{
		Type:     serviceType(&app.Spec),
		Selector: Selector(app.Name),
	}}
	for _, port := range app.Spec.Ports {
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{
			Name:        port.Name,
			Protocol:    protocol(port),
			Port:        port.Port,
			TargetPort:  targetPort(port),
			NodePort:    port.NodePort,
			AppProtocol: port.AppProtocol,
		})
	}
	if app.Spec.Service != nil {
		service.Labels = maps.Clone(app.Spec.Service.Labels)
		service.Annotations = maps.Clone(app.Spec.Service.Annotations)
	}
	service.SetGroupVersionKind(serviceKind)
	return service
}

// serviceType returns the type in the spec, or the least type that the ports need.
func serviceType(spec *v1alpha1.AppServiceSpec) corev1.ServiceType {
	if spec.Service != nil && spec.Service.Type != "" {
		return spec.Service.Type
	}
	if _, found := nodePort(spec); found {
		return corev1.ServiceTypeNodePort
	}
	return corev1.ServiceTypeClusterIP
}

// nodePort returns the first port with a nodePort.
func nodePort(spec *v1alpha1.AppServiceSpec) (v1alpha1.ServicePort, bool) {
	for _, port := range spec.Ports {
		if port.NodePort != 0 {
			return port, true
		}
	}
	return v1alpha1.ServicePort{}, false
}

// protocol and targetPort return the port's own values, or the defaults of the API server: both are
// keys of lists, which server-side apply requires.
func protocol(port v1alpha1.ServicePort) corev1.Protocol {
	return cmp.Or(port.Protocol, corev1.ProtocolTCP)
}

func targetPort(port v1alpha1.ServicePort) intstr.IntOrString {
	return cmp.Or(port.TargetPort, intstr.FromInt32(port.Port))
}
