package revision

import (
	"reflect"
	"slices"
	"testing"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// Every field of a spec is either part of the template or takes effect immediately. A new field
// fails this test until somebody decides.
var (
	templateFields = []string{
		"Image", "ContainerName", "Command", "Args", "Env", "EnvFrom", "ContainerPorts", "Ports", "Service", "Deployment", "InitContainers", "Resources",
		"Volumes", "VolumeMounts", "LivenessProbe", "ReadinessProbe", "StartupProbe", "Lifecycle", "SecurityContext", "PodSecurityContext",
		"ServiceAccountName", "ImagePullSecrets", "PodLabels", "PodAnnotations", "NodeSelector", "Tolerations", "Affinity", "TopologySpreadConstraints",
		"PriorityClassName", "TerminationGracePeriodSeconds", "Strategy", "DisruptionBudget", "Configuration", "Overrides",
	}
	immediateFields = []string{
		"Replicas", "ReplicaPolicy", "Autoscaling", "ExternallyScaled", "ProgressDeadlineSeconds", "Placement", "ConflictPolicy", "DeletionPolicy",
		"RevisionHistoryLimit", "Rollout", "Suspend",
	}
)

func TestReplicas_of_an_override_are_immediate(t *testing.T) {
	image := v1alpha1.Override{Name: "eu", Image: "web:eu"}
	scaled := image
	scaled.Replicas = new(int32(5))
	onlyScaled := v1alpha1.Override{Name: "us", Replicas: new(int32(7))}
	spec := v1alpha1.AppServiceSpec{Overrides: []v1alpha1.Override{image}}
	for name, overrides := range map[string][]v1alpha1.Override{
		"replicas of an override":      {scaled},
		"an override of only replicas": {image, onlyScaled},
		"both":                         {onlyScaled, scaled},
	} {
		if !HasTemplate(v1alpha1.AppServiceSpec{Overrides: overrides}, spec) {
			t.Errorf("%s: it makes another template", name)
		}
	}
	if HasTemplate(v1alpha1.AppServiceSpec{Overrides: []v1alpha1.Override{onlyScaled}}, spec) {
		t.Error("an override of the image is not in the template")
	}
	if *scaled.Replicas != 5 {
		t.Error("the spec was modified")
	}
}

// Every field of an override but its replicas makes another template.
func TestFields_of_an_override_are_in_the_template(t *testing.T) {
	for field := range reflect.TypeFor[v1alpha1.Override]().Fields() {
		override := v1alpha1.Override{Name: "eu", Image: "web:eu"}
		base := v1alpha1.AppServiceSpec{Overrides: []v1alpha1.Override{override}}
		setAny(reflect.ValueOf(&override).Elem().FieldByName(field.Name))
		changed := v1alpha1.AppServiceSpec{Overrides: []v1alpha1.Override{override}}
		if got, want := HasTemplate(changed, base), field.Name == "Replicas"; got != want {
			t.Errorf("%s: it keeps the template: %t, want %t", field.Name, got, want)
		}
	}
}

// A cluster that keeps an older template is not stuck when the spec loses its autoscaling.
func TestCompose_drops_patches_of_an_autoscaler_that_is_gone(t *testing.T) {
	template := v1alpha1.AppServiceSpec{Overrides: []v1alpha1.Override{{Name: "eu", Patches: []v1alpha1.Patch{
		{Target: v1alpha1.PatchHorizontalPodAutoscaler}, {Target: v1alpha1.PatchDeployment},
	}}}}
	for name, test := range map[string]struct {
		autoscaling *v1alpha1.Autoscaling
		want        []v1alpha1.Patch
	}{
		"with autoscaling":    {autoscaling: &v1alpha1.Autoscaling{}, want: template.Overrides[0].Patches},
		"without autoscaling": {want: []v1alpha1.Patch{{Target: v1alpha1.PatchDeployment}}},
	} {
		composed := Compose(v1alpha1.AppServiceSpec{Autoscaling: test.autoscaling}, template)
		if got := composed.Overrides[0].Patches; !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: patches %+v, want %+v", name, got, test.want)
		}
	}
	if len(template.Overrides[0].Patches) != 2 {
		t.Error("the template was modified")
	}
}

