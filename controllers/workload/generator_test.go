package workload_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// generating is held while a test draws: the generators are shared, and rapid's are not safe for
// concurrent use.
var generating sync.Mutex

// checkProperty checks a property, while no other test checks one.
func checkProperty(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	generating.Lock()
	defer generating.Unlock()
	rapid.Check(t, property)
}

// The generators draw any AppService that an API server accepts.

var (
	anyWord     = rapid.StringMatching(`[a-z]{1,8}`)
	anyProtocol = rapid.SampledFrom([]corev1.Protocol{"", corev1.ProtocolTCP, corev1.ProtocolUDP})

	anyInput = rapid.Custom(func(t *rapid.T) input {
		in := input{
			app:    anyApp.Draw(t, "app"),
			entry:  &v1alpha1.ClusterStatus{Name: anyWord.Draw(t, "cluster"), Generation: 7, Replicas: rapid.Int32Range(0, 9).Draw(t, "replicas")},
			member: &v1alpha1.MemberCluster{},
			hub:    anyWord.Draw(t, "hub"),
			copies: anyCopies.Draw(t, "copies"),
		}
		in.member.Name, in.member.Labels = anyWord.Draw(t, "member"), map[string]string{"region": anyWord.Draw(t, "region")}
		if in.app.Spec.Autoscaling != nil && rapid.IntRange(0, 3).Draw(t, "has a share") > 0 {
			in.entry.MinReplicas = rapid.Int32Range(1, 3).Draw(t, "minReplicas")
			in.entry.MaxReplicas = rapid.Int32Range(3, 9).Draw(t, "maxReplicas")
		}
		return in
	})

	anyApp = rapid.Custom(func(t *rapid.T) *v1alpha1.AppService {
		app := &v1alpha1.AppService{
			ObjectMeta: metav1.ObjectMeta{Namespace: anyWord.Draw(t, "namespace"), Name: anyWord.Draw(t, "name"), UID: "uid-1", Generation: 7},
			Spec: v1alpha1.AppServiceSpec{
				Image:     anyWord.Draw(t, "image"),
				Command:   anyArguments.Draw(t, "command"),
				Args:      anyArguments.Draw(t, "args"),
				Env:       rapid.SliceOfNDistinct(anyVariable, 0, 4, func(v corev1.EnvVar) string { return v.Name }).Draw(t, "env"),
				Ports:     distinctPorts(rapid.SliceOfNDistinct(anyPort, 0, 4, func(p v1alpha1.ServicePort) int32 { return p.Port }).Draw(t, "ports")),
				Resources: anyResources.Draw(t, "resources"),
			},
		}
		drawFields(t, &app.Spec)
		return app
	})

	anyArguments = rapid.OneOf(rapid.Just([]string(nil)), rapid.SliceOfN(rapid.OneOf(anyWord, rapid.Just("$(configuration.secret['a'])")), 0, 3))

	// anyCopies draws none, or those that variables name and maybe others.
	anyCopies = rapid.Custom(func(t *rapid.T) workload.Copies {
		if rapid.Bool().Draw(t, "nothing travels") {
			return nil
		}
		copies := copiesNamed(rapid.SampledFrom([]string{"copy-of-a", "copy-of-b", "b"})).Draw(t, "copies")
		copies[workload.Reference{Kind: workload.ConfigMap, Name: "a"}] = "copied-configmap"
		copies[workload.Reference{Kind: workload.Secret, Name: "a"}] = "copied-secret"
		return copies
	})

	anyVariable = rapid.Custom(func(t *rapid.T) corev1.EnvVar {
		variable := corev1.EnvVar{Name: anyWord.Draw(t, "name")}
		if rapid.Bool().Draw(t, "from a field") {
			variable.ValueFrom = &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}
			return variable
		}
		variable.Value = rapid.OneOf(rapid.StringMatching(`[a-z ]{0,8}`),
			rapid.StringMatching(`(\$?\$\((cluster\.(name|labels\['region'\])|configuration\.(configMap|secret)\['a'\])\)|\$\(OTHER\)|\$|a){0,4}`)).Draw(t, "value")
		return variable
	})

	anyPort = rapid.Custom(func(t *rapid.T) v1alpha1.ServicePort {
		port := v1alpha1.ServicePort{
			Name:     anyWord.Draw(t, "name"),
			Port:     rapid.Int32Range(80, 90).Draw(t, "port"),
			Protocol: anyProtocol.Draw(t, "protocol"),
		}
		if rapid.Bool().Draw(t, "has a targetPort") {
			port.TargetPort = intstr.FromInt32(rapid.Int32Range(80, 82).Draw(t, "targetPort"))
		}
		if rapid.Bool().Draw(t, "has a nodePort") {
			// Other Services cannot have these: the API server allocates none of the first 86
			// node ports by itself. A dry run gives other ports of the Service the numbers after
			// this one, so the factor leaves some free.
			port.NodePort = 30000 + 8*(port.Port-80)
		}
		return port
	})

	anyResources = rapid.Custom(func(t *rapid.T) corev1.ResourceRequirements {
		var resources corev1.ResourceRequirements
		if rapid.Bool().Draw(t, "requests") {
			resources.Requests = quantities(corev1.ResourceCPU, fmt.Sprintf("%dm", rapid.IntRange(1, 4000).Draw(t, "cpu")))
		}
		if rapid.Bool().Draw(t, "limits") {
			resources.Limits = quantities(corev1.ResourceMemory, fmt.Sprintf("%dMi", rapid.IntRange(1, 4096).Draw(t, "memory")))
		}
		return resources
	})
)

