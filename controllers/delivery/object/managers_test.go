package object

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

func TestFieldNames(t *testing.T) {
	replicas, selector := fieldpath.MakePathOrDie("spec", "replicas"), fieldpath.MakePathOrDie("spec", "selector")
	paused := fieldpath.MakePathOrDie("spec", "paused")
	item := fieldpath.MakePathOrDie("spec", "ports", fieldpath.KeyByFields("port", 80, "protocol", "TCP"), "name")
	tests := map[string]struct {
		set  *fieldpath.Set
		want string
	}{
		"none":        {fieldpath.NewSet(), ""},
		"one":         {fieldpath.NewSet(replicas), "spec.replicas"},
		"an item's":   {fieldpath.NewSet(item), `spec.ports[port=80,protocol="TCP"].name`},
		"leaves only": {fieldpath.NewSet(item, item[:3]), `spec.ports[port=80,protocol="TCP"].name`},
		"three":       {fieldpath.NewSet(selector, replicas, paused), "spec.paused, spec.replicas, spec.selector"},
		"more":        {fieldpath.NewSet(selector, replicas, paused, item), `spec.paused, spec.replicas, spec.selector and 1 more`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := FieldNames(test.set); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// A long list of fields says how many there are.
func TestFieldNames_are_few(t *testing.T) {
	set := fieldpath.NewSet()
	for i := range 100 {
		set.Insert(fieldpath.MakePathOrDie("spec", fmt.Sprintf("field-%03d", i)))
	}
	if got := FieldNames(set); !strings.HasSuffix(got, "and 97 more") || len(strings.Split(got, ", ")) != maxFields || !slices.Contains(strings.Split(got, ", "), "spec.field-000") {
		t.Error("got", got)
	}
}
