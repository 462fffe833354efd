package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/environment"
)

// A dead leader's lease runs out 15 seconds after the other has seen its last renewal; the other looks every 2.2 seconds at the latest.
const takeover = 15*time.Second + 2*2200*time.Millisecond

// Two replicas, of which the leader dies, ends, or is frozen and comes to itself when it leads no longer.
func TestHighAvailability(t *testing.T) {
	f := theFleet
	app := f.declare(t, "pair", replicas(3))
	f.awaitReady(t, app, "north", "south", "east")
	t.Cleanup(func() { f.restartWith(t, 1) })

	t.Run("a leader that is killed at rest is replaced within the time of its lease, and nothing is written", func(t *testing.T) {
		f.restartWith(t, 2)
		f.awaitSilence(t)
		before, objects := f.writes(t), f.delivered(t, app)
		leader, holder := f.leader(t)
		f.signal(t, leader, syscall.SIGKILL)
		t.Logf("another leads after %s", round(f.awaitTakeover(t, takeover+3*time.Second, holder)))
		time.Sleep(quiet / 2)
		if diff := cmp.Diff(before, f.writes(t)); diff != "" {
			t.Errorf("written by the takeover (-before +after):\n%s", diff)
		}
		f.edit(t, app, env("KILLED", "yes"))
		f.awaitReady(t, app, "north", "south", "east")
		f.sameObjects(t, app, objects)
	})

	t.Run("a leader that ends in order is replaced at once", func(t *testing.T) {
		f.restartWith(t, 2)
		leader, holder := f.leader(t)
		f.signal(t, leader, syscall.SIGTERM)
		t.Logf("another leads after %s", round(f.awaitTakeover(t, 10*time.Second, holder)))
		f.edit(t, app, env("ENDED", "yes"))
		f.awaitReady(t, app, "north", "south", "east")
	})

	t.Run("a leader that is frozen in the midst of its work, and wakes when another leads, writes nothing", func(t *testing.T) {
		f.freezeLeader(t)
	})

	t.Run("no write was older than the one before it", func(t *testing.T) {
		for name, member := range f.members {
			if n := f.checkOrder(t, member); n == 0 {
				t.Errorf("%s has no write at all with a generation", name)
			}
		}
	})
}

// freezeLeader has many AppServices edited, freezes the leader while it delivers that, has its successor deliver other edits, and a
// deletion, and wakes it.
func (f *fleet) freezeLeader(t *testing.T) {
	f.restartWith(t, 2)
	var apps []*v1alpha1.AppService
	for i := range 5 {
		apps = append(apps, f.declare(t, fmt.Sprintf("frozen-%d", i), replicas(1)))
	}
	doomed := apps[0]
	for _, app := range apps {
		f.awaitReady(t, app, "north", "south", "east")
	}
	leader, holder := f.leader(t)
	for _, app := range apps {
		f.edit(t, app, env("BEFORE", "yes"))
	}
	time.Sleep(rand.N(100 * time.Millisecond))
	f.signal(t, leader, syscall.SIGSTOP)
	frozen := time.Now()
	for _, app := range apps[1:] {
		f.edit(t, app, env("FROZEN", "yes"))
	}
	t.Logf("another leads after %s", round(f.awaitTakeover(t, takeover+3*time.Second, holder)))
	f.remove(t, doomed)
	objects := map[string]map[string]delivered{}
	for _, app := range apps[1:] {
		f.awaitReady(t, app, "north", "south", "east")
		objects[app.Name] = f.delivered(t, app)
	}
	f.awaitSilence(t)
	before, woken := f.changes(t), time.Now()
	f.signal(t, leader, syscall.SIGCONT)
	t.Logf("woken after %s", round(time.Since(frozen)))
	eventuallyWithin(t, 20*time.Second, "the woken one to lead no longer", func() error {
		// A process that has ended is none, and in a container it is another one.
		metrics, err := leader.Metrics(background)
		if err == nil && leads(metrics) {
			return errors.New("it says that it leads")
		}
		return nil
	})
	time.Sleep(5 * time.Second)
	if diff := cmp.Diff(before, f.changes(t)); diff != "" {
		t.Errorf("written after it woke (-before +after):\n%s", diff)
		f.logWrites(t, woken)
	}
	t.Logf("the fence has refused %d writes", strings.Count(f.operator.Log(), "fenced: ")) // none, if it was frozen between two
	for _, app := range apps[1:] {
		f.sameObjects(t, app, objects[app.Name])
		if diff := cmp.Diff(objects[app.Name], f.delivered(t, app)); diff != "" {
			t.Errorf("what %s runs is another since it woke (-before +after):\n%s", app.Name, diff)
		}
	}
	for _, member := range f.members {
		if err := f.gone(member, doomed); err != nil {
			t.Errorf("what was deleted is back: %v", err)
		}
	}
}

