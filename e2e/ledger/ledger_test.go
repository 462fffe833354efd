package ledger

import (
	"net/http"
	"testing"
	"time"
)

// TestTrace tests the ledger: one that traced every loss would hide every defect of the operator.
func TestTrace(t *testing.T) {
	at := time.Now()
	declared := func(generation int64, change func(*Intent)) Intent {
		i := Intent{At: at.Add(time.Duration(generation) * time.Minute), App: "app", Generation: generation, Replicas: 3, Ports: true, Clusters: []string{"east", "north", "south"}}
		change(&i)
		return i
	}
	intents := []Intent{
		declared(1, func(*Intent) {}),
		declared(2, func(i *Intent) { i.Replicas = 1 }),
		declared(3, func(i *Intent) { i.Replicas, i.Ports = 1, false }),
		declared(4, func(i *Intent) { i.Replicas, i.Ports, i.Clusters = 1, false, []string{"east"} }),
		declared(5, func(i *Intent) { i.Deleted = true }),
	}
	deleted := func(minute int, resource, cluster string, object ObjectState) loss {
		return loss{Request: Request{At: at.Add(time.Duration(minute)*time.Minute + time.Second), Verb: http.MethodDelete, Resource: resource, Cluster: cluster}, Deleted: true, Object: object}
	}
	scaledDown := func(minute int, to int32, object ObjectState) loss {
		l := deleted(minute, "deployments", "north", object)
		l.Verb, l.Deleted, l.ReplicasAfter = http.MethodPatch, false, to
		return l
	}
	owned := func(generation int64) ObjectState {
		return ObjectState{Present: true, App: "app", Generation: generation, Replicas: 3}
	}
	tests := map[string]struct {
		loss loss
		want int64 // the generation of the intent; 0 for none
	}{
		"fewer replicas, as declared":                       {scaledDown(2, 1, owned(1)), 2},
		"fewer replicas than declared":                      {scaledDown(2, 0, owned(1)), 0},
		"fewer replicas before the intent":                  {scaledDown(1, 1, owned(1)), 0},
		"fewer replicas of another AppService":              {scaledDown(2, 1, ObjectState{Present: true, App: "other", Replicas: 3}), 0},
		"fewer replicas of an object of a newer generation": {scaledDown(2, 1, owned(9)), 0},
		"a Service of an AppService without ports":          {deleted(3, "services", "north", owned(1)), 3},
		"a Service of an AppService with ports":             {deleted(2, "services", "north", owned(1)), 0},
		"a Service of an intent that is not current":        {deleted(1, "services", "north", owned(1)), 0},
		"a Deployment of an AppService without ports":       {deleted(3, "deployments", "north", owned(1)), 0},
		"a Deployment on a removed cluster":                 {deleted(4, "deployments", "north", owned(1)), 4},
		"a Deployment on a cluster that stays":              {deleted(4, "deployments", "east", owned(1)), 0},
		"a Deployment of a deleted AppService":              {deleted(5, "deployments", "east", owned(1)), 5},
		"a Deployment of another AppService":                {deleted(5, "deployments", "east", ObjectState{Present: true, App: "other"}), 0},
		"a Deployment without an AppService":                {deleted(5, "deployments", "east", ObjectState{Present: true}), 0},
		"a namespace":                                       {deleted(5, "namespaces", "east", owned(1)), 0},
		"an object that is not present":                     {deleted(5, "deployments", "east", ObjectState{}), 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got, _ := (wishes{intents: intents}).trace(test.loss); got.Generation != test.want {
				t.Errorf("traced to generation %d, want %d", got.Generation, test.want)
			}
		})
	}
	for name, test := range map[string]struct {
		object ObjectState
		want   bool
	}{
		"a copy that its Deployment does not name": {ObjectState{Present: true}, true},
		"a copy that its Deployment names":         {ObjectState{Present: true, InUse: true}, false},
		"a copy that is not present":               {ObjectState{}, false},
	} {
		for _, resource := range []string{"configmaps", "secrets"} {
			if got := (wishes{}).isTraced(deleted(1, resource, "east", test.object)); got != test.want {
				t.Errorf("%s: traced is %t", name, got)
			}
		}
	}
	_, traced := (wishes{intents: intents[:3]}).trace(scaledDown(9, 1, owned(1)))
	if !traced {
		t.Error("the last intent does not explain a loss a long time later")
	}
	next := wishes{intents: append(intents[:2:2], declared(3, func(*Intent) {}))}
	if _, traced := next.trace(scaledDown(4, 1, owned(1))); traced {
		t.Error("an intent explains a loss a minute after the next intent")
	}
	hide := func(begin, end time.Duration) wishes {
		return wishes{intents: next.intents, hidden: []interval{{at.Add(begin), at.Add(end)}}}
	}
	if _, traced := hide(3*time.Minute-time.Second, 5*time.Minute).trace(scaledDown(4, 1, owned(1))); !traced {
		t.Error("an intent does not explain a loss although the operator could not see the next one")
	}
	if _, traced := hide(2*time.Minute, 3*time.Minute).trace(scaledDown(4, 1, owned(1))); traced {
		t.Error("an intent explains a loss a minute after the operator could see the next one")
	}
}
