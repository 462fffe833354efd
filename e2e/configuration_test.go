package e2e

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/internal/environment"
)

// canary is in the content of every Secret of this file. It must be in no log, event, status, metric
// or other object.
const canary = "tweet-kx81vq"

// configured makes an AppService use a ConfigMap in its environment, a Secret in a volume, and a Secret
// with which images are pulled. All of them are on the hub.
func configured(s *v1alpha1.AppServiceSpec) {
	s.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}}
	volume := v1alpha1.Volume{Name: "db"}
	volume.Secret = &corev1.SecretVolumeSource{SecretName: "db"}
	s.Volumes = []v1alpha1.Volume{volume}
	s.VolumeMounts = []corev1.VolumeMount{{Name: "db", MountPath: "/etc/db"}}
	s.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "registry"}}
	s.Configuration = []v1alpha1.ConfigurationSource{
		{Kind: v1alpha1.ConfigurationConfigMap, Name: "settings"},
		{Kind: v1alpha1.ConfigurationSecret, Name: "db"},
		{Kind: v1alpha1.ConfigurationSecret, Name: "registry"},
	}
}

// withoutConfiguration removes what [configured] added.
func withoutConfiguration(s *v1alpha1.AppServiceSpec) {
	s.EnvFrom, s.Volumes, s.VolumeMounts, s.ImagePullSecrets, s.Configuration = nil, nil, nil, nil, nil
}

// canaryFirst makes an edit reach east first, and then all others.
func canaryFirst(s *v1alpha1.AppServiceSpec) {
	inStages(s)
	s.Rollout.Stages = s.Rollout.Stages[:1]
}

