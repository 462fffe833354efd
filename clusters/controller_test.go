package clusters_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	mcbuilder "sigs.k8s.io/multicluster-runtime/pkg/builder"
	mccontroller "sigs.k8s.io/multicluster-runtime/pkg/controller"
	mcmanager "sigs.k8s.io/multicluster-runtime/pkg/manager"
	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
	mcreconcile "sigs.k8s.io/multicluster-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// stockController is a controller of multicluster-runtime, as its builder makes it. It reads each
// Deployment that it is asked to reconcile from the Cluster that the Provider returns.
type stockController struct {
	mu   sync.Mutex
	read map[mcreconcile.Request]int
}

func (c *stockController) addTo(m mcmanager.Manager) error {
	c.read = map[mcreconcile.Request]int{}
	reconcile := func(ctx context.Context, request mcreconcile.Request) (ctrl.Result, error) {
		member, err := m.GetCluster(ctx, request.ClusterName)
		if err != nil {
			return ctrl.Result{}, err
		}
		if err := member.GetClient().Get(ctx, request.NamespacedName, &appsv1.Deployment{}); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.read[request]++
		return ctrl.Result{}, nil
	}
	again := mccontroller.Options{SkipNameValidation: new(true)} // this process runs several operators
	return mcbuilder.ControllerManagedBy(m).For(&appsv1.Deployment{}).WithOptions(again).Complete(mcreconcile.Func(reconcile))
}

// expectRead waits until the controller has read a Deployment of a member.
func (c *stockController) expectRead(t *testing.T, m *testMember, name string) {
	t.Helper()
	wait.Eventually(t, func() error {
		if c.reads(m, name) == 0 {
			return fmt.Errorf("the controller has not read %s of %s", name, m.name)
		}
		return nil
	})
}

// faultyAware is a controller whose Engage does what a test says, for each member.
type faultyAware struct {
	mu     sync.Mutex
	engage map[multicluster.ClusterName]func(cluster.Cluster) error
}

func (a *faultyAware) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (a *faultyAware) Engage(_ context.Context, name multicluster.ClusterName, member cluster.Cluster) error {
	a.mu.Lock()
	engage := a.engage[name]
	a.mu.Unlock()
	if engage == nil {
		return nil
	}
	return engage(member)
}

func (a *faultyAware) set(m *testMember, engage func(cluster.Cluster) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.engage == nil {
		a.engage = map[multicluster.ClusterName]func(cluster.Cluster) error{}
	}
	a.engage[multicluster.ClusterName(m.name)] = engage
}

// controlledOperator is an operator with a stock controller. One controller is engaged before it and
// one after it.
type controlledOperator struct {
	*operator
	stock         stockController
	before, after faultyAware
}

func newControlledOperator(t *testing.T, env *testEnv, namespace string, connectTimeout time.Duration) *controlledOperator {
	t.Helper()
	o := &controlledOperator{}
	o.operator = env.newOperator(t, namespace, func(with *setup) {
		with.ConnectTimeout, with.DirectHandlers = connectTimeout, false
		with.addControllers = func(m mcmanager.Manager) error {
			return errors.Join(m.Add(&o.before), o.stock.addTo(m), m.Add(&o.after))
		}
	})
	return o
}

// A request that comes while a member is being engaged is not lost: multicluster-runtime drops one
// whose Cluster is not found.
func TestProvider_answers_the_first_requests_of_a_controller(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	o := newControlledOperator(t, env, "fleet-first-requests", time.Hour)
	m := env.newMember(t, o.operator, "first-requests")
	m.createDeployment(t, "existing")
	block := make(chan struct{})
	o.after.set(m, func(cluster.Cluster) error { <-block; return nil })
	m.createSecret(t, m.kubeconfig(t))
	o.stock.expectRead(t, m, "existing") // the engagement has not returned
	close(block)
	m.waitForEngagement(t, 1)
}

