package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/environment"
)

// sampleKey is the AppService in the sample file.
var sampleKey = client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "web"}

// up starts the demo, or the missing parts of it.
func (d *demo) up(ctx context.Context) error {
	start := time.Now()
	if err := d.env.CheckPrograms(); err != nil {
		return err
	}
	if err := d.clusters(ctx); err != nil {
		return err
	}
	if err := d.writeKubeconfigs(); err != nil {
		return err
	}
	if err := d.image(ctx); err != nil {
		return err
	}
	hub, err := d.hub(ctx)
	if err != nil {
		return err
	}
	if err := step("CRDs on the hub", func() error { return environment.PrepareHub(ctx, hub, crds) }); err != nil {
		return err
	}
	if err := d.operator(ctx); err != nil {
		return err
	}
	if err := d.join(ctx, hub); err != nil {
		return err
	}
	if err := d.app(ctx, hub); err != nil {
		return err
	}
	fmt.Printf("\nThe demo is ready after %s.\n\n", seconds(time.Since(start)))
	if err := d.show(ctx); err != nil {
		return err
	}
	d.suggest()
	return nil
}

// clusters keeps the ready clusters of an earlier run, starts the others and creates missing ones.
// If a cluster cannot be started, it removes all of them, because the hub and its members belong
// together.
func (d *demo) clusters(ctx context.Context) error {
	earlier, err := d.env.Clusters()
	if err != nil {
		return err
	}
	for _, cluster := range earlier {
		if cluster.Ready(ctx) == nil {
			say("cluster %s runs already", cluster.Name())
			continue
		}
		err := step("start cluster "+cluster.Name()+" of an earlier run", func() error { return cluster.Start(ctx) })
		if ctx.Err() != nil {
			return err
		}
		if err != nil {
			say("%v\nThe earlier run cannot be repaired. It is removed.", err)
			if err := d.down(ctx); err != nil {
				return err
			}
			earlier = nil
			break
		}
	}
	missing := slices.DeleteFunc(append([]string{hubName}, members...), func(name string) bool {
		return slices.Contains(names(earlier), name)
	})
	if len(missing) == 0 {
		return nil
	}
	return step("create clusters "+strings.Join(missing, ", "), func() error { return d.create(ctx, missing...) })
}

// operator runs the last build of the operator.
func (d *demo) operator(ctx context.Context) error {
	running, err := d.env.Operator()
	if err != nil {
		return err
	}
	if running != nil && d.env.IsOperatorCurrent() {
		say("the operator runs already")
		return nil
	}
	if running != nil {
		if err := step("stop the operator, which is not the last build", func() error { return running.Stop(ctx) }); err != nil {
			return err
		}
	}
	hub, err := d.cluster(hubName)
	if err != nil {
		return err
	}
	return step("start the operator", func() error {
		_, err := d.env.StartOperator(ctx, hub, 1, environment.Propagate)
		return err
	})
}

// join creates a Secret on the hub for each cluster, and waits until all members are Ready.
func (d *demo) join(ctx context.Context, hub client.Client) error {
	clusters, err := d.members()
	if err != nil {
		return err
	}
	for _, cluster := range clusters {
		if err := environment.Join(ctx, hub, cluster, labelsOf(cluster.Name())); err != nil {
			return err
		}
	}
	return d.explain(step("join members "+strings.Join(names(clusters), ", "), func() error {
		return environment.Await(ctx, time.Minute, "every member to be Ready", func(ctx context.Context) error {
			var waiting []error
			for _, cluster := range clusters {
				member := &v1alpha1.MemberCluster{}
				if err := hub.Get(ctx, client.ObjectKey{Name: cluster.Name()}, member); err != nil {
					waiting = append(waiting, err)
				} else if !member.IsReady() {
					waiting = append(waiting, fmt.Errorf("%s: %s", member.Name, conditions(member.Status.Conditions)))
				}
			}
			return errors.Join(waiting...)
		})
	}))
}