// TestConfiguration tests that ConfigMaps and Secrets travel with an AppService to six clusters: a
// change is a revision, which is staged and rolled back; what is lost on the hub changes nothing that
// runs; and a Secret that is updated in place replaces no pod.
func TestConfiguration(t *testing.T) {
	f := testFleet(t)
	f.addMembers(t, map[string]string{"paris": "eu", "dallas": "us"})
	all := []string{"north", "south", "east", "paris", "dallas"}
	settings := f.createSources(t)
	soak := func(seconds int32) framework.Change {
		return func(s *v1alpha1.AppServiceSpec) { s.Rollout.Stages[0].SoakSeconds = new(seconds) }
	}
	app := f.createApp(t, "configured", configured, canaryFirst, framework.Replicas(2))
	f.awaitReady(t, app, all...)
	// greetings returns what the pods of the members greet with: one value on east, and another one on
	// the others.
	greetings := func(east, others string) map[string]string {
		want := map[string]string{}
		for _, name := range all {
			want[name] = others
		}
		want["east"] = east
		return want
	}
	hello := greetings("hello", "hello")
	f.awaitGreetings(t, app, hello)
	for _, name := range all {
		f.checkCopies(t, app, name)
	}

	t.Run("a change reaches members that are cut off in the middle of it when they are back", func(t *testing.T) {
		f.EditApp(t, app, soak(3600)) // until the test promotes it
		f.stopClusters(t, "east")
		f.changeData(t, settings, "hey")
		f.Eventually(t, "revision 2", func(ctx context.Context) error {
			current, err := f.ReadApp(ctx, app)
			if err == nil && current.Status.Rollout.Revision != 2 {
				err = fmt.Errorf("the rollout is %+v", current.Status.Rollout)
			}
			return err
		})
		f.startCluster(t, "east")
		f.awaitStage(t, app, "canary", v1alpha1.StageSoaking)
		f.awaitGreetings(t, app, greetings("hey", "hello"))
		f.stopClusters(t, "north", "south")
		f.plugin(t, "rollout", "promote", app.Name, "-n", namespace, "--stage", "canary")
		f.awaitStage(t, app, "(rest)", v1alpha1.StageProgressing)
		f.startCluster(t, "north")
		f.startCluster(t, "south")
		f.awaitReady(t, app, all...)
		f.awaitRollout(t, app, v1alpha1.RolloutCompleted, 2)
		f.awaitGreetings(t, app, greetings("hey", "hey"))
		for _, name := range all {
			f.checkCopies(t, app, name)
		}
	})

	t.Run("a change reaches the canary first, and then the others", func(t *testing.T) {
		changed := time.Now()
		f.changeData(t, settings, "hi")
		f.awaitStage(t, app, "canary", v1alpha1.StageSoaking)
		f.awaitGreetings(t, app, greetings("hi", "hey"))
		f.expectRollout(t, app, v1alpha1.ReasonSoaking, status.InProgressStatus)
		if message := readyMessage(app); !strings.Contains(message, "settings") {
			t.Errorf("the message does not name the source: %s", message)
		}
		f.killAndRestart(t)
		f.plugin(t, "rollout", "promote", app.Name, "-n", namespace, "--stage", "canary")
		f.awaitRollout(t, app, v1alpha1.RolloutCompleted, 3)
		f.awaitReady(t, app, all...)
		f.awaitGreetings(t, app, greetings("hi", "hi"))
		t.Logf("on all members after %s, with a restart and a promotion", framework.Round(time.Since(changed)))
		if names := f.snapshots(t, app); len(names) != 3 {
			t.Errorf("the hub has the snapshots %v of settings, want 3", names)
		}
		for _, name := range all {
			f.checkCopies(t, app, name)
		}
	})

	t.Run("a bad value is rolled back, and the source keeps it", func(t *testing.T) {
		f.EditApp(t, app, deadlines(10, 20), soak(2))
		f.changeSecret(t, "db", map[string]string{"password": canary + "-2"})
		f.Eventually(t, "a revision with the edit and the password", func(ctx context.Context) error { return f.checkChangedSecret(ctx, app) })
		uncordon := f.cordon(t, "east") // so that no pod with the value starts
		f.changeData(t, settings, "bad")
		took := f.awaitPhase(t, app, v1alpha1.RolloutRolledBack)
		t.Logf("RolledBack after %s", framework.Round(took))
		uncordon()
		f.awaitGreetings(t, app, greetings("hi", "hi"))
		if err := f.Hub.Client.Get(t.Context(), client.ObjectKeyFromObject(settings), settings); err != nil || settings.Data["greeting"] != "bad" {
			t.Errorf("settings has %v (%v)", settings.Data, err)
		}
		f.plugin(t, "rollout", "undo", app.Name, "-n", namespace, "--configuration")
		if err := f.Hub.Client.Get(t.Context(), client.ObjectKeyFromObject(settings), settings); err != nil || settings.Data["greeting"] != "hi" {
			t.Errorf("after the undo, settings has %v (%v)", settings.Data, err)
		}
		f.EditApp(t, app, func(s *v1alpha1.AppServiceSpec) {
			s.ProgressDeadlineSeconds, s.Rollout.ProgressDeadlineSeconds = nil, nil
		})
		f.awaitReady(t, app, all...)
	})

	t.Run("a pull secret is replaced in place", func(t *testing.T) {
		before := f.podsOf(t, app, all...)
		f.changeSecret(t, "registry", pullSecret("second"))
		f.Eventually(t, "all clusters to have the new pull secret", func(ctx context.Context) error {
			current, err := f.ReadApp(ctx, app)
			if err != nil {
				return err
			}
			want := fmt.Sprintf("%d/%d", len(all), len(all))
			for _, source := range current.Status.Configuration {
				if source.From == "registry" && (source.UpToDate != want || source.Serial != 2) {
					return fmt.Errorf("registry is %+v", source)
				}
			}
			return nil
		})
		for _, name := range all {
			secret := f.copyOf(t, name, app, "registry").(*corev1.Secret)
			if content := string(secret.Data[corev1.DockerConfigJsonKey]); !strings.Contains(content, "second") {
				t.Errorf("%s does not have the new pull secret", name)
			}
		}
		if diff := cmp.Diff(before, f.podsOf(t, app, all...)); diff != "" {
			t.Errorf("pods were replaced (-before +after):\n%s", diff)
		}
	})

	t.Run("a source that is lost changes nothing that runs", func(t *testing.T) {
		before := f.podsOf(t, app, all...)
		if err := f.Hub.Client.Delete(t.Context(), settings.DeepCopy()); err != nil {
			t.Fatal(err)
		}
		f.awaitConfigured(t, app, metav1.ConditionFalse, v1alpha1.ReasonSourceDeleted)
		f.Hub.Kubectl(t, *binFlag, "label", "secret", "db", "--namespace", namespace, v1alpha1.LabelPropagate+"-")
		f.awaitSource(t, app, "db", v1alpha1.ReasonNotPropagated)
		f.addMembers(t, map[string]string{"miami": "us"})
		all = append(all, "miami")
		f.awaitReady(t, app, all...)
		f.awaitGreetings(t, app, greetings("hi", "hi"))
		f.checkCopies(t, app, "miami")
		after := f.podsOf(t, app, slices.Collect(maps.Keys(before))...)
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("pods were replaced (-before +after):\n%s", diff)
		}
	})

	t.Run("the sources return, and a restart at rest writes nothing", func(t *testing.T) {
		f.createSource(t, &corev1.ConfigMap{Data: map[string]string{"greeting": "hi"}}, "settings")
		f.Hub.Kubectl(t, *binFlag, "label", "secret", "db", "--namespace", namespace, v1alpha1.LabelPropagate+"=true")
		f.awaitConfigured(t, app, metav1.ConditionTrue, v1alpha1.ReasonConfigured)
		f.awaitNoWrites(t)
		before := f.countWrites(t)
		f.killAndRestart(t)
		f.awaitNoWrites(t)
		if diff := cmp.Diff(before, f.countWrites(t)); diff != "" {
			t.Errorf("written by a restart (-before +after):\n%s", diff)
		}
	})

	t.Run("a member grants no right to list Secrets, and nothing but Secrets has their content", func(t *testing.T) {
		for _, verb := range []string{"get", "list", "watch"} {
			if f.mayAccessSecrets(t, "north", verb) {
				t.Errorf("the operator may %s Secrets of north", verb)
			}
		}
		if !f.mayAccessSecrets(t, "north", "create") {
			t.Error("the operator may not create Secrets of north")
		}
		f.checkCanary(t)
	})
}

