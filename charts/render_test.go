package charts_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// keyOf identifies an object.
func keyOf(object *unstructured.Unstructured) string {
	return strings.Join([]string{object.GetKind(), object.GetNamespace(), object.GetName()}, " ")
}

// index returns the content of objects by their keys. It fails the test if two have the same key.
func index(t *testing.T, objects []*unstructured.Unstructured) map[string]any {
	t.Helper()
	indexed := map[string]any{}
	for _, object := range objects {
		if _, found := indexed[keyOf(object)]; found {
			t.Errorf("%s is there twice", keyOf(object))
		}
		indexed[keyOf(object)] = object.Object
	}
	return indexed
}

// normalize removes from rendered objects what only Helm needs, and checks that it is there.
func normalize(t *testing.T, chart string, objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	t.Helper()
	for _, object := range objects {
		labels, annotations := object.GetLabels(), object.GetAnnotations()
		if labels["helm.sh/chart"] != chart+"-0.0.0" {
			t.Errorf("%s has the labels %v", keyOf(object), labels)
		}
		if policy := annotations["helm.sh/resource-policy"]; (policy == "keep") != (object.GetKind() == "CustomResourceDefinition") {
			t.Errorf("%s has the resource policy %q", keyOf(object), policy)
		}
		delete(labels, "helm.sh/chart")
		delete(annotations, "helm.sh/resource-policy")
		object.SetLabels(labels)
		object.SetAnnotations(annotations)
	}
	return objects
}

// expect returns objects of config/ as a chart renders them into a namespace: without a Namespace.
func expect(t *testing.T, into string, groups ...[]*unstructured.Unstructured) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for _, object := range slices.Concat(groups...) {
		if object.GetKind() == "Namespace" {
			continue
		}
		labels := object.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels["app.kubernetes.io/part-of"] = "fleetwright"
		object.SetLabels(labels)
		switch {
		case strings.HasPrefix(object.GetKind(), "ValidatingAdmissionPolicy"):
			object.SetNamespace("") // kustomize does not know that these kinds have none
		case object.GetNamespace() == namespace:
			object.SetNamespace(into)
		}
		if subjects, found, _ := unstructured.NestedSlice(object.Object, "subjects"); found {
			for _, subject := range subjects {
				subject.(map[string]any)["namespace"] = into
			}
			if err := unstructured.SetNestedSlice(object.Object, subjects, "subjects"); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, object)
	}
	return all
}

// inNamespace sets the namespace of objects, as `kubectl apply -n` does.
func inNamespace(objects []*unstructured.Unstructured, name string) []*unstructured.Unstructured {
	for _, object := range objects {
		object.SetNamespace(name)
	}
	return objects
}

