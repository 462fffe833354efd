package view_test

import (
	"reflect"
	"strings"
	"testing"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/explain"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/view"
)

// hostile has an escape sequence of ECMA-48, one of C1, one that sets the title, a colour, characters
// that turn the direction of a text, and a line break.
const hostile = "\x1b[2J\u009b2J\x1b]0;title\x07\x1b[31m\u202e\u2066\nfake line"

// spoil appends the hostile text to every string of a value, except those that name a phase or the type
// of a condition, by which the views decide.
func spoil(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + hostile)
	case reflect.Pointer:
		if !v.IsNil() {
			spoil(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			spoil(v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if v.Type().Elem().Kind() == reflect.String {
				v.SetMapIndex(key, reflect.ValueOf(v.MapIndex(key).String()+hostile).Convert(v.Type().Elem()))
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if isDecisive := name == "Phase" || v.Type() == reflect.TypeFor[metav1.Condition]() && (name == "Type" || name == "Status"); v.Field(i).CanSet() && !isDecisive {
				spoil(v.Field(i))
			}
		}
	}
}

// checkPrintable fails if a text has a character that is not printable, other than the line breaks and
// the colours of the view itself.
func checkPrintable(t *testing.T, text string) {
	t.Helper()
	plain := strings.NewReplacer("\x1b[31m", "", "\x1b[32m", "", "\x1b[33m", "", "\x1b[0m", "").Replace(text)
	for _, c := range plain {
		if c != '\n' && !unicode.IsPrint(c) {
			t.Errorf("%U is in the text:\n%q", c, text)
			return
		}
	}
	if strings.Contains(text, "\nfake line") {
		t.Errorf("the text has a line of the object:\n%s", text)
	}
}

func TestViews_print_no_escape_sequence_of_an_object(t *testing.T) {
	for name, content := range map[string]string{"rolling out": rollingOut, "configured": configured} {
		app := appFrom(t, content)
		app.Status.Clusters = append(app.Status.Clusters, v1alpha1.ClusterStatus{Name: "other", Phase: v1alpha1.ClusterFailed, Reason: "Bad", Message: "bad"})
		spoil(reflect.ValueOf(app).Elem())
		clusters := []explain.Cluster{
			{Name: "east", Chosen: true, Because: "it matches", ReplicasBecause: "spec.replicas", Entry: &app.Status.Clusters[0]},
			{Name: "north", Reason: "Tainted", Because: "a taint", Overrides: []explain.Override{{Name: "eu", Changes: []string{"image"}}}, Entry: &app.Status.Clusters[0]},
		}
		spoil(reflect.ValueOf(clusters))
		for _, hasColor := range []bool{false, true} {
			o := view.Options{Now: now, Width: 80, Color: hasColor, All: true, Notes: []string{"old" + hostile}}
			t.Run(name, func(t *testing.T) {
				status := view.Status(app, o)
				checkPrintable(t, status)
				if !hasColor && strings.Contains(status, "\x1b") {
					t.Errorf("there is a colour:\n%q", status)
				}
				if colors := strings.Count(status, "\x1b[31m") - strings.Count(status, "\x1b[31mFailed") - strings.Count(status, "\x1b[31mUnknown"); colors > 0 {
					t.Errorf("%d colours are of the object:\n%q", colors, status)
				}
				why := view.Why(app, clusters, o)
				checkPrintable(t, why)
				if strings.Contains(why, "\x1b") {
					t.Errorf("there is a colour:\n%q", why)
				}
			})
		}
	}
}