// greetingFrom makes the workload answer with the key greeting of an object of the hub, which is
// mounted as a file.
func greetingFrom(source v1alpha1.ConfigurationSource) framework.Change {
	return func(s *v1alpha1.AppServiceSpec) {
		volume := v1alpha1.Volume{Name: "greeting"}
		if source.Kind == v1alpha1.ConfigurationSecret {
			volume.Secret = &corev1.SecretVolumeSource{SecretName: source.Name}
		} else {
			volume.ConfigMap = &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: source.Name}}
		}
		s.Volumes = []v1alpha1.Volume{volume}
		s.VolumeMounts = []corev1.VolumeMount{{Name: "greeting", MountPath: "/etc/greeting"}}
		framework.Env("GREETING_FILE", "/etc/greeting/greeting")(s)
		s.Configuration = []v1alpha1.ConfigurationSource{source}
	}
}

// TestConfigurationInPods tests with kubelets that a pod has the content of its revision, also if it
// starts again in the middle of a rollout, and that content that is updated in place reaches the files
// of running pods.
func TestConfigurationInPods(t *testing.T) {
	f := testFleet(t, onKind)
	hub, ok := f.Hub.Cluster.(httpGetter)
	if !ok {
		t.Skip("the pods are simulated")
	}
	const versionedPort, inPlacePort = 30081, 30082
	settings := f.createSource(t, &corev1.ConfigMap{Data: map[string]string{"greeting": "hello"}}, "greeting")
	f.createSource(t, &corev1.Secret{StringData: map[string]string{"greeting": "first"}}, "reloaded")
	soaking := func(s *v1alpha1.AppServiceSpec) { s.Rollout.Stages[0].SoakSeconds = new(int32(3600)) }
	versioned := f.createApp(t, "versioned", nodePort(versionedPort), gracefulShutdown, framework.Replicas(2),
		greetingFrom(v1alpha1.ConfigurationSource{Kind: v1alpha1.ConfigurationConfigMap, Name: "greeting"}))
	inPlace := f.createApp(t, "in-place", nodePort(inPlacePort), gracefulShutdown, framework.Replicas(1),
		greetingFrom(v1alpha1.ConfigurationSource{Kind: v1alpha1.ConfigurationSecret, Name: "reloaded", Update: v1alpha1.ConfigurationInPlace}))
	all := []string{"north", "south", "east"}
	f.awaitReady(t, versioned, all...)
	f.awaitReady(t, inPlace, all...)
	await := func(t *testing.T, app *v1alpha1.AppService, port int32, want map[string]string) {
		t.Helper()
		for member, greeting := range want {
			f.Eventually(t, member+" to answer "+greeting, func(ctx context.Context) error {
				answer, err := f.get(ctx, hub, member, port)
				if err != nil {
					return err
				}
				return f.checkAnswer(ctx, member, app, greeting, answer)
			})
		}
	}
	await(t, versioned, versionedPort, map[string]string{"north": "hello", "south": "hello", "east": "hello"})

	t.Run("a pod of the old revision that starts again has the old content", func(t *testing.T) {
		f.EditApp(t, versioned, canaryFirst, soaking)
		f.changeData(t, settings, "hi")
		f.awaitStage(t, versioned, "canary", v1alpha1.StageSoaking)
		await(t, versioned, versionedPort, map[string]string{"north": "hello", "south": "hello", "east": "hi"})
		before := f.podsOf(t, versioned, "north")
		if err := f.Members["north"].Client.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(namespace), client.MatchingLabels{v1alpha1.LabelAppService: versioned.Name}); err != nil {
			t.Fatal(err)
		}
		f.Eventually(t, "two new pods on north", func(ctx context.Context) error {
			pods, err := listPods(ctx, f.Members["north"], versioned)
			if err != nil {
				return err
			}
			ready := 0
			for i := range pods {
				if !slices.Contains(before["north"], string(pods[i].UID)) && isPodReady(&pods[i]) {
					ready++
				}
			}
			if ready != 2 {
				return fmt.Errorf("%d new pods are ready", ready)
			}
			return nil
		})
		await(t, versioned, versionedPort, map[string]string{"north": "hello", "east": "hi"})
		f.plugin(t, "rollout", "promote", versioned.Name, "-n", namespace, "--stage", "canary")
		await(t, versioned, versionedPort, map[string]string{"north": "hi", "south": "hi", "east": "hi"})
		f.awaitReady(t, versioned, all...)
	})

	t.Run("content that is updated in place reaches the files of running pods", func(t *testing.T) {
		before := f.podsOf(t, inPlace, all...)
		await(t, inPlace, inPlacePort, map[string]string{"north": "first", "south": "first", "east": "first"})
		changed := time.Now()
		f.changeSecret(t, "reloaded", map[string]string{"greeting": "second"})
		await(t, inPlace, inPlacePort, map[string]string{"north": "second", "south": "second", "east": "second"})
		t.Logf("in the files of all pods after %s", framework.Round(time.Since(changed)))
		if diff := cmp.Diff(before, f.podsOf(t, inPlace, all...)); diff != "" {
			t.Errorf("pods were replaced (-before +after):\n%s", diff)
		}
	})
}

