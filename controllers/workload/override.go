package workload

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// matching returns the overrides that match the member, in their order.
func matching(overrides []v1alpha1.Override, member *v1alpha1.MemberCluster) ([]v1alpha1.Override, error) {
	var matching []v1alpha1.Override
	for i := range overrides {
		isMatching, err := matches(&overrides[i], member)
		if err != nil {
			return nil, err
		}
		if isMatching {
			matching = append(matching, overrides[i])
		}
	}
	return matching, nil
}

// matches reports whether an override matches the member.
func matches(override *v1alpha1.Override, member *v1alpha1.MemberCluster) (bool, error) {
	if len(override.ClusterNames) > 0 && !slices.Contains(override.ClusterNames, member.Name) {
		return false, nil
	}
	selector, err := override.ClusterSelector.AsSelector()
	if err != nil {
		return false, &OverrideError{Override: override.Name, Err: fmt.Errorf("clusterSelector: %w", err)}
	}
	return selector.Matches(k8slabels.Set(member.Labels)), nil
}

// forMember returns the AppService as it is for one member, without the patches. Values that an
// override replaces are not expanded: a variable in them need not have a value.
func forMember(app *v1alpha1.AppService, overrides []v1alpha1.Override, member *v1alpha1.MemberCluster, copies Copies) (*v1alpha1.AppService, error) {
	own := *app // what it points to is replaced, never changed
	own.Spec.Overrides = nil
	setBy := map[string]string{}
	for _, override := range overrides {
		if err := change(&own.Spec, override); err != nil {
			return nil, &OverrideError{Override: override.Name, Err: err}
		}
		for _, variable := range override.Env {
			setBy[variable.Name] = override.Name
		}
	}
	var err error
	own.Spec.Env, err = ofEnvironment(member, copies).environment(own.Spec.Env, func(name string, err error) error {
		if override, overridden := setBy[name]; overridden {
			return &OverrideError{Override: override, Err: fmt.Errorf("env[name=%s]: %w", name, err)}
		}
		return &VariableError{Where: fmt.Sprintf("spec.env[name=%s]", name), Err: err}
	})
	if err != nil {
		return nil, err
	}
	if own.Spec.InitContainers, err = ofEnvironment(member, copies).initContainers(own.Spec.InitContainers); err != nil {
		return nil, err
	}
	if err := ofCommands(copies).commands(&own.Spec); err != nil {
		return nil, err
	}
	if own.Spec.PodAnnotations, err = ofPodAnnotations(member, copies).annotations("spec.podAnnotations", own.Spec.PodAnnotations); err != nil {
		return nil, err
	}
	return &own, ofAnnotations(member).metadata(&own.Spec)
}

// change applies the fields of an override that have counterparts in the spec. The replicas are
// part of the entry.
func change(spec *v1alpha1.AppServiceSpec, override v1alpha1.Override) error {
	if override.Image != "" {
		spec.Image = override.Image
	}
	if override.ImageRegistry != "" {
		spec.Image = withRegistry(spec.Image, override.ImageRegistry)
		spec.InitContainers = slices.Clone(spec.InitContainers)
		for i := range spec.InitContainers {
			spec.InitContainers[i].Image = withRegistry(spec.InitContainers[i].Image, override.ImageRegistry)
		}
	}
	if override.ImageTag != "" {
		spec.Image = withTag(spec.Image, override.ImageTag)
	}
	spec.Env = mergeEnv(spec.Env, override.Env)
	if resources := override.Resources; resources != nil {
		spec.Resources.Requests = mergeResources(spec.Resources.Requests, resources.Requests)
		spec.Resources.Limits = mergeResources(spec.Resources.Limits, resources.Limits)
	}
	if override.ServiceType != "" {
		return changeServiceType(spec, override.ServiceType)
	}
	return nil
}

// withRegistry replaces the registry of an image: its first part if that has a dot or a colon, or
// is localhost. Any other image belongs to the default registry, and gets the new one as a prefix.
//
// github.com/distribution/reference is not used: it makes "web" docker.io/library/web, so the
// mirror of a registry would be asked for library/web, and it has no registry with a path.
func withRegistry(image, registry string) string {
	first, rest, found := strings.Cut(image, "/")
	if found && (strings.ContainsAny(first, ".:") || first == "localhost") {
		image = rest
	}
	return registry + "/" + image
}

// withTag replaces the tag and the digest of an image by a tag or by a digest.
func withTag(image, tag string) string {
	image, _, _ = strings.Cut(image, "@")
	if colon := strings.LastIndexByte(image, ':'); colon > strings.LastIndexByte(image, '/') { // the other is that of a registry's port
		image = image[:colon]
	}
	if strings.HasPrefix(tag, "sha256:") {
		return image + "@" + tag
	}
	return image + ":" + tag
}

// mergeEnv replaces variables of the same name in place, because a variable may refer to those
// before it, and appends the others.
func mergeEnv(env, changes []corev1.EnvVar) []corev1.EnvVar {
	merged := slices.Clone(env)
	for _, variable := range changes {
		i := slices.IndexFunc(merged, func(old corev1.EnvVar) bool { return old.Name == variable.Name })
		if i < 0 {
			merged = append(merged, variable)
		} else {
			merged[i] = variable
		}
	}
	return merged
}

func mergeResources(list, changes corev1.ResourceList) corev1.ResourceList {
	if len(changes) == 0 {
		return list
	}
	merged := corev1.ResourceList{}
	maps.Copy(merged, list)
	maps.Copy(merged, changes)
	return merged
}

func changeServiceType(spec *v1alpha1.AppServiceSpec, to corev1.ServiceType) error {
	if len(spec.Ports) == 0 {
		return fmt.Errorf("serviceType %s: there is no Service, because spec.ports is empty", to)
	}
	if port, found := nodePort(spec); found && to == corev1.ServiceTypeClusterIP {
		return fmt.Errorf("serviceType %s allows no nodePort: remove nodePort %d of port %d from spec.ports", to, port.NodePort, port.Port)
	}
	service := v1alpha1.Service{}
	if spec.Service != nil {
		service = *spec.Service
	}
	service.Type = to
	spec.Service = &service
	return nil
}