func TestRestore_keeps_the_replicas_of_overrides(t *testing.T) {
	on := func(name string) v1alpha1.ClusterMatch { return v1alpha1.ClusterMatch{ClusterNames: []string{name}} }
	current := v1alpha1.AppServiceSpec{Image: "web:2", Replicas: new(int32(2)), Overrides: []v1alpha1.Override{
		{Name: "only-replicas", ClusterMatch: on("a"), Replicas: new(int32(50))},
		{Name: "both", ClusterMatch: on("b"), Replicas: new(int32(9)), ImageTag: "2-large"},
		{Name: "moved", ClusterMatch: on("c"), Replicas: new(int32(7))},
		{Name: "new", ClusterMatch: on("d"), ImageTag: "2-small"},
	}}
	earlier := v1alpha1.AppServiceSpec{Image: "web:1", Overrides: []v1alpha1.Override{
		{Name: "both", ClusterMatch: on("b"), ImageTag: "1-large"},
		{Name: "moved", ClusterMatch: on("x"), ImageTag: "1-x"},
	}}
	want := v1alpha1.AppServiceSpec{Image: "web:1", Replicas: new(int32(2)), Overrides: []v1alpha1.Override{
		{Name: "both", ClusterMatch: on("b"), Replicas: new(int32(9)), ImageTag: "1-large"},
		{Name: "moved", ClusterMatch: on("x"), ImageTag: "1-x"},
		{Name: "only-replicas", ClusterMatch: on("a"), Replicas: new(int32(50))},
		{Name: "moved-replicas", ClusterMatch: on("c"), Replicas: new(int32(7))},
	}}
	got := Restore(current, earlier)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if !HasTemplate(got, earlier) || earlier.Overrides[0].Replicas != nil {
		t.Error("it has another template, or the earlier one was modified")
	}
}

func TestEvery_field_is_in_the_template_or_immediate(t *testing.T) {
	for field := range reflect.TypeFor[v1alpha1.AppServiceSpec]().Fields() {
		inTemplate, isImmediate := slices.Contains(templateFields, field.Name), slices.Contains(immediateFields, field.Name)
		if inTemplate == isImmediate {
			t.Errorf("%s: add it to either templateFields or immediateFields, and to Compose if it is immediate", field.Name)
			continue
		}
		var spec, other v1alpha1.AppServiceSpec
		setAny(reflect.ValueOf(&spec).Elem().FieldByName(field.Name))
		if got := !HasTemplate(spec, other); got != inTemplate {
			t.Errorf("%s: it makes another template: %t, want %t", field.Name, got, inTemplate)
		}
		wantCurrent, wantTemplate := spec, other
		if inTemplate {
			wantCurrent, wantTemplate = other, spec
		}
		if got := Compose(spec, other); !reflect.DeepEqual(got, wantCurrent) {
			t.Errorf("%s of the current spec: Compose returns %+v", field.Name, got)
		}
		if got := Compose(other, spec); !reflect.DeepEqual(got, wantTemplate) {
			t.Errorf("%s of the template: Compose returns %+v", field.Name, got)
		}
	}
}

// setAny sets a field to a value that is not zero and not equal to an empty one.
func setAny(field reflect.Value) {
	switch field.Kind() {
	case reflect.String:
		field.SetString("x")
	case reflect.Bool:
		field.SetBool(true)
	case reflect.Int32, reflect.Int64:
		field.SetInt(7)
	case reflect.Pointer:
		field.Set(reflect.New(field.Type().Elem()))
		setAny(field.Elem())
	case reflect.Slice:
		field.Set(reflect.MakeSlice(field.Type(), 1, 1))
		if overrides, is := field.Interface().([]v1alpha1.Override); is {
			overrides[0].Image = "x" // an empty override is no part of the template
		}
	case reflect.Map:
		field.Set(reflect.MakeMap(field.Type()))
		field.SetMapIndex(reflect.Zero(field.Type().Key()), reflect.Zero(field.Type().Elem()))
	case reflect.Struct:
		setAny(field.Field(0))
	}
}
