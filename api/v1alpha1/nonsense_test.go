package v1alpha1_test

import (
	"fmt"
	"maps"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// invalidValues are values that Kubernetes refuses. Each is a fragment of an AppService's spec;
// where returns a Kubernetes object with the same fragment.
var invalidValues = map[string]struct {
	where func(fragment map[string]any) map[string]any
	spec  string
}{
	"a liveness probe without a handler":                 {ofContainer, `livenessProbe: {}`},
	"a readiness probe without a handler":                {ofContainer, `readinessProbe: {periodSeconds: 5}`},
	"a startup probe without a handler":                  {ofContainer, `startupProbe: {}`},
	"a probe with two handlers":                          {ofContainer, `livenessProbe: {tcpSocket: {port: 80}, httpGet: {port: 80}}`},
	"a probe that runs nothing":                          {ofContainer, `livenessProbe: {exec: {}}`},
	"a probe with an empty command":                      {ofContainer, `readinessProbe: {exec: {command: []}}`},
	"a probe by HTTP without a port":                     {ofContainer, `livenessProbe: {httpGet: {}}`},
	"a probe by TCP without a port":                      {ofContainer, `startupProbe: {tcpSocket: {}}`},
	"a probe by gRPC without a port":                     {ofContainer, `startupProbe: {grpc: {}}`},
	"a preStop without a handler":                        {ofContainer, `lifecycle: {preStop: {}}`},
	"a postStart without a handler":                      {ofContainer, `lifecycle: {postStart: {}}`},
	"a preStop with two handlers":                        {ofContainer, `lifecycle: {preStop: {sleep: {seconds: 1}, exec: {command: [a]}}}`},
	"a preStop that runs nothing":                        {ofContainer, `lifecycle: {preStop: {exec: {}}}`},
	"a postStart that runs nothing":                      {ofContainer, `lifecycle: {postStart: {exec: {command: []}}}`},
	"a variable from nowhere":                            {ofContainer, `env: [{name: A, valueFrom: {}}]`},
	"a variable from two places":                         {ofContainer, `env: [{name: A, valueFrom: {secretKeyRef: {name: a, key: a}, configMapKeyRef: {name: a, key: a}}}]`},
	"a variable with a value and a source":               {ofContainer, `env: [{name: A, value: a, valueFrom: {secretKeyRef: {name: a, key: a}}}]`},
	"a variable from a field without a path":             {ofContainer, `env: [{name: A, valueFrom: {fieldRef: {}}}]`},
	"variables from nowhere":                             {ofContainer, `envFrom: [{prefix: A}]`},
	"variables from two places":                          {ofContainer, `envFrom: [{secretRef: {name: a}, configMapRef: {name: a}}]`},
	"a seccomp profile without a type":                   {ofContainer, `securityContext: {seccompProfile: {}}`},
	"an AppArmor profile without a type":                 {ofContainer, `securityContext: {appArmorProfile: {}}`},
	"a required node affinity without a term":            {ofPod, `affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}}`},
	"a required node affinity of nothing":                {ofPod, `affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {}}}`},
	"a spread constraint without a topology":             {ofPod, `topologySpreadConstraints: [{maxSkew: 1, whenUnsatisfiable: DoNotSchedule}]`},
	"a spread constraint with an empty topology":         {ofPod, `topologySpreadConstraints: [{maxSkew: 1, topologyKey: "", whenUnsatisfiable: DoNotSchedule}]`},
	"a spread constraint without a skew":                 {ofPod, `topologySpreadConstraints: [{topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]`},
	"a spread constraint with a skew of zero":            {ofPod, `topologySpreadConstraints: [{maxSkew: 0, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]`},
	"a spread constraint without a consequence":          {ofPod, `topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone}]`},
	"a spread constraint with an unknown consequence":    {ofPod, `topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: Perhaps}]`},
	"a volume of an unnamed ConfigMap":                   {ofPod, `volumes: [{name: a, configMap: {}}]`},
	"a volume of an unnamed Secret":                      {ofPod, `volumes: [{name: a, secret: {}}]`},
	"a volume of an unnamed claim":                       {ofPod, `volumes: [{name: a, persistentVolumeClaim: {}}]`},
	"a volume of an unnamed CSI driver":                  {ofPod, `volumes: [{name: a, csi: {}}]`},
	"a CSI volume that publishes with an unnamed Secret": {ofPod, `volumes: [{name: a, csi: {driver: a.example, nodePublishSecretRef: {}}}]`},
	"an ephemeral volume without a template":             {ofPod, `volumes: [{name: a, ephemeral: {}}]`},
	"an ephemeral volume with an empty template":         {ofPod, `volumes: [{name: a, ephemeral: {volumeClaimTemplate: {spec: {}}}}]`},
	"a rolling update that replaces no pod":              {ofDeployment, `strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 0}}`},
	"a surge of more than 32 bits":                       {ofDeployment, `strategy: {rollingUpdate: {maxSurge: 3000000000}}`},
	"an unavailability of more than 32 bits":             {ofDeployment, `strategy: {rollingUpdate: {maxUnavailable: 3000000000}}`},
	"a port of a probe of more than 32 bits":             {ofContainer, `readinessProbe: {httpGet: {port: 3000000000}}`},
	"a negative port of more than 32 bits":               {ofContainer, `lifecycle: {preStop: {tcpSocket: {port: -3000000000}}}`},
	"scaling up by no policy":                            {ofAutoscaler, `autoscaling: {maxReplicas: 2, behavior: {scaleUp: {policies: []}}}`},
	"scaling down by no policy":                          {ofAutoscaler, `autoscaling: {maxReplicas: 2, behavior: {scaleDown: {policies: []}}}`},
}

// An AppService is refused if Kubernetes would refuse its Pod. Otherwise the value would be dropped
// on the way to the member, or the error would show only in a cluster status.
func TestAppService_is_refused_for_values_that_Kubernetes_refuses(t *testing.T) {
	for title, test := range invalidValues {
		t.Run(title, func(t *testing.T) {
			counterpart := &unstructured.Unstructured{Object: test.where(parseYAML(t, test.spec))}
			counterpart.SetNamespace("default")
			counterpart.SetName("web")
			if err := hub.Create(t.Context(), counterpart, client.DryRunAll); err == nil {
				t.Errorf("Kubernetes accepts the value in a %s: this test needs another value", counterpart.GetKind())
			}
			_, err := dryRunCreate(t, newManifest(t, "web", image+test.spec))
			if err == nil {
				t.Fatal("the AppService is accepted")
			}
			t.Log(err)
		})
	}
}

// Similar values that are valid.
func TestAppService_is_accepted_with_values_that_Kubernetes_accepts(t *testing.T) {
	for title, test := range map[string]struct {
		where func(fragment map[string]any) map[string]any
		spec  string
	}{
		"an empty lifecycle":                {ofContainer, `lifecycle: {}`},
		"an empty security context":         {ofContainer, `securityContext: {capabilities: {}, seLinuxOptions: {}}`},
		"a variable without a value":        {ofContainer, `env: [{name: A}]`},
		"a variable with an empty value":    {ofContainer, `env: [{name: A, value: "", valueFrom: {secretKeyRef: {name: a, key: a}}}]`},
		"an empty affinity":                 {ofPod, `affinity: {nodeAffinity: {}, podAffinity: {}}`},
		"a required term of nothing":        {ofPod, `affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{}]}}}`},
		"an empty downwardAPI volume":       {ofPod, `volumes: [{name: a, downwardAPI: {}}, {name: b, projected: {sources: []}}]`},
		"a claim that selects every volume": {ofPod, `volumes: [{name: a, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], selector: {}, resources: {requests: {storage: 1Gi}}}}}}]`},
		"a rolling update without surge":    {ofDeployment, `strategy: {rollingUpdate: {maxSurge: 0}}`},
		"an empty rolling update":           {ofDeployment, `strategy: {rollingUpdate: {}}`},
		"an empty scaling behavior":         {ofAutoscaler, `autoscaling: {maxReplicas: 2, behavior: {scaleUp: {}, scaleDown: {}}}`},
	} {
		t.Run(title, func(t *testing.T) {
			counterpart := &unstructured.Unstructured{Object: test.where(parseYAML(t, test.spec))}
			counterpart.SetNamespace("default")
			counterpart.SetName("web")
			if err := hub.Create(t.Context(), counterpart, client.DryRunAll); err != nil {
				t.Error(err)
			}
			if _, err := dryRunCreate(t, newManifest(t, "web", image+test.spec)); err != nil {
				t.Error(err)
			}
		})
	}
}

// Kubernetes objects with a fragment.

func ofContainer(fragment map[string]any) map[string]any {
	container := map[string]any{"name": "app", "image": "web:1"}
	maps.Copy(container, fragment)
	return ofPod(map[string]any{"containers": []any{container}})
}

func ofPod(fragment map[string]any) map[string]any {
	pod := map[string]any{"containers": []any{map[string]any{"name": "app", "image": "web:1"}}}
	maps.Copy(pod, fragment)
	return ofDeployment(map[string]any{"template": map[string]any{
		"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
		"spec":     pod,
	}})
}

func ofDeployment(fragment map[string]any) map[string]any {
	labels := map[string]any{"app": "web"}
	spec := map[string]any{
		"selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{
			"metadata": map[string]any{"labels": labels},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "app", "image": "web:1"}}},
		},
	}
	maps.Copy(spec, fragment)
	return map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}
}

func ofAutoscaler(fragment map[string]any) map[string]any {
	spec, isMap := fragment["autoscaling"].(map[string]any)
	if !isMap {
		panic(fmt.Sprintf("%v has no autoscaling", fragment))
	}
	spec = maps.Clone(spec)
	spec["scaleTargetRef"] = map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
	return map[string]any{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "spec": spec}
}