// A directory of config/ and the values that correspond to it render the same objects.
func TestChartsRenderTheObjectsOfConfig(t *testing.T) {
	for name, c := range map[string]struct {
		chart, namespace string
		values           []string
		want             func(t *testing.T) [][]*unstructured.Unstructured
		args             []any // more arguments of the operator
	}{
		"the defaults": {
			want: func(*testing.T) [][]*unstructured.Unstructured { return nil },
		},
		"in another namespace": {
			namespace: "fleet",
			want:      func(*testing.T) [][]*unstructured.Unstructured { return nil },
		},
		"approvals": {
			values: []string{"approval.enabled=true"},
			want: func(t *testing.T) [][]*unstructured.Unstructured {
				t.Helper()
				return [][]*unstructured.Unstructured{kustomize(t, "approval")}
			},
		},
		"propagation from two namespaces": {
			values: []string{"propagation.namespaces={shop,web}"},
			want: func(t *testing.T) [][]*unstructured.Unstructured {
				t.Helper()
				file := "propagation/namespace.yaml"
				return [][]*unstructured.Unstructured{kustomize(t, "propagation"), inNamespace(read(t, file), "shop"), inNamespace(read(t, file), "web")}
			},
			args: []any{"--propagate-from=shop,web"},
		},
		"propagation from all namespaces": {
			values: []string{"propagation.namespaces={*}"},
			want: func(t *testing.T) [][]*unstructured.Unstructured {
				t.Helper()
				return [][]*unstructured.Unstructured{kustomize(t, "propagation"), read(t, "propagation/all-namespaces.yaml")}
			},
			args: []any{"--propagate-from=*"},
		},
		"metrics": {
			values: []string{"metrics.serviceMonitor=true,metrics.rules=true,metrics.dashboard=true"},
			want: func(t *testing.T) [][]*unstructured.Unstructured {
				t.Helper()
				return [][]*unstructured.Unstructured{kustomize(t, "prometheus"), kustomize(t, "grafana")}
			},
		},
		"a Service for metrics": {
			values: []string{"metrics.service=true"},
			want: func(t *testing.T) [][]*unstructured.Unstructured {
				t.Helper()
				return [][]*unstructured.Unstructured{read(t, "prometheus/service.yaml")}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			into := namespace
			if c.namespace != "" {
				into = c.namespace
			}
			want := expect(t, into, append(c.want(t), kustomize(t, "default"))...)
			container := containerOf(t, find(t, want, "Deployment"))
			container["image"] = "ghcr.io/fleetwright/fleetwright:v0.0.0"
			container["args"] = append(container["args"].([]any), c.args...)
			got := normalize(t, "fleetwright", render(t, "fleetwright", into, set(c.values)...))
			if diff := cmp.Diff(index(t, want), index(t, got)); diff != "" {
				t.Errorf("(-config +chart):\n%s", diff)
			}
		})
	}
}

