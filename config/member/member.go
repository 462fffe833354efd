// Package member has the permissions that a member grants to Fleetwright: the manifests of this
// directory, embedded. They are written nowhere else: the plugin applies these, kubectl applies the
// files.
package member

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// Names of the objects in the manifests.
const (
	// Namespace has the ServiceAccount, and nothing else of a member.
	Namespace = "fleetwright-system"
	// ServiceAccount is the identity of the operator on a member.
	ServiceAccount = "fleetwright"
	// Role is the ClusterRole of all members, and the name of each binding.
	Role = "fleetwright-member"
	// NamespaceRole is the ClusterRole that a RoleBinding grants in each named namespace.
	NamespaceRole = "fleetwright-member-namespace"
	// ConfigurationRole is the ClusterRole for spec.configuration, and the name of each binding of it.
	ConfigurationRole = "fleetwright-member-configuration"
	// PolicyName is the name of the ValidatingAdmissionPolicy that limits the ServiceAccount, and of its
	// binding.
	PolicyName = "member.fleetwright.dev"
	// PolicyMinor is the minor version of Kubernetes 1 that a member needs for the policy.
	PolicyMinor = 30
)

//go:embed rbac.yaml named-namespaces/rbac.yaml named-namespaces/namespace.yaml
//go:embed configuration/rbac.yaml configuration/named-namespaces/rbac.yaml configuration/named-namespaces/namespace.yaml
//go:embed policy/policy.yaml
var manifests embed.FS

// Objects returns the objects that grant writing in all namespaces. If namespaces are given, they
// grant writing in these only, and each of the namespaces must exist.
func Objects(namespaces ...string) ([]*unstructured.Unstructured, error) {
	return readFor("", namespaces)
}

// Configuration returns the objects that let ConfigMaps and Secrets travel to the member, beside those
// of [Objects] for the same namespaces.
func Configuration(namespaces ...string) ([]*unstructured.Unstructured, error) {
	return readFor("configuration/", namespaces)
}

// Policy returns the ValidatingAdmissionPolicy that limits the ServiceAccount, and its binding. They are
// the same for all namespaces, with and without [Configuration].
func Policy() ([]*unstructured.Unstructured, error) { return read("policy/policy.yaml") }

// readFor reads the objects of a directory for these namespaces, or for all if there are none.
func readFor(directory string, namespaces []string) ([]*unstructured.Unstructured, error) {
	if len(namespaces) == 0 {
		return read(directory + "rbac.yaml")
	}
	objects, err := read(directory + "named-namespaces/rbac.yaml")
	if err != nil {
		return nil, err
	}
	for _, namespace := range namespaces {
		bindings, err := read(directory + "named-namespaces/namespace.yaml")
		if err != nil {
			return nil, err
		}
		for _, binding := range bindings {
			binding.SetNamespace(namespace)
		}
		objects = append(objects, bindings...)
	}
	return objects, nil
}

func read(file string) ([]*unstructured.Unstructured, error) {
	content, err := manifests.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// Grant is what the ServiceAccount may do in a namespace, or in the whole cluster if Namespace is
// empty.
type Grant struct {
	Namespace string
	Rules     []rbacv1.PolicyRule
}

// Grants returns what these objects grant: for each binding, the rules of its role.
func Grants(objects []*unstructured.Unstructured) ([]Grant, error) {
	rules := map[string][]rbacv1.PolicyRule{}
	for _, object := range objects {
		if object.GetKind() == "ClusterRole" || object.GetKind() == "Role" {
			role := &rbacv1.Role{} // a ClusterRole has the same rules
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, role); err != nil {
				return nil, fmt.Errorf("read %s %s: %w", object.GetKind(), object.GetName(), err)
			}
			rules[object.GetKind()+"/"+object.GetNamespace()+"/"+object.GetName()] = role.Rules
		}
	}
	var grants []Grant
	for _, object := range objects {
		if object.GetKind() != "ClusterRoleBinding" && object.GetKind() != "RoleBinding" {
			continue
		}
		binding := &rbacv1.RoleBinding{} // a ClusterRoleBinding has the same fields
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, binding); err != nil {
			return nil, fmt.Errorf("read %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		namespace := "" // of the role
		if binding.RoleRef.Kind == "Role" {
			namespace = binding.Namespace
		}
		role, found := rules[binding.RoleRef.Kind+"/"+namespace+"/"+binding.RoleRef.Name]
		if !found {
			return nil, fmt.Errorf("%s %s has no role %s", object.GetKind(), object.GetName(), binding.RoleRef.Name)
		}
		grants = append(grants, Grant{binding.Namespace, role})
	}
	return grants, nil
}
