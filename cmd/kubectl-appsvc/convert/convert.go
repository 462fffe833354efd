package convert

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// source has the objects of one application.
type source struct {
	deployment *appsv1.Deployment
	service    *corev1.Service
	autoscaler *autoscalingv2.HorizontalPodAutoscaler
	budget     *policyv1.PodDisruptionBudget
	// others are the objects of other kinds.
	others []*unstructured.Unstructured
	notes  []string
}

// ToAppService returns the AppService of a Deployment and the objects beside it, and what does not
// fit. There must be exactly one Deployment.
func ToAppService(objects []*unstructured.Unstructured) (*v1alpha1.AppService, []string, error) {
	from, err := read(objects)
	if err != nil {
		return nil, nil, err
	}
	app := &v1alpha1.AppService{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "AppService"},
		ObjectMeta: metav1.ObjectMeta{Name: from.deployment.Name, Namespace: from.deployment.Namespace},
	}
	from.convertPod(&app.Spec)
	from.convertDeployment(&app.Spec)
	from.convertService(&app.Spec)
	from.convertPolicies(&app.Spec)
	// It takes over what runs already, if that is the same, without a restart.
	app.Spec.ConflictPolicy = v1alpha1.ConflictAdoptIfIdentical
	rendered, err := render(app)
	if err != nil {
		return nil, nil, err
	}
	from.noteManaged()
	from.noteOthers(rendered.References())
	return app, append(from.notes, from.missing(rendered, objects)...), nil
}

