package framework

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/environment"
)

// HubName is the name of the hub's cluster.
const HubName = "hub"

// Fleet is a hub and its members.
type Fleet struct {
	Environment environment.Environment
	Hub         *Cluster
	// Members are the clusters other than the hub, by name. They are not joined yet.
	Members map[string]*Cluster
	// Operator is the running operator, or the last one, or nil.
	Operator environment.Operator
}

// New creates a hub and the named members. The hub has no CRDs and no operator.
func New(ctx context.Context, env environment.Environment, members ...string) (*Fleet, error) {
	created, err := environment.CreateAll(ctx, env, append([]string{HubName}, members...)...)
	if err != nil {
		return nil, err
	}
	f := &Fleet{Environment: env, Members: map[string]*Cluster{}}
	for _, c := range created {
		if f.Members[c.Name()], err = newCluster(c); err != nil {
			return nil, err
		}
	}
	f.Hub = f.Members[HubName]
	delete(f.Members, HubName)
	return f, nil
}

// AddClusters creates clusters that have not joined the fleet yet.
func (f *Fleet) AddClusters(ctx context.Context, names ...string) error {
	created, err := environment.CreateAll(ctx, f.Environment, names...)
	if err != nil {
		return err
	}
	for _, c := range created {
		if f.Members[c.Name()], err = newCluster(c); err != nil {
			return err
		}
	}
	return nil
}

// All returns the hub and the members, by name.
func (f *Fleet) All() map[string]*Cluster {
	all := maps.Clone(f.Members)
	all[HubName] = f.Hub
	return all
}

// MemberNames returns the names of the members, sorted.
func (f *Fleet) MemberNames() []string {
	return slices.Sorted(maps.Keys(f.Members))
}

// StartOperator starts replicas of the operator on the hub.
func (f *Fleet) StartOperator(ctx context.Context, replicas int, args ...string) (err error) {
	f.Operator, err = f.Environment.StartOperator(ctx, f.Hub, replicas, args...)
	return err
}

// Join joins a member to the fleet, or updates the labels of its Secret.
func (f *Fleet) Join(t testing.TB, member string, labels map[string]string) {
	t.Helper()
	if err := environment.Join(context.Background(), f.Hub.Client, f.Members[member], labels); err != nil {
		t.Fatal(err)
	}
}

// CheckMembersReady returns an error if the MemberCluster of one of these members is not Ready, or
// if its nodes have not been read: its status may change until then.
func (f *Fleet) CheckMembersReady(ctx context.Context, members ...string) error {
	var errs []error
	for _, name := range members {
		member := &v1alpha1.MemberCluster{}
		if err := f.Hub.Client.Get(ctx, client.ObjectKey{Name: name}, member); err != nil {
			errs = append(errs, err)
		} else if !member.IsReady() {
			errs = append(errs, fmt.Errorf("MemberCluster %s is not Ready: %+v", name, member.Status.Conditions))
		} else if !meta.IsStatusConditionTrue(member.Status.Conditions, v1alpha1.ConditionAllocatableKnown) {
			errs = append(errs, fmt.Errorf("the nodes of MemberCluster %s are not known: %+v", name, member.Status.Conditions))
		}
	}
	return errors.Join(errs...)
}

// CreateNamespace creates a namespace on a cluster. It is deleted when the test ends.
func (c *Cluster) CreateNamespace(t testing.TB, name string, labels map[string]string) {
	t.Helper()
	namespace := &corev1.Namespace{}
	namespace.Name, namespace.Labels = name, labels
	if err := c.Client.Create(t.Context(), namespace); err != nil {
		t.Fatalf("create namespace %s on %s: %v", name, c.Name(), err)
	}
	t.Cleanup(func() {
		// The namespace is gone if the test has deleted the cluster.
		if err := c.Client.Delete(context.Background(), namespace); client.IgnoreNotFound(err) != nil {
			t.Errorf("delete namespace %s on %s: %v", name, c.Name(), err)
		}
	})
}

// LogState logs the AppServices, the MemberClusters and the end of the operator's log.
func (f *Fleet) LogState(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	apps, members := &v1alpha1.AppServiceList{}, &v1alpha1.MemberClusterList{}
	if err := errors.Join(f.Hub.Client.List(ctx, apps), f.Hub.Client.List(ctx, members)); err != nil {
		t.Logf("cannot list the AppServices and MemberClusters: %v", err)
	}
	for i := range apps.Items {
		app, err := f.withEntries(ctx, &apps.Items[i])
		if err != nil {
			t.Logf("cannot read the entries of AppService %s: %v", apps.Items[i].Name, err)
			app = &apps.Items[i]
		}
		t.Logf("AppService, with all its entries:\n%s", AsYAML(app))
	}
	for i := range members.Items {
		t.Logf("MemberCluster:\n%s", AsYAML(&members.Items[i]))
	}
	f.LogOperator(t, 60)
}

// LogOperator logs the last lines of the operator's log.
func (f *Fleet) LogOperator(t testing.TB, lines int) {
	t.Helper()
	if f.Operator != nil {
		t.Logf("the last lines of the operator's log:\n%s", environment.Tail(f.Operator.Log(), lines))
	}
}

// AsYAML returns an object as YAML, without managedFields.
func AsYAML(object client.Object) string {
	object.SetManagedFields(nil)
	content, err := yaml.Marshal(object)
	if err != nil {
		return err.Error()
	}
	return string(content)
}

// ModuleFile returns the path of a file of a module that go.mod requires.
func ModuleFile(module, file string) (string, error) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("find module %s: %w", module, err)
	}
	return filepath.Join(strings.TrimSpace(string(dir)), file), nil
}