// changes are the writes that did not fail: of what the woken one had begun, the API server may have the head and never gets the body.
func (f *fleet) changes(t *testing.T) writes {
	t.Helper()
	counted := f.writes(t)
	for _, counts := range counted {
		maps.DeleteFunc(counts, func(what string, _ int) bool { return strings.HasSuffix(what, "(failed)") })
	}
	return counted
}

// logWrites tells what was written since a time.
func (f *fleet) logWrites(t *testing.T, since time.Time) {
	t.Helper()
	for name, c := range f.all() {
		for _, request := range f.requests(t, c) {
			if request.Writes() && request.Object.Resource != "leases" && request.At.After(since) {
				t.Logf("on %s: %s\n%s", name, &request, request.Body)
			}
		}
	}
}

// restartWith ends the operator, whatever state it is in, and starts so many replicas of it, of which one leads.
func (f *fleet) restartWith(t *testing.T, replicas int) {
	t.Helper()
	if err := f.operator.Stop(background); err != nil {
		if err := f.operator.Kill(background); err != nil {
			t.Fatal(err)
		}
	}
	started := time.Now()
	if err := f.start(background, replicas); err != nil {
		t.Fatal(err)
	}
	f.awaitLeader(t, started)
	for name := range f.members {
		f.awaitMember(t, name)
	}
}

// leader is the replica that leads, and what it is called in the Lease.
func (f *fleet) leader(t *testing.T) (found environment.Replica, holder string) {
	t.Helper()
	eventually(t, "one replica to lead", func() error {
		all, err := f.operator.Replicas(background)
		if err != nil {
			return err
		}
		found = nil
		for _, replica := range all {
			metrics, err := replica.Metrics(background)
			if err != nil {
				return err
			}
			if leads(metrics) {
				found = replica
			}
		}
		if found == nil {
			return fmt.Errorf("none of %d leads", len(all))
		}
		return nil
	})
	return found, f.holder(t)
}

var leading = regexp.MustCompile(`(?m)^leader_election_master_status\{.*\} 1$`)

// leads tells whether a replica says so.
func leads(metrics []byte) bool { return leading.Match(metrics) }

func (f *fleet) signal(t *testing.T, replica environment.Replica, signal syscall.Signal) {
	t.Helper()
	if err := replica.Signal(background, signal); err != nil {
		t.Fatal(err)
	}
}

// holder is who holds the Lease.
func (f *fleet) holder(t *testing.T) string {
	t.Helper()
	lease := &coordinationv1.Lease{}
	if err := f.hub.api.Get(background, client.ObjectKey{Namespace: environment.SecretNamespace, Name: "fleetwright"}, lease); err != nil {
		t.Fatal(err)
	}
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

func (f *fleet) awaitTakeover(t *testing.T, bound time.Duration, from string) time.Duration {
	t.Helper()
	return eventuallyWithin(t, bound, "another replica to hold the Lease", func() error {
		if now := f.holder(t); now == "" || now == from {
			return fmt.Errorf("%q holds it", now)
		}
		return nil
	})
}

// delivered is which Deployment an AppService has on a member, and which pods it asks for.
type delivered struct {
	UID        types.UID
	Generation int64
}

func (f *fleet) delivered(t *testing.T, app *v1alpha1.AppService) map[string]delivered {
	t.Helper()
	found := map[string]delivered{}
	for name := range f.members {
		deployment, err := f.deployment(name, app)
		if err != nil {
			t.Fatal(err)
		}
		found[name] = delivered{deployment.UID, deployment.Generation}
	}
	return found
}

// sameObjects checks that nothing was deleted and made anew.
func (f *fleet) sameObjects(t *testing.T, app *v1alpha1.AppService, before map[string]delivered) {
	t.Helper()
	for name, now := range f.delivered(t, app) {
		if now.UID != before[name].UID {
			t.Errorf("%s has another Deployment %s than before", name, app.Name)
		}
	}
}

// checkOrder checks that what was written to a member's objects never was of an older generation than what was written before, and returns
// how many writes had one.
func (f *fleet) checkOrder(t *testing.T, member *cluster) (checked int) {
	t.Helper()
	last := map[string]int64{}
	for _, request := range f.requests(t, member) {
		var body struct {
			Metadata struct {
				Annotations map[string]string `json:"annotations"`
			} `json:"metadata"`
		}
		if request.Response.Code >= 300 || json.Unmarshal(request.Body, &body) != nil {
			continue
		}
		uid := body.Metadata.Annotations[v1alpha1.AnnotationUID]
		generation, err := strconv.ParseInt(body.Metadata.Annotations[v1alpha1.AnnotationGeneration], 10, 64)
		if err != nil {
			continue
		}
		checked++
		key := uid + "/" + request.Object.Resource
		if generation < last[key] {
			t.Errorf("%s was written with generation %d after %d: %s", member.Name(), generation, last[key], &request)
		}
		last[key] = generation
	}
	return checked
}
