package workload_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

func inPlaceCopy(kind v1alpha1.ConfigurationKind, from string) string {
	return configuration.InPlaceCopy(configuration.Identity{Namespace: "shop", AppService: "web", Ref: configuration.Ref{Kind: kind, From: from}})
}

func TestConfiguration(t *testing.T) {
	t.Parallel()
	const configMap, secret = v1alpha1.ConfigurationConfigMap, v1alpha1.ConfigurationSecret
	eu := v1alpha1.Override{Name: "eu", ClusterMatch: v1alpha1.ClusterMatch{ClusterSelector: &v1alpha1.ClusterSelector{MatchLabels: map[string]string{"region": "eu"}}}}
	withSource := func(configured ...v1alpha1.ConfigurationOverride) v1alpha1.Override {
		override := eu
		override.Configuration = configured
		return override
	}
	named := []configuration.Named{
		{Kind: configMap, From: "settings", Snapshot: "web-settings-1.snapshot"},
		{Kind: configMap, From: "settings-eu", Snapshot: "web-settings-eu-1.snapshot"},
		{Kind: configMap, From: "flags", Snapshot: "web-flags-1.absent"},
	}
	status := []v1alpha1.ConfigurationStatus{
		{Kind: secret, From: "tls", Snapshot: "web-tls-1.snapshot", Serial: 12},
		{Kind: secret, From: "tls-eu", Snapshot: "web-tls-eu-1.snapshot", Serial: 3},
		{Kind: secret, From: "new"},
	}
	settings := v1alpha1.ConfigurationSource{Kind: configMap, Name: "settings"}
	tls := v1alpha1.ConfigurationSource{Kind: secret, Name: "tls", Update: v1alpha1.ConfigurationInPlace}
	for name, c := range map[string]struct {
		spec   v1alpha1.AppServiceSpec
		region string
		names  workload.Copies
		copies []workload.Copy
	}{
		"without configuration": {spec: v1alpha1.AppServiceSpec{Overrides: []v1alpha1.Override{eu}}},
		"Versioned and InPlace": {
			spec:   v1alpha1.AppServiceSpec{Configuration: []v1alpha1.ConfigurationSource{tls, settings}},
			names:  workload.Copies{{Kind: "ConfigMap", Name: "settings"}: "web-settings-1", {Kind: "Secret", Name: "tls"}: inPlaceCopy(secret, "tls")},
			copies: []workload.Copy{{Kind: "ConfigMap", Name: "web-settings-1", Snapshot: "web-settings-1.snapshot"}, {Kind: "Secret", Name: inPlaceCopy(secret, "tls"), Snapshot: "web-tls-1.snapshot", Serial: 12}},
		},
		"an override that matches": {
			spec: v1alpha1.AppServiceSpec{
				Configuration: []v1alpha1.ConfigurationSource{tls, settings},
				Overrides:     []v1alpha1.Override{withSource(v1alpha1.ConfigurationOverride{Kind: configMap, Name: "settings", From: "settings-eu"}, v1alpha1.ConfigurationOverride{Kind: secret, Name: "tls", From: "tls-eu"})},
			},
			region: "eu",
			names:  workload.Copies{{Kind: "ConfigMap", Name: "settings"}: "web-settings-eu-1", {Kind: "Secret", Name: "tls"}: inPlaceCopy(secret, "tls-eu")},
			copies: []workload.Copy{{Kind: "ConfigMap", Name: "web-settings-eu-1", Snapshot: "web-settings-eu-1.snapshot"}, {Kind: "Secret", Name: inPlaceCopy(secret, "tls-eu"), Snapshot: "web-tls-eu-1.snapshot", Serial: 3}},
		},
		"an override that does not match": {
			spec: v1alpha1.AppServiceSpec{
				Configuration: []v1alpha1.ConfigurationSource{settings},
				Overrides:     []v1alpha1.Override{withSource(v1alpha1.ConfigurationOverride{Kind: configMap, Name: "other", From: "x"})},
			},
			names:  workload.Copies{{Kind: "ConfigMap", Name: "settings"}: "web-settings-1"},
			copies: []workload.Copy{{Kind: "ConfigMap", Name: "web-settings-1", Snapshot: "web-settings-1.snapshot"}},
		},
		"two names for one source have one copy": {
			spec:   v1alpha1.AppServiceSpec{Configuration: []v1alpha1.ConfigurationSource{settings, {Kind: configMap, Name: "again", From: "settings"}}},
			names:  workload.Copies{{Kind: "ConfigMap", Name: "settings"}: "web-settings-1", {Kind: "ConfigMap", Name: "again"}: "web-settings-1"},
			copies: []workload.Copy{{Kind: "ConfigMap", Name: "web-settings-1", Snapshot: "web-settings-1.snapshot"}},
		},
		"a source that has never existed has a name and no copy": {
			spec:   v1alpha1.AppServiceSpec{Configuration: []v1alpha1.ConfigurationSource{{Kind: configMap, Name: "flags", Optional: true}}},
			names:  workload.Copies{{Kind: "ConfigMap", Name: "flags"}: "web-flags-1"},
			copies: []workload.Copy{},
		},
		"a pull secret is updated in place": {
			spec: v1alpha1.AppServiceSpec{
				Configuration:    []v1alpha1.ConfigurationSource{{Kind: secret, Name: "tls"}},
				ImagePullSecrets: []corev1.LocalObjectReference{{Name: "tls"}},
			},
			names:  workload.Copies{{Kind: "Secret", Name: "tls"}: inPlaceCopy(secret, "tls")},
			copies: []workload.Copy{{Kind: "Secret", Name: inPlaceCopy(secret, "tls"), Snapshot: "web-tls-1.snapshot", Serial: 12}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			app, member := configuredApp(c.spec, status), &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"region": c.region}}}
			names, copies, err := workload.Configuration(app, member, named)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.names, names); diff != "" {
				t.Errorf("names (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.copies, copies); diff != "" {
				t.Errorf("copies (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(configuredApp(c.spec, status), app); diff != "" {
				t.Errorf("the AppService changed (-want +got):\n%s", diff)
			}
		})
	}

	t.Run("an override of an entry that is not there is invalid", func(t *testing.T) {
		t.Parallel()
		spec := v1alpha1.AppServiceSpec{
			Configuration: []v1alpha1.ConfigurationSource{settings},
			Overrides:     []v1alpha1.Override{withSource(v1alpha1.ConfigurationOverride{Kind: secret, Name: "settings", From: "x"})},
		}
		_, _, err := workload.Configuration(configuredApp(spec, status), &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"region": "eu"}}}, named)
		if want := `override "eu": configuration: spec.configuration has no Secret "settings": add it there`; !workload.IsInvalid(err) || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	})
	for name, source := range map[string]v1alpha1.ConfigurationSource{
		"a revision without the snapshot": {Kind: secret, Name: "db"},
		"a status without the source":     {Kind: secret, Name: "gone", Update: v1alpha1.ConfigurationInPlace},
		"a status without a snapshot yet": {Kind: secret, Name: "new", Update: v1alpha1.ConfigurationInPlace},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := v1alpha1.AppServiceSpec{Configuration: []v1alpha1.ConfigurationSource{source}}
			if _, _, err := workload.Configuration(configuredApp(spec, status), &v1alpha1.MemberCluster{}, named); !errors.Is(err, workload.ErrNoSnapshot) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func configuredApp(spec v1alpha1.AppServiceSpec, status []v1alpha1.ConfigurationStatus) *v1alpha1.AppService {
	app := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: *spec.DeepCopy()}
	app.Status.Configuration = status
	return app
}