// A controller that has moved to the next session of a member moves back if that session does not
// become the current one.
func TestController_goes_on_when_the_next_session_of_its_member_fails(t *testing.T) {
	t.Parallel()
	fail := func() error { return errors.New("the disk is full") }
	late, blocks := make(chan struct{}), atomic.Bool{}
	blocks.Store(true)
	tests := map[string]struct {
		// before and after are what the controllers before and after it do with the next session.
		before, after func() error
		message       string
		release       func()
	}{
		"with an error": {after: fail, message: "engage: the disk is full"},
		"with a panic":  {after: func() error { panic("a bug") }, message: "engage: a controller panicked"},
		"in time":       {after: func() error { select {} }, message: "engage: timed out"},
		"in time, and comes late to the controller": {
			before: func() error {
				if blocks.Swap(false) {
					<-late
					return nil
				}
				return fail()
			},
			message: "engage: timed out",
			release: func() { close(late) },
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := sharedEnv(t)
			id := strings.NewReplacer(" ", "-", ",", "").Replace(name)
			o := newControlledOperator(t, env, "fleet-fails-"+id, 5*time.Second)
			m := env.newMember(t, o.operator, "fails-"+id)
			e, first := m.join(t), m.link
			for aware, engage := range map[*faultyAware]func() error{&o.before: tt.before, &o.after: tt.after} {
				if engage != nil {
					aware.set(m, func(c cluster.Cluster) error {
						if c == e.cluster {
							return nil
						}
						return engage()
					})
				}
			}
			m.changeAddress(t)
			m.replaceKubeconfig(t, m.kubeconfig(t))
			m.waitForCredentialsMessage(t, tt.message)
			if tt.release != nil {
				m.link = first
				m.replaceKubeconfig(t, m.kubeconfig(t))
				m.waitForConditions(t, summaryConnected) // no other attempt follows
				tt.release()
			}
			m.checkContinues(t, e)
			m.createDeployment(t, "after-"+id)
			o.stock.expectRead(t, m, "after-"+id)
			m.checkContinues(t, e)
		})
	}
}

// A session that a controller cannot be engaged with again ends: the controller may not watch its
// member any more.
func TestSession_that_cannot_be_engaged_again_ends(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	o := newControlledOperator(t, env, "fleet-engages-not-again", 5*time.Second)
	m := env.newMember(t, o.operator, "engages-not-again")
	e := m.join(t)
	o.after.set(m, func(cluster.Cluster) error { return errors.New("the disk is full") })
	m.changeAddress(t)
	m.replaceKubeconfig(t, m.kubeconfig(t))
	m.waitForEnd(t, e)
	m.waitForMessage(t, "engage")
	m.checkNoCluster(t)
	o.after.set(m, nil)
	m.waitForEngagement(t, 2)
	m.createDeployment(t, "engaged-again")
	o.stock.expectRead(t, m, "engaged-again")
}

// waitForCredentialsMessage waits until the message of CredentialsValid contains this.
func (m *testMember) waitForCredentialsMessage(t *testing.T, what string) {
	t.Helper()
	wait.Eventually(t, func() error {
		c := meta.FindStatusCondition(m.memberCluster(t).Status.Conditions, v1alpha1.ConditionCredentialsValid)
		if c == nil || !strings.Contains(c.Message, what) {
			return fmt.Errorf("%s: the condition CredentialsValid is %+v, want message %q", m.name, c, what)
		}
		return nil
	})
}

// A controller that cannot be engaged with one member costs that member only, and is engaged with it
// once it can be.
func TestController_that_fails_for_a_member_costs_no_other(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	o := newControlledOperator(t, env, "fleet-fails-for-one", 5*time.Second)
	good, bad := env.newMember(t, o.operator, "engaged-well"), env.newMember(t, o.operator, "engaged-badly")
	for name, engage := range map[string]func(cluster.Cluster) error{
		"engage: the disk is full":           func(cluster.Cluster) error { return errors.New("the disk is full") },
		"engage: a controller panicked; the": func(cluster.Cluster) error { panic("a bug") },
	} {
		o.before.set(bad, engage)
		bad.deleteSecret(t)
		bad.createSecret(t, bad.kubeconfig(t))
		bad.waitForMessage(t, name)
		bad.checkNoCluster(t)
	}
	good.join(t)
	good.createDeployment(t, "engaged-well")
	o.stock.expectRead(t, good, "engaged-well")
	o.before.set(bad, nil)
	bad.waitForEngagement(t, 1)
	bad.createDeployment(t, "engaged-badly")
	o.stock.expectRead(t, bad, "engaged-badly")
}

