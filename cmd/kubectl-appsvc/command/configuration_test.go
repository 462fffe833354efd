package command_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/revision"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// canary is part of each value of a Secret. No command prints it.
const canary = "cAnArY"

// runCanary runs the plugin, and fails if it prints the value of a Secret.
func runCanary(t *testing.T, args ...string) result {
	t.Helper()
	got := run(t, args...)
	if hasCanary(got.out + got.errOut) {
		t.Errorf("%v prints the value of a Secret:\n%s%s", args, got.out, got.errOut)
	}
	return got
}

// hasCanary reports whether a text has the value of a Secret, also as base64.
func hasCanary(text string) bool {
	return strings.Contains(text, canary) || strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(canary)))
}

// createObject creates an object, and deletes it after the test.
func createObject(t *testing.T, object client.Object) {
	t.Helper()
	if err := hub.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := hub.Delete(context.Background(), object); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
}

func newSettings(mode string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "settings", Labels: map[string]string{v1alpha1.LabelPropagate: "true"}},
		Data: map[string]string{"LEVEL": "info", "MODE": mode}}
}

func newDatabase(password string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db", Labels: map[string]string{v1alpha1.LabelPropagate: "true"}},
		Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"password": []byte(canary + password), "user": []byte(canary)}}
}

// createSnapshot creates the snapshot of a source with its present content, and returns its name.
func createSnapshot(t *testing.T, app *v1alpha1.AppService, source client.Object) configuration.Named {
	t.Helper()
	return createSnapshotWith(t, 0, app, source)
}