// isPodReady reports whether a pod is ready.
func isPodReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// checkChangedSecret returns an error unless the second content of db, and everything else, is on all
// clusters.
func (f *fleet) checkChangedSecret(ctx context.Context, app *v1alpha1.AppService) error {
	current, err := f.ReadApp(ctx, app)
	if err != nil {
		return err
	}
	secret := &corev1.Secret{}
	for _, source := range current.Status.Configuration {
		if source.From != "db" {
			continue
		}
		if err := f.Hub.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: source.Snapshot}, secret); err != nil {
			return err
		}
	}
	if string(secret.Data["password"]) != canary+"-2" {
		return errors.New("the snapshot has the first content")
	}
	if state := current.Status.Rollout; state.Phase != v1alpha1.RolloutCompleted {
		return fmt.Errorf("the rollout is %+v", state)
	}
	return framework.IsReady(current)
}

// awaitPhase waits until the rollout has a phase, and returns how long that took.
func (f *fleet) awaitPhase(t *testing.T, app *v1alpha1.AppService, want v1alpha1.RolloutPhase) time.Duration {
	t.Helper()
	return f.Eventually(t, "the rollout to be "+string(want), func(ctx context.Context) error {
		current, err := f.ReadApp(ctx, app)
		if err != nil {
			return err
		}
		if state := current.Status.Rollout; state.Phase != want {
			return fmt.Errorf("the rollout is %+v", state)
		}
		return nil
	})
}

