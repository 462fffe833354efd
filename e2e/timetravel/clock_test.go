package timetravel

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/internal/environment"
)

// TestClock runs an operator whose clock is an hour ahead, and then one with the right clock, which
// is an hour behind what the hub has from the other. An operator whose clock is behind that of the
// hub by more than the age of the hub's certificate cannot connect to the hub at all.
func TestClock(t *testing.T) {
	if !*clockFlag {
		t.Skip("-clock is not set")
	}
	f := newFleet(t, "north", "south")
	f.startOperator(t, 0)
	f.Join(t, "north", nil)
	f.Join(t, "south", nil)
	c := &clockFleet{fleet: f}
	c.steady = f.create(t, "steady")
	c.moving = f.create(t, "moving", framework.OnClusters("north"))
	f.awaitReady(t, []*v1alpha1.AppService{c.steady}, "north", "south")
	f.awaitReady(t, []*v1alpha1.AppService{c.moving}, "north")
	for _, step := range []struct {
		name string
		do   func(*testing.T)
	}{
		{"an operator an hour ahead changes nothing at rest, and delivers an edit", c.startAhead},
		{"an operator an hour behind the status does the same", c.startBehind},
		{"a Secret that was gone for a moment seems to be gone for an hour", c.loseSecret},
	} {
		if !t.Run(step.name, step.do) {
			return
		}
	}
}

// clockFleet is a fleet with two AppServices.
type clockFleet struct {
	*fleet

	steady, moving *v1alpha1.AppService
}

// startOperator starts an operator whose clock is off, instead of the running one.
func (f *fleet) startOperator(t *testing.T, offset time.Duration) {
	t.Helper()
	if f.Operator != nil {
		if err := f.Operator.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(offsetVariable, strconv.Itoa(int(offset.Seconds())))
	if err := f.StartOperator(t.Context(), 1, "--leader-elect=false", "--member-probe-interval=2s"); err != nil {
		t.Fatal(err)
	}
}

// restart starts an operator at rest, and fails the test if it writes on a member.
func (c *clockFleet) restart(t *testing.T, offset time.Duration) {
	t.Helper()
	before := c.countWrites(t)
	c.startOperator(t, offset)
	c.Eventually(t, "the members to be Ready", func(ctx context.Context) error {
		return c.CheckMembersReady(ctx, c.MemberNames()...)
	})
	c.AwaitLook(t)
	if after := c.countWrites(t); after != before {
		t.Errorf("the operator wrote %d times on members at rest", after-before)
	}
}

func (c *clockFleet) countWrites(t *testing.T) (n int) {
	t.Helper()
	for _, member := range c.Members {
		requests, err := member.Requests(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for i := range requests {
			if requests[i].IsWrite() {
				n++
			}
		}
	}
	return n
}

// edit edits both AppServices, and checks that nothing is deleted except by the new placement.
func (c *clockFleet) edit(t *testing.T, image, from, to string) {
	t.Helper()
	before, deletions := c.inventory(t), c.countDeletions(t)
	c.EditApp(t, c.steady, framework.Image(image))
	c.EditApp(t, c.moving, framework.OnClusters(to))
	c.awaitReady(t, []*v1alpha1.AppService{c.steady}, "north", "south")
	c.awaitReady(t, []*v1alpha1.AppService{c.moving}, to)
	delete(before[from], c.moving.Name)
	c.expectKept(t, before)
	deletions[from] += 2 // the Deployment and the Service
	c.expectNoDeletion(t, deletions)
}

func (c *clockFleet) startAhead(t *testing.T) {
	c.restart(t, time.Hour)
	c.edit(t, "web:2", "north", "south")
	current, err := c.ReadApp(t.Context(), c.moving)
	if err != nil {
		t.Fatal(err)
	}
	if at := current.Status.Cluster("south").LastTransitionTime; time.Until(at.Time) < 30*time.Minute {
		t.Fatalf("the operator's clock is not ahead: it wrote the time %s", at)
	}
}

func (c *clockFleet) startBehind(t *testing.T) {
	c.restart(t, 0)
	c.edit(t, "web:3", "south", "north")
}

// loseSecret deletes a Secret, and starts an operator an hour ahead. For this operator the time in
// which a MemberCluster waits for its Secret has passed, so it deletes the MemberCluster. The
// workload stays, and is taken over when the member joins again.
func (c *clockFleet) loseSecret(t *testing.T) {
	before, deletions := c.inventory(t), c.countDeletions(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: environment.SecretNamespace, Name: "south"}}
	if err := c.Hub.Client.Delete(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	member := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "south"}}
	c.Eventually(t, "MemberCluster south to lack its Secret", func(ctx context.Context) error {
		if err := c.Hub.Client.Get(ctx, client.ObjectKeyFromObject(member), member); err != nil {
			return err
		}
		if member.Status.SecretMissingSince == nil {
			return fmt.Errorf("its status is %+v", member.Status)
		}
		return nil
	})
	c.startOperator(t, time.Hour)
	c.Eventually(t, "MemberCluster south to be gone", func(ctx context.Context) error { return c.Hub.CheckAbsent(ctx, member) })
	c.Join(t, "south", nil)
	c.awaitReady(t, []*v1alpha1.AppService{c.steady}, "north", "south")
	c.expectKept(t, before)
	c.expectNoDeletion(t, deletions)
}
