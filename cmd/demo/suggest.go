package main

import (
	"fmt"
	"path/filepath"

	"github.com/fleetwright/fleetwright/internal/environment"
)

// suggest prints what to try next. e2e/demo runs all of it.
func (d *demo) suggest() {
	kubeconfig, err := filepath.Abs(d.contexts())
	if err != nil {
		kubeconfig = d.contexts()
	}
	kubectl := filepath.Join(d.bin, "kubectl")
	fmt.Printf(`
Next steps:

  export KUBECONFIG=%[1]s   # a context for each cluster; hub is the current one

  %[2]s scale appservice web --replicas=5       # on every member
  %[8]s status web --watch
  %[8]s why web                          # why it runs on which member
  %[8]s events web                       # of the hub and of all members
  %[8]s logs web                         # of all members
  %[8]s doctor %[4]s                     # the connection to a member, step by step
  %[8]s ui                               # a page of the fleet, for your browser

  # an image that does not exist: status shows ImagePullBackOff, and the old pods continue to run
  %[2]s patch appservice web --type=merge -p '{"spec":{"image":"nginx:doesnotexist"}}'
  %[8]s rollout undo web

  # with spec.rollout, it reaches one cluster, and is rolled back after some 25 seconds
  %[2]s patch appservice web --type=merge -p '{"spec":{"progressDeadlineSeconds":10,"rollout":{"minReadySeconds":2,"progressDeadlineSeconds":15}}}'
  %[2]s patch appservice web --type=merge -p '{"spec":{"image":"nginx:bad"}}'

  %[6]s stop north    # a member fails: it becomes Unknown, the others are not affected
  %[6]s start north   # it comes back and gets all changes
  %[6]s add west      # a fourth member: the AppService is delivered to it
  %[2]s delete secret west -n %[3]s  # it becomes Detached; its workload stays

  %[2]s get deployments,services,pods --context %[4]s   # the objects on a member
  %[5]s                          # the operator's log

  make %[7]s-down
`, kubeconfig, kubectl, environment.SecretNamespace, d.initial[len(d.initial)/2], d.follow, d.command, d.target, d.plugin())
	if d.simulated {
		fmt.Print(`
The nodes and pods are simulated; all else is real. Every image starts, except those with the tag
doesnotexist or bad. The log of each pod is one line that says so.
`)
	}
}

// plugin returns the command line of kubectl appsvc.
func (d *demo) plugin() string { return filepath.Join(d.bin, "kubectl-appsvc") }
