package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// PodTemplate returns the pod template of the Deployment, in the types of its API.
func (w Workload) PodTemplate() (*corev1.PodTemplateSpec, error) {
	content, found, err := unstructured.NestedMap(w.Deployment.Object, "spec", "template")
	if err == nil && !found {
		err = errors.New("there is none")
	}
	template := &corev1.PodTemplateSpec{}
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(content, template)
	}
	if err != nil {
		return nil, fmt.Errorf("read the pod template: %w", err)
	}
	return template, nil
}

// PodTemplates renders the pod template of one AppService for many members. Members whose templates
// cannot differ in anything that matters to pod security share one: the one for the first of them.
// The templates refer to no copies.
type PodTemplates struct {
	app *v1alpha1.AppService
	// variablesMatter is set if a variable may get into any field of the template: a patch copies it
	// there, or it is in an annotation of the pods.
	variablesMatter bool
	byKey           map[string]*corev1.PodTemplateSpec
}

// PodTemplatesOf returns the pod templates of an AppService.
func PodTemplatesOf(app *v1alpha1.AppService) *PodTemplates {
	return &PodTemplates{app: app, variablesMatter: variablesMatter(app.Spec), byKey: map[string]*corev1.PodTemplateSpec{}}
}

// variablesMatter reports whether the value of a variable may get into any field of the pods.
func variablesMatter(spec v1alpha1.AppServiceSpec) bool {
	for _, value := range spec.PodAnnotations {
		if strings.Contains(value, clusterPrefix) {
			return true
		}
	}
	hasPatches := false
	for i := range spec.Overrides {
		hasPatches = hasPatches || len(spec.Overrides[i].Patches) > 0
	}
	if !hasPatches {
		return false
	}
	content, err := json.Marshal(spec)
	return err != nil || strings.Contains(string(content), clusterPrefix)
}

// For returns the template for a member. It must not be modified. For the errors, see [Render].
func (p *PodTemplates) For(member *v1alpha1.MemberCluster) (*corev1.PodTemplateSpec, error) {
	key, err := p.keyOf(member)
	if err != nil {
		return nil, err
	}
	if template := p.byKey[key]; template != nil {
		return template, nil
	}
	rendered, err := Render(p.app, &v1alpha1.ClusterStatus{Name: member.Name}, member, "", nil)
	if err != nil {
		return nil, err // another member with the key may have a label that this one lacks
	}
	template, err := rendered.PodTemplate()
	if err == nil {
		p.byKey[key] = template
	}
	return template, err
}

// keyOf returns what the template of a member depends on.
func (p *PodTemplates) keyOf(member *v1alpha1.MemberCluster) (string, error) {
	if p.variablesMatter {
		return member.Name, nil
	}
	var key strings.Builder
	for i := range p.app.Spec.Overrides {
		isMatching, err := matches(&p.app.Spec.Overrides[i], member)
		if err != nil {
			return "", err
		}
		if isMatching {
			key.WriteString(strconv.Itoa(i) + ",")
		}
	}
	return key.String(), nil
}
