package e2e

import (
	"context"
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
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/internal/environment"
)

// TestHighAvailability tests two replicas of the operator: the leader is killed, is stopped, or is
// frozen and resumes after another replica took over.
func TestHighAvailability(t *testing.T) {
	f := testFleet(t, onKind)
	app := f.createApp(t, "available", framework.Replicas(3))
	f.awaitReady(t, app, "north", "south", "east")
	t.Cleanup(func() { f.restartWith(t, 1) })

	t.Run("a killed leader is replaced when its Lease expires, without writes", func(t *testing.T) {
		f.restartWith(t, 2)
		f.awaitNoWrites(t)
		before, objects := f.countWrites(t), f.deployments(t, app)
		leader, holder := f.leader(t)
		signal(t, leader, syscall.SIGKILL)
		renewed, duration := f.lastRenewal(t)
		t.Logf("another leads after %s", framework.Round(f.awaitTakeover(t, holder)))
		if waited := f.lease(t).Spec.AcquireTime.Sub(renewed); waited < duration {
			t.Errorf("it took the Lease %s after the last renewal, before the Lease expired", waited)
		}
		f.AwaitLook(t)
		if diff := cmp.Diff(before, f.countWrites(t)); diff != "" {
			t.Errorf("the takeover wrote (-before +after):\n%s", diff)
		}
		f.EditApp(t, app, framework.AddEnv("KILLED", "yes"))
		f.awaitReady(t, app, "north", "south", "east")
		f.expectSameDeployments(t, app, objects)
	})

	t.Run("a stopped leader releases the Lease", func(t *testing.T) {
		f.restartWith(t, 2)
		leader, holder := f.leader(t)
		released := f.countReleases(t)
		signal(t, leader, syscall.SIGTERM)
		t.Logf("another leads after %s", framework.Round(f.awaitTakeover(t, holder)))
		if n := f.countReleases(t) - released; n != 1 {
			t.Errorf("the Lease was released %d times", n)
		}
		f.EditApp(t, app, framework.AddEnv("STOPPED", "yes"))
		f.awaitReady(t, app, "north", "south", "east")
	})

	t.Run("a frozen leader writes nothing when it resumes after a takeover", func(t *testing.T) {
		f.freezeLeader(t)
	})

	t.Run("no write has an older generation than the write before it", func(t *testing.T) {
		for name, member := range f.Members {
			if n := f.checkOrder(t, member); n == 0 {
				t.Errorf("no write to %s has a generation", name)
			}
		}
	})
}

// freezeLeader edits many AppServices, freezes the leader while it delivers the edits, lets its
// successor deliver more edits and a deletion, and resumes it.
func (f *fleet) freezeLeader(t *testing.T) {
	f.restartWith(t, 2)
	var apps []*v1alpha1.AppService
	for i := range 5 {
		apps = append(apps, f.createApp(t, fmt.Sprintf("frozen-%d", i), framework.Replicas(1)))
	}
	deleted := apps[0]
	for _, app := range apps {
		f.awaitReady(t, app, "north", "south", "east")
	}
	leader, holder := f.leader(t)
	for _, app := range apps {
		f.EditApp(t, app, framework.AddEnv("BEFORE", "yes"))
	}
	time.Sleep(rand.N(100 * time.Millisecond))
	signal(t, leader, syscall.SIGSTOP)
	frozen := time.Now()
	for _, app := range apps[1:] {
		f.EditApp(t, app, framework.AddEnv("FROZEN", "yes"))
	}
	t.Logf("another leads after %s", framework.Round(f.awaitTakeover(t, holder)))
	f.DeleteApp(t, deleted)
	objects := map[string]map[string]deploymentVersion{}
	for _, app := range apps[1:] {
		f.awaitReady(t, app, "north", "south", "east")
		objects[app.Name] = f.deployments(t, app)
	}
	f.awaitNoWrites(t)
	before, resumed := f.countSuccessfulWrites(t), time.Now()
	signal(t, leader, syscall.SIGCONT)
	t.Logf("resumed after %s", framework.Round(time.Since(frozen)))
	f.Eventually(t, "the resumed replica to exit", func(ctx context.Context) error {
		if leader.Signal(ctx, 0) == nil {
			return errors.New("its process exists")
		}
		return nil
	})
	f.AwaitLook(t) // the members have answered what it had sent
	if diff := cmp.Diff(before, f.countSuccessfulWrites(t)); diff != "" {
		t.Errorf("written after it resumed (-before +after):\n%s", diff)
		f.logWrites(t, resumed)
	}
	// None, if the leader was frozen between two writes.
	t.Logf("the fence refused %d writes", strings.Count(f.Operator.Log(), "fenced: "))
	for _, app := range apps[1:] {
		f.expectSameDeployments(t, app, objects[app.Name])
		if diff := cmp.Diff(objects[app.Name], f.deployments(t, app)); diff != "" {
			t.Errorf("the Deployments of %s changed after it resumed (-before +after):\n%s", app.Name, diff)
		}
	}
	for _, member := range f.Members {
		if err := checkRemoved(t.Context(), member, deleted); err != nil {
			t.Errorf("a deleted object is back: %v", err)
		}
	}
}

// countSuccessfulWrites is countWrites without failed requests. Of a request that the frozen leader
// had begun, the API server may have the header and never get the body.
func (f *fleet) countSuccessfulWrites(t *testing.T) writeCounts {
	t.Helper()
	counted := f.countWrites(t)
	for _, counts := range counted {
		maps.DeleteFunc(counts, func(what string, _ int) bool { return strings.HasSuffix(what, "(failed)") })
	}
	return counted
}

