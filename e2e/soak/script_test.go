package main

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func testScale(length time.Duration) scale {
	return scale{length: length, apps: 10, members: []string{"east", "north", "south"}, hub: "hub"}
}

func texts(seed uint64, s scale) []string {
	var all []string
	for a := range newScript(seed, s).actions() {
		all = append(all, a.at.String()+" "+a.String())
	}
	return all
}

func TestScript_replays_the_same_actions_for_the_same_seed(t *testing.T) {
	first := texts(7, testScale(time.Hour))
	if diff := cmp.Diff(first, texts(7, testScale(time.Hour))); diff != "" {
		t.Errorf("(-first +second):\n%s", diff)
	}
	if len(first) < 3000 {
		t.Errorf("an hour has %d actions", len(first))
	}
	if slices.Equal(first, texts(8, testScale(time.Hour))) {
		t.Error("another seed gives the same actions")
	}
}

// A soak that is repeated with another length begins with the same actions.
func TestScript_of_another_length_begins_with_the_same_actions(t *testing.T) {
	short, long := texts(7, testScale(10*time.Minute)), texts(7, testScale(time.Hour))
	steady := 0
	for a := range newScript(7, testScale(10*time.Minute)).actions() {
		if a.at >= testScale(10*time.Minute).steady() {
			break
		}
		steady++
	}
	if diff := cmp.Diff(short[:steady], long[:steady]); diff != "" {
		t.Errorf("(-10 minutes +1 hour):\n%s", diff)
	}
}

// Each action must be possible, so that the fleet never decides what to do.
func TestScript_has_only_possible_actions(t *testing.T) {
	for seed := range uint64(50) {
		s := testScale(30 * time.Minute)
		script := newScript(seed, s)
		apps, cuts, left, cordons, running := map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, true
		kinds := map[kind]int{}
		check := func(a action) {
			kinds[a.kind]++
			possible := true
			switch a.kind {
			case create:
				possible, apps[a.app.name] = !apps[a.app.name], true
			case edit, move:
				possible = apps[a.app.name]
			case drift, lose:
				possible = apps[a.app.name] && a.app.includes(a.cluster)
			case remove:
				possible, apps[a.app.name] = apps[a.app.name], false
			case cut:
				possible, cuts[a.cluster] = !cuts[a.cluster] && a.mode != open, true
			case heal:
				possible, cuts[a.cluster] = cuts[a.cluster], false
			case rotate, revoke:
				possible = !left[a.cluster] && a.cluster != "hub"
			case leave:
				possible, left[a.cluster] = !left[a.cluster] && a.cluster != "hub", true
			case join:
				possible, left[a.cluster] = left[a.cluster], false
			case cordon:
				possible, cordons[a.cluster] = !cordons[a.cluster] && a.cluster != "hub", true
			case uncordon:
				possible, cordons[a.cluster] = cordons[a.cluster], false
			case kill, stop:
				possible, running = running && a.at < s.steady(), false
			case start:
				possible, running = !running && !cuts["hub"], true
			}
			if !possible {
				t.Fatalf("seed %d: %s is not possible at %s", seed, a, a.at)
			}
		}
		for a := range script.actions() {
			check(a)
		}
		for _, a := range script.ending() {
			check(a)
		}
		for _, disturbed := range []map[string]bool{cuts, left, cordons} {
			for cluster, is := range disturbed {
				if is {
					t.Errorf("seed %d: %s is disturbed at the end", seed, cluster)
				}
			}
		}
		if !running || len(kinds) < 18 {
			t.Errorf("seed %d: the operator runs at the end: %v; kinds of actions: %v", seed, running, kinds)
		}
	}
}
