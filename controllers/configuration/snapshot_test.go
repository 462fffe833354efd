package configuration_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
)

func TestSnapshotObjects(t *testing.T) {
	app := &v1alpha1.AppService{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: owner}}
	id := configuration.Identity{Namespace: "shop", AppService: "web", Ref: settings}
	mixed := configuration.Content{Data: map[string][]byte{"a": []byte("1")}, BinaryData: map[string][]byte{"b": {0xff}}}
	for name, c := range map[string]struct {
		ref     configuration.Ref
		content configuration.Content
		serial  int64
	}{
		"a ConfigMap":                       {settings, mixed, 0},
		"an empty ConfigMap":                {settings, configuration.Content{}, 0},
		"a Secret":                          {tls, ofType(text("b"), corev1.SecretTypeTLS), 0},
		"a Secret that is updated in place": {tls, ofType(text("b"), corev1.SecretTypeOpaque), 12},
	} {
		t.Run(name, func(t *testing.T) {
			digest := configuration.DigestOf(keyOf("k"), id, c.content)
			created := configuration.Creation{Ref: c.ref, Name: configuration.Name(id, digest), Serial: c.serial}
			object := configuration.NewSnapshot(app, created, digest, c.content)
			object.SetUID("uid")
			want := configuration.Snapshot{Ref: c.ref, Name: created.Name, UID: types.UID("uid"), Owner: owner, Digest: digest, Type: c.content.Type, Size: c.content.Size(), Serial: c.serial}
			if diff := cmp.Diff(want, configuration.SnapshotOf(c.ref.Kind, object)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			var stored configuration.Content
			var isImmutable *bool
			switch typed := object.(type) {
			case *corev1.ConfigMap:
				stored, isImmutable = configuration.OfConfigMap(typed), typed.Immutable
			case *corev1.Secret:
				stored, isImmutable = configuration.OfSecret(typed), typed.Immutable
			}
			if !stored.Equal(c.content) || isImmutable == nil || !*isImmutable {
				t.Errorf("the object has %#v, immutable %v", stored, isImmutable)
			}
			if labels := object.GetLabels(); labels[v1alpha1.LabelAppService] != "web" || labels[v1alpha1.LabelPropagate] == "true" || labels[v1alpha1.LabelPropagate] == "" {
				t.Errorf("labels %v", labels)
			}
			if !configuration.IsSnapshot(object.GetName()) || configuration.IsSnapshot(configuration.AbsentName(id)) {
				t.Errorf("IsSnapshot(%s) is wrong", object.GetName())
			}
		})
	}
	t.Run("of others", func(t *testing.T) {
		digest := configuration.DigestOf(keyOf("k"), id, mixed)
		object := configuration.NewSnapshot(app, configuration.Creation{Ref: settings, Name: "x"}, digest, mixed)
		owners := object.GetOwnerReferences()
		owners[0].APIVersion = "example.com/v1"
		object.SetAnnotations(map[string]string{v1alpha1.AnnotationDigest: "x", v1alpha1.AnnotationSerial: "-1", v1alpha1.AnnotationSize: "many"})
		want := configuration.Snapshot{Ref: configuration.Ref{Kind: settings.Kind}, Name: "x"}
		if diff := cmp.Diff(want, configuration.SnapshotOf(settings.Kind, object)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
