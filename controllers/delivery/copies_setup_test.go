package delivery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/revision"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// canary is in the value of each Secret of these tests. It must not be in any text.
const canary = "canary-do-not-tell"

// configurationMember returns a member that has also granted config/member/configuration.
var configurationMember = sync.OnceValues(func() (*rest.Config, error) {
	var rules []rbacv1.PolicyRule
	for _, file := range []string{"../../config/member/rbac.yaml", "../../config/member/configuration/rbac.yaml"} {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for document := range strings.SplitSeq(string(content), "---\n") {
			role := &rbacv1.ClusterRole{}
			if err := yaml.UnmarshalStrict([]byte(document), role); err == nil && role.Kind == "ClusterRole" {
				rules = append(rules, role.Rules...)
			}
		}
	}
	return onMember.user(context.Background(), "fleetwright-with-configuration", rules)
})

// snapshotReader lets the operator read snapshots on the hub, as config/propagation does.
var snapshotReader = sync.OnceValue(func() error {
	role := &rbacv1.ClusterRole{Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps", "secrets"}, Verbs: []string{"get"}}}}
	role.Name = "snapshots"
	binding := &rbacv1.ClusterRoleBinding{
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "fleetwright"}},
	}
	binding.Name = role.Name
	return errors.Join(onHub.Create(context.Background(), role), onHub.Create(context.Background(), binding))
})

// configured is a setup of an AppService with configuration: the ConfigMap settings and the Secret db
// are Versioned, and the Secret registry is updated in place.
type configured struct {
	*setup
	secret configuration.Key
	// named are the snapshots of the revision of the spec.
	named []configuration.Named
}

// newConfigured returns a setup without an operator, with the first content of each source.
func newConfigured(t *testing.T, changes ...func(*v1alpha1.AppService)) *configured {
	t.Helper()
	s := newSetup(t, append([]func(*v1alpha1.AppService){withConfigurationOfAll}, changes...)...)
	s.must(snapshotReader())
	var err error
	s.config, err = configurationMember()
	s.must(err)
	c := &configured{setup: s, secret: newTestKey().Key}
	c.change(v1alpha1.ConfigurationConfigMap, "settings", "1")
	c.change(v1alpha1.ConfigurationSecret, "db", "1")
	c.changeInPlace("registry", "1", 1)
	return c
}

// deliveredConfigured returns a setup whose first revision is Ready on the member, with all copies.
func deliveredConfigured(t *testing.T, changes ...func(*v1alpha1.AppService)) *configured {
	t.Helper()
	c := newConfigured(t, changes...)
	c.start()
	c.planRevision()
	c.expectReport(c.readyWith(1))
	return c
}

// testKey is the key of all digests.
type testKey struct{ configuration.Key }

func newTestKey() testKey {
	key, err := configuration.NewKey(bytes.Repeat([]byte{7}, configuration.KeySize))
	if err != nil {
		panic(err)
	}
	return testKey{key}
}

// HasDigest implements snapshots.Verifier.
func (k testKey) HasDigest(_ context.Context, id configuration.Identity, snapshot configuration.Snapshot, content configuration.Content) (bool, error) {
	return configuration.DigestOf(k.Key, id, content) == snapshot.Digest, nil
}

func withConfigurationOfAll(app *v1alpha1.AppService) {
	app.Spec.Configuration = []v1alpha1.ConfigurationSource{
		{Kind: v1alpha1.ConfigurationConfigMap, Name: "settings"}, {Kind: v1alpha1.ConfigurationSecret, Name: "db"}, {Kind: v1alpha1.ConfigurationSecret, Name: "registry"},
	}
	app.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
	app.Spec.EnvFrom = []corev1.EnvFromSource{
		{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}},
		{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "db"}}},
	}
}

// paused keeps the rollout of the Deployment from being completed.
func paused(app *v1alpha1.AppService) {
	app.Spec.Overrides = append(app.Spec.Overrides, v1alpha1.Override{Name: "paused", Patches: []v1alpha1.Patch{{
		Target:     v1alpha1.PatchDeployment,
		Operations: []v1alpha1.PatchOperation{{Op: "add", Path: "/spec/paused", Value: &v1alpha1.JSON{Raw: []byte("true")}}},
	}}})
}