// distinctPorts gives the ports different names.
func distinctPorts(ports []v1alpha1.ServicePort) []v1alpha1.ServicePort {
	for i := range ports {
		ports[i].Name += fmt.Sprint(ports[i].Port)
	}
	return ports
}

// fields are the parts of a spec that the generators above do not draw. Each line is one choice; an
// empty string leaves the part out.
var fields = [][]string{
	{"", "containerName: web"},
	{"", "containerPorts: []", "containerPorts: [{name: a, containerPort: 80}, {containerPort: 80, protocol: UDP}]"},
	{
		"", "initContainers: [{name: init, image: a, env: [{name: A, value: $(cluster.name)}, {name: B, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}]}]",
		"initContainers: [{name: init, image: a, command: [a, \"$(configuration.secret['a'])\"], envFrom: [{configMapRef: {name: a}}], restartPolicy: Always, ports: [{name: p, containerPort: 80}], startupProbe: {httpGet: {port: p}}, lifecycle: {}}, {name: other, image: b}]",
	},
	{"", "deployment: {}", "deployment: {labels: {a: b}, annotations: {a: $(cluster.name)}}"},
	{"", "envFrom: [{configMapRef: {name: a}}]", "envFrom: [{prefix: A_, secretRef: {name: a, optional: true}}, {configMapRef: {name: b}}]"},
	{
		"", "volumes: [{name: a, emptyDir: {}}]\nvolumeMounts: [{name: a, mountPath: /a}]",
		"volumes: [{name: a, secret: {secretName: a}}, {name: b, downwardAPI: {items: [{path: a, fieldRef: {fieldPath: metadata.name}}]}}]",
		"volumes: [{name: a, configMap: {name: a, items: [{key: a, path: a}]}}, {name: b, csi: {driver: a.example}}]",
		"volumes: [{name: b, projected: {sources: [{serviceAccountToken: {path: token}}, {downwardAPI: {items: [{path: a, fieldRef: {fieldPath: metadata.name}}, {path: c, resourceFieldRef: {containerName: app, resource: limits.cpu}}]}}]}}]",
		"volumes: [{name: a, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}, {name: b, persistentVolumeClaim: {claimName: a}}]",
	},
	{"", "livenessProbe: {httpGet: {port: 80}}", "livenessProbe: {exec: {command: [a]}}", "livenessProbe: {grpc: {port: 80}, periodSeconds: 3}"},
	{"", "readinessProbe: {httpGet: {port: 80, path: /ready, scheme: HTTPS}}", "readinessProbe: {tcpSocket: {port: 80}, successThreshold: 2}"},
	{"", "startupProbe: {grpc: {port: 80, service: a}}", "startupProbe: {tcpSocket: {port: 80}, failureThreshold: 30}"},
	{"", "lifecycle: {preStop: {sleep: {seconds: 5}}}", "lifecycle: {preStop: {httpGet: {port: 80}}, postStart: {exec: {command: [a]}}}", "lifecycle: {}"},
	{"", "securityContext: {}", "securityContext: {runAsNonRoot: true, capabilities: {drop: [ALL]}}", "securityContext: {capabilities: {}}"},
	{"", "podSecurityContext: {}", "podSecurityContext: {fsGroup: 1, seccompProfile: {type: RuntimeDefault}}"},
	{"", "serviceAccountName: a", "serviceAccountName: b"},
	{"", "imagePullSecrets: [{name: a}]", "imagePullSecrets: [{name: b}, {name: a}]"},
	{"", "podLabels: {a: b}", "podLabels: {app.kubernetes.io/name: other, region: a}"},
	{"", "podAnnotations: {a: $(cluster.name)}", `podAnnotations: {a: "$(configuration.configMap['a'])"}`, `podAnnotations: {a: "$(cluster.labels['region'])", b: ""}`},
	{"", "nodeSelector: {a: b}"},
	{"", "tolerations: [{operator: Exists}]", "tolerations: [{key: a, value: b, effect: NoExecute, tolerationSeconds: 3}]"},
	{"", "affinity: {}", "affinity: {podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, podAffinityTerm: {topologyKey: a, labelSelector: {}}}]}}"},
	{"", "topologySpreadConstraints: [{maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}]"},
	{"", "priorityClassName: a"},
	{"", "terminationGracePeriodSeconds: 6", "terminationGracePeriodSeconds: 60"},
	{"", "strategy: {type: RollingUpdate}", "strategy: {rollingUpdate: {maxSurge: 1}}", "strategy: {type: Recreate}", "strategy: {rollingUpdate: {}}"},
	{"", "progressDeadlineSeconds: 60"},
	{"", "service: {type: LoadBalancer}", "service: {type: NodePort, labels: {a: b}, annotations: {a: $(cluster.name)}}", "service: {}"},
	{
		"", "autoscaling: {maxReplicas: 3}", "autoscaling: {maxReplicas: 3, behavior: {}}",
		"autoscaling: {maxReplicas: 3, metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 9}}}], behavior: {scaleDown: {selectPolicy: Disabled}}}",
	},
	{"", "disruptionBudget: {minAvailable: 1}", "disruptionBudget: {maxUnavailable: 10%}"},
	{
		"", "overrides: [{name: a, image: other, env: [{name: A, value: $(cluster.name)}]}]",
		"overrides: [{name: a, imageTag: b, resources: {limits: {cpu: 4}}}, {name: b, imageRegistry: a.example}]",
		"overrides: [{name: a, patches: [{target: Deployment, operations: [{op: add, path: /metadata/labels/team, value: a}, {op: add, path: /spec/template/spec/hostAliases, value: [{ip: 10.0.0.1, hostnames: [a]}]}]}]}]",
	},
}

// drawFields adds a choice of the fields to a spec.
func drawFields(t *rapid.T, spec *v1alpha1.AppServiceSpec) {
	var text strings.Builder
	for _, choice := range fields {
		text.WriteString(rapid.SampledFrom(choice).Draw(t, "field") + "\n")
	}
	if err := yaml.UnmarshalStrict([]byte(text.String()), spec); err != nil {
		t.Fatal(err)
	}
	if len(spec.Overrides) > 0 && len(spec.Overrides[0].Env) > 0 && len(spec.Env) > 0 {
		spec.Overrides[0].Env[0].Name = spec.Env[0].Name // replaces the variable
	}
}

func quantities(name corev1.ResourceName, quantity string) corev1.ResourceList {
	return corev1.ResourceList{name: resource.MustParse(quantity)}
}

// rewrite writes the CPUs as a decimal fraction with four digits, because ParseQuantity treats
// 1.500 as canonical.
func rewrite(list corev1.ResourceList) {
	if cpu, found := list[corev1.ResourceCPU]; found {
		list[corev1.ResourceCPU] = resource.MustParse(fmt.Sprintf("%.4f", cpu.AsApproximateFloat64()))
	}
}
