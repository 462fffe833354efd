package copies_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fleetwright/fleetwright/controllers/delivery/copies"
)

func TestRecord(t *testing.T) {
	for text, want := range map[string]string{
		"": "",
		"ConfigMap/web-settings-5hc9dk2m7t,Secret/web-tls-k2x7m9q4ta@12": "ConfigMap/web-settings-5hc9dk2m7t,Secret/web-tls-k2x7m9q4ta@12",
		"Secret/b,ConfigMap/a,Secret/b@3":                                "Secret/b,ConfigMap/a",
		"Secret/a@1000000001":                                            "Secret/a@1000000001",
		"Pod/a,Secret/,/b,Secret/A,Secret/../x,Secret/a@,Secret/a@0,Secret/a@-1,Secret/a@x,Secret/a@9223372036854775808,nonsense,ConfigMap/kept": "ConfigMap/kept",
	} {
		if got := copies.ParseRecord(text).String(); got != want {
			t.Errorf("%s became %s, want %s", text, got, want)
		}
	}
	record := copies.ParseRecord("ConfigMap/a,Secret/b@3")
	next := record.With(copies.Recorded{Key: copies.Key{Kind: "Secret", Name: "b"}, Serial: 4}).With(copies.Recorded{Key: copies.Key{Kind: "Secret", Name: "c"}})
	if diff := cmp.Diff("ConfigMap/a,Secret/b@4,Secret/c", next.String()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff("Secret/b@4,Secret/c", next.Without(func(key copies.Key) bool { return key.Name == "a" }).String()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff("ConfigMap/a,Secret/b@3", record.String()); diff != "" {
		t.Errorf("the record changed: %s", diff)
	}
}

// The record of a Deployment that was created again from a backup is that of another one.
func TestRecord_is_confirmed_for_one_Deployment(t *testing.T) {
	record := copies.ParseRecord("ConfigMap/a,Secret/b@3")
	text := record.ConfirmedFor("uid-1")
	if got := copies.ConfirmedOwner(text, "uid-2"); got != "uid-1" {
		t.Errorf("%s is confirmed for %q", text, got)
	}
	if got := copies.WithoutUID(text, "uid-2"); got != text {
		t.Errorf("without another UID, %s is %s", text, got)
	}
	cached := copies.WithoutUID(text, "uid-1")
	if other := copies.WithoutUID(record.ConfirmedFor("uid-2"), "uid-2"); other != cached {
		t.Errorf("the records of two Deployments are %s and %s", cached, other)
	}
	if got := copies.ConfirmedOwner(cached, "uid-1"); got != "uid-1" {
		t.Errorf("%s is confirmed for %q", cached, got)
	}
	if diff := cmp.Diff(record, copies.ParseRecord(cached)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(record, copies.ParseRecord(text)); diff != "" {
		t.Error(diff)
	}
	if got := copies.ConfirmedOwner(record.String(), "uid-1"); got != "" {
		t.Errorf("%s is confirmed for %q", record, got)
	}
	if got := copies.Record(nil).ConfirmedFor("uid-1"); got != "" {
		t.Errorf("an empty record is %q", got)
	}
}

// A rollout that never completes must not fill the annotations of the Deployment.
func TestRecord_is_bounded(t *testing.T) {
	var items []string
	for i := range 250 {
		items = append(items, fmt.Sprintf("ConfigMap/old-%d", i))
	}
	record := copies.ParseRecord(strings.Join(items, ","))
	for i := range 10 {
		record = record.With(copies.Recorded{Key: copies.Key{Kind: "Secret", Name: fmt.Sprint("needed-", i)}})
	}
	bounded := record.Bounded(func(key copies.Key) bool { return key.Kind == "Secret" || key.Name == "old-0" })
	if len(bounded) != 256 {
		t.Errorf("the record has %d copies", len(bounded))
	}
	for name, want := range map[copies.Key]bool{
		{Kind: "ConfigMap", Name: "old-0"}: true, {Kind: "ConfigMap", Name: "old-1"}: false, {Kind: "ConfigMap", Name: "old-249"}: true, {Kind: "Secret", Name: "needed-9"}: true,
	} {
		if _, found := bounded.Serial(name); found != want {
			t.Errorf("the record has %v: %t", name, found)
		}
	}
}
