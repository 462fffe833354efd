package v1alpha1_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestWorkload_is_accepted_and_defaulted(t *testing.T) {
	testAccepted(t, map[string]accepted{
		"the minimum of fields": {
			spec: image + "replicas: 2\nports: [{port: 80, targetPort: 80, nodePort: 30002}]",
			want: image + "replicas: 2\nports: [{port: 80, protocol: TCP, targetPort: 80, nodePort: 30002}]",
		},
		"all fields of a container": {
			spec: least + `
command: [/web]
args: [--verbose, ""]
envFrom:
- {configMapRef: {name: common}, prefix: COMMON_}
- {secretRef: {name: keys, optional: true}}
lifecycle:
  preStop: {sleep: {seconds: 5}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  runAsNonRoot: true
  capabilities: {drop: [ALL]}
  seccompProfile: {type: RuntimeDefault}
`,
		},
		"the three probes, with ports by number and by name": {
			spec: least + `
livenessProbe: {httpGet: {path: /live, port: 8080}, periodSeconds: 5}
readinessProbe: {httpGet: {path: /ready, port: http, httpHeaders: [{name: A, value: b}]}}
startupProbe: {exec: {command: ["true"]}, failureThreshold: 30}
`,
		},
		"another name of the container": {
			spec: least + "containerName: web-1",
		},
		"an init container and a sidecar, with all fields": {
			spec: least + `
initContainers:
- {name: init, image: "init:1", command: [a], args: [b], env: [{name: A, value: $(cluster.name)}], envFrom: [{secretRef: {name: a}}]}
- name: proxy
  image: proxy:1
  restartPolicy: Always
  ports: [{name: http, containerPort: 80, protocol: TCP}, {containerPort: 53, protocol: UDP}]
  resources: {limits: {cpu: 1}}
  volumeMounts: [{name: a, mountPath: /a}]
  livenessProbe: {tcpSocket: {port: http}}
  readinessProbe: {httpGet: {path: /, port: 80}}
  startupProbe: {exec: {command: [a]}}
  lifecycle: {preStop: {sleep: {seconds: 1}}}
  securityContext: {runAsNonRoot: true}
ports: [{port: 80, protocol: TCP, targetPort: http}]
`,
		},
		"ports by name": {
			spec: least + `
containerPorts: [{name: http, containerPort: 8080, protocol: TCP}, {name: http-2, containerPort: 8080, protocol: UDP}, {containerPort: 9090, protocol: TCP}]
ports: [{name: a, port: 80, protocol: TCP, targetPort: http}, {name: b, port: 80, protocol: UDP, targetPort: http-2}, {name: c, port: 81, protocol: TCP, targetPort: 9090}]
`,
		},
		"an empty list of container ports": {
			spec: least + "containerPorts: []\nports: [{port: 80, protocol: TCP}]",
		},
		"labels and annotations of the Deployment and the Service": {
			spec: least + `
deployment: {labels: {team: shop}, annotations: {example.com/reload: "true"}}
ports: [{port: 80, protocol: TCP}]
service: {labels: {team: shop}, annotations: {a: b}}
`,
		},
		"a probe by gRPC": {
			spec: least + "readinessProbe: {grpc: {port: 9000}}",
			want: least + `readinessProbe: {grpc: {port: 9000, service: ""}}`,
		},
		"all fields of a pod": {
			spec: least + `
podSecurityContext: {runAsUser: 1000, fsGroup: 1000, supplementalGroups: [1, 2]}
serviceAccountName: web
imagePullSecrets: [{name: registry}]
podLabels: {team: shop, app.kubernetes.io/version: "1"}
podAnnotations: {prometheus.io/scrape: "true", where: $(cluster.name)}
nodeSelector: {disk: ssd}
tolerations:
- {key: gpu, operator: Exists, effect: NoSchedule}
- {operator: Exists}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 1
      podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {a: b}}}
topologySpreadConstraints:
- {topologyKey: topology.kubernetes.io/zone, maxSkew: 1, whenUnsatisfiable: ScheduleAnyway}
- {topologyKey: topology.kubernetes.io/zone, maxSkew: 2, whenUnsatisfiable: DoNotSchedule}
priorityClassName: high
terminationGracePeriodSeconds: 0
progressDeadlineSeconds: 1
`,
		},
		"a strategy with a number and a percentage": {
			spec: least + "strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 25%}}",
		},
		"a strategy without a type": {
			spec: least + "strategy: {rollingUpdate: {maxSurge: 0, maxUnavailable: 1}}",
		},
		"Recreate": {
			spec: least + "strategy: {type: Recreate}",
		},
		"every kind of volume": {
			spec: least + `
volumes:
- {name: a, configMap: {name: web, defaultMode: 292, items: [{key: a, path: b}]}}
- {name: b, csi: {driver: secrets.example, readOnly: true, volumeAttributes: {a: b}}}
- {name: c, downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}}
- {name: d, emptyDir: {}}
- {name: e, emptyDir: {medium: Memory, sizeLimit: 64Mi}}
- {name: f, persistentVolumeClaim: {claimName: data, readOnly: true}}
- {name: g, projected: {sources: [{serviceAccountToken: {path: token, audience: x}}]}}
- {name: h, secret: {secretName: keys}}
volumeMounts:
- {name: a, mountPath: /a, readOnly: true}
- {name: a, mountPath: /b, subPath: b}
`,
		},
		"an ephemeral claim of each pod, with metadata": {
			spec: least + `
volumes:
- name: scratch
  ephemeral:
    volumeClaimTemplate:
      metadata: {labels: {team: shop}, annotations: {a: b}}
      spec:
        accessModes: [ReadWriteOnce]
        storageClassName: fast
        resources: {requests: {storage: 1Gi}}
`,
		},
		"a Service that is a LoadBalancer, with annotations": {
			spec: least + `
ports: [{port: 80, protocol: TCP}]
service: {type: LoadBalancer, annotations: {service.example/internal: "true", where: "$(cluster.labels['region'])"}}
`,
		},
		"a Service that is a NodePort": {
			spec: least + "ports: [{port: 80, protocol: TCP, nodePort: 30000}]\nservice: {type: NodePort}",
		},
		"a Service that is a LoadBalancer with a nodePort": {
			spec: least + "ports: [{port: 80, protocol: TCP, nodePort: 30000}]\nservice: {type: LoadBalancer}",
		},
		"a Service that is a ClusterIP": {
			spec: least + "ports: [{port: 80, protocol: TCP}]\nservice: {type: ClusterIP}",
		},
		"an empty service with ports": {
			spec: least + "ports: [{port: 80, protocol: TCP}]\nservice: {}",
		},
		"an autoscaler of one to five": {
			spec: least + "autoscaling: {maxReplicas: 5}",
			want: least + "autoscaling: {minReplicas: 1, maxReplicas: 5}",
		},
		"an autoscaler with all fields": {
			spec: least + `
externallyScaled: false
autoscaling:
  minReplicas: 3
  maxReplicas: 3
  metrics:
  - {type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}
  - {type: External, external: {metric: {name: queue, selector: {matchLabels: {a: b}}}, target: {type: AverageValue, averageValue: "30"}}}
  behavior:
    scaleDown: {stabilizationWindowSeconds: 60, policies: [{type: Pods, value: 1, periodSeconds: 60}]}
`,
		},
		"externallyScaled": {
			spec: least + "externallyScaled: true",
		},
		"a budget by a number": {
			spec: least + "disruptionBudget: {minAvailable: 0}",
		},
		"a budget of 100 %": {
			spec: least + "disruptionBudget: {minAvailable: 100%}",
		},
		"a budget by a percentage": {
			spec: least + "disruptionBudget: {maxUnavailable: 50%, unhealthyPodEvictionPolicy: AlwaysAllow}",
		},
	})
}

