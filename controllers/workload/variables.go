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

// variables replaces the variables $(cluster.…) and $(configuration.…) in texts by their values for
// a member. All other $(…) belong to Kubernetes and stay.
type variables struct {
	// member is nil for texts that have no $(cluster.…).
	member *v1alpha1.MemberCluster
	// copies is empty for texts that have no $(configuration.…), which is so for all texts of an
	// AppService with which nothing travels.
	copies Copies
	// escape replaces the $$ of an escaped variable. In an environment and in a command it stays
	// as it is, because the kubelet resolves it.
	escape string
}

const (
	clusterPrefix       = "$(cluster."
	configurationPrefix = "$(configuration."
)

func ofEnvironment(member *v1alpha1.MemberCluster, copies Copies) variables {
	return variables{member: member, copies: copies, escape: "$$"}
}

func ofCommands(copies Copies) variables { return variables{copies: copies, escape: "$$"} }

func ofPodAnnotations(member *v1alpha1.MemberCluster, copies Copies) variables {
	return variables{member: member, copies: copies, escape: "$"}
}

func ofAnnotations(member *v1alpha1.MemberCluster) variables {
	return variables{member: member, escape: "$"}
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
		switch isEscaped := strings.HasPrefix(text, "$$"); {
		case isEscaped && v.startsVariable(text[1:]):
			expanded.WriteString(v.escape)
			text = text[2:]
		case v.startsVariable(text):
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
			if isEscaped {
				taken = 2
			}
			expanded.WriteString(text[:taken])
			text = text[taken:]
		}
	}
}

// startsVariable reports whether a text starts with a variable that is replaced in it.
func (v variables) startsVariable(text string) bool {
	return v.member != nil && strings.HasPrefix(text, clusterPrefix) ||
		len(v.copies) > 0 && strings.HasPrefix(text, configurationPrefix)
}

func (v variables) value(variable string) (string, error) {
	if strings.HasPrefix(variable, configurationPrefix) {
		return v.copyName(variable)
	}
	return v.ofCluster(variable)
}

var labelVariable = regexp.MustCompile(`^\$\(cluster\.labels\[(?:'([^'"]+)'|"([^'"]+)")\]\)$`)

// ofCluster returns the value of a variable $(cluster.…).
func (v variables) ofCluster(variable string) (string, error) {
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

var copyVariable = regexp.MustCompile(`^\$\(configuration\.(configMap|secret)\[(?:'([^'"]+)'|"([^'"]+)")\]\)$`)

// copyName returns the value of a variable $(configuration.…).
func (v variables) copyName(variable string) (string, error) {
	parts := copyVariable.FindStringSubmatch(variable)
	if parts == nil {
		return "", fmt.Errorf("unknown variable %s: use $(configuration.configMap['NAME']) or $(configuration.secret['NAME']), or write $%s for the literal text", variable, variable)
	}
	reference := Reference{Kind: ConfigMap, Name: parts[2] + parts[3]}
	if parts[1] == "secret" {
		reference.Kind = Secret
	}
	name, listed := v.copies[reference]
	if !listed {
		return "", fmt.Errorf("%s: spec.configuration has no %s %q: add it there, or write $%s for the literal text", variable, reference.Kind, reference.Name, variable)
	}
	return name, nil
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

// commands replaces the variables in the commands and arguments of all containers. It replaces what
// the spec points to, and changes none of it.
func (v variables) commands(spec *v1alpha1.AppServiceSpec) (err error) {
	if len(v.copies) == 0 {
		return nil
	}
	if spec.Command, err = v.texts("spec.command", spec.Command); err != nil {
		return err
	}
	if spec.Args, err = v.texts("spec.args", spec.Args); err != nil {
		return err
	}
	spec.InitContainers = slices.Clone(spec.InitContainers)
	for i := range spec.InitContainers {
		container := &spec.InitContainers[i]
		where := fmt.Sprintf("spec.initContainers[name=%s].", container.Name)
		if container.Command, err = v.texts(where+"command", container.Command); err != nil {
			return err
		}
		if container.Args, err = v.texts(where+"args", container.Args); err != nil {
			return err
		}
	}
	return nil
}

// texts returns texts with values for the member. Where is the field that has them.
func (v variables) texts(where string, texts []string) ([]string, error) {
	expanded := slices.Clone(texts)
	for i := range expanded {
		var err error
		if expanded[i], err = v.expand(texts[i]); err != nil {
			return nil, &VariableError{Where: fmt.Sprintf("%s[%d]", where, i), Err: err}
		}
	}
	return expanded, nil
}

// metadata replaces the variables in the annotations of the Deployment and the Service. It replaces
// what the spec points to, and changes none of it.
func (v variables) metadata(spec *v1alpha1.AppServiceSpec) (err error) {
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
