package copies_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/controllers/delivery/copies"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

func TestIsRequired(t *testing.T) {
	tests := map[string]struct {
		pod  string
		want bool
	}{
		"envFrom":                     {`containers: [{envFrom: [{secretRef: {name: a}}]}]`, true},
		"envFrom of another kind":     {`containers: [{envFrom: [{configMapRef: {name: a}}]}]`, false},
		"optional envFrom":            {`containers: [{envFrom: [{secretRef: {name: a, optional: true}}]}]`, false},
		"env of an init container":    {`initContainers: [{env: [{name: A, valueFrom: {secretKeyRef: {name: a, key: k}}}]}]`, true},
		"optional env":                {`containers: [{env: [{name: A, valueFrom: {secretKeyRef: {name: a, key: k, optional: true}}}]}]`, false},
		"volume":                      {`{containers: [{volumeMounts: [{name: v}]}], volumes: [{name: v, secret: {secretName: a}}]}`, true},
		"volume that is not mounted":  {`{containers: [{}], volumes: [{name: v, secret: {secretName: a}}]}`, false},
		"optional volume":             {`{containers: [{volumeMounts: [{name: v}]}], volumes: [{name: v, secret: {secretName: a, optional: true}}]}`, false},
		"projected volume":            {`{containers: [{volumeMounts: [{name: v}]}], volumes: [{name: v, projected: {sources: [{configMap: {name: b}}, {secret: {name: a}}]}}]}`, true},
		"optional source of a volume": {`{containers: [{volumeMounts: [{name: v}]}], volumes: [{name: v, projected: {sources: [{secret: {name: a, optional: true}}]}}]}`, false},
		"pull secret":                 {`{containers: [{}], imagePullSecrets: [{name: a}]}`, false},
		"argument":                    {`containers: [{args: [a]}]`, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var pod corev1.PodSpec
			if err := yaml.UnmarshalStrict([]byte(test.pod), &pod); err != nil {
				t.Fatal(err)
			}
			if got := copies.IsRequired(&pod, copies.Key{Kind: workload.Secret, Name: "a"}); got != test.want {
				t.Errorf("got %t", got)
			}
		})
	}
	t.Run("ConfigMaps", func(t *testing.T) {
		for _, text := range []string{
			`containers: [{envFrom: [{configMapRef: {name: a}}]}]`,
			`containers: [{env: [{name: A, valueFrom: {configMapKeyRef: {name: a, key: k}}}]}]`,
			`{containers: [{volumeMounts: [{name: v}]}], volumes: [{name: v, configMap: {name: a}}]}`,
			`{containers: [{volumeMounts: [{name: v}]}], volumes: [{name: v, projected: {sources: [{configMap: {name: a}}]}}]}`,
		} {
			var pod corev1.PodSpec
			if err := yaml.UnmarshalStrict([]byte(text), &pod); err != nil {
				t.Fatal(err)
			}
			if !copies.IsRequired(&pod, copies.Key{Kind: workload.ConfigMap, Name: "a"}) {
				t.Errorf("%s does not require the ConfigMap", text)
			}
		}
	})
}