// An operator that ends does not wait for a controller that blocks.
func TestEnd_of_the_operator_does_not_wait_for_an_engagement(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	o := newControlledOperator(t, env, "fleet-ends-in-engage", time.Hour)
	m := env.newMember(t, o.operator, "ends-in-engage")
	called, block := make(chan struct{}), make(chan struct{})
	defer close(block)
	o.before.set(m, func(cluster.Cluster) error { close(called); <-block; return nil })
	m.createSecret(t, m.kubeconfig(t))
	<-called
	o.resign()
	wait.Receive(t, o.ended, "the end of the manager")
	m.checkNoCluster(t)
}

// Many members may join at once. A controller gets the objects of each of them. With FLEETWRIGHT_LONG=1 in
// the environment, 200 join.
func TestController_gets_many_members_that_join_at_once(t *testing.T) {
	t.Parallel()
	count := 50
	if os.Getenv("FLEETWRIGHT_LONG") != "" {
		count = 200
	}
	env := sharedEnv(t)
	o := newControlledOperator(t, env, "fleet-many-at-once", time.Minute)
	members := make([]*testMember, count)
	for i := range members {
		members[i] = env.newMember(t, o.operator, fmt.Sprintf("one-of-many-%d", i))
	}
	members[0].createDeployment(t, "on-each-of-many") // all of them have the same API server
	for _, m := range members {
		m.createSecret(t, m.kubeconfig(t))
	}
	for _, m := range members {
		o.stock.expectRead(t, m, "on-each-of-many")
	}
}

// Nothing of a member is left after it is gone: no connection, and no goroutine but one for each watch that
// multicluster-runtime keeps until its controller ends (startWithinContext). This test does not run in
// parallel with others, because it counts goroutines of the process.
func TestController_leaves_nothing_of_a_member_that_is_gone(t *testing.T) {
	const rounds = 10
	env := sharedEnv(t)
	o := newControlledOperator(t, env, "fleet-leaves-nothing", time.Minute)
	m := env.newMember(t, o.operator, "leaves-nothing")
	m.createDeployment(t, "leaves-nothing")
	joinAndLeave := func(times int) {
		m.createSecret(t, m.kubeconfig(t))
		e := m.waitForEngagement(t, times)
		o.stock.expectRead(t, m, "leaves-nothing")
		m.deleteSecret(t)
		m.waitForEnd(t, e)
		m.waitForConditions(t, summarySecretMissing)
	}
	joinAndLeave(1)
	before := operatorGoroutines()
	for i := range rounds {
		joinAndLeave(2 + i)
	}
	wait.Eventually(t, func() error {
		if _, open := m.link.connectionCounts(); open > 0 {
			return fmt.Errorf("%d connections are open", open)
		}
		for creator, count := range operatorGoroutines() {
			most := before[creator] + rounds/2
			if strings.Contains(creator, "multicluster-runtime/pkg/controller.") {
				most += rounds // one for the watch of Deployments
			}
			if count > most {
				return fmt.Errorf("%d goroutines were created by %s after the member left %d times, %d before", count, creator, rounds, before[creator])
			}
		}
		return nil
	})
}

// operatorGoroutines returns how many goroutines the operator and its libraries have created, by creator.
func operatorGoroutines() map[string]int {
	var stacks bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&stacks, 2) // a buffer takes all
	counts := map[string]int{}
	for stack := range strings.SplitSeq(stacks.String(), "\n\n") {
		_, creator, _ := strings.Cut(stack, "created by ")
		creator, _, _ = strings.Cut(creator, " in goroutine")
		ours := slices.ContainsFunc([]string{"k8s.io/client-go/", "sigs.k8s.io/", "fleetwright/clusters."}, func(path string) bool { return strings.Contains(creator, path) })
		if ours {
			counts[creator]++
		}
	}
	return counts
}
