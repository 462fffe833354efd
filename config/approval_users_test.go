package config_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// The namespaces of these tests. Only the second one requires spec.rollout.
const (
	shop    = "shop"
	guarded = "guarded"
)

// The users of these tests.
const (
	developer = "dev"      // has the ClusterRole fleetwright-edit
	approver  = "sre"      // has fleetwright-edit and fleetwright-approve
	robot     = "ci"       // has fleetwright-approve only
	owner     = "owner"    // has fleetwright-edit, and the verb approve for AppService web
	operator  = "operator" // is the ServiceAccount of config/rbac
)

const allStages = `stages: [{name: canary, clusterNames: [east]}, {name: eu, approval: Required}]`

// prepareApproval creates the policies, the users and AppServices, until the test ends. It returns
// a client for each user; the user "" is an administrator.
func prepareApproval(t *testing.T) map[string]client.Client {
	t.Helper()
	for name, labels := range map[string]map[string]string{shop: nil, guarded: {"fleetwright.dev/rollout": "required"}} {
		object := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
		if err := hub.Create(t.Context(), object); client.IgnoreAlreadyExists(err) != nil { // it cannot be deleted without its controller
			t.Fatal(err)
		}
	}
	keep := func(object client.Object) {
		t.Helper()
		if err := hub.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx := context.Background()
			_ = hub.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
			if err := hub.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
				t.Error(err)
			}
		})
	}
	approved := appService(shop, "approved", allStages)
	approved.SetAnnotations(map[string]string{v1alpha1.AnnotationApprove: "7/eu"})
	old := appService(guarded, "old", "")
	old.SetFinalizers([]string{v1alpha1.Finalizer})
	for _, app := range []*unstructured.Unstructured{
		appService(shop, "web", allStages), approved, appService(shop, "plain", ""), appService(shop, "large", largeStages()),
		old, appService(guarded, "staged", allStages),
	} {
		keep(app)
	}
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "fleetwright-operator"}
	users := map[string]client.Client{
		"":        hub,
		operator:  impersonate(t, "system:serviceaccount:"+account.Namespace+":"+account.Name),
		developer: impersonate(t, developer), approver: impersonate(t, approver), robot: impersonate(t, robot), owner: impersonate(t, owner),
	}
	for _, object := range buildKustomization(t, "default") {
		if object.GetKind() == "ClusterRole" || object.GetKind() == "ClusterRoleBinding" {
			keep(object)
		}
	}
	keep(&rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "approve-web"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"appservices"}, ResourceNames: []string{"web"}, Verbs: []string{"approve"}}},
	})
	keep(bind(shop, owner, "Role", "approve-web"))
	for _, user := range []string{developer, approver, owner} {
		keep(bind(shop, user, "ClusterRole", "fleetwright-edit"))
		keep(bind(guarded, user, "ClusterRole", "fleetwright-edit"))
	}
	for _, user := range []string{approver, robot} {
		keep(bind(shop, user, "ClusterRole", "fleetwright-approve"))
	}
	t.Cleanup(func() { // runs after the policies are deleted, and before the AppServices are
		awaitAccepted(t, tryCreate(guarded, "new", ""))
	})
	for _, object := range buildKustomization(t, "approval") {
		keep(object)
	}
	awaitPolicies(t, users)
	return users
}

// awaitPolicies waits until the API server enforces the policies and has all permissions.
func awaitPolicies(t *testing.T, users map[string]client.Client) {
	t.Helper()
	approve := tryPatch(shop, "web", `{"metadata":{"annotations":{"fleetwright.dev/approve":"7/eu"}}}`)
	wait.Eventually(t, func() error {
		ctx := t.Context()
		return errors.Join(
			mustBeRefused("an approval", needsVerb, approve(ctx, users[developer])),
			mustBeRefused("an AppService", needsRollout, tryCreate(guarded, "new", "")(ctx, users[developer])),
			mustBeRefused("an approval elsewhere", needsVerb, tryPatch(guarded, "staged", `{"metadata":{"annotations":{"fleetwright.dev/approve":"7/eu"}}}`)(ctx, users[approver])),
			approve(ctx, users[approver]), approve(ctx, users[robot]), approve(ctx, users[owner]),
			tryPatchStatus(shop, "web")(ctx, users[operator]),
		)
	})
}

// awaitAccepted waits until the API server no longer enforces the deleted policies.
func awaitAccepted(t *testing.T, change func(context.Context, client.Client) error) {
	t.Helper()
	wait.Eventually(t, func() error {
		if err := change(context.Background(), hub); err != nil {
			return fmt.Errorf("a deleted policy is still enforced: %w", err)
		}
		return nil
	})
}

func mustBeRefused(what, why string, err error) error {
	if err == nil || !strings.Contains(err.Error(), why) {
		return fmt.Errorf("%s is not refused: %w", what, err)
	}
	return nil
}

