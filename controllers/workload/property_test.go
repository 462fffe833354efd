package workload_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// Law 5: what is rendered again is not written again.
func TestRender_twice_gives_the_same_bytes_and_changes_nothing_of_its_input(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := anyInput.Draw(t, "input")
		before := in.copy()
		first, second := in.render(t), in.copy().render(t)
		if diff := cmp.Diff(bytesOf(t, first), bytesOf(t, second)); diff != "" {
			t.Fatalf("rendered (-first +second):\n%s", diff)
		}
		if diff := cmp.Diff(before, in, cmp.AllowUnexported(input{})); diff != "" {
			t.Fatalf("the input changed (-before +after):\n%s", diff)
		}
	})
}

// What server-side apply is told it owns: a null or an empty map would claim a field that nobody asked for.
func TestRender_claims_no_status_and_nothing_empty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rendered := anyInput.Draw(t, "input").render(t)
		for _, object := range objects(rendered) {
			if _, found := object.Object["status"]; found {
				t.Fatalf("%s has a status", object.GetKind())
			}
			if path := emptyIn(object.Object); path != "" {
				t.Fatalf("%s%s is empty", object.GetKind(), path)
			}
		}
	})
}

// A field that is rendered and not hashed would not be noticed when it goes. Each is changed by itself, on
// whatever AppService there can be.
func TestRender_the_hash_changes_with_every_field_that_is_rendered(t *testing.T) {
	changes := map[string]func(*input){
		"spec.image":     func(in *input) { in.app.Spec.Image += "x" },
		"spec.command":   func(in *input) { in.app.Spec.Command = append(in.app.Spec.Command, "x") },
		"spec.args":      func(in *input) { in.app.Spec.Args = append(in.app.Spec.Args, "x") },
		"spec.env":       func(in *input) { in.app.Spec.Env = append(in.app.Spec.Env, corev1.EnvVar{Name: "X"}) },
		"spec.resources": func(in *input) { in.app.Spec.Resources.Limits = quantities("example.com/x", "1") },
		"spec.ports": func(in *input) {
			in.app.Spec.Ports = append(in.app.Spec.Ports, v1alpha1.ServicePort{Name: "x", Port: 9999})
		},
		"spec.autoscaled":      func(in *input) { in.app.Spec.Autoscaled = !in.app.Spec.Autoscaled },
		"the row's replicas":   func(in *input) { in.row.Replicas++ },
		"metadata.name":        func(in *input) { in.app.Name += "x" },
		"metadata.namespace":   func(in *input) { in.app.Namespace += "x" },
		"metadata.uid":         func(in *input) { in.app.UID += "x" },
		"the hub":              func(in *input) { in.hub += "x" },
		"a port's name":        onPort(func(port *v1alpha1.ServicePort) { port.Name += "x" }),
		"a port's port":        onPort(func(port *v1alpha1.ServicePort) { port.Port += 1000 }),
		"a port's targetPort":  onPort(func(port *v1alpha1.ServicePort) { port.TargetPort = 9999 }),
		"a port's protocol":    onPort(func(port *v1alpha1.ServicePort) { port.Protocol = corev1.ProtocolSCTP }),
		"a port's nodePort":    onPort(func(port *v1alpha1.ServicePort) { port.NodePort++ }),
		"a port's appProtocol": onPort(func(port *v1alpha1.ServicePort) { port.AppProtocol = new("x") }),
	}
	// These two say how many on which cluster: they come by the row. The others are what delivery does with what is rendered.
	requireEach(t, reflect.TypeFor[v1alpha1.AppServiceSpec](), "spec.", changes, "spec.replicas", "spec.placement",
		"spec.conflictPolicy", "spec.deletionPolicy", "spec.suspend")
	requireEach(t, reflect.TypeFor[v1alpha1.ServicePort](), "a port's ", changes)
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				in := anyInput.Draw(t, "input")
				changed := in.copy()
				change(&changed)
				if cmp.Equal(in, changed, cmp.AllowUnexported(input{})) {
					t.Skip("has nothing to change")
				}
				if before, after := hashes(in.render(t)), hashes(changed.render(t)); cmp.Equal(before, after) {
					t.Fatalf("the hash stayed %s", before)
				}
			})
		})
	}
}