// snapshot creates the snapshot of a content, as the planner does, and returns its name.
func (c *configured) snapshot(kind v1alpha1.ConfigurationKind, from, value string, serial int64) string {
	c.Helper()
	content := configuration.Content{Data: map[string][]byte{"value": []byte(value)}}
	if kind == v1alpha1.ConfigurationSecret {
		content = configuration.Content{Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"password": []byte(canary + value)}}
	}
	return c.snapshotOf(kind, from, content, serial)
}

func (c *configured) snapshotOf(kind v1alpha1.ConfigurationKind, from string, content configuration.Content, serial int64) string {
	c.Helper()
	ref := configuration.Ref{Kind: kind, From: from}
	id := configuration.Identity{Namespace: c.app.Namespace, AppService: c.app.Name, Ref: ref}
	digest := configuration.DigestOf(c.secret, id, content)
	creation := configuration.Creation{Ref: ref, Name: configuration.Name(id, digest), Serial: serial}
	object := configuration.NewSnapshot(c.app, creation, digest, content)
	c.must(client.IgnoreAlreadyExists(onHub.Create(c.Context(), object.(client.Object))))
	return creation.Name
}

// change gives a Versioned source another content, which the next revision names.
func (c *configured) change(kind v1alpha1.ConfigurationKind, from, value string) {
	c.Helper()
	c.name(kind, from, c.snapshot(kind, from, value, 0))
}

// name makes the next revision name a snapshot.
func (c *configured) name(kind v1alpha1.ConfigurationKind, from, snapshot string) {
	named := configuration.Named{Kind: kind, From: from, Snapshot: snapshot}
	c.named = slices.DeleteFunc(slices.Clone(c.named), func(n configuration.Named) bool { return n.Kind == kind && n.From == from })
	c.named = append(c.named, named)
}

// changeInPlace gives a Secret that is updated in place another content. The next plan writes it.
func (c *configured) changeInPlace(from, value string, serial int64) {
	c.Helper()
	c.app.Status.Configuration = []v1alpha1.ConfigurationStatus{{
		Kind: v1alpha1.ConfigurationSecret, From: from, Serial: serial, Snapshot: c.snapshot(v1alpha1.ConfigurationSecret, from, value, serial),
	}}
}

// planRevision stores the revision of the spec, and plans it on the member.
func (c *configured) planRevision(changes ...func(*v1alpha1.ClusterStatus)) {
	c.Helper()
	object, err := revision.New(c.app, c.revision, c.named, nil)
	c.must(err)
	c.must(client.IgnoreAlreadyExists(onHub.Create(c.Context(), object)))
	c.planConfigured(changes...)
}

// planConfigured plans the AppService, and keeps its configuration.
func (c *configured) planConfigured(changes ...func(*v1alpha1.ClusterStatus)) {
	c.Helper()
	keep := c.app.Status.Configuration
	c.must(onHub.Get(c.Context(), c.key(), c.app))
	c.app.Status.Configuration = keep
	c.plan(changes...)
	c.app.Status.Configuration = keep
}

// copyOf returns the name of the copy of a source on the member.
func (c *configured) copyOf(kind v1alpha1.ConfigurationKind, from string) string {
	c.Helper()
	for _, named := range c.named {
		if named.Kind == kind && named.From == from {
			return configuration.VersionedCopy(named.Snapshot)
		}
	}
	return configuration.InPlaceCopy(configuration.Identity{Namespace: c.app.Namespace, AppService: c.app.Name, Ref: configuration.Ref{Kind: kind, From: from}})
}

func (c *configured) ofSettings() string {
	return c.copyOf(v1alpha1.ConfigurationConfigMap, "settings")
}
func (c *configured) ofDB() string       { return c.copyOf(v1alpha1.ConfigurationSecret, "db") }
func (c *configured) ofRegistry() string { return c.copyOf(v1alpha1.ConfigurationSecret, "registry") }

