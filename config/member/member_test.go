package member_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fleetwright/fleetwright/config/member"
)

// describe returns the kind, the name and the namespace of each object.
func describe(t *testing.T, namespaces ...string) []string {
	t.Helper()
	objects, err := member.Objects(namespaces...)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, object := range objects {
		all = append(all, object.GetKind()+" "+object.GetName()+" "+object.GetNamespace())
	}
	return all
}

func TestObjects(t *testing.T) {
	for file, got := range map[string][]string{
		"rbac.yaml":                  describe(t),
		"named-namespaces/rbac.yaml": slices.DeleteFunc(describe(t, "shop", "web"), func(o string) bool { return strings.HasPrefix(o, "RoleBinding "+member.Role) }),
	} {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if want := len(regexp.MustCompile("(?m)^kind: ").FindAll(content, -1)); len(got) != want {
			t.Errorf("%s has %d objects: %v", file, want, got)
		}
	}
	for _, want := range []string{
		"Namespace " + member.Namespace + " ", "ServiceAccount " + member.ServiceAccount + " " + member.Namespace,
		"ClusterRole " + member.Role + " ", "ClusterRole " + member.NamespaceRole + " ",
		"RoleBinding " + member.Role + " shop", "RoleBinding " + member.Role + " web",
	} {
		if all := describe(t, "shop", "web"); !slices.Contains(all, want) {
			t.Errorf("%s is missing in %v", want, all)
		}
	}
}

// A member gets a ServiceAccount and its permissions: nothing that runs, and no API. It permits writes
// of nothing but the workload, its copies, Events, tokens, and the namespace, which the hub may not
// delete.
func TestObjects_install_nothing(t *testing.T) {
	writes := map[string]bool{}
	for _, read := range []func(...string) ([]*unstructured.Unstructured, error){member.Objects, member.Configuration} {
		for _, namespaces := range [][]string{nil, {"shop"}} {
			objects, err := read(namespaces...)
			if err != nil {
				t.Fatal(err)
			}
			for _, object := range objects {
				if kind := object.GetKind(); !slices.Contains([]string{"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"}, kind) {
					t.Errorf("%s %s is installed", kind, object.GetName())
				}
			}
			grants, err := member.Grants(objects)
			if err != nil {
				t.Fatal(err)
			}
			for _, grant := range grants {
				for _, rule := range grant.Rules {
					for _, resource := range rule.Resources {
						for _, verb := range rule.Verbs {
							if !slices.Contains([]string{"get", "list", "watch"}, verb) {
								writes[verb+" "+resource] = true
							}
						}
					}
				}
			}
		}
	}
	want := map[string]bool{"create namespaces": true, "create events": true, "create serviceaccounts/token": true}
	for _, resource := range []string{"deployments", "services", "horizontalpodautoscalers", "poddisruptionbudgets", "configmaps", "secrets"} {
		for _, verb := range []string{"create", "patch", "delete"} {
			want[verb+" "+resource] = true
		}
	}
	if diff := cmp.Diff(want, writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

// The permissions for spec.configuration are only those to write, wherever they are granted, and
// they can be granted without any other.
func TestConfiguration_grants_only_writing(t *testing.T) {
	for name, c := range map[string]struct{ namespaces, want []string }{
		"in all namespaces":   {nil, []string{""}},
		"in named namespaces": {[]string{"shop", "web"}, []string{"shop", "web"}},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := member.Configuration(c.namespaces...)
			if err != nil {
				t.Fatal(err)
			}
			grants, err := member.Grants(objects)
			if err != nil {
				t.Fatal(err)
			}
			var namespaces []string
			for _, grant := range grants {
				namespaces = append(namespaces, grant.Namespace)
				var rules []string
				for _, rule := range grant.Rules {
					rules = append(rules, strings.Join(rule.Resources, ",")+": "+strings.Join(rule.Verbs, ","))
				}
				if diff := cmp.Diff([]string{"configmaps: create,patch,delete", "secrets: create,patch,delete"}, rules); diff != "" {
					t.Errorf("rules (-want +got):\n%s", diff)
				}
			}
			if diff := cmp.Diff(c.want, namespaces); diff != "" {
				t.Errorf("namespaces (-want +got):\n%s", diff)
			}
			for _, object := range objects {
				if object.GetName() != member.ConfigurationRole {
					t.Errorf("%s has the name %s", object.GetKind(), object.GetName())
				}
			}
		})
	}
}

func TestGrants(t *testing.T) {
	grantsOf := func(namespaces ...string) map[string]bool {
		objects, err := member.Objects(namespaces...)
		if err != nil {
			t.Fatal(err)
		}
		grants, err := member.Grants(objects)
		if err != nil {
			t.Fatal(err)
		}
		creates := map[string]bool{}
		for _, grant := range grants {
			for _, rule := range grant.Rules {
				for _, verb := range rule.Verbs {
					if verb == "create" && rule.APIGroups[0] == "apps" {
						creates[grant.Namespace] = true
					}
				}
			}
		}
		return creates
	}
	for name, test := range map[string]struct {
		got, want map[string]bool
	}{
		"in all namespaces":   {grantsOf(), map[string]bool{"": true}},
		"in named namespaces": {grantsOf("shop", "web"), map[string]bool{"shop": true, "web": true}},
	} {
		t.Run(name+", Deployments can be created", func(t *testing.T) {
			if diff := cmp.Diff(test.want, test.got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	t.Run("a binding without its role is an error", func(t *testing.T) {
		objects, err := member.Objects()
		if err != nil {
			t.Fatal(err)
		}
		if grants, err := member.Grants(objects[3:]); err == nil {
			t.Errorf("got %v", grants)
		}
	})
}
