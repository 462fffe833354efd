package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// template returns the Deployment of an AppService on Karmada's hub, with a status.
func template(a app, status map[string]any) *unstructured.Unstructured {
	object := a.onHub("apps/v1", "Deployment")
	object.SetGeneration(2)
	object.Object["status"] = status
	object.Object["spec"] = map[string]any{"template": map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"image": a.Image}}}}}
	return object
}

func TestReported_by_Karmada(t *testing.T) {
	a := batch("web", 1)[0]
	for _, test := range []struct {
		name   string
		object client.Object
		want   report
		is     bool
	}{
		{"all members are ready", template(a, map[string]any{"observedGeneration": int64(2), "readyReplicas": int64(6), "updatedReplicas": int64(6)}), report{image: a.Image, isCurrent: true, readyMembers: 3, readyReplicas: 6}, true},
		{"a member is not updated", template(a, map[string]any{"observedGeneration": int64(2), "readyReplicas": int64(6), "updatedReplicas": int64(4)}), report{image: a.Image, isCurrent: true, readyMembers: 2, readyReplicas: 6}, true},
		{"the status is of an earlier generation", template(a, map[string]any{"observedGeneration": int64(1), "readyReplicas": int64(6), "updatedReplicas": int64(6)}), report{image: a.Image, readyMembers: 3, readyReplicas: 6}, true},
		{"no status", template(a, nil), report{image: a.Image}, true},
		{"another kind", a.policy(), report{}, false},
		{"a Deployment of a member", deployment(a.Name, a.Image), report{}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, is := (&karmadaWriter{}).reported(test.object)
			if is != test.is {
				t.Fatalf("it reports: %v, want %v", is, test.is)
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(report{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTemplates_are_what_the_operator_applies_without_its_annotations(t *testing.T) {
	a := batch("web", 1)[0]
	applied, err := a.render()
	if err != nil {
		t.Fatal(err)
	}
	templates, err := a.templates()
	if err != nil {
		t.Fatal(err)
	}
	for i := range applied {
		if len(applied[i].GetAnnotations()) == 0 {
			t.Errorf("the operator sets no annotation on the %s", applied[i].GetKind())
		}
		applied[i].SetAnnotations(nil)
	}
	if diff := cmp.Diff(applied, templates); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestObserver_keeps_the_templates_of_a_hub_apart_from_the_Deployments_of_members(t *testing.T) {
	o, apps := newObserver(), batch("a", 1)
	var seen []string
	o.onDeployment = func(cluster string, _ *appsv1.Deployment) { seen = append(seen, cluster) }
	created, edited, gone := o.expect(1, isObject(apps)), o.expect(1, hasImage(apps)), o.expect(1, isGone(apps))
	o.see(karmadaHubName, watch.Event{Type: watch.Added, Object: template(apps[0], nil)})
	if isDone(created) || isDone(edited) || len(seen) > 0 || len(o.deployments()) > 0 {
		t.Error("the template counts as a Deployment of a member")
	}
	if o.see(karmadaHubName, watch.Event{Type: watch.Deleted, Object: template(apps[0], nil)}); !isDone(gone) {
		t.Error("the deletion of the template does not count")
	}
}

func TestDelivered_compares_only_the_specs_of_a_peer(t *testing.T) {
	ours := delivery{specs: "spec", all: "labels spec"}
	for _, test := range []struct {
		name    string
		first   string
		own     delivery
		wantErr string
	}{
		{"the operator has other labels", operatorWriter, delivery{specs: "spec", all: "others spec"}, "of operator"},
		{"a peer has other labels", karmadaPeer, delivery{specs: "spec", all: "others spec"}, ""},
		{"a peer has another spec", karmadaTunedWriter, delivery{specs: "another", all: "labels another"}, "of karmada-tuned"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, order := range [][]string{{test.first, nakedWriter}, {nakedWriter, test.first}} {
				d, of := delivered{}, map[string]delivery{test.first: test.own, nakedWriter: ours}
				if err := d.check(order[0], of[order[0]]); err != nil {
					t.Fatal(err)
				}
				err := d.check(order[1], of[order[1]])
				if (err == nil) != (test.wantErr == "") || err != nil && !strings.Contains(err.Error(), test.wantErr) {
					t.Errorf("%s first: got %v, want %q", order[0], err, test.wantErr)
				}
			}
		})
	}
}

func TestParse_refuses_comparisons_that_exclude_each_other(t *testing.T) {
	for _, test := range []struct {
		name, args, wantErr string
	}{
		{"a peer", "-peer karmada", ""},
		{"another peer", "-peer other", `unknown peer "other": use karmada`},
		{"a peer and a commit", "-peer karmada -base main", "-peer works without -base only"},
		{"profiles and a commit", "-profile -base main", "-profile works without -base only"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := parse(strings.Fields(test.args))
			if (err == nil) != (test.wantErr == "") || err != nil && !strings.Contains(err.Error(), test.wantErr) {
				t.Errorf("got %v, want %q", err, test.wantErr)
			}
		})
	}
}