func TestWorkload_is_refused_with_a_message(t *testing.T) {
	const (
		noService   = "spec: Invalid value: service needs ports, because there is no Service without ports: add ports, or remove service"
		oneVolume   = "a volume must have exactly one of configMap, csi, downwardAPI, emptyDir, ephemeral, persistentVolumeClaim, projected, secret: the restricted Pod Security Standard forbids other kinds, such as hostPath"
		badVolume   = "a volume's name must be lower-case letters, digits and '-', and start and end with a letter or digit"
		reserved    = "spec.podLabels: Invalid value: podLabels must not have the keys app.kubernetes.io/name, app.kubernetes.io/managed-by or fleetwright.dev/…, which Fleetwright sets: use other keys"
		sameName    = "spec: Invalid value: an init container must not have the name of the main container: change its name or containerName"
		noSidecar   = "spec.initContainers[0]: Invalid value: only an init container with restartPolicy Always can have probes and a lifecycle: set restartPolicy, or remove them"
		noSuchPort  = "spec: Invalid value: a targetPort must be a number, or the name of a port of the same protocol in containerPorts or in the ports of an init container with restartPolicy Always"
		oneOfBudget = "spec.disruptionBudget: Invalid value: disruptionBudget needs exactly one of minAvailable and maxUnavailable: set one of them"
	)
	testRefused(t, map[string]refused{
		"a service without ports": {
			spec: image + "service: {type: LoadBalancer}",
			want: noService,
		},
		"a service with no port": {
			spec: image + "service: {}\nports: []",
			want: noService,
		},
		"a ClusterIP with a nodePort": {
			spec: image + "service: {type: ClusterIP}\nports: [{port: 80, nodePort: 30000}]",
			want: "spec: Invalid value: service.type ClusterIP has no nodePort: remove the nodePorts, or set service.type to NodePort or LoadBalancer",
		},
		"an unknown type of Service": {
			spec: image + "service: {type: ExternalName}\nports: [{port: 80}]",
			want: `[spec.service.type: Unsupported value: "ExternalName": supported values: "ClusterIP", "NodePort", "LoadBalancer"` + unchecked,
		},
		"an annotation of the Service that is Fleetwright's": {
			spec: image + "service: {annotations: {fleetwright.dev/hub: x}}\nports: [{port: 80}]",
			want: "spec.service.annotations: Invalid value: service.annotations must not have keys fleetwright.dev/…, which Fleetwright sets: use other keys",
		},
		"a pod label of the selector": {
			spec: image + "podLabels: {fleetwright.dev/appservice: x}",
			want: reserved,
		},
		"the pod label managed-by": {
			spec: image + "podLabels: {app.kubernetes.io/managed-by: x}",
			want: reserved,
		},
		"the pod label name": {
			spec: image + "podLabels: {app.kubernetes.io/name: x}",
			want: reserved,
		},
		"a container's name in upper case": {
			spec: image + "containerName: Web",
			want: `spec.containerName: Invalid value: "Web": containerName must be lower-case letters, digits and '-', and start and end with a letter or digit`,
		},
		"an init container with the name of the main container": {
			spec: image + "initContainers: [{name: app, image: a}]",
			want: sameName,
		},
		"an init container with the name in containerName": {
			spec: image + "containerName: web\ninitContainers: [{name: web, image: a}]",
			want: sameName,
		},
		"an init container twice": {
			spec: image + "initContainers: [{name: a, image: a}, {name: a, image: b}]",
			want: `spec.initContainers[1]: Duplicate value: {"name":"a"}`,
		},
		"an init container without an image": {
			spec: image + "initContainers: [{name: a}]",
			want: "[spec.initContainers[0].image: Required value" + unchecked,
		},
		"an init container with a probe": {
			spec: image + "initContainers: [{name: a, image: a, readinessProbe: {tcpSocket: {port: 80}}}]",
			want: noSidecar,
		},
		"an init container with a lifecycle": {
			spec: image + "initContainers: [{name: a, image: a, lifecycle: {preStop: {sleep: {seconds: 1}}}}]",
			want: noSidecar,
		},
		"an init container with another restartPolicy": {
			spec: image + "initContainers: [{name: a, image: a, restartPolicy: Never}]",
			want: `[spec.initContainers[0].restartPolicy: Unsupported value: "Never": supported values: "Always"` + unchecked,
		},
		"a sidecar with an empty probe": {
			spec: image + "initContainers: [{name: a, image: a, restartPolicy: Always, startupProbe: {}}]",
			want: "spec.initContainers[0].startupProbe: Invalid value: a probe needs exactly one of exec, grpc, httpGet, tcpSocket",
		},
		"a host port in an init container": {
			spec: image + "initContainers: [{name: a, image: a, ports: [{containerPort: 80, hostPort: 80}]}]",
			want: `AppService in version "v1alpha1" cannot be handled as a AppService: strict decoding error: unknown field "spec.initContainers[0].ports[0].hostPort"`,
		},
		"a targetPort that no container declares": {
			spec: image + "ports: [{port: 80, targetPort: http}]",
			want: noSuchPort,
		},
		"a targetPort that is declared with another protocol": {
			spec: image + "containerPorts: [{name: http, containerPort: 80, protocol: UDP}]\nports: [{port: 80, targetPort: http}]",
			want: noSuchPort,
		},
		"a targetPort of an init container that is not a sidecar": {
			spec: image + "initContainers: [{name: a, image: a, ports: [{name: http, containerPort: 80}]}]\nports: [{port: 80, targetPort: http}]",
			want: noSuchPort,
		},
		"a targetPort that is not a valid name": {
			spec: image + "ports: [{port: 80, targetPort: HTTP}]",
			want: "[spec.ports[0].targetPort: Invalid value: \"HTTP\": spec.ports[0].targetPort in body should match '^[a-z0-9]([a-z0-9-]{0,13}[a-z0-9])?$', " + noSuchPort + "]",
		},
		"a targetPort out of range": {
			spec: image + "ports: [{port: 80, targetPort: 65536}]",
			want: "spec.ports: Invalid value: each targetPort must be from 1 to 65535, or the name of a container's port",
		},
		"two container ports with the same name": {
			spec: image + "containerPorts: [{name: a, containerPort: 80}, {name: a, containerPort: 81}]",
			want: "spec.containerPorts: Invalid value: the names of a container's ports must be unique",
		},
		"a container port's name without a letter": {
			spec: image + `containerPorts: [{name: "80", containerPort: 80}]`,
			want: `spec.containerPorts[0].name: Invalid value: "80": a container port's name must be at most 15 lower-case letters, digits and single '-', with at least one letter`,
		},
		"a label of the Deployment that is Fleetwright's": {
			spec: image + "deployment: {labels: {app.kubernetes.io/managed-by: Helm}}",
			want: "spec.deployment.labels: Invalid value: deployment.labels must not have the keys app.kubernetes.io/name, app.kubernetes.io/managed-by or fleetwright.dev/…, which Fleetwright sets: use other keys",
		},
		"a label of the Service that is Fleetwright's": {
			spec: image + "service: {labels: {fleetwright.dev/appservice: a}}\nports: [{port: 80}]",
			want: "spec.service.labels: Invalid value: service.labels must not have the keys app.kubernetes.io/name, app.kubernetes.io/managed-by or fleetwright.dev/…, which Fleetwright sets: use other keys",
		},
		"an annotation of the Deployment controller": {
			spec: image + `deployment: {annotations: {deployment.kubernetes.io/revision: "1"}}`,
			want: "spec.deployment.annotations: Invalid value: deployment.annotations must not have the keys fleetwright.dev/…, deployment.kubernetes.io/… or kubectl.kubernetes.io/last-applied-configuration, which Fleetwright, the Deployment controller and kubectl set: use other keys",
		},
		"a hostPath volume": {
			spec: image + "volumes: [{name: a, hostPath: {path: /}}]",
			want: `AppService in version "v1alpha1" cannot be handled as a AppService: strict decoding error: unknown field "spec.volumes[0].hostPath"`,
		},
		"a volume without a kind": {
			spec: image + "volumes: [{name: a}]",
			want: "spec.volumes[0]: Invalid value: " + oneVolume,
		},
		"a volume with two kinds": {
			spec: image + "volumes: [{name: a, emptyDir: {}, secret: {secretName: b}}]",
			want: "spec.volumes[0]: Invalid value: " + oneVolume,
		},
		"a volume in upper case": {
			spec: image + "volumes: [{name: A, emptyDir: {}}]",
			want: `spec.volumes[0].name: Invalid value: "A": ` + badVolume,
		},
		"a volume without a name": {
			spec: image + `volumes: [{name: "", emptyDir: {}}]`,
			want: `spec.volumes[0].name: Invalid value: "": ` + badVolume,
		},
		"a volume twice": {
			spec: image + "volumes: [{name: a, emptyDir: {}}, {name: a, emptyDir: {}}]",
			want: `spec.volumes[1]: Duplicate value: {"name":"a"}`,
		},
		"two volumes at one path": {
			spec: image + "volumeMounts: [{name: a, mountPath: /a}, {name: b, mountPath: /a}]",
			want: `spec.volumeMounts[1]: Duplicate value: {"mountPath":"/a"}`,
		},
		"a second container": {
			spec: image + "containers: []",
			want: `AppService in version "v1alpha1" cannot be handled as a AppService: strict decoding error: unknown field "spec.containers"`,
		},
		"a probe without a port": {
			spec: image + "livenessProbe: {httpGet: {path: /}}",
			want: "[spec.livenessProbe.httpGet.port: Required value" + unchecked,
		},
		"an unknown strategy": {
			spec: image + "strategy: {type: BlueGreen}",
			want: "spec.strategy: Invalid value: strategy.type must be RollingUpdate or Recreate",
		},
		"Recreate with rollingUpdate": {
			spec: image + "strategy: {type: Recreate, rollingUpdate: {maxSurge: 1}}",
			want: "spec.strategy: Invalid value: strategy.rollingUpdate needs strategy.type RollingUpdate: remove rollingUpdate, or change the type",
		},
		"a progress deadline of zero": {
			spec: image + "progressDeadlineSeconds: 0",
			want: "spec.progressDeadlineSeconds: Invalid value: 0: progressDeadlineSeconds must be one or more",
		},
		"a negative grace period": {
			spec: image + "terminationGracePeriodSeconds: -1",
			want: "spec.terminationGracePeriodSeconds: Invalid value: -1: terminationGracePeriodSeconds must be zero or more",
		},
		"a duplicate spread constraint": {
			spec: image + "topologySpreadConstraints: [{topologyKey: a, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}, {topologyKey: a, maxSkew: 2, whenUnsatisfiable: DoNotSchedule}]",
			want: `spec.topologySpreadConstraints[1]: Duplicate value: {"topologyKey":"a","whenUnsatisfiable":"DoNotSchedule"}`,
		},
		"autoscaling and externallyScaled": {
			spec: image + "autoscaling: {maxReplicas: 5}\nexternallyScaled: true",
			want: "spec: Invalid value: externallyScaled and autoscaling exclude each other: remove one of them",
		},
		"autoscaling without maxReplicas": {
			spec: image + "autoscaling: {}",
			want: "[spec.autoscaling.maxReplicas: Required value" + unchecked,
		},
		"autoscaling with maxReplicas below minReplicas": {
			spec: image + "autoscaling: {minReplicas: 3, maxReplicas: 2}",
			want: "spec.autoscaling: Invalid value: autoscaling.maxReplicas must be minReplicas or more",
		},
		"autoscaling with minReplicas of zero": {
			spec: image + "autoscaling: {minReplicas: 0, maxReplicas: 2}",
			want: "spec.autoscaling.minReplicas: Invalid value: 0: autoscaling.minReplicas must be one or more",
		},
		"autoscaling with maxReplicas of zero": {
			spec: image + "autoscaling: {maxReplicas: 0}",
			want: "[spec.autoscaling: Invalid value: autoscaling.maxReplicas must be minReplicas or more, spec.autoscaling.maxReplicas: Invalid value: 0: autoscaling.maxReplicas must be one or more]",
		},
		"17 metrics": {
			spec: image + "autoscaling:\n  maxReplicas: 2\n  metrics:\n" + strings.Repeat("  - {type: Resource, resource: {name: cpu, target: {type: Utilization}}}\n", 17),
			want: "[spec.autoscaling.metrics: Too many: 17: must have at most 16 items" + unchecked,
		},
		"an empty budget": {
			spec: image + "disruptionBudget: {}",
			want: oneOfBudget,
		},
		"a budget with both fields": {
			spec: image + "disruptionBudget: {minAvailable: 1, maxUnavailable: 1}",
			want: oneOfBudget,
		},
		"a negative budget": {
			spec: image + "disruptionBudget: {minAvailable: -1}",
			want: "spec.disruptionBudget.minAvailable: Invalid value: -1: minAvailable must be a number of zero or more, or a percentage from 0% to 100%",
		},
		"a budget that a client cannot decode": {
			spec: image + "disruptionBudget: {minAvailable: 3000000000}",
			want: "spec.disruptionBudget.minAvailable: Invalid value: 3000000000: spec.disruptionBudget.minAvailable in body should be less than or equal to 2147483647",
		},
		"a budget that is a word": {
			spec: image + "disruptionBudget: {maxUnavailable: half}",
			want: `spec.disruptionBudget.maxUnavailable: Invalid value: "half": maxUnavailable must be a number of zero or more, or a percentage from 0% to 100%`,
		},
		"a budget above 100 %": {
			spec: image + "disruptionBudget: {maxUnavailable: 101%}",
			want: `spec.disruptionBudget.maxUnavailable: Invalid value: "101%": maxUnavailable must be a number of zero or more, or a percentage from 0% to 100%`,
		},
		"a budget with an unknown policy": {
			spec: image + "disruptionBudget: {maxUnavailable: 1, unhealthyPodEvictionPolicy: Never}",
			want: `[spec.disruptionBudget.unhealthyPodEvictionPolicy: Unsupported value: "Never": supported values: "IfHealthyBudget", "AlwaysAllow"` + unchecked,
		},
		"an unknown conflictPolicy": {
			spec: image + "conflictPolicy: Overwrite",
			want: `[spec.conflictPolicy: Unsupported value: "Overwrite": supported values: "Fail", "AdoptIfIdentical", "Adopt"` + unchecked,
		},
		"an unknown deletionPolicy": {
			spec: image + "deletionPolicy: Keep",
			want: `[spec.deletionPolicy: Unsupported value: "Keep": supported values: "Delete", "Orphan"` + unchecked,
		},
	})
}