// createSources creates the sources of [configured] on the hub, and returns the ConfigMap.
func (f *fleet) createSources(t *testing.T) *corev1.ConfigMap {
	t.Helper()
	f.createSource(t, &corev1.Secret{StringData: map[string]string{"password": canary}}, "db")
	f.createSource(t, &corev1.Secret{Type: corev1.SecretTypeDockerConfigJson, StringData: pullSecret("first")}, "registry")
	return f.createSource(t, &corev1.ConfigMap{Data: map[string]string{"greeting": "hello"}}, "settings")
}

// createSource creates a labelled object of the hub. It is deleted when the test ends.
func (f *fleet) createSource(t *testing.T, object client.Object, name string) *corev1.ConfigMap {
	t.Helper()
	object.SetNamespace(namespace)
	object.SetName(name)
	object.SetLabels(map[string]string{v1alpha1.LabelPropagate: "true"})
	if err := f.Hub.Client.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Hub.Client.Delete(context.Background(), object); client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
	config, _ := object.(*corev1.ConfigMap)
	return config
}

// pullSecret returns the content of a Secret for a registry, with a password.
func pullSecret(password string) map[string]string {
	return map[string]string{corev1.DockerConfigJsonKey: fmt.Sprintf(`{"auths":{"registry.example":{"username":"web","password":"%s-%s"}}}`, canary, password)}
}