// app applies the sample, unless it exists and may have been edited, and waits until it is Ready.
func (d *demo) app(ctx context.Context, hub client.Client) error {
	err := hub.Get(ctx, sampleKey, &v1alpha1.AppService{})
	switch {
	case apierrors.IsNotFound(err):
		say("AppService %s, from %s", sampleKey.Name, sample)
		if err := environment.ApplyFile(ctx, hub, sample); err != nil {
			return err
		}
	case err != nil:
		return fmt.Errorf("get AppService %s: %w", sampleKey, err)
	default:
		say("AppService %s exists already", sampleKey.Name)
	}
	return d.awaitSample(ctx, hub)
}

// awaitSample waits until the sample is Ready, and shows on how many clusters it is ready.
func (d *demo) awaitSample(ctx context.Context, hub client.Client) error {
	start, shown := time.Now(), ""
	return d.explain(environment.Await(ctx, time.Minute, "AppService "+sampleKey.String()+" to be Ready", func(ctx context.Context) error {
		app := &v1alpha1.AppService{}
		if err := hub.Get(ctx, sampleKey, app); err != nil {
			return err
		}
		if display := app.Status.Summary.Display; display != "" && display != shown {
			shown = display
			say("  %s clusters ready after %s", display, seconds(time.Since(start)))
		}
		ready := meta.FindStatusCondition(app.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != app.Generation {
			return errors.New(conditions(app.Status.Conditions))
		}
		return nil
	}))
}

// awaitCluster waits until the sample is Ready on one cluster.
func (d *demo) awaitCluster(ctx context.Context, hub client.Client, cluster string) error {
	return step("AppService "+sampleKey.Name+" on "+cluster, func() error {
		return environment.Await(ctx, 20*time.Second, "it to run there", func(ctx context.Context) error {
			app := &v1alpha1.AppService{}
			if err := hub.Get(ctx, sampleKey, app); err != nil {
				return err
			}
			c := app.Status.Cluster(cluster)
			if c == nil {
				return fmt.Errorf("status.clusters has no entry for %s", cluster)
			}
			if c.Phase != v1alpha1.ClusterReady {
				return fmt.Errorf("the entry is %s (%s: %s)", c.Phase, c.Reason, c.Message)
			}
			return nil
		})
	})
}

// explain adds the end of the operator's log to an error.
func (d *demo) explain(err error) error {
	operator, findErr := d.env.Operator()
	switch {
	case err == nil:
		return nil
	case operator == nil || findErr != nil:
		return fmt.Errorf("%w\nThe operator is not running; see %s", err, filepath.Join(d.dir, "operator.log"))
	default:
		return fmt.Errorf("%w\nThe last lines of the operator's log:\n%s", err, environment.Tail(operator.Log(), 10))
	}
}

// show prints the AppServices and MemberClusters with kubectl.
func (d *demo) show(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, filepath.Join(d.bin, "kubectl"), "get", "appservices,memberclusters", "--kubeconfig", d.kubeconfig(hubName))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("kubectl get: %w", err)
	}
	return nil
}

func (d *demo) suggest() {
	hub, err := filepath.Abs(d.kubeconfig(hubName))
	if err != nil {
		hub = d.kubeconfig(hubName)
	}
	kubectl := filepath.Join(d.bin, "kubectl")
	fmt.Printf(`
Next steps:

  export KUBECONFIG=%[1]s

  %[2]s scale appservice web --replicas=5       # on every member
  %[8]s status web --watch
  %[8]s why web                          # why it runs on which member
  %[8]s ui                               # a page of the fleet, for your browser

  %[6]s stop north    # a member fails: it becomes Unknown, the others are not affected
  %[6]s start north   # it comes back and gets all changes
  %[6]s add west      # a fourth member: the AppService is delivered to it
  %[2]s delete secret west -n %[3]s  # it becomes Detached; its workload stays

  %[2]s get deployments,services,pods --kubeconfig %[4]s   # the objects on a member
  %[5]s                          # the operator's log

  make %[7]s-down
`, hub, kubectl, environment.SecretNamespace, d.kubeconfig("south"), d.follow, d.command, d.target, filepath.Join(d.bin, "kubectl-appsvc"))
}

func conditions(all []metav1.Condition) string {
	if len(all) == 0 {
		return "no conditions yet"
	}
	var texts []string
	for _, c := range all {
		texts = append(texts, fmt.Sprintf("%s=%s (%s: %s)", c.Type, c.Status, c.Reason, c.Message))
	}
	return strings.Join(texts, ", ")
}