// read returns the objects of one application.
func read(objects []*unstructured.Unstructured) (*source, error) {
	from := &source{}
	var deployments []string
	seen := map[string]string{} // by kind: the name of the object
	for _, object := range objects {
		var into any
		kind := object.GetKind()
		switch object.GroupVersionKind() {
		case appsv1.SchemeGroupVersion.WithKind("Deployment"):
			deployments = append(deployments, object.GetName())
			from.deployment = &appsv1.Deployment{}
			into = from.deployment
		case corev1.SchemeGroupVersion.WithKind("Service"):
			from.service = &corev1.Service{}
			into = from.service
		case autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"):
			from.autoscaler = &autoscalingv2.HorizontalPodAutoscaler{}
			into = from.autoscaler
		case policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"):
			from.budget = &policyv1.PodDisruptionBudget{}
			into = from.budget
		default:
			from.others = append(from.others, object)
			continue
		}
		if other, isDuplicate := seen[kind]; isDuplicate && kind != "Deployment" {
			return nil, fmt.Errorf("there are several objects of kind %s (%s, %s): an AppService has one", kind, other, object.GetName())
		}
		seen[kind] = object.GetName()
		if err := decode(object, into); err != nil {
			return nil, fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	switch {
	case len(deployments) == 0:
		return nil, errors.New("there is no Deployment: give the file that has one")
	case len(deployments) > 1:
		return nil, fmt.Errorf("there are %d Deployments (%s): convert them one at a time", len(deployments), strings.Join(deployments, ", "))
	case len(from.deployment.Spec.Template.Spec.Containers) == 0:
		return nil, fmt.Errorf("Deployment %s has no container", deployments[0]) //nolint:staticcheck // a kind
	}
	return from, from.checkBelong()
}

func (from *source) note(format string, args ...any) {
	from.notes = append(from.notes, fmt.Sprintf(format, args...))
}

// checkBelong drops objects that are not the Deployment's.
func (from *source) checkBelong() error {
	pods := labels.Set(from.deployment.Spec.Template.Labels)
	if s := from.service; s != nil && (len(s.Spec.Selector) == 0 || !labels.SelectorFromSet(s.Spec.Selector).Matches(pods)) {
		return fmt.Errorf("Service %s does not select the pods of Deployment %s: give the Service that does", s.Name, from.deployment.Name) //nolint:staticcheck // a kind
	} else if s != nil && s.Name != from.deployment.Name {
		from.note("the Service is named %s: an AppService gives its Service its own name, %s; clients need the new name", s.Name, from.deployment.Name)
	}
	if a := from.autoscaler; a != nil && (a.Spec.ScaleTargetRef.Kind != "Deployment" || a.Spec.ScaleTargetRef.Name != from.deployment.Name) {
		return fmt.Errorf("HorizontalPodAutoscaler %s scales %s %s and not Deployment %s", a.Name, a.Spec.ScaleTargetRef.Kind, a.Spec.ScaleTargetRef.Name, from.deployment.Name)
	}
	if b := from.budget; b != nil {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		if err != nil || !selector.Matches(pods) {
			return fmt.Errorf("PodDisruptionBudget %s does not select the pods of Deployment %s", b.Name, from.deployment.Name)
		}
	}
	return nil
}

// mainContainer returns the index of the container that serves the Service, or else of the first.
func (from *source) mainContainer() int {
	containers := from.deployment.Spec.Template.Spec.Containers
	if from.service == nil || len(from.service.Spec.Ports) == 0 {
		return 0
	}
	port := from.service.Spec.Ports[0]
	for i := range containers {
		if slices.ContainsFunc(containers[i].Ports, func(p corev1.ContainerPort) bool {
			return p.Name != "" && p.Name == port.TargetPort.StrVal || p.ContainerPort == port.TargetPort.IntVal || port.TargetPort == intstr.IntOrString{} && p.ContainerPort == port.Port
		}) {
			return i
		}
	}
	return 0
}

func (from *source) convertPod(spec *v1alpha1.AppServiceSpec) {
	template := from.deployment.Spec.Template
	pod := template.Spec
	index := from.mainContainer()
	c := pod.Containers[index]
	spec.Image, spec.ContainerName, spec.Command, spec.Args, spec.Env, spec.EnvFrom = c.Image, c.Name, c.Command, c.Args, c.Env, c.EnvFrom
	spec.ContainerPorts = convertPorts(c.Ports)
	spec.Resources, spec.VolumeMounts, spec.Lifecycle, spec.SecurityContext = c.Resources, c.VolumeMounts, c.Lifecycle, c.SecurityContext
	spec.LivenessProbe, spec.ReadinessProbe, spec.StartupProbe = c.LivenessProbe, c.ReadinessProbe, c.StartupProbe
	for i := range pod.InitContainers {
		spec.InitContainers = append(spec.InitContainers, initContainer(pod.InitContainers[i]))
	}
	for i := range pod.Containers {
		if i == index {
			continue
		}
		sidecar := initContainer(pod.Containers[i])
		sidecar.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		spec.InitContainers = append(spec.InitContainers, sidecar)
		from.note("container %s became a sidecar (an init container with restartPolicy: Always): it starts before %s and stops after it", sidecar.Name, c.Name)
	}
	from.convertVolumes(spec, pod.Volumes)
	spec.PodLabels, spec.PodAnnotations = withoutOwn(template.Labels), withoutOwn(template.Annotations)
	if s := pod.SecurityContext; s != nil && !equality.Semantic.DeepEqual(*s, corev1.PodSecurityContext{}) {
		spec.PodSecurityContext = s
	}
	spec.ServiceAccountName, spec.ImagePullSecrets, spec.NodeSelector, spec.Tolerations = cmp.Or(pod.ServiceAccountName, pod.DeprecatedServiceAccount), pod.ImagePullSecrets, pod.NodeSelector, pod.Tolerations
	spec.Affinity, spec.TopologySpreadConstraints, spec.PriorityClassName = pod.Affinity, pod.TopologySpreadConstraints, pod.PriorityClassName
	if seconds := pod.TerminationGracePeriodSeconds; seconds != nil && *seconds != 30 {
		spec.TerminationGracePeriodSeconds = seconds
	}
}

// convertVolumes converts the volumes that an AppService can have, and leaves out the mounts of the
// others.
func (from *source) convertVolumes(spec *v1alpha1.AppServiceSpec, volumes []corev1.Volume) {
	for _, v := range volumes {
		converted := v1alpha1.Volume{Name: v.Name, ConfigMap: v.ConfigMap, CSI: v.CSI, DownwardAPI: v.DownwardAPI, EmptyDir: v.EmptyDir,
			Ephemeral: v.Ephemeral, PersistentVolumeClaim: v.PersistentVolumeClaim, Projected: v.Projected, Secret: v.Secret}
		if !equality.Semantic.DeepEqual(converted, v1alpha1.Volume{Name: v.Name}) {
			spec.Volumes = append(spec.Volumes, converted)
			continue
		}
		isIt := func(mount corev1.VolumeMount) bool { return mount.Name == v.Name }
		spec.VolumeMounts = slices.DeleteFunc(slices.Clone(spec.VolumeMounts), isIt)
		for i := range spec.InitContainers {
			spec.InitContainers[i].VolumeMounts = slices.DeleteFunc(slices.Clone(spec.InitContainers[i].VolumeMounts), isIt)
		}
	}
}

func convertPorts(of []corev1.ContainerPort) []v1alpha1.ContainerPort {
	var ports []v1alpha1.ContainerPort
	for _, port := range of {
		ports = append(ports, v1alpha1.ContainerPort{Name: port.Name, ContainerPort: port.ContainerPort, Protocol: port.Protocol})
	}
	return ports
}

func initContainer(c corev1.Container) v1alpha1.InitContainer {
	return v1alpha1.InitContainer{
		Name: c.Name, Image: c.Image, RestartPolicy: c.RestartPolicy, Command: c.Command, Args: c.Args, Env: c.Env, EnvFrom: c.EnvFrom,
		Ports: convertPorts(c.Ports), Resources: c.Resources, VolumeMounts: c.VolumeMounts, LivenessProbe: c.LivenessProbe,
		ReadinessProbe: c.ReadinessProbe, StartupProbe: c.StartupProbe, Lifecycle: c.Lifecycle, SecurityContext: c.SecurityContext,
	}
}

func (from *source) convertDeployment(spec *v1alpha1.AppServiceSpec) {
	d := from.deployment
	spec.Replicas = d.Spec.Replicas
	if seconds := d.Spec.ProgressDeadlineSeconds; seconds != nil && *seconds != 600 {
		spec.ProgressDeadlineSeconds = seconds
	}
	if !isDefaultStrategy(d.Spec.Strategy) {
		spec.Strategy = d.Spec.Strategy
	}
	annotations := withoutOwn(d.Annotations)
	labels := withoutOwn(d.Labels)
	if len(labels) > 0 || len(annotations) > 0 {
		spec.Deployment = &v1alpha1.Deployment{}
		spec.Deployment.Labels, spec.Deployment.Annotations = labels, annotations
	}
}

func isDefaultStrategy(s appsv1.DeploymentStrategy) bool {
	if s.Type != "" && s.Type != appsv1.RollingUpdateDeploymentStrategyType {
		return false
	}
	quarter := intstr.FromString("25%")
	return s.RollingUpdate == nil || (s.RollingUpdate.MaxSurge == nil || *s.RollingUpdate.MaxSurge == quarter) &&
		(s.RollingUpdate.MaxUnavailable == nil || *s.RollingUpdate.MaxUnavailable == quarter)
}

func (from *source) convertService(spec *v1alpha1.AppServiceSpec) {
	s := from.service
	if s == nil {
		return
	}
	for _, port := range s.Spec.Ports {
		converted := v1alpha1.ServicePort{Name: port.Name, Port: port.Port, AppProtocol: port.AppProtocol}
		if port.Protocol != corev1.ProtocolTCP {
			converted.Protocol = port.Protocol
		}
		if port.TargetPort != intstr.FromInt32(port.Port) {
			converted.TargetPort = port.TargetPort
		}
		if s.Spec.Type == corev1.ServiceTypeNodePort {
			converted.NodePort = port.NodePort
		}
		spec.Ports = append(spec.Ports, converted)
	}
	annotations := withoutOwn(s.Annotations)
	labels := withoutOwn(s.Labels)
	if s.Spec.Type == corev1.ServiceTypeClusterIP {
		s.Spec.Type = ""
	}
	if s.Spec.Type != "" || len(labels) > 0 || len(annotations) > 0 {
		spec.Service = &v1alpha1.Service{Type: s.Spec.Type}
		spec.Service.Labels, spec.Service.Annotations = labels, annotations
	}
	if isSamePorts(spec) {
		spec.ContainerPorts = nil // they follow from the ports of the Service
	}
}

// isSamePorts reports whether the container has just the ports that the Service needs.
func isSamePorts(spec *v1alpha1.AppServiceSpec) bool {
	if len(spec.ContainerPorts) != len(spec.Ports) {
		return false
	}
	for i, port := range spec.ContainerPorts {
		target := spec.Ports[i].TargetPort
		if target == (intstr.IntOrString{}) {
			target = intstr.FromInt32(spec.Ports[i].Port)
		}
		if port.Name != "" || target != intstr.FromInt32(port.ContainerPort) {
			return false
		}
	}
	return true
}

func (from *source) convertPolicies(spec *v1alpha1.AppServiceSpec) {
	if a := from.autoscaler; a != nil {
		spec.Autoscaling = &v1alpha1.Autoscaling{MinReplicas: a.Spec.MinReplicas, MaxReplicas: a.Spec.MaxReplicas, Metrics: a.Spec.Metrics, Behavior: a.Spec.Behavior}
		spec.Replicas = nil
	}
	if b := from.budget; b != nil {
		spec.DisruptionBudget = &v1alpha1.DisruptionBudget{MinAvailable: b.Spec.MinAvailable, MaxUnavailable: b.Spec.MaxUnavailable, UnhealthyPodEvictionPolicy: b.Spec.UnhealthyPodEvictionPolicy}
	}
}

// render returns the objects of an AppService on a cluster.
func render(app *v1alpha1.AppService) (workload.Workload, error) {
	entry := &v1alpha1.ClusterStatus{Replicas: app.DesiredReplicas()}
	if s := app.Spec.Autoscaling; s != nil {
		entry.MinReplicas, entry.MaxReplicas = 1, s.MaxReplicas
		if s.MinReplicas != nil {
			entry.MinReplicas = *s.MinReplicas
		}
	}
	rendered, err := workload.Render(app, entry, &v1alpha1.MemberCluster{}, "", nil)
	if err != nil {
		return workload.Workload{}, fmt.Errorf("render the AppService: %w", err)
	}
	return rendered, nil
}

// missing returns what the objects have and the rendered ones do not.
func (from *source) missing(rendered workload.Workload, objects []*unstructured.Unstructured) []string {
	byKind := map[string]*unstructured.Unstructured{
		"Deployment": rendered.Deployment, "Service": rendered.Service,
		"HorizontalPodAutoscaler": rendered.Autoscaler, "PodDisruptionBudget": rendered.DisruptionBudget,
	}
	var missing []string
	for _, object := range objects {
		if is := byKind[object.GetKind()]; is != nil {
			for _, difference := range compare("", from.withSidecars(object).Object, is.Object) {
				missing = append(missing, object.GetKind()+" "+difference)
			}
		}
	}
	return missing
}

// withSidecars returns a Deployment with all containers but the main one among the init containers,
// where the AppService has them. It returns any other object as it is.
func (from *source) withSidecars(object *unstructured.Unstructured) *unstructured.Unstructured {
	containers, found, _ := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "containers")
	if !found || len(containers) == 1 {
		return object
	}
	index := from.mainContainer()
	init, _, _ := unstructured.NestedSlice(object.Object, "spec", "template", "spec", "initContainers")
	init = slices.Concat(init, containers[:index], containers[index+1:])
	moved := object.DeepCopy()
	// The fields are there with these types, because read has decoded them.
	_ = unstructured.SetNestedSlice(moved.Object, containers[index:index+1], "spec", "template", "spec", "containers")
	_ = unstructured.SetNestedSlice(moved.Object, init, "spec", "template", "spec", "initContainers")
	return moved
}
