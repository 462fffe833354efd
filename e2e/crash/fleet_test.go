package crash

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/environment"
	"github.com/fleetwright/fleetwright/e2e/environment/kwok"
)

// members are the names of the members, sorted; a flag adds to them.
var members = []string{"east", "north", "south"}

// shipped is the directory of the manifests.
const shipped = "../../config"

// fleet is the hub, its members, the operator and the proxy between them.
type fleet struct {
	env    *kwok.Environment
	hub    client.Client // as a person has it: past the proxy
	api    map[string]client.Client
	front  []byte // the kubeconfig of the hub that the operator has
	proxy  *proxy
	ledger *ledger

	mu       sync.Mutex
	operator environment.Operator
	started  int // operators, in all
	next     int // the number of the next AppService
}

// prepareFleet returns one that nothing was made of yet, and takes away what an earlier run has left.
func prepareFleet(ctx context.Context) (*fleet, error) {
	env, err := kwok.New(kwok.Options{Dir: *dirFlag, Bin: *binFlag, Config: shipped})
	if err != nil {
		return nil, err
	}
	f := &fleet{env: env, api: map[string]client.Client{}, ledger: &ledger{}}
	return f, errors.Join(env.CheckPrograms(), env.Lock(), env.Clean(ctx))
}

// setUp makes the clusters and starts the operator.
func (f *fleet) setUp(ctx context.Context) error {
	made, err := environment.CreateAll(ctx, f.env, append([]string{hubName}, members...)...)
	if err != nil {
		return err
	}
	for _, c := range made {
		if f.api[c.Name()], err = environment.NewClient(c.Kubeconfig()); err != nil {
			return err
		}
	}
	f.hub = f.api[hubName]
	if err := environment.PrepareHub(ctx, f.hub, shipped+"/crd/bases"); err != nil {
		return err
	}
	kubeconfigs := map[string][]byte{}
	if kubeconfigs[hubName], err = environment.OperatorKubeconfig(ctx, made[0].Kubeconfig(), shipped); err != nil {
		return err
	}
	for _, member := range made[1:] {
		if kubeconfigs[member.Name()], err = member.MemberKubeconfig(ctx); err != nil {
			return err
		}
	}
	if f.proxy, err = newProxy(ctx, kubeconfigs, f.api, f.ledger, f.kill); err != nil {
		return err
	}
	for _, name := range members {
		kubeconfig, err := f.proxy.kubeconfig(name)
		if err != nil {
			return err
		}
		if err := environment.JoinWith(ctx, f.hub, name, kubeconfig, nil); err != nil {
			return err
		}
	}
	if f.front, err = f.proxy.kubeconfig(hubName); err != nil {
		return err
	}
	if err := f.start(ctx); err != nil {
		return err
	}
	return environment.Await(ctx, patience, "the members to be Ready", f.membersReady)
}

func (f *fleet) membersReady(ctx context.Context) error {
	list := &v1alpha1.MemberClusterList{}
	if err := f.hub.List(ctx, list); err != nil {
		return err
	}
	var ready []string
	for i := range list.Items {
		if list.Items[i].IsReady() {
			ready = append(ready, list.Items[i].Name)
		}
	}
	if slices.Sort(ready); !slices.Equal(ready, members) {
		return fmt.Errorf("only %v are Ready", ready)
	}
	return nil
}

// start starts the operator, and waits until it has every member's Deployments and Services before its eyes.
func (f *fleet) start(ctx context.Context) error {
	f.proxy.thaw()
	begun := time.Now()
	operator, err := f.env.StartOperatorWith(ctx, f.front, 1, "--leader-elect=false")
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.operator = operator
	f.started++
	f.mu.Unlock()
	return environment.Await(ctx, patience, "the operator to watch all members", func(context.Context) error {
		return f.proxy.watches(begun)
	})
}

// kill ends the operator as a crash does.
func (f *fleet) kill() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.operator == nil {
		return errors.New("there is no operator to kill")
	}
	return f.operator.Kill(context.Background())
}

// restart kills the operator, if it lives, and starts it again.
func (f *fleet) restart(ctx context.Context) error {
	if err := f.kill(); err != nil {
		return err
	}
	return f.start(ctx)
}

// clean ends and removes all of it.
func (f *fleet) clean() {
	if err := f.env.Clean(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "crash: clean up:", err)
	}
}