// logWrites logs the writes after a time.
func (f *fleet) logWrites(t *testing.T, since time.Time) {
	t.Helper()
	for name, c := range f.All() {
		for _, request := range requests(t, c) {
			if request.IsWrite() && request.Object.Resource != "leases" && request.At.After(since) {
				t.Logf("on %s: %s\n%s", name, &request, request.Body)
			}
		}
	}
}

// restartWith stops the operator, in any state, and starts replicas, of which one leads, with
// further arguments.
func (f *fleet) restartWith(t *testing.T, replicas int, args ...string) {
	t.Helper()
	ctx := context.Background()
	if err := f.Operator.Stop(ctx); err != nil {
		if err := f.Operator.Kill(ctx); err != nil {
			t.Fatal(err)
		}
	}
	started := time.Now()
	if err := f.startOperator(ctx, replicas, args...); err != nil {
		t.Fatal(err)
	}
	f.awaitLeader(t, started)
	for name := range f.Members {
		f.awaitMember(t, name)
	}
}

// leader returns the leading replica, and its name in the Lease.
func (f *fleet) leader(t *testing.T) (found environment.Replica, holder string) {
	t.Helper()
	f.Eventually(t, "one replica to lead", func(ctx context.Context) error {
		all, err := f.Operator.Replicas(ctx)
		if err != nil {
			return err
		}
		found = nil
		for _, replica := range all {
			metrics, err := replica.Metrics(ctx)
			if err != nil {
				return err
			}
			if isLeading(metrics) {
				found = replica
			}
		}
		if found == nil {
			return fmt.Errorf("none of %d replicas leads", len(all))
		}
		return nil
	})
	return found, f.holder(t)
}

var leadingMetric = regexp.MustCompile(`(?m)^leader_election_master_status\{.*\} 1$`)

// isLeading reports whether the metrics are those of a leader.
func isLeading(metrics []byte) bool { return leadingMetric.Match(metrics) }

func signal(t *testing.T, replica environment.Replica, signal syscall.Signal) {
	t.Helper()
	if err := replica.Signal(context.Background(), signal); err != nil {
		t.Fatal(err)
	}
}

// lease returns the Lease of the leader election.
func (f *fleet) lease(t *testing.T) *coordinationv1.Lease {
	t.Helper()
	lease := &coordinationv1.Lease{}
	if err := f.Hub.Client.Get(context.Background(), client.ObjectKey{Namespace: environment.SecretNamespace, Name: "fleetwright"}, lease); err != nil {
		t.Fatal(err)
	}
	return lease
}

// holder returns the holder of the Lease.
func (f *fleet) holder(t *testing.T) string {
	t.Helper()
	return ptr.Deref(f.lease(t).Spec.HolderIdentity, "")
}

// lastRenewal returns when the holder of the Lease has renewed it, and for how long.
func (f *fleet) lastRenewal(t *testing.T) (at time.Time, duration time.Duration) {
	t.Helper()
	spec := f.lease(t).Spec
	return spec.RenewTime.Time, time.Duration(*spec.LeaseDurationSeconds) * time.Second
}

// countReleases returns how often the operator has written the Lease without a holder.
func (f *fleet) countReleases(t *testing.T) (n int) {
	t.Helper()
	for _, request := range requests(t, f.Hub) {
		lease := &coordinationv1.Lease{}
		if request.Object.Resource == "leases" && request.Verb == "update" && request.HasSucceeded() &&
			json.Unmarshal(request.Body, lease) == nil && ptr.Deref(lease.Spec.HolderIdentity, "") == "" {
			n++
		}
	}
	return n
}

// awaitTakeover waits until another replica holds the Lease.
func (f *fleet) awaitTakeover(t *testing.T, from string) time.Duration {
	t.Helper()
	return f.Eventually(t, "another replica to hold the Lease", func(context.Context) error {
		if now := f.holder(t); now == "" || now == from {
			return fmt.Errorf("%q holds the Lease", now)
		}
		return nil
	})
}

// deploymentVersion identifies a Deployment and the version of its spec.
type deploymentVersion struct {
	UID        types.UID
	Generation int64
}

// deployments returns the versions of an AppService's Deployments by member.
func (f *fleet) deployments(t *testing.T, app *v1alpha1.AppService) map[string]deploymentVersion {
	t.Helper()
	found := map[string]deploymentVersion{}
	for name, member := range f.Members {
		deployment, err := member.Deployment(t.Context(), app)
		if err != nil {
			t.Fatal(err)
		}
		found[name] = deploymentVersion{deployment.UID, deployment.Generation}
	}
	return found
}

// expectSameDeployments fails the test if a Deployment was recreated.
func (f *fleet) expectSameDeployments(t *testing.T, app *v1alpha1.AppService, before map[string]deploymentVersion) {
	t.Helper()
	for name, after := range f.deployments(t, app) {
		if after.UID != before[name].UID {
			t.Errorf("%s: the Deployment %s was recreated", name, app.Name)
		}
	}
}

// checkOrder fails the test if a write to a member's object has an older generation than the write
// before it. It returns the number of writes that have a generation.
func (f *fleet) checkOrder(t *testing.T, member *framework.Cluster) (checked int) {
	t.Helper()
	last := map[string]int64{}
	for _, request := range requests(t, member) {
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
			t.Errorf("%s: a write has generation %d after %d: %s", member.Name(), generation, last[key], &request)
		}
		last[key] = generation
	}
	return checked
}
