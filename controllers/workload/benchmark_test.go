package workload_test

import (
	"testing"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// BenchmarkRender renders an AppService with nearly every field and with overrides, the same with
// copies, and, for comparison, a typical AppService.
func BenchmarkRender(b *testing.B) {
	full := `
image: registry.example/web:1
command: [/web]
env: [{name: CLUSTER, value: $(cluster.name)}, {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]
envFrom: [{configMapRef: {name: web}}]
ports: [{name: http, port: 80, targetPort: 8080}, {name: dns, port: 53, protocol: UDP}]
service: {type: LoadBalancer, annotations: {example.com/name: $(cluster.name)}}
resources: {requests: {cpu: 250m, memory: 64Mi}, limits: {memory: 128Mi}}
volumes: [{name: scratch, emptyDir: {}}, {name: config, configMap: {name: web}}]
volumeMounts: [{name: scratch, mountPath: /scratch}, {name: config, mountPath: /etc/web}]
livenessProbe: {httpGet: {port: 8080}}
readinessProbe: {httpGet: {port: 8080}}
startupProbe: {httpGet: {port: 8080}}
lifecycle: {preStop: {sleep: {seconds: 5}}}
securityContext: {runAsNonRoot: true, capabilities: {drop: [ALL]}}
podSecurityContext: {seccompProfile: {type: RuntimeDefault}}
serviceAccountName: web
podLabels: {tier: front}
podAnnotations: {region: "$(cluster.labels['region'])"}
tolerations: [{key: spot, operator: Exists}]
topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]
strategy: {rollingUpdate: {maxSurge: 50%}}
autoscaling: {maxReplicas: 10}
disruptionBudget: {minAvailable: 1}
overrides:
- {name: west, clusterNames: [west], image: other}
- {name: mirror, clusterSelector: {matchLabels: {region: eu-1}}, imageRegistry: mirror.example, env: [{name: REGION, value: "$(cluster.labels['region'])"}]}
- name: more
  patches:
  - target: Deployment
    operations:
    - {op: add, path: /spec/template/spec/hostAliases, value: [{ip: 10.0.0.1, hostnames: [db]}]}
    - {op: add, path: /metadata/labels/team, value: web}
  - {target: Service, operations: [{op: add, path: /spec/sessionAffinity, value: ClientIP}]}
`
	for name, test := range map[string]struct {
		spec   string
		copies workload.Copies
	}{
		"full":             {spec: full},
		"full-with-copies": {full, workload.Copies{{Kind: workload.ConfigMap, Name: "web"}: "web-5hc9dk2m7t"}},
		"minimal":          {spec: `{image: "registry.example/web:1", ports: [{port: 80}]}`},
	} {
		b.Run(name, func(b *testing.B) {
			app, member := app(b, test.spec), member()
			entry := &v1alpha1.ClusterStatus{Name: "east", Generation: 7, Replicas: 3, MinReplicas: 1, MaxReplicas: 10}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := workload.Render(app, entry, member, "hub-1", test.copies); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