// createSnapshotWith creates a snapshot with a key of this byte.
func createSnapshotWith(t *testing.T, keyByte byte, app *v1alpha1.AppService, source client.Object) configuration.Named {
	t.Helper()
	key, err := configuration.NewKey(bytes.Repeat([]byte{keyByte}, configuration.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	ref := configuration.Ref{Kind: v1alpha1.ConfigurationConfigMap, From: source.GetName()}
	var content configuration.Content
	switch typed := source.(type) {
	case *corev1.ConfigMap:
		content = configuration.OfConfigMap(typed)
	case *corev1.Secret:
		ref.Kind, content = v1alpha1.ConfigurationSecret, configuration.OfSecret(typed)
	}
	id := configuration.Identity{Namespace: app.Namespace, AppService: app.Name, Ref: ref}
	digest := configuration.DigestOf(key, id, content)
	named := configuration.Named{Kind: ref.Kind, From: ref.From, Snapshot: configuration.Name(id, digest)}
	createObject(t, configuration.NewSnapshot(app, configuration.Creation{Ref: ref, Name: named.Snapshot}, digest, content))
	return named
}

// configured is an AppService whose revision 2 has the same template as revision 1 and other content
// of a ConfigMap and of a Secret.
type configured struct {
	*v1alpha1.AppService
	settings *corev1.ConfigMap
	database *corev1.Secret
}

func createConfigured(t *testing.T, name string) configured {
	t.Helper()
	createLease(t, time.Now())
	app := &v1alpha1.AppService{}
	create(t, app, `
metadata: {name: `+name+`, namespace: default}
spec:
  image: nginx:1
  replicas: 3
  placement: {clusterNames: [east]}
  configuration: [{kind: ConfigMap, name: settings}, {kind: Secret, name: db}]`)
	storeWith := func(number int64, settings *corev1.ConfigMap, database *corev1.Secret) []configuration.Named {
		snapshots := []configuration.Named{createSnapshot(t, app, settings), createSnapshot(t, app, database)}
		stored, err := revision.New(app, number, snapshots, nil)
		if err != nil {
			t.Fatal(err)
		}
		createObject(t, stored)
		return snapshots
	}
	storeWith(1, newSettings("slow"), newDatabase("1"))
	c := configured{app, newSettings("fast"), newDatabase("2")}
	createObject(t, c.settings)
	createObject(t, c.database)
	second := storeWith(2, c.settings, c.database)
	setStatus(t, app, func(s *v1alpha1.AppServiceStatus) {
		since := metav1.Now()
		s.Rollout = v1alpha1.RolloutStatus{Revision: 2, StableRevision: 1, FailedRevision: 2, Phase: v1alpha1.RolloutRolledBack, Since: &since}
		s.Clusters = []v1alpha1.ClusterStatus{{Name: "east", Revision: 1, Replicas: 3, ReadyReplicas: 3, Phase: v1alpha1.ClusterReady, LastTransitionTime: since}}
		for i, object := range []client.Object{c.settings, c.database} {
			s.Configuration = append(s.Configuration, v1alpha1.ConfigurationStatus{Kind: second[i].Kind, From: second[i].From,
				Snapshot: second[i].Snapshot, ObservedVersion: fmt.Sprintf("%s/%s", object.GetUID(), object.GetResourceVersion())})
		}
	})
	return c
}

func TestHistory_with_configuration(t *testing.T) {
	c := createConfigured(t, "sourced")
	setStatus(t, c.AppService, func(s *v1alpha1.AppServiceStatus) {
		s.Rollout.Phase, s.Rollout.FailedRevision = v1alpha1.RolloutProgressing, 0
	})
	runCanary(t, "rollout", "history", "sourced").checkGolden(t, "history-configuration")
	runCanary(t, "rollout", "history", "sourced", "--revision", "2").checkGolden(t, "history-configuration-revision")
}

func TestDiff_with_configuration(t *testing.T) {
	createMembers(t)
	c := createConfigured(t, "unlike")
	t.Run("the revision of a cluster and the sources", func(t *testing.T) {
		runCanary(t, "diff", "unlike").checkGolden(t, "diff-configuration")
	})
	t.Run("a caller without permissions for the objects", func(t *testing.T) {
		got := runAs(t, viewerOf(t, "diff-viewer"), "diff", "unlike")
		for _, want := range []string{"--- ConfigMap/settings (now)", "--- Secret/db (now)", "you have no permission to read it"} {
			if got.code != 1 || !strings.Contains(got.out, want) {
				t.Errorf("want %q in %+v", want, got)
			}
		}
	})
	t.Run("an entry whose source must not be used", func(t *testing.T) {
		other := newSettings("")
		other.Name, other.Labels = "unlabelled", nil
		createObject(t, other)
		edited := filepath.Join(t.TempDir(), "web.yaml")
		content := "{apiVersion: fleetwright.dev/v1alpha1, kind: AppService, metadata: {name: unlike}, spec: {image: 'nginx:1', " +
			"configuration: [{kind: ConfigMap, name: unlabelled, optional: true}, {kind: Secret, name: none}, {kind: Secret, name: never, optional: true}]}}"
		if err := os.WriteFile(edited, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got := runCanary(t, "diff", "unlike", "-f", edited)
		for _, want := range []string{
			"+# configmap/unlabelled: it has no label fleetwright.dev/propagate=true, so a new revision waits for it\n",
			"+# secret/none: it does not exist, so a new revision waits for it\n",
		} {
			if got.code != 1 || !strings.Contains(got.out, want) || strings.Contains(got.out, "never") {
				t.Errorf("want %q in %+v", want, got)
			}
		}
	})
	t.Run("an edit that the operator has not read yet", func(t *testing.T) {
		c.settings.Data["MODE"] = "faster"
		if err := hub.Update(t.Context(), c.settings); err != nil {
			t.Fatal(err)
		}
		if got := runCanary(t, "diff", "unlike", "-o", "json"); got.code != 1 || !strings.Contains(got.out, `+  MODE: faster\n`) {
			t.Errorf("%+v", got)
		}
	})
	t.Run("such an edit, and the cluster has the content in use", func(t *testing.T) {
		current := read(t, c.AppService)
		setStatus(t, current, func(s *v1alpha1.AppServiceStatus) { s.Clusters[0].Revision = 2 })
		if got := runCanary(t, "diff", "unlike"); got.code != 1 || !strings.Contains(got.out, "-  MODE: fast\n+  MODE: faster\n") || strings.Contains(got.out, "Secret") {
			t.Errorf("%+v", got)
		}
		setStatus(t, current, func(s *v1alpha1.AppServiceStatus) { s.Clusters[0].Revision = 1 })
	})
	t.Run("a source whose owner does not agree any more", func(t *testing.T) {
		c.settings.Labels = nil
		if err := hub.Update(t.Context(), c.settings); err != nil {
			t.Fatal(err)
		}
		if got := runCanary(t, "diff", "unlike"); got.code != 1 || !strings.Contains(got.out, "+  MODE: fast\n") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("a snapshot that somebody else made", func(t *testing.T) {
		foreign := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Name: "unlike", Namespace: "default", UID: "other"}}
		setStatus(t, read(t, c.AppService), func(s *v1alpha1.AppServiceStatus) {
			s.Configuration[0].Snapshot = createSnapshot(t, foreign, newSettings("foreign")).Snapshot
		})
		if got := runCanary(t, "diff", "unlike"); strings.Contains(got.out, "MODE: foreign") || !strings.Contains(got.out, "it is not a snapshot of the AppService") {
			t.Errorf("%+v", got)
		}
	})
}

// Of Secrets, only the names of keys are printed, in each output format.
func TestNoOutputFormatHasTheValuesOfSecrets(t *testing.T) {
	createMembers(t)
	createConfigured(t, "secretive")
	for command, formats := range map[string][]string{
		"status secretive":                       {"", "wide", "json", "yaml", "name", "jsonpath={}", "go-template={{.}}"},
		"rollout status secretive --watch=false": {"", "wide", "json", "yaml", "name", "jsonpath={}", "go-template={{.}}"},
		"rollout history secretive":              {""},
		"rollout history secretive --revision 2": {""},
		"diff secretive":                         {"", "json", "yaml"},
		"diff secretive east":                    {"", "json", "yaml"},
		"why secretive east":                     {"", "json", "yaml"},
		"events secretive":                       {""},
		"clusters":                               {"", "wide", "json", "yaml"},
		"doctor":                                 {""},
		"rollout undo secretive":                 {""},
	} {
		for _, format := range formats {
			t.Run(command+" -o "+format, func(t *testing.T) {
				args := strings.Fields(command)
				if format != "" {
					args = append(args, "-o", format)
				}
				got := runCanary(t, args...)
				if strings.Contains(got.errOut, "unknown") || got.out+got.errOut == "" {
					t.Errorf("the command does not run: %+v", got)
				}
				isDiff := args[0] == "diff" || strings.HasSuffix(command, "--revision 2")
				if isDiff && (!strings.Contains(got.out, "password: '***") || !strings.Contains(got.out, "MODE: fast")) {
					t.Errorf("the name of the key, or the value of the ConfigMap, is missing: %+v", got)
				}
			})
		}
	}
}

// viewerOf returns a kubeconfig of a user who may read everything but ConfigMaps and Secrets, and who
// may change AppServices.
func viewerOf(t *testing.T, user string) string {
	t.Helper()
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"*"}},
		{APIGroups: []string{"apps"}, Resources: []string{"controllerrevisions"}, Verbs: []string{"get", "list"}},
	}}
	createObject(t, role)
	createObject(t, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}})
	return kubeconfigOf(t, user)
}