// The values do what the kustomization of docs/metrics.md does.
func TestChartGivesMetricsACertificate(t *testing.T) {
	objects := render(t, "fleetwright", namespace, set([]string{"metrics.serviceMonitor=true,metrics.certificateSecret=web-tls"})...)
	deployment, monitor := find(t, objects, "Deployment"), find(t, objects, "ServiceMonitor")
	container := containerOf(t, deployment)
	pod := deployment.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	endpoint := monitor.Object["spec"].(map[string]any)["endpoints"].([]any)[0].(map[string]any)
	got := map[string]any{"args": container["args"], "mounts": container["volumeMounts"], "volumes": pod["volumes"], "tls": endpoint["tlsConfig"]}
	want := map[string]any{
		"args":    []any{"--secret-namespace=$(POD_NAMESPACE)", "--metrics-cert-path=/etc/metrics-certificate"},
		"mounts":  []any{map[string]any{"name": "metrics-certificate", "mountPath": "/etc/metrics-certificate", "readOnly": true}},
		"volumes": []any{map[string]any{"name": "metrics-certificate", "secret": map[string]any{"secretName": "web-tls"}}},
		"tls":     map[string]any{"serverName": "fleetwright-metrics." + namespace + ".svc", "ca": map[string]any{"secret": map[string]any{"name": "web-tls", "key": "ca.crt"}}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// set returns the flags of helm that set values.
func set(values []string) []string {
	var flags []string
	for _, value := range values {
		flags = append(flags, "--set", value)
	}
	return flags
}

// containerOf returns the container of a Deployment, which the caller may change.
func containerOf(t *testing.T, deployment *unstructured.Unstructured) map[string]any {
	t.Helper()
	pod := deployment.Object["spec"].(map[string]any)["template"].(map[string]any)["spec"].(map[string]any)
	containers := pod["containers"].([]any)
	if len(containers) != 1 {
		t.Fatalf("the Deployment has %d containers", len(containers))
	}
	return containers[0].(map[string]any)
}

func TestMemberChartRendersTheObjectsOfConfig(t *testing.T) {
	named, configuration := "member/named-namespaces/", "member/configuration/named-namespaces/"
	for name, c := range map[string]struct {
		values []string
		want   func(t *testing.T) [][]*unstructured.Unstructured
	}{
		"the defaults": {nil, func(t *testing.T) [][]*unstructured.Unstructured {
			t.Helper()
			return [][]*unstructured.Unstructured{kustomize(t, "member")}
		}},
		"the policy": {[]string{"policy.enabled=true"}, func(t *testing.T) [][]*unstructured.Unstructured {
			t.Helper()
			return [][]*unstructured.Unstructured{kustomize(t, "member"), kustomize(t, "member/policy")}
		}},
		"configuration and a token": {[]string{"configuration=true", "token=true"}, func(t *testing.T) [][]*unstructured.Unstructured {
			t.Helper()
			return [][]*unstructured.Unstructured{kustomize(t, "member"), kustomize(t, "member/configuration"), read(t, "member/token.yaml")}
		}},
		"named namespaces": {[]string{"namespaces={shop,web}", "configuration=true"}, func(t *testing.T) [][]*unstructured.Unstructured {
			t.Helper()
			return [][]*unstructured.Unstructured{
				read(t, named+"rbac.yaml"), inNamespace(read(t, named+"namespace.yaml"), "shop"), inNamespace(read(t, named+"namespace.yaml"), "web"),
				read(t, configuration+"rbac.yaml"), inNamespace(read(t, configuration+"namespace.yaml"), "shop"), inNamespace(read(t, configuration+"namespace.yaml"), "web"),
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got := normalize(t, "fleetwright-member", render(t, "fleetwright-member", namespace, set(c.values)...))
			if diff := cmp.Diff(index(t, expect(t, namespace, c.want(t)...)), index(t, got)); diff != "" {
				t.Errorf("(-config +chart):\n%s", diff)
			}
		})
	}
}

// The policy of a release in another namespace limits the ServiceAccount there.
func TestMemberChartLimitsTheAccountOfItsNamespace(t *testing.T) {
	got := render(t, "fleetwright-member", "fleet", "--set", "policy.enabled=true")
	text, err := json.Marshal(find(t, got, "ValidatingAdmissionPolicy"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), namespace) || !strings.Contains(string(text), "system:serviceaccount:fleet:fleetwright") {
		t.Errorf("the policy is %s", text)
	}
}

// Each value changes the field that it is for, and nothing else.
func TestValues(t *testing.T) {
	before := find(t, renderSmall(t, ""), "Deployment").Object
	for value, want := range map[string]string{
		"image.repository=registry.example/fleetwright": "containers.0.image=registry.example/fleetwright:v0.0.0",
		"image.tag=v9":                                          "containers.0.image=ghcr.io/fleetwright/fleetwright:v9",
		"image.digest=sha256:" + digest:                         "containers.0.image=ghcr.io/fleetwright/fleetwright@sha256:" + digest,
		"image.pullPolicy=Always":                               "containers.0.imagePullPolicy=Always",
		"imagePullSecrets[0].name=registry":                     `imagePullSecrets=[{"name":"registry"}]`,
		"replicas=1":                                            "replicas=1",
		"resources.limits.memory=2Gi":                           `containers.0.resources={"limits":{"memory":"2Gi"},"requests":{"cpu":"100m","memory":"256Mi"}}`,
		"flags.slice-threshold=500":                             `containers.0.args=["--secret-namespace=$(POD_NAMESPACE)","--slice-threshold=500"]`,
		"flags.publish-cluster-profiles=true":                   `containers.0.args=["--secret-namespace=$(POD_NAMESPACE)","--publish-cluster-profiles=true"]`,
		"env[0].name=A,env[0].value=b":                          `containers.0.env=[{"name":"POD_NAMESPACE","valueFrom":{"fieldRef":{"fieldPath":"metadata.namespace"}}},{"name":"A","value":"b"}]`,
		`nodeSelector.kubernetes\.io/arch=amd64`:                `nodeSelector={"kubernetes.io/arch":"amd64"}`,
		"tolerations[0].operator=Exists":                        `tolerations=[{"operator":"Exists"}]`,
		"priorityClassName=high":                                "priorityClassName=high",
		"volumes[0].name=ca,volumes[0].configMap.name=ca":       `volumes=[{"configMap":{"name":"ca"},"name":"ca"}]`,
		"volumeMounts[0].name=ca,volumeMounts[0].mountPath=/ca": `containers.0.volumeMounts=[{"mountPath":"/ca","name":"ca"}]`,
		"podSecurityContext.fsGroup=1000":                       `securityContext={"fsGroup":1000,"runAsNonRoot":true,"seccompProfile":{"type":"RuntimeDefault"}}`,
		"podSecurityContext.seccompProfile.type=Localhost":      `securityContext={"runAsNonRoot":true,"seccompProfile":{"type":"Localhost"}}`,
		"securityContext.runAsUser=1000":                        `containers.0.securityContext={"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]},"readOnlyRootFilesystem":true,"runAsUser":1000}`,
		"podAnnotations.a=b":                                    `metadata.annotations={"a":"b","kubectl.kubernetes.io/default-container":"fleetwright"}`,
		"podLabels.a=b":                                         `metadata.labels={"a":"b","app.kubernetes.io/name":"fleetwright"}`,
		"clusterAPINamespace=capi":                              `containers.0.args=["--secret-namespace=$(POD_NAMESPACE)","--cluster-api-namespace=capi"]`,
		"argoCDNamespace=argocd":                                `containers.0.args=["--secret-namespace=$(POD_NAMESPACE)","--argocd-namespace=argocd"]`,
	} {
		t.Run(value, func(t *testing.T) {
			deployment := find(t, renderSmall(t, value), "Deployment").Object
			path, content, _ := strings.Cut(want, "=")
			changed := differences("", before, deployment)
			if len(changed) != 1 || !isInside(changed[0], path) {
				t.Fatalf("it changes %v, want only %s", changed, path)
			}
			if got := textOf(t, lookUp(deployment, path)); got != content {
				t.Errorf("%s is %s, want %s", path, got, content)
			}
		})
	}
}

// A label or an annotation of a pod replaces none of the chart's own, and no key is there twice.
func TestOwnMetadataOfPodsCannotBeReplaced(t *testing.T) {
	name, container := `app\.kubernetes\.io/name`, `kubectl\.kubernetes\.io/default-container`
	out := run(t, "helm", "template", "fleetwright", "fleetwright", "--show-only", "templates/deployment.yaml",
		"--set", "podLabels."+name+"=other,podLabels.a=b,podAnnotations."+container+"=other,podAnnotations.a=b")
	deployment := &appsv1.Deployment{}
	if err := yaml.UnmarshalStrict([]byte(out), deployment); err != nil {
		t.Fatal(err)
	}
	pod := deployment.Spec.Template
	got := []map[string]string{pod.Labels, pod.Annotations}
	want := []map[string]string{
		{"a": "b", "app.kubernetes.io/name": "fleetwright"},
		{"a": "b", "kubectl.kubernetes.io/default-container": "fleetwright"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Numbers of a values file reach the flags as they are written. Helm reads them as floating-point
// numbers, as it does with --set-json and not with --set.
func TestNumbersOfFlags(t *testing.T) {
	for value, want := range map[string]string{
		"flags.member-burst=1000000":   "--member-burst=1000000",
		"flags.member-qps=20000000":    "--member-qps=20000000",
		"flags.member-qps=0.5":         "--member-qps=0.5",
		"flags.slice-threshold=500":    "--slice-threshold=500",
		"flags.tracing-sample=0.00001": "--tracing-sample=1e-05",
	} {
		t.Run(value, func(t *testing.T) {
			objects := render(t, "fleetwright", namespace, "--set", "crds.install=false", "--set-json", value)
			args := containerOf(t, find(t, objects, "Deployment"))["args"]
			if diff := cmp.Diff([]any{"--secret-namespace=$(POD_NAMESPACE)", want}, args); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// renderSmall returns the objects that the chart renders with these values, without the CRDs.
func renderSmall(t *testing.T, values string) []*unstructured.Unstructured {
	t.Helper()
	return render(t, "fleetwright", namespace, "--set", "crds.install=false", "--set", values)
}

const digest = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"

// differences returns the paths of the fields that differ. It looks into maps, and into lists of
// maps that are equally long.
func differences(path string, before, after any) []string {
	x, isMap := before.(map[string]any)
	y, isMapToo := after.(map[string]any)
	if !isMap || !isMapToo {
		if cmp.Equal(before, after) {
			return nil
		}
		if a, b, ok := lists(before, after); ok {
			var all []string
			for i := range a {
				all = append(all, differences(path+"."+strconv.Itoa(i), a[i], b[i])...)
			}
			return all
		}
		return []string{path}
	}
	var all []string
	for key := range x {
		all = append(all, differences(path+"."+key, x[key], y[key])...)
	}
	for key := range y {
		if _, found := x[key]; !found {
			all = append(all, path+"."+key)
		}
	}
	return all
}

// lists returns two lists of objects with the same length.
func lists(before, after any) (a, b []any, ok bool) {
	a, isList := before.([]any)
	b, isListToo := after.([]any)
	if !isList || !isListToo || len(a) != len(b) || len(a) == 0 {
		return nil, nil, false
	}
	_, isMap := a[0].(map[string]any)
	return a, b, isMap
}

// isInside reports whether a changed field is the wanted one or inside of it.
func isInside(changed, wanted string) bool { return strings.Contains(changed+".", "."+wanted+".") }

// lookUp returns a field of a Deployment, its pod template or its pod.
func lookUp(deployment map[string]any, path string) any {
	spec := deployment["spec"].(map[string]any)
	template := spec["template"].(map[string]any)
	pod := template["spec"].(map[string]any)
	first, rest, isNested := strings.Cut(path, ".")
	switch {
	case first == "metadata":
		return template["metadata"].(map[string]any)[rest]
	case first == "containers":
		return pod["containers"].([]any)[0].(map[string]any)[strings.TrimPrefix(rest, "0.")]
	case !isNested && spec[first] != nil:
		return spec[first]
	}
	return pod[first]
}

// textOf returns a string as it is, and other values as JSON.
func textOf(t *testing.T, value any) string {
	t.Helper()
	if text, ok := value.(string); ok {
		return text
	}
	content, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// Values that add, remove or change other objects than the Deployment.
func TestValues_for_other_objects(t *testing.T) {
	t.Run("a namespace of Cluster API grants reading its Secrets", func(t *testing.T) {
		objects := index(t, renderSmall(t, "clusterAPINamespace=capi,argoCDNamespace=argocd"))
		for _, key := range []string{"Role capi fleetwright-secrets", "RoleBinding capi fleetwright-secrets", "Role argocd fleetwright-secrets"} {
			if objects[key] == nil {
				t.Errorf("%s is missing", key)
			}
		}
	})
	t.Run("one namespace for Cluster API and Argo CD has one Role", func(t *testing.T) {
		index(t, renderSmall(t, "clusterAPINamespace=same,argoCDNamespace=same"))
	})
	t.Run("objects can be switched off", func(t *testing.T) {
		for _, object := range renderSmall(t, "networkPolicy.enabled=false,podDisruptionBudget.enabled=false") {
			if kind := object.GetKind(); kind == "CustomResourceDefinition" || kind == "NetworkPolicy" || kind == "PodDisruptionBudget" {
				t.Errorf("%s is there", keyOf(object))
			}
		}
	})
	t.Run("ports of API servers", func(t *testing.T) {
		before, after := find(t, renderSmall(t, ""), "NetworkPolicy"), find(t, renderSmall(t, "networkPolicy.apiServerPorts={7443}"), "NetworkPolicy")
		egress, _, _ := unstructured.NestedSlice(before.Object, "spec", "egress")
		egress[len(egress)-1] = map[string]any{"ports": []any{map[string]any{"port": float64(7443), "protocol": "TCP"}}}
		if err := unstructured.SetNestedSlice(before.Object, egress, "spec", "egress"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before.Object, after.Object); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("labels for Prometheus", func(t *testing.T) {
		objects := renderSmall(t, "metrics.serviceMonitor=true,metrics.rules=true,metrics.labels.release=prometheus")
		for _, kind := range []string{"ServiceMonitor", "PrometheusRule"} {
			if labels := find(t, objects, kind).GetLabels(); labels["release"] != "prometheus" {
				t.Errorf("the %s has the labels %v", kind, labels)
			}
		}
		if labels := find(t, objects, "Service").GetLabels(); labels["release"] != "" || labels["app.kubernetes.io/name"] == "" {
			t.Errorf("the Service has the labels %v", labels)
		}
	})
}

func TestWrongValuesAreRefused(t *testing.T) {
	for value, want := range map[string]string{
		"replica=3":                            "additional properties 'replica' not allowed",
		"replicas=two":                         "at '/replicas': got string, want integer",
		"image.tga=v1":                         "additional properties 'tga' not allowed",
		"image.digest=v1":                      "at '/image/digest'",
		"image.pullPolicy=Sometimes":           "at '/image/pullPolicy': value must be one of",
		"flags.log-levels=debug":               "additional properties 'log-levels' not allowed",
		"flags.secret-namespace=other":         "additional properties 'secret-namespace' not allowed",
		"flags.slice-threshold=5000":           "at '/flags/slice-threshold'",
		"propagation.namespaces=shop":          "at '/propagation/namespaces': got string, want array",
		"propagation.namespaces={*,shop}":      "propagation.namespaces: * stands for all namespaces, so name no other",
		"propagation.namespaces={Shop}":        "at '/propagation/namespaces/0'",
		"networkPolicy.apiServerPorts={0}":     "at '/networkPolicy/apiServerPorts/0'",
		"metrics.serviceMonitor.enabled=yes":   "at '/metrics/serviceMonitor': got object, want boolean",
		"nodeSelector=amd64":                   "at '/nodeSelector': got string, want object",
		"affinity.podAffinities=a":             "additional properties 'podAffinities' not allowed",
		"podDisruptionBudget.maxUnavailable=0": "at '/podDisruptionBudget/maxUnavailable'",
		"volumeMounts[0].name=a,volumeMounts[0].mountPath=/etc/metrics-certificate": "at '/volumeMounts/0/mountPath'",
		`commonLabels.app\.kubernetes\.io/name=other`:                               "at '/commonLabels/app.kubernetes.io~1name'",
		"podSecurityContext.runAsUser=0":                                            "at '/podSecurityContext/runAsUser'",
		"podSecurityContext.runAsNonRoot=false":                                     "at '/podSecurityContext/runAsNonRoot'",
		"podSecurityContext.seccompProfile.type=Unconfined":                         "at '/podSecurityContext/seccompProfile/type'",
		"podSecurityContext.sysctls[0].name=a":                                      "additional properties 'sysctls' not allowed",
		"securityContext.privileged=true":                                           "at '/securityContext/privileged'",
		"securityContext.allowPrivilegeEscalation=true":                             "at '/securityContext/allowPrivilegeEscalation'",
		"securityContext.readOnlyRootFilesystem=false":                              "at '/securityContext/readOnlyRootFilesystem'",
		"securityContext.capabilities.add={NET_ADMIN}":                              "additional properties 'add' not allowed",
		"securityContext.capabilities.drop={CHOWN}":                                 "at '/securityContext/capabilities/drop'",
		"podSecurityContext.runAsGroup=0":                                           "at '/podSecurityContext/runAsGroup'",
		"podSecurityContext.fsGroup=0":                                              "at '/podSecurityContext/fsGroup'",
		"podSecurityContext.supplementalGroups={0}":                                 "at '/podSecurityContext/supplementalGroups/0'",
		"podSecurityContext.appArmorProfile.type=Unconfined":                        "at '/podSecurityContext/appArmorProfile/type'",
		"securityContext.runAsUser=0":                                               "at '/securityContext/runAsUser'",
		"securityContext.runAsGroup=0":                                              "at '/securityContext/runAsGroup'",
		"securityContext.runAsNonRoot=false":                                        "at '/securityContext/runAsNonRoot'",
		"securityContext.seccompProfile.type=Unconfined":                            "at '/securityContext/seccompProfile/type'",
		"securityContext.appArmorProfile.type=Unconfined":                           "at '/securityContext/appArmorProfile/type'",
		"securityContext.procMount=Unmasked":                                        "additional properties 'procMount' not allowed",
		"topologySpreadConstraints[0].maxSkew=1":                                    "at '/topologySpreadConstraints/0'",
		"serviceAccount.name=other":                                                 "additional properties 'name' not allowed",
		"serviceAccount.annotations.a=1":                                            "at '/serviceAccount/annotations/a'",
		"volumes[0].name=metrics-certificate":                                       "at '/volumes/0/name'",
		"volumes[0].configMap.name=ca":                                              "at '/volumes/0'",
		"volumeMounts[0].name=ca":                                                   "at '/volumeMounts/0'",
		"volumeMounts[0].name=ca,volumeMounts[0].mountPath=ca":                      "at '/volumeMounts/0/mountPath'",
		"podDisruptionBudget.maxUnavailable=0%":                                     "at '/podDisruptionBudget/maxUnavailable'",
		"podDisruptionBudget.minAvailable=1":                                        "additional properties 'minAvailable' not allowed",
		`commonLabels.app\.kubernetes\.io/managed-by=other`:                         "at '/commonLabels/app.kubernetes.io~1managed-by'",
		`commonLabels.app\.kubernetes\.io/part-of=other`:                            "at '/commonLabels/app.kubernetes.io~1part-of'",
		`commonLabels.helm\.sh/chart=other`:                                         "at '/commonLabels/helm.sh~1chart'",
	} {
		t.Run(value, func(t *testing.T) {
			if _, err := tryRun("helm", "template", "fleetwright", "fleetwright", "--set", value); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want an error with %q", err, want)
			}
		})
	}
	t.Run("of the member chart", func(t *testing.T) {
		for value, want := range map[string]string{
			"namespace=shop":           "additional properties 'namespace' not allowed",
			"policy.enabled=sometimes": "at '/policy/enabled': got string, want boolean",
			"policy=true":              "at '/policy': got boolean, want object",
			"policy.enable=true":       "additional properties 'enable' not allowed",
		} {
			if _, err := tryRun("helm", "template", "fleetwright", "fleetwright-member", "--set", value); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want an error with %q", value, err, want)
			}
		}
	})
}

func TestLint(t *testing.T) {
	run(t, "helm", "lint", "--strict", "fleetwright", "fleetwright-member")
}

// The table of values in README.md has the names, defaults and comments of values.yaml.
func TestReadmeListsEveryValue(t *testing.T) {
	for _, chart := range []string{"fleetwright", "fleetwright-member"} {
		t.Run(chart, func(t *testing.T) {
			content, err := os.ReadFile(filepath.Join(chart, "README.md"))
			if err != nil {
				t.Fatal(err)
			}
			got := regexp.MustCompile("(?m)^\\| `[^|]*\\|.*\\|$").FindAllString(string(content), -1)
			if diff := cmp.Diff(documentValues(t, filepath.Join(chart, "values.yaml")), got); diff != "" {
				t.Errorf("(-values.yaml +README.md):\n%s", diff)
			}
		})
	}
}

// documentValues returns a row of a table for each value of a file: its path, default and comment.
func documentValues(t *testing.T, file string) []string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(content, &values); err != nil {
		t.Fatal(err)
	}
	var rows []string
	parent, comment := "", []string{}
	line := regexp.MustCompile(`^( *)([A-Za-z]+):`)
	for text := range strings.Lines(string(content)) {
		text = strings.TrimRight(text, "\n")
		if after, found := strings.CutPrefix(strings.TrimLeft(text, " "), "# "); found {
			comment = append(comment, after)
			continue
		}
		match := line.FindStringSubmatch(text)
		if match == nil || len(match[1]) > 2 || len(match[1]) == 2 && parent == "" {
			comment = nil
			continue
		}
		switch {
		case match[1] == "" && len(comment) == 0: // only its fields have comments
			parent = match[2]
			continue
		case match[1] == "":
			parent = ""
		case len(comment) == 0:
			t.Errorf("%s: %s.%s has no comment", file, parent, match[2])
		}
		value, path := values[match[2]], match[2]
		if match[1] != "" {
			value, path = values[parent].(map[string]any)[match[2]], parent+"."+match[2]
		}
		fallback, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, "| `"+path+"` | `"+string(fallback)+"` | "+strings.Join(comment, " ")+" |")
		comment = nil
	}
	return rows
}