// changeData changes the greeting of a ConfigMap of the hub.
func (f *fleet) changeData(t *testing.T, config *corev1.ConfigMap, greeting string) {
	t.Helper()
	before := config.DeepCopy()
	config.Data = map[string]string{"greeting": greeting}
	if err := f.Hub.Client.Patch(t.Context(), config, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// changeSecret changes the content of a Secret of the hub.
func (f *fleet) changeSecret(t *testing.T, name string, content map[string]string) {
	t.Helper()
	secret := &corev1.Secret{}
	if err := f.Hub.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, secret); err != nil {
		t.Fatal(err)
	}
	before := secret.DeepCopy()
	secret.StringData = content
	if err := f.Hub.Client.Patch(t.Context(), secret, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// awaitConfigured waits until the condition Configured has a status and a reason.
func (f *fleet) awaitConfigured(t *testing.T, app *v1alpha1.AppService, want metav1.ConditionStatus, reason string) {
	t.Helper()
	f.Eventually(t, "Configured to be "+reason, func(ctx context.Context) error {
		current, err := f.ReadApp(ctx, app)
		if err != nil {
			return err
		}
		if c := meta.FindStatusCondition(current.Status.Conditions, v1alpha1.ConditionConfigured); c == nil || c.Status != want || c.Reason != reason {
			return fmt.Errorf("Configured is %+v", c)
		}
		return nil
	})
}

// awaitSource waits until a source has a reason.
func (f *fleet) awaitSource(t *testing.T, app *v1alpha1.AppService, from, reason string) {
	t.Helper()
	f.Eventually(t, from+" to be "+reason, func(ctx context.Context) error {
		current, err := f.ReadApp(ctx, app)
		if err != nil {
			return err
		}
		for _, source := range current.Status.Configuration {
			if source.From == from && source.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("the sources are %+v", current.Status.Configuration)
	})
}

// snapshots returns the names of the snapshots of settings on the hub.
func (f *fleet) snapshots(t *testing.T, app *v1alpha1.AppService) []string {
	t.Helper()
	var configs corev1.ConfigMapList
	if err := f.Hub.Client.List(t.Context(), &configs, client.InNamespace(app.Namespace), client.MatchingLabels{v1alpha1.LabelAppService: app.Name}); err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range configs.Items {
		if configuration.IsSnapshot(configs.Items[i].Name) { // a hub that is a member has copies too
			names = append(names, configs.Items[i].Name)
		}
	}
	return names
}

// copiesOn returns the ConfigMaps and Secrets of an AppService on a member, by the name of their source.
func (f *fleet) copiesOn(ctx context.Context, member string, app *v1alpha1.AppService) (map[string][]client.Object, error) {
	var configs corev1.ConfigMapList
	var secrets corev1.SecretList
	api, selected := f.Members[member].Client, client.MatchingLabels{v1alpha1.LabelAppService: app.Name}
	if err := errors.Join(api.List(ctx, &configs, client.InNamespace(app.Namespace), selected), api.List(ctx, &secrets, client.InNamespace(app.Namespace), selected)); err != nil {
		return nil, err
	}
	copies := map[string][]client.Object{}
	add := func(object client.Object) {
		if configuration.IsSnapshot(object.GetName()) {
			return // of a hub that is a member
		}
		source := strings.TrimPrefix(object.GetName(), app.Name+"-")
		source = source[:strings.LastIndex(source, "-")]
		copies[source] = append(copies[source], object)
	}
	for i := range configs.Items {
		add(&configs.Items[i])
	}
	for i := range secrets.Items {
		add(&secrets.Items[i])
	}
	return copies, nil
}

// checkCopies waits until a member has one copy of each source, and checks that the Deployment owns
// them.
func (f *fleet) checkCopies(t *testing.T, app *v1alpha1.AppService, member string) {
	t.Helper()
	f.Eventually(t, "one copy of each source on "+member, func(ctx context.Context) error {
		deployment, err := f.Members[member].Deployment(ctx, app)
		if err != nil {
			return err
		}
		copies, err := f.copiesOn(ctx, member, app)
		if err != nil {
			return err
		}
		for _, source := range []string{"settings", "db", "registry"} {
			if len(copies[source]) != 1 {
				return fmt.Errorf("it has %d copies of %s", len(copies[source]), source)
			}
			if owner := copies[source][0].GetOwnerReferences(); len(owner) != 1 || owner[0].UID != deployment.UID {
				return fmt.Errorf("the owner of the copy of %s is %+v", source, owner)
			}
		}
		return nil
	})
}

// copyOf returns the copy of a source on a member.
func (f *fleet) copyOf(t *testing.T, member string, app *v1alpha1.AppService, source string) client.Object {
	t.Helper()
	copies, err := f.copiesOn(t.Context(), member, app)
	if err != nil || len(copies[source]) != 1 {
		t.Fatalf("%s has %d copies of %s (%v)", member, len(copies[source]), source, err)
	}
	return copies[source][0]
}

// awaitGreetings waits until the pods of each member refer to a ConfigMap with its greeting, and no pod
// refers to another one.
func (f *fleet) awaitGreetings(t *testing.T, app *v1alpha1.AppService, want map[string]string) {
	t.Helper()
	f.Eventually(t, fmt.Sprintf("the greetings %v", want), func(ctx context.Context) error {
		for name, greeting := range want {
			if err := f.checkGreeting(ctx, name, app, greeting); err != nil {
				return err
			}
		}
		return nil
	})
}

func (f *fleet) checkGreeting(ctx context.Context, member string, app *v1alpha1.AppService, want string) error {
	pods, err := listPods(ctx, f.Members[member], app)
	if err != nil {
		return err
	}
	if len(pods) == 0 {
		return fmt.Errorf("%s has no pods", member)
	}
	for i := range pods {
		config := &corev1.ConfigMap{}
		sources := pods[i].Spec.Containers[0].EnvFrom
		if len(sources) == 0 {
			return fmt.Errorf("pod %s on %s has no ConfigMap", pods[i].Name, member)
		}
		name := sources[0].ConfigMapRef.Name
		if err := f.Members[member].Client.Get(ctx, client.ObjectKey{Namespace: app.Namespace, Name: name}, config); err != nil {
			return fmt.Errorf("%s: pod %s: %w", member, pods[i].Name, err)
		}
		if got := config.Data["greeting"]; got != want {
			return fmt.Errorf("pod %s on %s greets with %s, want %s", pods[i].Name, member, got, want)
		}
	}
	return nil
}

// podsOf returns the UIDs of the pods of an AppService, sorted, by member.
func (f *fleet) podsOf(t *testing.T, app *v1alpha1.AppService, members ...string) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, name := range members {
		pods, err := listPods(t.Context(), f.Members[name], app)
		if err != nil {
			t.Fatal(err)
		}
		for i := range pods {
			found[name] = append(found[name], string(pods[i].UID))
		}
		slices.Sort(found[name])
	}
	return found
}

// mayAccessSecrets reports whether a member permits the operator a verb on the Secrets of the tests'
// namespace.
func (f *fleet) mayAccessSecrets(t *testing.T, member, verb string) bool {
	t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               "system:serviceaccount:" + environment.SecretNamespace + ":" + environment.MemberAccount,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Resource: "secrets"},
	}}
	if err := f.Members[member].Client.Create(t.Context(), review); err != nil {
		t.Fatal(err)
	}
	return review.Status.Allowed
}