// Law 5: a generation that changes nothing on a member costs it no write.
func TestRender_the_hash_stays_when_nothing_that_is_rendered_changes(t *testing.T) {
	changes := map[string]func(*input){
		"the generation":      func(in *input) { in.app.Generation++; in.row.Generation++ },
		"spec.placement":      func(in *input) { in.app.Spec.Placement = &v1alpha1.Placement{ClusterNames: []string{"x"}} },
		"spec.conflictPolicy": func(in *input) { in.app.Spec.ConflictPolicy = v1alpha1.ConflictAdopt },
		"spec.deletionPolicy": func(in *input) { in.app.Spec.DeletionPolicy = v1alpha1.DeletionOrphan },
		"spec.suspend":        func(in *input) { in.app.Spec.Suspend = true },
		"the row's replicas of what is autoscaled": func(in *input) {
			if in.app.Spec.Autoscaled {
				in.row.Replicas++
			}
		},
		"spec.replicas, which comes by the row":  func(in *input) { in.app.Spec.Replicas = new(in.row.Replicas + 1) },
		"the AppService's labels":                func(in *input) { in.app.Labels = map[string]string{"x": "x"} },
		"the AppService's annotations":           func(in *input) { in.app.Annotations = map[string]string{"x": "x"} },
		"the status":                             func(in *input) { in.app.Status.Replicas++ },
		"the cluster":                            func(in *input) { in.row.Name += "x" },
		"what the row observed":                  func(in *input) { in.row.Phase, in.row.ReadyReplicas = v1alpha1.ClusterFailed, 9 },
		"a protocol said that was TCP unsaid":    onPort(func(port *v1alpha1.ServicePort) { port.Protocol = corev1.ProtocolTCP }, unsaidProtocol),
		"a targetPort said that was port unsaid": onPort(func(port *v1alpha1.ServicePort) { port.TargetPort = port.Port }, unsaidTarget),
		"a quantity written in another way":      func(in *input) { rewrite(in.app.Spec.Resources.Requests) },
		"an empty list in the place of none at all": func(in *input) {
			if in.app.Spec.Args == nil {
				in.app.Spec.Args = []string{}
			}
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				in := anyInput.Draw(t, "input")
				changed := in.copy()
				change(&changed)
				if diff := cmp.Diff(hashes(in.render(t)), hashes(changed.render(t))); diff != "" {
					t.Fatalf("hash (-before +after):\n%s", diff)
				}
			})
		})
	}
}

// input is all that a workload is rendered from.
type input struct {
	app *v1alpha1.AppService
	row *v1alpha1.ClusterStatus
	hub string
}

func (in input) copy() input { return input{in.app.DeepCopy(), in.row.DeepCopy(), in.hub} }

func (in input) render(t *rapid.T) workload.Workload {
	rendered, err := workload.Render(in.app, in.row, in.hub)
	if err != nil {
		t.Fatal(err)
	}
	return rendered
}

func objects(rendered workload.Workload) []*unstructured.Unstructured {
	if rendered.Service == nil {
		return []*unstructured.Unstructured{rendered.Deployment}
	}
	return []*unstructured.Unstructured{rendered.Deployment, rendered.Service}
}

func hashes(rendered workload.Workload) []string {
	var hashes []string
	for _, object := range objects(rendered) {
		hashes = append(hashes, object.GetAnnotations()[v1alpha1.AnnotationHash])
	}
	return hashes
}