// impersonate returns a client of another user.
func impersonate(t *testing.T, user string) client.Client {
	t.Helper()
	config := rest.CopyConfig(hubConfig)
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	as, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return as
}

// bind returns a RoleBinding of one user.
func bind(namespace, user, kind, role string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: user + "-" + role},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
}

// appService returns an AppService with that spec.rollout, in YAML, or without it.
func appService(namespace, name, rollout string) *unstructured.Unstructured {
	spec := "image: web:1"
	if rollout != "" {
		spec += ", rollout: {" + rollout + "}"
	}
	manifest := "{apiVersion: fleetwright.dev/v1alpha1, kind: AppService, metadata: {namespace: " + namespace + ", name: " + name + "}, spec: {" + spec + "}}"
	object := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict([]byte(manifest), &object.Object); err != nil {
		panic(err)
	}
	return object
}

// largeStages returns as many stages and clusters as the schema allows.
func largeStages() string {
	var stages []string
	for i := range 16 {
		var names []string
		for k := range 1000 {
			names = append(names, fmt.Sprintf("%s-%04d", strings.Repeat("c", 40), k))
		}
		stages = append(stages, fmt.Sprintf("{name: stage-%d, clusterNames: [%s]}", i, strings.Join(names, ", ")))
	}
	return "stages: [" + strings.Join(stages, ", ") + "]"
}

// renameLastCluster changes the last of the clusters of largeStages.
func renameLastCluster(app *unstructured.Unstructured) {
	stages, _, _ := unstructured.NestedSlice(app.Object, "spec", "rollout", "stages")
	names := stages[len(stages)-1].(map[string]any)["clusterNames"].([]any)
	names[len(names)-1] = "another"
	_ = unstructured.SetNestedSlice(app.Object, stages, "spec", "rollout", "stages")
}

// The changes. All of them are dry runs, which pass the same policies.

func tryPatch(namespace, name, merge string) func(context.Context, client.Client) error {
	return func(ctx context.Context, as client.Client) error {
		return as.Patch(ctx, appService(namespace, name, ""), client.RawPatch(types.MergePatchType, []byte(merge)), client.DryRunAll)
	}
}

func tryPatchStatus(namespace, name string) func(context.Context, client.Client) error {
	return func(ctx context.Context, as client.Client) error {
		return as.Status().Patch(ctx, appService(namespace, name, ""), client.RawPatch(types.MergePatchType, []byte(`{"status":{"observedGeneration":1}}`)), client.DryRunAll)
	}
}

func tryScale(namespace, name string) func(context.Context, client.Client) error {
	return func(ctx context.Context, as client.Client) error {
		answer := &unstructured.Unstructured{}
		answer.SetAPIVersion("autoscaling/v1")
		answer.SetKind("Scale")
		return as.SubResource("scale").Patch(ctx, appService(namespace, name, ""), client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":9}}`)),
			client.WithSubResourceBody(answer), client.DryRunAll)
	}
}

func tryReplace(namespace, name string, change func(*unstructured.Unstructured)) func(context.Context, client.Client) error {
	return func(ctx context.Context, as client.Client) error {
		object := appService(namespace, name, "")
		if err := as.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		change(object)
		return as.Update(ctx, object, client.DryRunAll)
	}
}

func tryDelete(namespace, name string) func(context.Context, client.Client) error {
	return func(ctx context.Context, as client.Client) error {
		return as.Delete(ctx, appService(namespace, name, ""), client.DryRunAll)
	}
}

func tryCreate(namespace, name, rollout string, annotation ...string) func(context.Context, client.Client) error {
	return func(ctx context.Context, as client.Client) error {
		return as.Create(ctx, annotate(appService(namespace, name, rollout), annotation), client.DryRunAll)
	}
}

func tryGenerate(namespace, prefix string, annotation ...string) func(context.Context, client.Client) error {
	return func(ctx context.Context, as client.Client) error {
		app := annotate(appService(namespace, "", allStages), annotation)
		app.SetGenerateName(prefix)
		return as.Create(ctx, app, client.DryRunAll)
	}
}

// tryApply applies as a Git controller does, which takes over the fields.
func tryApply(namespace, name, rollout string, annotation ...string) func(context.Context, client.Client) error {
	return func(ctx context.Context, as client.Client) error {
		manifest := client.ApplyConfigurationFromUnstructured(annotate(appService(namespace, name, rollout), annotation))
		return as.Apply(ctx, manifest, client.FieldOwner("git"), client.ForceOwnership, client.DryRunAll)
	}
}

// annotate sets one annotation, or none.
func annotate(app *unstructured.Unstructured, annotation []string) *unstructured.Unstructured {
	if len(annotation) > 0 {
		app.SetAnnotations(map[string]string{annotation[0]: annotation[1]})
	}
	return app
}