// Without strict validation, the API server silently drops unknown fields, and the volume is empty.
func TestHostPath_is_refused_without_strict_validation(t *testing.T) {
	for _, validation := range []string{metav1.FieldValidationIgnore, metav1.FieldValidationWarn} {
		t.Run(validation, func(t *testing.T) {
			object := newManifest(t, "web", image+"volumes: [{name: a, hostPath: {path: /}}]")
			err := lenientHub.Create(t.Context(), object, client.DryRunAll, client.FieldValidation(validation))
			if want := "spec.volumes[0]: Invalid value: a volume must have exactly one of"; err == nil || !strings.Contains(withoutValues(err.Error()), want) {
				t.Errorf("%v, want %s", err, want)
			}
		})
	}
}

func ports(n int) string {
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, "- {name: p%d, port: %d, protocol: TCP}\n", i, 8000+i)
	}
	return all.String()
}

// Parsing such a quantity exhausts CPU and memory: one AppService would crash every operator that
// lists it.
func TestQuantities_that_are_expensive_to_parse_are_refused(t *testing.T) {
	for _, quantity := range []string{"1234567890123456789e2147483639", "1e-2000000000", "1e100", "1234567890123456789", "0.1234567890123456789"} {
		for name, spec := range map[string]string{
			"a limit":     "resources: {limits: {memory: %q}}",
			"an override": "overrides: [{name: x, resources: {requests: {cpu: %q}}}]",
			"a volume":    "volumes: [{name: v, emptyDir: {sizeLimit: %q}}]",
		} {
			if _, err := dryRunCreate(t, newManifest(t, "web", image+fmt.Sprintf(spec, quantity))); err == nil {
				t.Errorf("%s of %s is accepted", name, quantity)
			}
		}
	}
	for _, quantity := range []string{"100m", "1.5Gi", "12e6", "1E", "123456789012345678", "0.5"} {
		if _, err := dryRunCreate(t, newManifest(t, "web", image+fmt.Sprintf("resources: {limits: {memory: %q}}", quantity))); err != nil {
			t.Errorf("%s: %v", quantity, err)
		}
	}
}