// refuseSecrets makes the hub refuse each change of a Secret, with a message that quotes its content,
// until the end of the test.
func refuseSecrets(t *testing.T, secret *corev1.Secret) {
	t.Helper()
	await := func(isRefused bool) { // the API server watches its policies
		wait.Eventually(t, func() error {
			err := hub.Update(context.Background(), secret.DeepCopy(), client.DryRunAll)
			if (err != nil && hasCanary(err.Error())) != isRefused {
				return fmt.Errorf("refused must be %t: %w", isRefused, err)
			}
			return nil
		})
	}
	t.Cleanup(func() { await(false) })
	rule := admissionregistrationv1.NamedRuleWithOperations{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"secrets"}},
	}}
	createObject(t, &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "quoting"}, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
		FailurePolicy:    new(admissionregistrationv1.Fail),
		MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{rule}},
		Validations:      []admissionregistrationv1.Validation{{Expression: "false", MessageExpression: "'refused: ' + string(object.data.password)"}},
	}})
	createObject(t, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "quoting"}, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: "quoting", ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
	}})
	await(true)
}

func TestUndo_with_configuration(t *testing.T) {
	t.Run("of a revision with the same template", func(t *testing.T) {
		c := createConfigured(t, "restored")
		runCanary(t, "rollout", "undo", "restored").check(t, result{code: 1,
			errOut: "error: the spec of restored has the template of revision 1 already. What differs is the content of configmap/settings, secret/db; to restore it: kubectl appsvc rollout undo restored --to-revision 1 --configuration\n"})
		runCanary(t, "rollout", "undo", "restored", "--configuration").check(t, result{
			out: "configmap/settings: has the content of revision 1 again\nsecret/db: has the content of revision 1 again\n"})
		checkContent(t, newSettings("slow").Data, newDatabase("1").Data)
		if got := read(t, c.AppService); got.Generation != c.Generation {
			t.Error("the spec has changed")
		}
		t.Run("a second time, nothing is written", func(t *testing.T) {
			runCanary(t, "rollout", "undo", "restored", "--configuration").check(t, result{
				out: "configmap/settings: has the content of revision 1\nsecret/db: has the content of revision 1\n"})
		})
	})
	t.Run("of a revision with another template", func(t *testing.T) {
		c := createConfigured(t, "both")
		c.Spec.Image = "nginx:2"
		if err := hub.Update(t.Context(), c.AppService); err != nil {
			t.Fatal(err)
		}
		setStatus(t, c.AppService, func(*v1alpha1.AppServiceStatus) {})
		runCanary(t, "rollout", "undo", "both").check(t, result{out: "appservice/both: the spec has the template of revision 1 again (nginx:1)\n",
			errOut: "Revision 1 had other content of configmap/settings, secret/db. The present content stays, so this is a new revision; to restore that content too: kubectl appsvc rollout undo both --to-revision 1 --configuration\n"})
		checkContent(t, newSettings("fast").Data, newDatabase("2").Data)
		current := read(t, c.AppService)
		current.Spec.Image = "nginx:2"
		if err := hub.Update(t.Context(), current); err != nil {
			t.Fatal(err)
		}
		setStatus(t, current, func(*v1alpha1.AppServiceStatus) {})
		runCanary(t, "rollout", "undo", "both", "--configuration").check(t, result{
			out: "configmap/settings: has the content of revision 1 again\nsecret/db: has the content of revision 1 again\nappservice/both: the spec has the template of revision 1 again (nginx:1)\n"})
		checkContent(t, newSettings("slow").Data, newDatabase("1").Data)
	})
	t.Run("of which a source has the content again, but the operator has not read it yet", func(t *testing.T) {
		c := createConfigured(t, "early")
		c.settings.Data = newSettings("slow").Data
		updateObject(t, c.settings)
		setStatus(t, c.AppService, func(s *v1alpha1.AppServiceStatus) { s.Configuration[0].Reason = v1alpha1.ReasonConfigurationChanged })
		runCanary(t, "rollout", "undo", "early").check(t, result{code: 1,
			errOut: "error: the spec of early has the template of revision 1 already. What differs is the content of secret/db; to restore it: kubectl appsvc rollout undo early --to-revision 1 --configuration\n"})
	})
	t.Run("whose snapshots have other names and the same content, because the key was lost", func(t *testing.T) {
		c := createConfigured(t, "rekeyed")
		setStatus(t, c.AppService, func(s *v1alpha1.AppServiceStatus) {
			for i, source := range []client.Object{newSettings("slow"), newDatabase("1")} {
				s.Configuration[i].Snapshot = createSnapshotWith(t, 1, c.AppService, source).Snapshot
				s.Configuration[i].ObservedVersion = ""
			}
		})
		c.settings.Data, c.database.Data = newSettings("slow").Data, newDatabase("1").Data
		updateObject(t, c.settings)
		updateObject(t, c.database)
		runCanary(t, "rollout", "undo", "rekeyed").check(t, result{code: 1,
			errOut: "error: the spec of rekeyed has the template of revision 1 already\n"})
	})
	t.Run("whose content is in use, of sources that are lost", func(t *testing.T) {
		c := createConfigured(t, "lost")
		if err := hub.Delete(t.Context(), c.database); err != nil {
			t.Fatal(err)
		}
		c.settings.Labels = nil
		updateObject(t, c.settings)
		setStatus(t, c.AppService, func(s *v1alpha1.AppServiceStatus) {
			s.Configuration[0].Reason, s.Configuration[1].Reason = v1alpha1.ReasonNotPropagated, v1alpha1.ReasonSourceDeleted
		})
		runCanary(t, "rollout", "undo", "lost", "--to-revision", "2").check(t, result{code: 1,
			errOut: "error: the spec of lost has the template of revision 2 already\n"})
		runCanary(t, "rollout", "undo", "lost", "--to-revision", "2", "--configuration").check(t, result{
			out:    "configmap/settings: has the content of revision 2\nsecret/db: has the content of revision 2 again\n",
			errOut: "configmap/settings has no effect before its owner agrees: kubectl label configmap/settings -n default fleetwright.dev/propagate=true\n"})
		checkContent(t, newSettings("fast").Data, newDatabase("2").Data)
		if err := hub.Delete(t.Context(), newDatabase("")); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("a source that was deleted", func(t *testing.T) {
		c := createConfigured(t, "gone")
		if err := hub.Delete(t.Context(), c.database); err != nil {
			t.Fatal(err)
		}
		runCanary(t, "rollout", "undo", "gone", "--configuration").check(t, result{
			out: "configmap/settings: has the content of revision 1 again\nsecret/db: has the content of revision 1 again\n"})
		checkContent(t, newSettings("slow").Data, newDatabase("1").Data)
		created := newDatabase("")
		if err := hub.Get(t.Context(), client.ObjectKeyFromObject(created), created); err != nil || created.Labels[v1alpha1.LabelPropagate] != "true" {
			t.Errorf("the labels are %v (%v)", created.Labels, err)
		}
		if err := hub.Delete(t.Context(), created); err != nil {
			t.Fatal(err)
		}
	})
	for name, test := range map[string]struct {
		change func(t *testing.T, c configured)
		want   string
	}{
		"a source that Flux owns": {func(t *testing.T, c configured) {
			c.settings.Labels["kustomize.toolkit.fluxcd.io/name"] = "shop"
			updateObject(t, c.settings)
		}, "configmap/settings cannot have the content of revision 1 again: Flux owns it and would change it back: restore the content there; --force changes it here nevertheless. Nothing is changed"},
		"a source that another object controls": {func(t *testing.T, c configured) {
			c.database.OwnerReferences = []metav1.OwnerReference{{APIVersion: "external-secrets.io/v1", Kind: "ExternalSecret", Name: "db", UID: "1", Controller: new(true)}}
			updateObject(t, c.database)
		}, "secret/db cannot have the content of revision 1 again: ExternalSecret db owns it and would change it back: restore the content there; --force changes it here nevertheless. Nothing is changed"},
		"an immutable source": {func(t *testing.T, c configured) {
			c.database.Immutable = new(true)
			updateObject(t, c.database)
		}, "secret/db cannot have the content of revision 1 again: it is immutable. Delete it, and repeat the command, which creates it again: kubectl delete secret/db -n default. Nothing is changed"},
		"another type": {func(t *testing.T, c configured) {
			if err := hub.Delete(t.Context(), c.database); err != nil {
				t.Fatal(err)
			}
			typed := newDatabase("3")
			typed.Type = "example.com/other"
			createObject(t, typed)
		}, "secret/db cannot have the content of revision 1 again: its type is example.com/other, and was Opaque. Delete it, and repeat the command, which creates it again: kubectl delete secret/db -n default. Nothing is changed"},
		"a snapshot that was deleted": {func(t *testing.T, c configured) {
			deleteSnapshots(t, c.AppService)
		}, "does not exist any more. Nothing is changed"},
		"a webhook that refuses a Secret and quotes it": {func(t *testing.T, c configured) { refuseSecrets(t, c.database) },
			"secret/db cannot be changed: the hub refuses it ("},
	} {
		t.Run(name, func(t *testing.T) {
			c := createConfigured(t, "kept")
			test.change(t, c)
			got := runCanary(t, "rollout", "undo", "kept", "--configuration")
			if got.code != 1 || got.out != "" || !strings.Contains(got.errOut, test.want) {
				t.Errorf("want %q in %+v", test.want, got)
			}
			current := newSettings("")
			if err := hub.Get(t.Context(), client.ObjectKeyFromObject(current), current); err != nil || current.Data["MODE"] != "fast" {
				t.Errorf("the ConfigMap has changed: %v (%v)", current.Data, err)
			}
		})
	}
	t.Run("a caller without permissions for the objects", func(t *testing.T) {
		createConfigured(t, "forbidden")
		viewer := viewerOf(t, "undo-viewer")
		got := runAs(t, viewer, "rollout", "undo", "forbidden", "--configuration")
		if got.code != 1 || !strings.Contains(got.errOut, `cannot get resource "configmaps"`) || !strings.Contains(got.errOut, "Nothing is changed") {
			t.Errorf("%+v", got)
		}
	})
	t.Run("a source without the label", func(t *testing.T) {
		c := createConfigured(t, "unlabelled")
		c.settings.Labels = nil
		updateObject(t, c.settings)
		got := runCanary(t, "rollout", "undo", "unlabelled", "--configuration")
		if want := "configmap/settings has no effect before its owner agrees: kubectl label configmap/settings -n default fleetwright.dev/propagate=true\n"; got.code != 0 || got.errOut != want {
			t.Errorf("%+v", got)
		}
	})
	t.Run("a source that did not exist", func(t *testing.T) {
		c := createConfigured(t, "optional")
		absent := configuration.Named{Kind: "ConfigMap", From: "flags", Snapshot: "optional-flags-x4b2c9d8fz.absent"}
		stored, err := revision.New(c.AppService, 3, []configuration.Named{absent}, nil)
		if err != nil {
			t.Fatal(err)
		}
		createObject(t, stored)
		got := runCanary(t, "rollout", "undo", "optional", "--to-revision", "3", "--configuration")
		if got.code != 1 || !strings.Contains(got.errOut, "configmap/flags cannot have the content of revision 3 again: the object did not exist then") {
			t.Errorf("%+v", got)
		}
	})
}

func updateObject(t *testing.T, object client.Object) {
	t.Helper()
	if err := hub.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// checkContent fails unless the sources have this content.
func checkContent(t *testing.T, settings map[string]string, database map[string][]byte) {
	t.Helper()
	configMap, secret := newSettings(""), newDatabase("")
	for _, object := range []client.Object{configMap, secret} {
		if err := hub.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]any{settings, database}, []any{configMap.Data, secret.Data}); diff != "" {
		t.Errorf("the sources (-want +got):\n%s", diff)
	}
}

func deleteSnapshots(t *testing.T, app *v1alpha1.AppService) {
	t.Helper()
	selected := []client.DeleteAllOfOption{client.InNamespace(app.Namespace), client.MatchingLabels{v1alpha1.LabelAppService: app.Name}}
	for _, object := range []client.Object{&corev1.ConfigMap{}, &corev1.Secret{}} {
		if err := hub.DeleteAllOf(t.Context(), object, selected...); err != nil {
			t.Fatal(err)
		}
	}
}
