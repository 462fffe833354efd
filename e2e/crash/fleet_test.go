package crash

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/fleetwright/fleetwright/controllers/entries/appslice"
	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/e2e/ledger"
	"github.com/fleetwright/fleetwright/internal/environment"
	"github.com/fleetwright/fleetwright/internal/environment/kwok"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// members are the names of the members, sorted. A flag adds to them.
var members = []string{"east", "north", "south"}

// fleet is a fleet with a proxy between the operator and the clusters. The clients of the tests do
// not use the proxy.
type fleet struct {
	*framework.Fleet

	env           *kwok.Environment
	hubKubeconfig []byte // the operator's, through the proxy
	proxy         *proxy
	ledger        *ledger.Ledger

	mu      sync.Mutex // guards Operator and the fields below
	started int        // number of operators started
	next    int        // number of the next AppService
}

// sliceThreshold returns the number of entries above which the operator stores them in slices.
func sliceThreshold() int {
	if useSlices {
		return len(members) - 1
	}
	return appslice.DefaultThreshold
}

// newFleet creates the clusters, joins the members through the proxy and starts the operator.
func newFleet(ctx context.Context, env *kwok.Environment) (*fleet, error) {
	created, err := framework.New(ctx, env, members...)
	if err != nil {
		return nil, err
	}
	f := &fleet{Fleet: created, env: env, ledger: &ledger.Ledger{}}
	if err := environment.PrepareHub(ctx, f.Hub.Client, config+"/crd/bases"); err != nil {
		return nil, err
	}
	kubeconfigs := map[string][]byte{}
	if kubeconfigs[hubName], err = environment.OperatorKubeconfig(ctx, f.Hub.Kubeconfig(), config); err != nil {
		return nil, err
	}
	for name, member := range f.Members {
		if kubeconfigs[name], err = member.MemberKubeconfig(ctx); err != nil {
			return nil, err
		}
	}
	// The proxy serves as long as the process runs.
	if f.proxy, err = newProxy(context.WithoutCancel(ctx), kubeconfigs, f.Members, f.ledger, f.kill); err != nil {
		return nil, err
	}
	for name := range f.Members {
		kubeconfig, err := f.proxy.kubeconfig(name)
		if err != nil {
			return nil, err
		}
		if err := environment.JoinWith(ctx, f.Hub.Client, name, kubeconfig, nil); err != nil {
			return nil, err
		}
	}
	if f.hubKubeconfig, err = f.proxy.kubeconfig(hubName); err != nil {
		return nil, err
	}
	if err := f.start(ctx); err != nil {
		return nil, err
	}
	return f, environment.Await(ctx, wait.Patience, "the members to be Ready", func(ctx context.Context) error {
		return f.CheckMembersReady(ctx, members...)
	})
}

// start starts the operator, and waits until it watches the Deployments and Services of every
// member.
func (f *fleet) start(ctx context.Context) error {
	f.proxy.unfreeze()
	begin := time.Now()
	operator, err := f.env.StartOperatorWith(ctx, f.hubKubeconfig, 1, "--leader-elect=false", environment.Propagate, fmt.Sprintf("--slice-threshold=%d", sliceThreshold()))
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.Operator = operator
	f.started++
	f.mu.Unlock()
	return environment.Await(ctx, wait.Patience, "the operator to watch all members", func(context.Context) error {
		return f.proxy.checkWatches(begin)
	})
}

// kill kills the operator, as a crash does.
func (f *fleet) kill() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Operator == nil {
		return errors.New("there is no operator to kill")
	}
	return f.Operator.Kill(context.Background())
}

// restart kills the operator, if it runs, and starts it again.
func (f *fleet) restart(ctx context.Context) error {
	if err := f.kill(); err != nil {
		return err
	}
	return f.start(ctx)
}