// allCopies returns the copies that the member needs, with these values.
func (c *configured) allCopies(settings, db, registry string) map[string]string {
	c.Helper()
	return map[string]string{
		"ConfigMap/" + c.ofSettings(): settings,
		"Secret/" + c.ofDB():          canary + db,
		"Secret/" + c.ofRegistry():    canary + registry,
	}
}

// copiesOnMember returns the value of each ConfigMap and Secret of the AppService on the member.
func (c *configured) copiesOnMember() map[string]string {
	c.Helper()
	var (
		found      = map[string]string{}
		labels     = client.MatchingLabels{v1alpha1.LabelAppService: c.app.Name, v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}
		configMaps corev1.ConfigMapList
		secrets    corev1.SecretList
	)
	c.must(onMember.List(c.Context(), &configMaps, client.InNamespace(c.app.Namespace), labels))
	c.must(onMember.List(c.Context(), &secrets, client.InNamespace(c.app.Namespace), labels))
	for _, object := range configMaps.Items {
		found["ConfigMap/"+object.Name] = object.Data["value"]
	}
	for _, object := range secrets.Items {
		found["Secret/"+object.Name] = string(object.Data["password"])
	}
	return found
}

// expectCopies waits until the member has exactly these copies, and the Deployment lists them.
func (c *configured) expectCopies(want map[string]string) {
	c.Helper()
	wait.Eventually(c.T, func() error { return c.compareCopies(want) })
}

// compareCopies returns an error unless the member has exactly these copies, and the Deployment lists
// them.
func (c *configured) compareCopies(want map[string]string) error {
	c.Helper()
	if diff := cmp.Diff(want, c.copiesOnMember()); diff != "" {
		return fmt.Errorf("copies (-want +got):\n%s", diff)
	}
	recorded := c.recorded()
	for i := range recorded {
		recorded[i], _, _ = strings.Cut(recorded[i], "@")
	}
	slices.Sort(recorded)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), recorded); diff != "" {
		return fmt.Errorf("record (-want +got):\n%s", diff)
	}
	return nil
}

// recorded returns the copies that the Deployment lists.
func (c *configured) recorded() []string {
	c.Helper()
	deployment := c.deployment()
	if deployment == nil || deployment.Annotations[v1alpha1.AnnotationCopies] == "" {
		return nil
	}
	items := strings.Split(deployment.Annotations[v1alpha1.AnnotationCopies], ",")
	return slices.DeleteFunc(items, func(item string) bool { return strings.HasPrefix(item, "Deployment/") })
}

// expectReferences waits until the pod template refers to the copies.
func (c *configured) expectReferences() {
	c.Helper()
	wait.Eventually(c.T, c.compareReferences)
}

func (c *configured) compareReferences() error {
	c.Helper()
	if diff := cmp.Diff([]string{c.ofSettings(), c.ofDB(), c.ofRegistry()}, references(c.deployment())); diff != "" {
		return fmt.Errorf("references (-want +got):\n%s", diff)
	}
	return nil
}

func references(deployment *appsv1.Deployment) []string {
	if deployment == nil {
		return nil
	}
	pod := deployment.Spec.Template.Spec
	var names []string
	for _, from := range pod.Containers[0].EnvFrom {
		if from.ConfigMapRef != nil {
			names = append(names, from.ConfigMapRef.Name)
		}
		if from.SecretRef != nil {
			names = append(names, from.SecretRef.Name)
		}
	}
	for _, secret := range pod.ImagePullSecrets {
		names = append(names, secret.Name)
	}
	return names
}

// completeRollout sets the status of a paused Deployment: all pods are new and available.
func (c *configured) completeRollout() {
	c.Helper()
	deployment := c.deployment()
	before := deployment.DeepCopy()
	pods := *deployment.Spec.Replicas
	deployment.Status = appsv1.DeploymentStatus{
		ObservedGeneration: deployment.Generation, Replicas: pods, UpdatedReplicas: pods, ReadyReplicas: pods, AvailableReplicas: pods,
		Conditions: []appsv1.DeploymentCondition{
			{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue},
			{Type: appsv1.DeploymentProgressing, Status: corev1.ConditionTrue, Reason: "NewReplicaSetAvailable"},
		},
	}
	c.must(onMember.Status().Patch(c.Context(), deployment, client.MergeFrom(before)))
}