// hasCanary reports whether a text has content of a Secret, in plain text or in base64. The canary may
// begin at each of three offsets of an encoded text; its first and last characters depend on what is
// beside it.
func hasCanary(text string) bool {
	if strings.Contains(text, canary) {
		return true
	}
	for offset := range 3 {
		encoded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", offset) + canary))
		if strings.Contains(text, encoded[4:len(encoded)-4]) {
			return true
		}
	}
	return false
}

// checkCanary fails if something other than a Secret has content of a Secret: the log of the operator,
// its metrics, and all objects and events of the namespace on all clusters.
func (f *fleet) checkCanary(t *testing.T) {
	t.Helper()
	if hasCanary(f.Operator.Log()) {
		t.Error("the log of the operator has content of a Secret")
	}
	for name, family := range f.metrics(t) {
		if hasCanary(family.String()) {
			t.Errorf("the metric %s has content of a Secret", name)
		}
	}
	if !hasCanary(f.Members["north"].Kubectl(t, *binFlag, "get", "secrets", "--namespace", namespace, "-o", "yaml")) {
		t.Error("the search does not find the content in the Secrets of a member")
	}
	kinds := "configmaps,events.events.k8s.io,deployments,replicasets,pods,services,controllerrevisions"
	for name, cluster := range f.All() {
		what := kinds
		if cluster == f.Hub {
			what += ",appservices,appserviceslices"
		}
		if hasCanary(cluster.Kubectl(t, *binFlag, "get", what, "--namespace", namespace, "-o", "yaml")) {
			t.Errorf("an object of %s has content of a Secret", name)
		}
	}
	if hasCanary(f.plugin(t, "status", "configured", "-n", namespace) + f.plugin(t, "rollout", "history", "configured", "-n", namespace)) {
		t.Error("the plugin prints content of a Secret")
	}
}
