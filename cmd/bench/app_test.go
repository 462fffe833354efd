package main

import (
	"reflect"
	"testing"

	"github.com/fleetwright/fleetwright/controllers/lineage"
)

// The naked writer sets every annotation of a stamp, also one that is added later: the objects must
// be as large as the operator's, and the benchmark ends when they differ.
func TestRender_sets_every_field_of_the_stamp(t *testing.T) {
	objects, err := batch("web", 1)[0].render()
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		stamp := reflect.ValueOf(lineage.Of(object))
		for i := range stamp.NumField() {
			switch name := stamp.Type().Field(i).Name; {
			case name == "ObjectCreated": // by the API server
			case name == "Revision" && object.GetKind() != "Deployment":
			case stamp.Field(i).IsZero():
				t.Errorf("the stamp of the %s lacks %s: %v", object.GetKind(), name, object.GetAnnotations())
			}
		}
	}
}
