package workload

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// variables replaces the variables $(cluster.…) in texts by their values for a member. All other
// $(…) belong to Kubernetes and stay.
type variables struct {
	member *v1alpha1.MemberCluster
	// escape replaces $$(cluster.…. In an environment it stays as it is, because the kubelet
	// resolves it.
	escape string
}

const (
	variablePrefix = "$(cluster."
	escapedPrefix  = "$" + variablePrefix
)

func ofEnvironment(member *v1alpha1.MemberCluster) variables {
	return variables{member: member, escape: escapedPrefix}
}

func ofAnnotations(member *v1alpha1.MemberCluster) variables {
	return variables{member: member, escape: variablePrefix}
}

// expand reads a text as the kubelet does: from left to right, with $$ as one.
func (v variables) expand(text string) (string, error) {
	var expanded strings.Builder
	for {
		i := strings.IndexByte(text, '$')
		if i < 0 {
			expanded.WriteString(text)
			return expanded.String(), nil
		}
		expanded.WriteString(text[:i])
		text = text[i:]
		switch {
		case strings.HasPrefix(text, escapedPrefix):
			expanded.WriteString(v.escape)
			text = text[len(escapedPrefix):]
		case strings.HasPrefix(text, variablePrefix):
			name, rest, closed := strings.Cut(text, ")")
			if !closed {
				return "", fmt.Errorf("%q has no closing )", text)
			}
			value, err := v.value(name + ")")
			if err != nil {
				return "", err
			}
			expanded.WriteString(value)
			text = rest
		default:
			taken := 1
			if strings.HasPrefix(text, "$$") {
				taken = 2
			}
			expanded.WriteString(text[:taken])
			text = text[taken:]
		}
	}
}

var labelVariable = regexp.MustCompile(`^\$\(cluster\.labels\[(?:'([^'"]+)'|"([^'"]+)")\]\)$`)

func (v variables) value(variable string) (string, error) {
	if variable == "$(cluster.name)" {
		return v.member.Name, nil
	}
	quoted := labelVariable.FindStringSubmatch(variable)
	if quoted == nil {
		return "", fmt.Errorf("unknown variable %s: use $(cluster.name) or $(cluster.labels['KEY']), or write $%s for the literal text", variable, variable)
	}
	key := quoted[1] + quoted[2]
	value, found := v.member.Labels[key]
	if !found {
		return "", fmt.Errorf("%s: the MemberCluster has no label %q", variable, key)
	}
	return value, nil
}

// environment returns the environment with values for the member. If a variable cannot have a
// value, blame makes the error from its name.
func (v variables) environment(env []corev1.EnvVar, blame func(name string, err error) error) ([]corev1.EnvVar, error) {
	expanded := slices.Clone(env)
	for i := range expanded {
		value, err := v.expand(expanded[i].Value)
		if err != nil {
			return nil, blame(expanded[i].Name, err)
		}
		expanded[i].Value = value
	}
	return expanded, nil
}

// initContainers returns the init containers, with values for the member in their environments.
func (v variables) initContainers(containers []v1alpha1.InitContainer) ([]v1alpha1.InitContainer, error) {
	expanded := slices.Clone(containers)
	for i := range expanded {
		var err error
		expanded[i].Env, err = v.environment(expanded[i].Env, func(name string, err error) error {
			return &VariableError{Where: fmt.Sprintf("spec.initContainers[name=%s].env[name=%s]", expanded[i].Name, name), Err: err}
		})
		if err != nil {
			return nil, err
		}
	}
	return expanded, nil
}

// metadata replaces the variables in the annotations of all objects. It replaces what the spec
// points to, and changes none of it.
func (v variables) metadata(spec *v1alpha1.AppServiceSpec) (err error) {
	if spec.PodAnnotations, err = v.annotations("spec.podAnnotations", spec.PodAnnotations); err != nil {
		return err
	}
	if spec.Deployment != nil {
		deployment := *spec.Deployment
		if deployment.Annotations, err = v.annotations("spec.deployment.annotations", deployment.Annotations); err != nil {
			return err
		}
		spec.Deployment = &deployment
	}
	if spec.Service != nil {
		service := *spec.Service
		if service.Annotations, err = v.annotations("spec.service.annotations", service.Annotations); err != nil {
			return err
		}
		spec.Service = &service
	}
	return nil
}

// annotations returns annotations with values for the member. Where is the field that has them.
func (v variables) annotations(where string, annotations map[string]string) (map[string]string, error) {
	expanded := maps.Clone(annotations)
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		value, err := v.expand(annotations[key])
		if err != nil {
			return nil, &VariableError{Where: fmt.Sprintf("%s[%s]", where, key), Err: err}
		}
		expanded[key] = value
	}
	return expanded, nil
}