func bytesOf(t *rapid.T, rendered workload.Workload) string {
	content, err := json.Marshal(rendered)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// emptyIn returns the path of something null or empty, or "".
func emptyIn(value any) string {
	switch value := value.(type) {
	case nil:
		return "<null>"
	case map[string]any:
		for key, inner := range value {
			if path := emptyIn(inner); path != "" {
				return "." + key + path
			}
		}
		if len(value) == 0 {
			return "{}"
		}
	case []any:
		for i, inner := range value {
			if path := emptyIn(inner); path != "" {
				return fmt.Sprintf("[%d]%s", i, path)
			}
		}
		if len(value) == 0 {
			return "[]"
		}
	}
	return ""
}

// requireEach fails when a field of the type is neither among the changes nor excepted, as a new one is.
func requireEach(t *testing.T, owner reflect.Type, prefix string, changes map[string]func(*input), except ...string) {
	t.Helper()
	known := map[string]bool{}
	for name := range changes {
		known[name] = true
	}
	for _, name := range except {
		known[name] = true
	}
	for field := range owner.Fields() {
		name := prefix + jsonName(field)
		if !known[name] {
			t.Errorf("%s is neither known to be rendered nor known not to be", name)
		}
	}
}

// onPort changes the first port, if there is one and it is as it has to be.
func onPort(change func(*v1alpha1.ServicePort), when ...func(v1alpha1.ServicePort) bool) func(*input) {
	return func(in *input) {
		if len(in.app.Spec.Ports) == 0 {
			return
		}
		port := &in.app.Spec.Ports[0]
		for _, is := range when {
			if !is(*port) {
				return
			}
		}
		change(port)
	}
}

func unsaidProtocol(port v1alpha1.ServicePort) bool { return port.Protocol == "" }

func unsaidTarget(port v1alpha1.ServicePort) bool { return port.TargetPort == 0 }

func quantities(name corev1.ResourceName, quantity string) corev1.ResourceList {
	return corev1.ResourceList{name: resource.MustParse(quantity)}
}

// rewrite writes the CPUs as a decimal fraction. With four digits: 1.500 is canonical to ParseQuantity.
func rewrite(list corev1.ResourceList) {
	if cpu, found := list[corev1.ResourceCPU]; found {
		list[corev1.ResourceCPU] = resource.MustParse(fmt.Sprintf("%.4f", cpu.AsApproximateFloat64()))
	}
}

// Whatever AppService there can be.

var (
	anyWord     = rapid.StringMatching(`[a-z]{1,8}`)
	anyProtocol = rapid.SampledFrom([]corev1.Protocol{"", corev1.ProtocolTCP, corev1.ProtocolUDP})

	anyInput = rapid.Custom(func(t *rapid.T) input {
		return input{
			app: anyApp.Draw(t, "app"),
			row: &v1alpha1.ClusterStatus{Name: anyWord.Draw(t, "cluster"), Generation: 7, Replicas: rapid.Int32Range(0, 9).Draw(t, "replicas")},
			hub: anyWord.Draw(t, "hub"),
		}
	})

	anyApp = rapid.Custom(func(t *rapid.T) *v1alpha1.AppService {
		return &v1alpha1.AppService{
			ObjectMeta: metav1.ObjectMeta{Namespace: anyWord.Draw(t, "namespace"), Name: anyWord.Draw(t, "name"), UID: "uid-1", Generation: 7},
			Spec: v1alpha1.AppServiceSpec{
				Image:     anyWord.Draw(t, "image"),
				Command:   anyWords.Draw(t, "command"),
				Args:      anyWords.Draw(t, "args"),
				Env:       rapid.SliceOfNDistinct(anyVariable, 0, 4, func(v corev1.EnvVar) string { return v.Name }).Draw(t, "env"),
				Ports:     rapid.SliceOfNDistinct(anyPort, 0, 4, func(p v1alpha1.ServicePort) int32 { return p.Port }).Draw(t, "ports"),
				Resources: anyResources.Draw(t, "resources"),
			},
		}
	})

	anyWords = rapid.OneOf(rapid.Just([]string(nil)), rapid.SliceOfN(anyWord, 0, 3))

	anyVariable = rapid.Custom(func(t *rapid.T) corev1.EnvVar {
		variable := corev1.EnvVar{Name: anyWord.Draw(t, "name")}
		if rapid.Bool().Draw(t, "from a field") {
			variable.ValueFrom = &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "spec.nodeName"}}
			return variable
		}
		variable.Value = rapid.StringMatching(`[a-z ]{0,8}`).Draw(t, "value")
		return variable
	})

	anyPort = rapid.Custom(func(t *rapid.T) v1alpha1.ServicePort {
		port := v1alpha1.ServicePort{
			Name:     anyWord.Draw(t, "name"),
			Port:     rapid.Int32Range(80, 90).Draw(t, "port"),
			Protocol: anyProtocol.Draw(t, "protocol"),
		}
		if rapid.Bool().Draw(t, "leads elsewhere") {
			port.TargetPort = rapid.Int32Range(80, 82).Draw(t, "targetPort")
		}
		if rapid.Bool().Draw(t, "is on the nodes") {
			port.NodePort = rapid.Int32Range(30000, 30010).Draw(t, "nodePort")
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

// jsonName is how a field is written.
func jsonName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}
