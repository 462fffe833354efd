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

// up brings the demo to where it should be, from wherever it is.
func (d *demo) up(ctx context.Context) error {
	begun := time.Now()
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
	fmt.Printf("\nThe demo is up after %s.\n\n", seconds(time.Since(begun)))
	if err := d.show(ctx); err != nil {
		return err
	}
	d.suggest()
	return nil
}

// clusters keeps those of an earlier run that are well, starts those that are not, and makes those that are
// missing. What cannot be started takes the rest with it: members know their hub, and the hub its members.
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
			say("%v\nThe earlier run is beyond repair: away with it.", err)
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
	return step("clusters "+strings.Join(missing, ", "), func() error { return d.create(ctx, missing...) })
}

// operator runs the one that was built last.
func (d *demo) operator(ctx context.Context) error {
	running, err := d.env.Operator()
	if err != nil {
		return err
	}
	if running != nil && d.env.OperatorIsCurrent() {
		say("the operator runs already")
		return nil
	}
	if running != nil {
		if err := step("stop the operator, for there is a newer one", func() error { return running.Stop(ctx) }); err != nil {
			return err
		}
	}
	hub, err := d.cluster(hubName)
	if err != nil {
		return err
	}
	return step("the operator", func() error {
		_, err := d.env.StartOperator(ctx, hub, 1)
		return err
	})
}

// join gives the hub a Secret for each cluster, and waits until all are members.
func (d *demo) join(ctx context.Context, hub client.Client) error {
	clusters, err := d.members()
	if err != nil {
		return err
	}
	for _, cluster := range clusters {
		if err := environment.Join(ctx, hub, cluster, map[string]string{"region": regions[cluster.Name()]}); err != nil {
			return err
		}
	}
	return d.explain(step("members "+strings.Join(names(clusters), ", "), func() error {
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

// app applies the sample, unless it is there and perhaps changed by hand, and waits until it is Ready.
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

// awaitSample shows how the sample becomes Ready on all the clusters that it is placed on.
func (d *demo) awaitSample(ctx context.Context, hub client.Client) error {
	begun, shown := time.Now(), ""
	return d.explain(environment.Await(ctx, time.Minute, "AppService "+sampleKey.String()+" to be Ready", func(ctx context.Context) error {
		app := &v1alpha1.AppService{}
		if err := hub.Get(ctx, sampleKey, app); err != nil {
			return err
		}
		if display := app.Status.Summary.Display; display != "" && display != shown {
			shown = display
			say("  %s clusters ready after %s", display, seconds(time.Since(begun)))
		}
		ready := meta.FindStatusCondition(app.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != app.Generation {
			return errors.New(conditions(app.Status.Conditions))
		}
		return nil
	}))
}

// awaitRow waits until the sample runs on one cluster.
func (d *demo) awaitRow(ctx context.Context, hub client.Client, cluster string) error {
	return step("AppService "+sampleKey.Name+" on "+cluster, func() error {
		return environment.Await(ctx, 20*time.Second, "it to run there", func(ctx context.Context) error {
			app := &v1alpha1.AppService{}
			if err := hub.Get(ctx, sampleKey, app); err != nil {
				return err
			}
			row := app.Status.Cluster(cluster)
			if row == nil {
				return errors.New("its status has no row for that cluster")
			}
			if row.Phase != v1alpha1.ClusterReady {
				return fmt.Errorf("it is %s there (%s: %s)", row.Phase, row.Reason, row.Message)
			}
			return nil
		})
	})
}

// explain adds to an error what the operator said last.
func (d *demo) explain(err error) error {
	operator, findErr := d.env.Operator()
	switch {
	case err == nil:
		return nil
	case operator == nil || findErr != nil:
		return fmt.Errorf("%w\nThe operator is not running; see %s", err, filepath.Join(d.dir, "operator.log"))
	default:
		return fmt.Errorf("%w\nThe operator's log ends:\n%s", err, environment.Tail(operator.Log(), 10))
	}
}

// show prints the fleet, as its user sees it.
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
Go on:

  export KUBECONFIG=%[1]s

  %[2]s scale appservice web --replicas=5       # on every member
  %[2]s get appservices --watch
  %[2]s get appservice web -o yaml              # status.clusters has a row for each member

  %[6]s stop north    # a member dies: its row says Unknown, the others go on
  %[6]s start north   # it comes back, and catches up
  %[6]s add west      # a fourth member: the app is there at once
  %[2]s delete secret west -n %[3]s  # it leaves; what runs there stays

  %[2]s get deployments,services,pods --kubeconfig %[4]s   # what a member sees
  %[5]s                          # what the operator says

  make %[7]s-down
`, hub, kubectl, environment.SecretNamespace, d.kubeconfig("south"), d.follow, d.command, d.target)
}

func conditions(all []metav1.Condition) string {
	if len(all) == 0 {
		return "it has no conditions yet"
	}
	var said []string
	for _, c := range all {
		said = append(said, fmt.Sprintf("%s=%s (%s: %s)", c.Type, c.Status, c.Reason, c.Message))
	}
	return strings.Join(said, ", ")
}
