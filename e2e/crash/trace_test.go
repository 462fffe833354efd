package crash

import (
	"net/http"
	"testing"
	"time"
)

// A ledger that takes every loss for meant would show the same figures as an operator that keeps the law.
func TestTrace(t *testing.T) {
	at := time.Now()
	said := func(generation int64, change func(*intent)) intent {
		i := intent{at: at.Add(time.Duration(generation) * time.Minute), app: "app", generation: generation, replicas: 3, ports: true, clusters: members}
		change(&i)
		return i
	}
	intents := []intent{
		said(1, func(*intent) {}),
		said(2, func(i *intent) { i.replicas = 1 }),
		said(3, func(i *intent) { i.replicas, i.ports = 1, false }),
		said(4, func(i *intent) { i.replicas, i.ports, i.clusters = 1, false, []string{"east"} }),
		said(5, func(i *intent) { i.deleted = true }),
	}
	deleted := func(minute int, resource, cluster string, object held) loss {
		return loss{request: request{at: at.Add(time.Duration(minute)*time.Minute + time.Second), verb: http.MethodDelete, resource: resource, cluster: cluster}, deleted: true, object: object}
	}
	lowered := func(minute int, to int32, object held) loss {
		l := deleted(minute, "deployments", "north", object)
		l.verb, l.deleted, l.replicasAfter = http.MethodPatch, false, to
		return l
	}
	ours := func(generation int64) held {
		return held{present: true, app: "app", generation: generation, replicas: 3}
	}
	tests := map[string]struct {
		loss loss
		want int64 // the generation of the intent; 0 for none
	}{
		"fewer replicas, as said":                                   {lowered(2, 1, ours(1)), 2},
		"fewer replicas than said":                                  {lowered(2, 0, ours(1)), 0},
		"fewer replicas before it is said":                          {lowered(1, 1, ours(1)), 0},
		"fewer replicas of another AppService":                      {lowered(2, 1, held{present: true, app: "other", replicas: 3}), 0},
		"fewer replicas of what was applied for a newer generation": {lowered(2, 1, ours(9)), 0},
		"a Service, when there are no ports":                        {deleted(3, "services", "north", ours(1)), 3},
		"a Service, when there are ports":                           {deleted(2, "services", "north", ours(1)), 0},
		"a Service, by what is no longer said":                      {deleted(1, "services", "north", ours(1)), 0},
		"a Deployment, when there are no ports":                     {deleted(3, "deployments", "north", ours(1)), 0},
		"a Deployment, when its cluster is left":                    {deleted(4, "deployments", "north", ours(1)), 4},
		"a Deployment, when another cluster is left":                {deleted(4, "deployments", "east", ours(1)), 0},
		"a Deployment, when all is deleted":                         {deleted(5, "deployments", "east", ours(1)), 5},
		"a Deployment of another AppService, when all is deleted":   {deleted(5, "deployments", "east", held{present: true, app: "other"}), 0},
		"a Deployment of nobody":                                    {deleted(5, "deployments", "east", held{present: true}), 0},
		"a namespace, when all is deleted":                          {deleted(5, "namespaces", "east", ours(1)), 0},
		"what is not known":                                         {deleted(5, "deployments", "east", held{}), 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got, _ := trace(test.loss, intents); got.generation != test.want {
				t.Errorf("traced to generation %d, want %d", got.generation, test.want)
			}
		})
	}
	_, traced := trace(lowered(9, 1, ours(1)), intents[:3])
	if !traced {
		t.Error("what the last word asks for is not traced long after it")
	}
	if _, traced := trace(lowered(4, 1, ours(1)), append(intents[:2:2], said(3, func(*intent) {}))); traced {
		t.Error("what an intent asks for is traced to it a minute after the next one")
	}
}
