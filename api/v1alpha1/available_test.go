package v1alpha1_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// An entry of an older version has no number of available pods. It means the same as in a new one: all
// ready pods are available. That none is available is another entry.
func TestEntry_says_how_many_of_its_ready_pods_are_available(t *testing.T) {
	const rest = `{"name":"east","generation":1,"replicas":3,"phase":"Ready","lastTransitionTime":"2026-01-02T11:50:00Z"`
	for content, want := range map[string]int32{
		rest + `}`:                   0,
		rest + `,"readyReplicas":3}`: 3,
		rest + `,"availableReplicas":2,"readyReplicas":3}`:         3, // that of a rollout
		rest + `,"readyReplicas":3,"observedAvailableReplicas":0}`: 0,
		rest + `,"readyReplicas":3,"observedAvailableReplicas":2}`: 2,
	} {
		var entry v1alpha1.ClusterStatus
		if err := json.Unmarshal([]byte(content), &entry); err != nil {
			t.Fatal(err)
		}
		if got := entry.CurrentAvailableReplicas(); got != want {
			t.Errorf("%s: %d available pods, want %d", content, got, want)
		}
		if diff := cmp.Diff(toMap(t, []byte(content)), toMap(t, encode(t, entry))); diff != "" {
			t.Errorf("it is stored otherwise (-before +after):\n%s", diff)
		}
	}
}

// An older operator reads and writes the rest of an entry as it is.
func TestEntry_with_available_pods_is_read_by_an_older_version(t *testing.T) {
	var fields []reflect.StructField
	for _, field := range reflect.VisibleFields(reflect.TypeFor[v1alpha1.ClusterStatus]()) {
		if field.Name != "ObservedAvailableReplicas" {
			fields = append(fields, field)
		}
	}
	entry := v1alpha1.ClusterStatus{Name: "east", Phase: v1alpha1.ClusterProgressing, ReadyReplicas: 3, AvailableReplicas: 2, ObservedAvailableReplicas: new(int32(1))}
	older := reflect.New(reflect.StructOf(fields)).Interface()
	if err := json.Unmarshal(encode(t, entry), older); err != nil {
		t.Fatal(err)
	}
	entry.ObservedAvailableReplicas = nil
	if diff := cmp.Diff(toMap(t, encode(t, entry)), toMap(t, encode(t, older))); diff != "" {
		t.Errorf("an older version has (-want +got):\n%s", diff)
	}
}

func encode(t *testing.T, value any) []byte {
	t.Helper()
	content, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func toMap(t *testing.T, content []byte) map[string]any {
	t.Helper()
	fields := map[string]any{}
	if err := json.Unmarshal(content, &fields); err != nil {
		t.Fatal(err)
	}
	return fields
}
