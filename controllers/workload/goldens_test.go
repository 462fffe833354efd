package workload_test

import (
	"testing"

	"github.com/fleetwright/fleetwright/controllers/workload"
)

// golden is an exact workload. A test also applies each golden to an API server.
type golden struct {
	golden   string // the file in testdata
	spec     string
	replicas int32
	bounds   [2]int32 // of the autoscaler
	since    string   // oldest Kubernetes that keeps all its fields; default: any supported
	copies   workload.Copies
}

func (g golden) render(t *testing.T) workload.Workload {
	t.Helper()
	entry := entry(g.replicas)
	entry.MinReplicas, entry.MaxReplicas = g.bounds[0], g.bounds[1]
	rendered, err := workload.Render(app(t, g.spec), entry, member(), "hub-1", g.copies)
	if err != nil {
		t.Fatal(err)
	}
	return rendered
}

var goldens = []golden{
	{
		golden:   "minimal",
		spec:     `image: registry.example/web:1`,
		replicas: 1,
	},
	{
		golden: "full",
		spec: `
image: registry.example/web:1
replicas: 99 # the entry decides
command: [/web]
args: [--verbose, --port=8080]
env:
- {name: MODE, value: production}
- {name: EMPTY}
- name: PASSWORD
  valueFrom: {secretKeyRef: {name: web, key: password}}
- name: NODE
  valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
ports:
- {name: http, port: 80, targetPort: 8080, appProtocol: http}
- {name: dns, port: 53, protocol: UDP}
resources:
  requests: {cpu: 250m, memory: 64Mi}
  limits: {memory: 128Mi}
placement:
  clusterNames: [east]
`,
		replicas: 3,
	},
	{
		golden:   "no-replicas",
		spec:     `image: registry.example/web:1`,
		replicas: 0,
	},
	{
		golden: "no-ports",
		spec: `
image: registry.example/worker:1
command: [/work]
ports: []
`,
		replicas: 2,
	},
	{
		golden: "node-port",
		spec: `
image: registry.example/web:1
ports:
- {name: http, port: 80}
- {name: metrics, port: 9090, nodePort: 30090}
`,
		replicas: 1,
	},
	{
		golden: "two-ports-to-one",
		spec: `
image: registry.example/web:1
ports:
- {name: http, port: 80, targetPort: 8080}
- {name: alternative, port: 8080}
- {name: quic, port: 443, targetPort: 8080, protocol: UDP}
`,
		replicas: 1,
	},
	{
		golden:   "externally-scaled",
		spec:     `{image: "registry.example/web:1", replicas: 3, externallyScaled: true}`,
		replicas: 3,
	},
	{
		golden: "odd-quantities",
		spec: `
image: registry.example/web:1
resources:
  requests: {cpu: 0.5, memory: 1024Mi, ephemeral-storage: 0.5Gi}
  limits: {cpu: "2000m", memory: 2e9, example.com/gpu: "1.0"}
`,
		replicas: 1,
	},
	{
		golden: "env-of-all-kinds",
		spec: `
image: registry.example/web:1
env:
- {name: PLAIN, value: "$(NODE) $$(HOME)"}
- {name: NODE, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
- {name: CPUS, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}
- {name: MEMORY, valueFrom: {resourceFieldRef: {resource: requests.memory, divisor: 1024Ki}}}
- {name: MODE, valueFrom: {configMapKeyRef: {name: web, key: mode, optional: true}}}
- {name: PASSWORD, valueFrom: {secretKeyRef: {name: web, key: password}}}
envFrom:
- {prefix: WEB_, configMapRef: {name: web}}
- {secretRef: {name: web, optional: false}}
volumes:
- {name: scratch, emptyDir: {}}
resources: {limits: {cpu: 1, memory: 1Gi}, requests: {memory: 1Gi}}
`,
		replicas: 1,
	},
	{
		golden: "env-of-a-file",
		spec: `
image: registry.example/web:1
env: [{name: FILE, valueFrom: {fileKeyRef: {volumeName: scratch, path: env, key: FILE}}}]
volumes: [{name: scratch, emptyDir: {}}]
`,
		replicas: 1,
		since:    "1.35",
	},
	{
		golden: "init-containers",
		spec: `
image: registry.example/web:1
containerName: web
initContainers:
- name: migrate
  image: registry.example/migrate:3
  command: [/migrate]
  args: [--to, latest]
  env: [{name: CLUSTER, value: $(cluster.name)}, {name: PASSWORD, valueFrom: {secretKeyRef: {name: web, key: password}}}]
  envFrom: [{configMapRef: {name: web}}]
  resources: {requests: {cpu: 0.5}, limits: {memory: 1024Mi}}
  volumeMounts: [{name: data, mountPath: /data}]
  securityContext: {runAsNonRoot: true, allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}}
- name: proxy
  image: "proxy:1"
  restartPolicy: Always
  ports: [{name: http, containerPort: 8081}, {containerPort: 9000, protocol: UDP}]
  livenessProbe: {tcpSocket: {port: http}}
  readinessProbe: {httpGet: {port: http, path: /ready}, failureThreshold: 1}
  startupProbe: {exec: {command: [/proxy, --check]}}
  lifecycle: {preStop: {sleep: {seconds: 5}}}
volumes: [{name: data, emptyDir: {}}]
volumeMounts: [{name: data, mountPath: /data}]
ports:
- {name: http, port: 80, targetPort: http}
- {name: admin, port: 8080}
- {name: metrics, port: 8081}
- {name: quic, port: 9000, protocol: UDP}
overrides:
- {name: mirror, imageRegistry: mirror.example, imageTag: "2"}
`,
		replicas: 1,
	},
	{
		golden: "named-ports",
		spec: `
image: registry.example/web:1
containerPorts:
- {name: http, containerPort: 8080}
- {name: http-udp, containerPort: 8080, protocol: UDP}
- {name: metrics, containerPort: 9090}
- {containerPort: 7070}
ports:
- {name: http, port: 80, targetPort: http}
- {name: quic, port: 80, targetPort: http-udp, protocol: UDP}
- {name: seven, port: 7070}
- {name: elsewhere, port: 6060, targetPort: 6061}
readinessProbe: {httpGet: {port: http}}
`,
		replicas: 1,
	},
	{
		golden:   "no-container-ports",
		spec:     `{image: "registry.example/web:1", containerPorts: [], ports: [{port: 80, targetPort: 8080}]}`,
		replicas: 1,
	},
	{
		golden: "metadata",
		spec: `
image: registry.example/web:1
ports: [{port: 80}]
deployment:
  labels: {team: shop, app.kubernetes.io/name: other, fleetwright.dev/appservice: other}
  annotations: {example.com/reload: "true", example.com/where: "$(cluster.name) $(cluster.labels['region'])"}
service:
  labels: {team: shop}
  annotations: {example.com/internal: "true"}
`,
		replicas: 1,
	},
	{
		golden: "container",
		spec: `
image: registry.example/web:1
volumes:
- {name: scratch, emptyDir: {medium: Memory, sizeLimit: 1024Mi}}
volumeMounts:
- {name: scratch, mountPath: /scratch}
- {name: scratch, mountPath: /data, subPath: data, readOnly: true, mountPropagation: None}
lifecycle:
  postStart: {httpGet: {port: 8080, httpHeaders: [{name: X-Why, value: start}]}}
  preStop: {sleep: {seconds: 5}}
securityContext:
  runAsNonRoot: true
  allowPrivilegeEscalation: false
  capabilities: {drop: [ALL], add: [NET_BIND_SERVICE]}
  seccompProfile: {type: RuntimeDefault}
  seLinuxOptions: {}
`,
		replicas: 1,
	},
	{
		golden: "probes",
		spec: `
image: registry.example/web:1
livenessProbe: {tcpSocket: {port: 8080}, periodSeconds: 5}
readinessProbe: {httpGet: {path: /ready, port: http, scheme: HTTPS}, failureThreshold: 1}
startupProbe: {exec: {command: [/web, --check]}, failureThreshold: 30, terminationGracePeriodSeconds: 5}
`,
		replicas: 1,
	},
	{
		golden: "probes-of-other-kinds",
		spec: `
image: registry.example/web:1
livenessProbe: {grpc: {port: 9090}}
readinessProbe: {grpc: {port: 9090, service: ready}}
startupProbe: {httpGet: {port: 8080}}
lifecycle:
  postStart: {exec: {command: ["true"]}}
  preStop: {httpGet: {port: 8080}}
`,
		replicas: 1,
	},
	{
		golden: "pod",
		spec: `
image: registry.example/web:1
podSecurityContext:
  runAsUser: 1000
  fsGroup: 1000
  fsGroupChangePolicy: OnRootMismatch
  supplementalGroups: [2000, 1000]
  sysctls: [{name: net.ipv4.ip_unprivileged_port_start, value: "0"}]
  seccompProfile: {type: RuntimeDefault}
serviceAccountName: web
imagePullSecrets: [{name: registry}, {name: mirror}]
podLabels: {tier: front, app.kubernetes.io/name: other, fleetwright.dev/appservice: other}
podAnnotations: {prometheus.io/scrape: "true", empty: ""}
nodeSelector: {kubernetes.io/arch: arm64, empty: ""}
tolerations:
- {key: dedicated, value: web, effect: NoSchedule}
- {key: spot, operator: Exists}
- {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 30}
priorityClassName: high
terminationGracePeriodSeconds: 0
`,
		replicas: 1,
	},
	{
		golden: "spread",
		spec: `
image: registry.example/web:1
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      nodeSelectorTerms:
      - matchExpressions: [{key: zone, operator: In, values: [b, a]}]
      - matchFields: [{key: metadata.name, operator: In, values: [node-1]}]
    preferredDuringSchedulingIgnoredDuringExecution:
    - {weight: 1, preference: {matchExpressions: [{key: gpu, operator: DoesNotExist}]}}
  podAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
    - {topologyKey: zone, labelSelector: {matchLabels: {app: cache}}, namespaceSelector: {}}
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
    - {weight: 100, podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {}, namespaces: [shop]}}
topologySpreadConstraints:
- {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}
- {maxSkew: 2, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, labelSelector: {matchLabels: {tier: front}}, matchLabelKeys: [pod-template-hash]}
- {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, labelSelector: {}, nodeTaintsPolicy: Honor}
`,
		replicas: 1,
	},
	{
		golden: "volumes",
		spec: `
image: registry.example/web:1
volumes:
- {name: config, configMap: {name: web, items: [{key: a, path: a, mode: 256}], optional: true}}
- {name: csi, csi: {driver: secrets.example.com, readOnly: true, volumeAttributes: {class: web}, nodePublishSecretRef: {name: web}}}
- {name: info, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}, {path: cpu, resourceFieldRef: {containerName: app, resource: limits.cpu}}]}}
- {name: no-info, downwardAPI: {}}
- {name: scratch, emptyDir: {}}
- {name: memory, emptyDir: {medium: Memory, sizeLimit: 0.5Gi}}
- {name: made, ephemeral: {volumeClaimTemplate: {metadata: {labels: {a: b}}, spec: {accessModes: [ReadWriteOnce], storageClassName: fast, resources: {requests: {storage: 1024Mi}}}}}}
- {name: claim, persistentVolumeClaim: {claimName: web}}
- name: all
  projected:
    sources:
    - {configMap: {name: web, items: [{key: a, path: a}]}}
    - {secret: {name: web}}
    - {serviceAccountToken: {path: token, audience: vault}}
    - {serviceAccountToken: {path: short, expirationSeconds: 600}}
    - {downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}, {path: memory, resourceFieldRef: {containerName: app, resource: limits.memory, divisor: 1Mi}}]}}
- {name: nothing, projected: {sources: []}}
- {name: secret, secret: {secretName: web, defaultMode: 256}}
`,
		replicas: 1,
	},
	{
		golden: "volumes-of-other-kinds",
		spec: `
image: registry.example/web:1
volumes:
- {name: config, secret: {secretName: web}}
- {name: secret, configMap: {name: web}}
- {name: scratch, projected: {sources: [{secret: {name: web}}]}}
- {name: all, downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}}
- {name: info, emptyDir: {}}
- {name: made, persistentVolumeClaim: {claimName: web}}
- {name: claim, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}
- {name: clone, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], dataSource: {kind: PersistentVolumeClaim, name: web}, resources: {requests: {storage: 1Gi}}}}}}
`,
		replicas: 1,
	},
	{
		golden: "rolling-update",
		spec: `
image: registry.example/web:1
strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 50%, maxUnavailable: 0}}
progressDeadlineSeconds: 60
`,
		replicas: 1,
	},
	{
		golden:   "recreate",
		spec:     `{image: "registry.example/web:1", strategy: {type: Recreate}}`,
		replicas: 1,
	},
	{
		golden: "load-balancer",
		spec: `
image: registry.example/web:1
ports: [{port: 80}]
service:
  type: LoadBalancer
  annotations: {example.com/internal: "true", example.com/name: "web-$(cluster.name)"}
`,
		replicas: 1,
	},
	{
		golden: "service-annotated",
		spec: `
image: registry.example/web:1
ports: [{port: 80, nodePort: 30091}]
service: {annotations: {example.com/internal: "true"}}
`,
		replicas: 1,
	},
	{
		golden: "autoscaling",
		spec: `
image: registry.example/web:1
replicas: 4
autoscaling: {maxReplicas: 10}
`,
		replicas: 4, bounds: [2]int32{2, 10},
	},
	{
		golden: "autoscaling-in-full",
		spec: `
image: registry.example/web:1
autoscaling:
  minReplicas: 9
  maxReplicas: 99 # the entry decides
  metrics:
  - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}
  - {type: ContainerResource, containerResource: {name: memory, container: app, target: {type: AverageValue, averageValue: 1024Mi}}}
  - {type: Pods, pods: {metric: {name: requests, selector: {matchLabels: {verb: get}}}, target: {type: AverageValue, averageValue: 1000m}}}
  - {type: Object, object: {metric: {name: hits}, describedObject: {apiVersion: networking.k8s.io/v1, kind: Ingress, name: web}, target: {type: Value, value: 2k}}}
  - {type: External, external: {metric: {name: queue, selector: {}}, target: {type: Value, value: 30}}}
  behavior:
    scaleUp: {policies: [{type: Pods, value: 4, periodSeconds: 60}]}
    scaleDown: {stabilizationWindowSeconds: 300}
`,
		replicas: 1, bounds: [2]int32{1, 3},
	},
	{
		golden:   "autoscaling-with-a-tolerance",
		spec:     `{image: "registry.example/web:1", autoscaling: {maxReplicas: 3, behavior: {scaleUp: {tolerance: 0.05}}}}`,
		replicas: 1, bounds: [2]int32{1, 3},
		since: "1.35",
	},
	{
		golden:   "autoscaling-without-a-share",
		spec:     `{image: "registry.example/web:1", autoscaling: {maxReplicas: 2}}`,
		replicas: 0,
	},
	{
		golden:   "budget-min-available",
		spec:     `{image: "registry.example/web:1", disruptionBudget: {minAvailable: 50%}}`,
		replicas: 4,
	},
	{
		golden:   "budget-max-unavailable",
		spec:     `{image: "registry.example/web:1", disruptionBudget: {maxUnavailable: 0, unhealthyPodEvictionPolicy: AlwaysAllow}}`,
		replicas: 4,
	},
	{
		golden: "variables",
		spec: `
image: registry.example/web:1
ports: [{port: 80}]
env:
- {name: CLUSTER, value: $(cluster.name)}
- {name: WHERE, value: "$(cluster.labels['region'])/$(cluster.labels[\"example.com/tier\"])/$(CLUSTER)"}
- {name: ESCAPED, value: "$$(cluster.name) $$$(cluster.name) $$ $ $(cluster) $(OTHER) $"}
podAnnotations:
  where: $(cluster.labels['region'])
  escaped: "$$(cluster.name) $$$(cluster.name) $$ $ $(OTHER)"
service: {annotations: {example.com/name: "$(cluster.name)-web"}}
overrides:
- name: by-variable
  env: [{name: BY, value: override for $(cluster.name)}]
`,
		replicas: 1,
	},
	{
		golden: "override-image",
		spec: `
image: registry.example/web:1
overrides:
- {name: other, clusterNames: [west], image: registry.example/other:1}
- {name: not-silver, clusterSelector: {matchLabels: {example.com/tier: silver}}, env: [{name: TIER, value: silver}]}
- {name: east, clusterNames: [west, east], clusterSelector: {matchExpressions: [{key: region, operator: In, values: [eu-1]}]}, image: nginx:1}
- {name: mirror, imageRegistry: "mirror.example:5000/eu", imageTag: 1.2.3}
`,
		replicas: 1,
	},
	{
		golden: "override-env-and-resources",
		spec: `
image: registry.example/web:1
env:
- {name: A, value: a}
- {name: B, valueFrom: {secretKeyRef: {name: web, key: b}}}
- {name: C, value: "$(cluster.labels['nobody-has-it'])"}
resources: {requests: {cpu: 1, memory: 1Gi}, limits: {memory: 2Gi}}
overrides:
- name: first
  env: [{name: D, value: d}, {name: B, value: b}, {name: C, value: first}]
  resources: {requests: {cpu: 2}, limits: {example.com/gpu: 1}}
- name: second
  env: [{name: C, value: second}]
  resources: {limits: {memory: 3Gi}}
`,
		replicas: 1,
	},
	{
		golden: "override-service-type",
		spec: `
image: registry.example/web:1
ports: [{port: 80}]
service: {annotations: {a: b}}
overrides: [{name: cloud, serviceType: LoadBalancer}]
`,
		replicas: 1,
	},
	{
		golden: "patches",
		spec: `
image: registry.example/web:1
ports: [{name: http, port: 80}]
autoscaling: {maxReplicas: 10}
disruptionBudget: {minAvailable: 1}
overrides:
- name: more
  imageTag: "2"
  patches:
  - target: Deployment
    operations:
    - {op: test, path: /spec/template/spec/containers/0/image, value: "registry.example/web:2"}
    - {op: test, path: /spec/template/spec/hostAliases}
    - {op: add, path: /spec/template/spec/hostAliases, value: [{ip: 10.0.0.1, hostnames: [db]}]}
    - {op: add, path: /metadata/labels/team, value: web}
    - {op: add, path: /metadata/annotations/example.com~1owner, value: web}
    - {op: add, path: /spec/template/metadata/annotations, value: {sidecar: "true"}}
    - {op: add, path: /spec/template/spec/initContainers, value: [{name: proxy, image: "proxy:1", restartPolicy: Always, ports: [{containerPort: 15001}], env: [{name: POD, valueFrom: {fieldRef: {fieldPath: metadata.name}}}], readinessProbe: {httpGet: {port: 15001}}, resources: {}}]}
    - {op: copy, from: /spec/template/spec/containers/0/image, path: /spec/template/metadata/annotations/image}
    - {op: add, path: /spec/template/spec/dnsConfig, value: {options: [{name: ndots, value: "1"}]}}
  - target: Service
    operations:
    - {op: add, path: /spec/sessionAffinity, value: ClientIP}
    - {op: add, path: /spec/ports/-, value: {name: admin, port: 81}}
  - target: HorizontalPodAutoscaler
    operations: [{op: add, path: /spec/behavior, value: {scaleDown: {selectPolicy: Disabled}}}]
  - target: PodDisruptionBudget
    operations: [{op: move, from: /spec/minAvailable, path: /spec/maxUnavailable}]
- name: still-more
  patches:
  - target: Deployment
    operations: [{op: remove, path: /spec/template/metadata/annotations/sidecar}]
`,
		replicas: 1, bounds: [2]int32{1, 10},
	},
	{
		golden: "patch-of-an-absent-autoscaler",
		spec: `
image: registry.example/web:1
autoscaling: {maxReplicas: 10}
overrides:
- name: slow
  patches: [{target: HorizontalPodAutoscaler, operations: [{op: add, path: /spec/behavior, value: {scaleDown: {selectPolicy: Disabled}}}]}]
`,
		replicas: 0,
	},
	{
		golden: "copies",
		spec: `
image: registry.example/web:1
env:
- {name: MODE, valueFrom: {configMapKeyRef: {name: settings, key: mode, optional: true}}}
- {name: PASSWORD, valueFrom: {secretKeyRef: {name: settings, key: password, optional: false}}}
- {name: OWN, valueFrom: {configMapKeyRef: {name: of-the-member, key: own}}}
- {name: TLS, valueFrom: {configMapKeyRef: {name: tls, key: only-the-secret-travels}}}
envFrom:
- {prefix: A_, configMapRef: {name: settings, optional: true}}
- {secretRef: {name: tls}}
- {secretRef: {name: of-the-member}}
initContainers:
- name: migrate
  image: registry.example/migrate:3
  env: [{name: PASSWORD, valueFrom: {secretKeyRef: {name: settings, key: password}}}]
  envFrom: [{configMapRef: {name: settings}}]
volumes:
- {name: settings, configMap: {name: settings, items: [{key: settings, path: settings}], optional: true}}
- {name: tls, secret: {secretName: tls, defaultMode: 256}}
- {name: csi, csi: {driver: csi.example, volumeAttributes: {secretName: tls}, nodePublishSecretRef: {name: tls}}}
- {name: own, secret: {secretName: of-the-member}}
- name: all
  projected:
    sources:
    - {secret: {name: tls, items: [{key: tls.key, path: key}]}}
    - {configMap: {name: of-the-member}}
    - {configMap: {name: settings, optional: true}}
volumeMounts: [{name: settings, mountPath: /settings}, {name: tls, mountPath: /tls}]
imagePullSecrets: [{name: z-registry}, {name: of-the-member}, {name: a-registry}, {name: z-registry-again}]
overrides:
- name: more
  patches:
  - target: Deployment
    operations:
    - {op: test, path: /spec/template/spec/volumes/0/configMap/name, value: settings}
    - {op: add, path: /spec/template/spec/containers/-, value: {name: sidecar, image: "sidecar:1", envFrom: [{configMapRef: {name: settings}}]}}
    - {op: add, path: /spec/template/spec/volumes/-, value: {name: azure, azureFile: {secretName: tls, shareName: tls}}}
`,
		replicas: 1,
		copies: workload.Copies{
			{Kind: workload.ConfigMap, Name: "settings"}:      "web-settings-5hc9dk2m7t",
			{Kind: workload.Secret, Name: "settings"}:         "web-settings-8x4bq2v6wn",
			{Kind: workload.Secret, Name: "tls"}:              "web-tls-k2x7m9q4ta",
			{Kind: workload.Secret, Name: "a-registry"}:       "web-a-registry-7d5jz9c2fp",
			{Kind: workload.Secret, Name: "z-registry"}:       "web-registry-4m8tv6b9sk",
			{Kind: workload.Secret, Name: "z-registry-again"}: "web-registry-4m8tv6b9sk",
		},
	},
	{
		golden: "copies-in-variables",
		spec: configurationVariables + `
deployment: {annotations: {stays: "$(configuration.configMap['settings'])"}}
overrides:
- name: by-variable
  env: [{name: BY, value: "$(configuration.secret['tls']) for $(cluster.name)"}]
`,
		replicas: 1,
		copies: workload.Copies{
			{Kind: workload.ConfigMap, Name: "settings"}: "web-settings-5hc9dk2m7t",
			{Kind: workload.Secret, Name: "tls"}:         "web-tls-k2x7m9q4ta",
		},
	},
	{
		golden:   "no-copies-in-variables",
		spec:     configurationVariables,
		replicas: 1,
	},
}

const configurationVariables = `
image: registry.example/web:1
command: [/web, "--settings=$(configuration.configMap['settings'])", $(cluster.name)]
args: ["$$(configuration.configMap['settings'])", "$$$(configuration.configMap['settings'])", $(SETTINGS), "$(configuration)", "$(configuration.secret[\"tls\"])"]
env:
- {name: SETTINGS, value: "$(configuration.configMap['settings']) on $(cluster.name)"}
- {name: ESCAPED, value: "$$(configuration.configMap['settings']) $$$(configuration.configMap['settings'])"}
initContainers:
- name: migrate
  image: registry.example/migrate:3
  command: [/migrate, "$(configuration.configMap['settings'])"]
  args: ["$(configuration.secret['tls'])", $(cluster.name)]
  env: [{name: TLS, value: "$(configuration.secret['tls'])"}]
podAnnotations:
  watches: "$(configuration.configMap['settings']),$(configuration.secret['tls'])"
  escaped: "$$(configuration.configMap['settings']) $$$(configuration.configMap['settings'])"
`
