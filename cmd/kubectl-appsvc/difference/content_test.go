package difference_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/difference"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/revision"
)

// canary is a value that must not be shown.
const canary = "cAnArY-value"

func known(name string, content configuration.Content) difference.Content {
	return difference.Content{Name: name, Known: &content}
}

func configMap(data map[string]string) configuration.Content {
	return configuration.OfConfigMap(&corev1.ConfigMap{Data: data})
}

func secret(data map[string]string) configuration.Content {
	content := map[string][]byte{}
	for key, value := range data {
		content[key] = []byte(value)
	}
	return configuration.OfSecret(&corev1.Secret{Type: corev1.SecretTypeOpaque, Data: content})
}

func TestOfContent(t *testing.T) {
	binary := configuration.OfConfigMap(&corev1.ConfigMap{BinaryData: map[string][]byte{"logo": []byte(canary)}})
	for name, test := range map[string]struct {
		of            string
		before, after difference.Content
		want          string // the changed lines
	}{
		"one snapshot": {of: "ConfigMap/settings", before: difference.Content{Name: "a", Problem: "you have no permission to read it"}, after: known("a", configMap(map[string]string{"MODE": "slow"}))},
		"a ConfigMap": {of: "ConfigMap/settings", before: known("a", configMap(map[string]string{"MODE": "slow", "LEVEL": "1"})), after: known("b", configMap(map[string]string{"MODE": "fast", "LEVEL": "1"})),
			want: "-MODE: slow +MODE: fast"},
		"equal contents with two names": {of: "ConfigMap/settings", before: known("a", configMap(map[string]string{"MODE": "slow"})), after: known("b", configMap(map[string]string{"MODE": "slow"}))},
		"a new ConfigMap":               {of: "ConfigMap/settings", after: known("b", configMap(map[string]string{"MODE": "fast"})), want: "+data: +MODE: fast"},
		"a Secret": {of: "Secret/db",
			before: known("a", secret(map[string]string{"host": canary, "password": canary, "port": canary})),
			after:  known("b", secret(map[string]string{"host": canary, "password": canary + "2", "user": canary})),
			want:   "-password: '*** (before)' -port: '***' +password: '*** (after)' +user: '***'"},
		"binary data": {of: "ConfigMap/logo", before: known("a", binary), after: known("b", configMap(nil)), want: "-binaryData: -logo: '***' +{}"},
		"a content that cannot be read": {of: "Secret/db", before: difference.Content{Name: "web-db-5hc9dk2m7t.snapshot", Problem: "you have no permission to read it"}, after: known("b", secret(map[string]string{"password": canary})),
			want: "-# web-db-5hc9dk2m7t.snapshot: you have no permission to read it +data: +password: '***' +type: Opaque"},
	} {
		t.Run(name, func(t *testing.T) {
			got := difference.OfContent(test.of, "now", "edited", test.before, test.after)
			if strings.Contains(got, canary) {
				t.Errorf("a value is shown:\n%s", got)
			}
			if diff := cmp.Diff(test.want, changedLines(difference.Cluster{Kind: difference.Changed, Diff: got})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestChangedSources(t *testing.T) {
	named := func(kind v1alpha1.ConfigurationKind, from, snapshot string) configuration.Named {
		return configuration.Named{Kind: kind, From: from, Snapshot: snapshot}
	}
	before := []configuration.Named{
		named("ConfigMap", "kept", "a"), named("ConfigMap", "absent", "x.absent"), named("ConfigMap", "settings", "b"), named("Secret", "removed", "c"),
	}
	after := []configuration.Named{named("ConfigMap", "kept", "a"), named("Secret", "kept", "d"), named("ConfigMap", "settings", "e")}
	var got []string
	for _, ref := range difference.ChangedSources(before, after) {
		got = append(got, difference.Resource(ref))
	}
	if diff := cmp.Diff([]string{"configmap/settings", "secret/kept", "secret/removed"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// stored has contents by the name of a snapshot, and by KIND/NAME of a source.
type stored map[string]configuration.Content

func (s stored) Snapshot(_ configuration.Ref, name string) difference.Content {
	return known(name, s[name])
}

func (s stored) Present(source configuration.Ref) difference.Content {
	content, exists := s[difference.Resource(source)]
	if !exists {
		return difference.Content{Problem: "it does not exist", IsAbsent: true}
	}
	return known("the content of "+difference.Resource(source), content)
}

func TestBetween_with_configuration(t *testing.T) {
	entries := []v1alpha1.ConfigurationSource{
		{Kind: v1alpha1.ConfigurationConfigMap, Name: "settings"},
		{Kind: v1alpha1.ConfigurationSecret, Name: "tls", Update: v1alpha1.ConfigurationInPlace},
	}
	eu := v1alpha1.ClusterMatch{ClusterSelector: &v1alpha1.ClusterSelector{MatchLabels: map[string]string{"region": "eu"}}}
	newConfigured := func() *v1alpha1.AppService {
		app := newApp("web:1", "ap", "eu")
		app.Spec.Configuration = entries
		app.Spec.Env = []corev1.EnvVar{{Name: "SETTINGS", Value: "$(configuration.configMap['settings'])"}}
		app.Spec.Overrides = []v1alpha1.Override{{Name: "eu", ClusterMatch: eu, Configuration: []v1alpha1.ConfigurationOverride{{Kind: "ConfigMap", Name: "settings", From: "settings-eu"}}}}
		app.Status.Configuration = []v1alpha1.ConfigurationStatus{{Kind: "Secret", From: "tls", Snapshot: "tls-1"}}
		return app
	}
	history := []revision.Stored{{Number: 2, Template: revision.Template(newConfigured().Spec), Configuration: []configuration.Named{
		{Kind: "ConfigMap", From: "settings", Snapshot: "settings-1"}, {Kind: "ConfigMap", From: "settings-eu", Snapshot: "settings-eu-1"},
	}}}
	members := []v1alpha1.MemberCluster{newMember("east", "ap"), newMember("north", "eu")}
	same := stored{
		"settings-1": configMap(map[string]string{"MODE": "1"}), "settings-eu-1": configMap(map[string]string{"MODE": "eu"}), "tls-1": secret(map[string]string{"key": canary}),
		"configmap/settings": configMap(map[string]string{"MODE": "1"}), "configmap/settings-eu": configMap(map[string]string{"MODE": "eu"}), "secret/tls": secret(map[string]string{"key": canary}),
	}
	with := func(name string, content configuration.Content) stored {
		changed := stored{name: content}
		for other := range same {
			if other != name {
				changed[other] = same[other]
			}
		}
		return changed
	}
	optional, waiting := newConfigured(), newConfigured()
	flags := v1alpha1.ConfigurationSource{Kind: v1alpha1.ConfigurationConfigMap, Name: "flags"}
	waiting.Spec.Configuration = append(slices.Clone(entries), flags)
	flags.Optional = true
	optional.Spec.Configuration = append(slices.Clone(entries), flags)
	other := newConfigured()
	other.Spec.Configuration = entries[1:]
	other.Spec.Env = nil
	for name, test := range map[string]struct {
		after    *v1alpha1.AppService
		contents stored
		want     map[string]string
	}{
		"a source that does not exist":  {waiting, same, map[string]string{"east": "Changed +# configmap/flags: it does not exist, so a new revision waits for it", "north": "Changed +# configmap/flags: it does not exist, so a new revision waits for it"}},
		"an optional source":            {optional, same, map[string]string{}},
		"the same":                      {newConfigured(), same, map[string]string{}},
		"a source":                      {newConfigured(), with("configmap/settings", configMap(map[string]string{"MODE": "2"})), map[string]string{"east": "Changed -MODE: \"1\" +MODE: \"2\""}},
		"a source of an override":       {newConfigured(), with("configmap/settings-eu", configMap(map[string]string{"MODE": "2"})), map[string]string{"north": "Changed -MODE: eu +MODE: \"2\""}},
		"a Secret updated in place":     {newConfigured(), with("secret/tls", secret(map[string]string{"key": canary + "2"})), map[string]string{"east": "Changed -key: '*** (before)' +key: '*** (after)'", "north": "Changed -key: '*** (before)' +key: '*** (after)'"}},
		"an override without its entry": {other, same, map[string]string{"east": "Changed -env: -name: SETTINGS -value: settings -image: web:1 +image: web:1 -data: -MODE: \"1\"", "north": "Invalid"}},
	} {
		t.Run(name, func(t *testing.T) {
			before := on(newConfigured(), "east", "north")
			changes, err := difference.Between(before, test.after, members, history, test.contents, difference.Standard{})
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, change := range changes {
				got[change.Name] = strings.TrimSpace(string(change.Kind) + " " + changedLines(change))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	t.Run("a source of another name is in the heading", func(t *testing.T) {
		changes, err := difference.Between(on(newConfigured(), "north"), newConfigured(), members[1:], history, with("configmap/settings-eu", configMap(nil)), difference.Standard{})
		if err != nil || len(changes) != 1 || !strings.HasPrefix(changes[0].Diff, "--- ConfigMap/settings (now, from settings-eu)\n+++ ConfigMap/settings (edited, from settings-eu)\n") {
			t.Errorf("%v %+v", err, changes)
		}
	})
}
