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

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/internal/environment"
)

// connectTimeout is the longest time until the operator is connected to a member that runs.
const connectTimeout = time.Minute

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
	clusters, err := d.members()
	if err != nil {
		return err
	}
	members := names(clusters)
	if err := d.image(ctx, members...); err != nil {
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
	if err := d.join(ctx, hub, members...); err != nil {
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

// clusters keeps the ready clusters of an earlier run, starts the others, and creates those that are
// missing or cannot be started. Without the hub of the earlier run, it removes the members, too: they
// belong to that hub.
func (d *demo) clusters(ctx context.Context) error {
	earlier, err := d.env.Clusters()
	if err != nil {
		return err
	}
	missing, err := d.revive(ctx, earlier...)
	if err != nil {
		return err
	}
	if !slices.Contains(names(earlier), hubName) || slices.Contains(missing, hubName) {
		if len(earlier) > 0 {
			say("The earlier run has no hub that can be started. It is removed.")
		}
		if err := d.env.Clean(ctx); err != nil {
			return err
		}
		earlier, missing = nil, nil
	}
	for _, name := range append([]string{hubName}, d.initial...) {
		if !slices.Contains(names(earlier), name) {
			missing = append(missing, name)
		}
	}
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

// join creates a Secret on the hub for each of these members, and waits until they are Ready.
func (d *demo) join(ctx context.Context, hub client.Client, members ...string) error {
	for _, name := range members {
		cluster, err := d.member(name)
		if err != nil {
			return err
		}
		if err := environment.Join(ctx, hub, cluster, labelsOf(name)); err != nil {
			return err
		}
		if err := acceptIdentity(ctx, hub, cluster); err != nil {
			return err
		}
	}
	return d.awaitMembers(ctx, hub, members...)
}

// acceptIdentity tells the operator that a member is another cluster than before, if it is: one that
// could not be started was created again.
func acceptIdentity(ctx context.Context, hub client.Client, cluster environment.Cluster) error {
	known := &v1alpha1.MemberCluster{}
	if err := hub.Get(ctx, client.ObjectKey{Name: cluster.Name()}, known); err != nil {
		return client.IgnoreNotFound(err)
	}
	api, err := environment.NewClient(cluster.Kubeconfig())
	if err != nil {
		return err
	}
	system := &corev1.Namespace{}
	if err := api.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		return fmt.Errorf("identify cluster %s: %w", cluster.Name(), err)
	}
	if known.Status.ClusterID == "" || known.Status.ClusterID == system.UID {
		return nil
	}
	patch := client.MergeFrom(known.DeepCopy())
	metav1.SetMetaDataAnnotation(&known.ObjectMeta, v1alpha1.AnnotationAcceptIdentity, string(system.UID))
	if err := hub.Patch(ctx, known, patch); err != nil {
		return fmt.Errorf("accept the identity of cluster %s: %w", cluster.Name(), err)
	}
	return nil
}

// awaitMembers waits until these members are Ready.
func (d *demo) awaitMembers(ctx context.Context, hub client.Client, members ...string) error {
	return d.explain(step("connect "+strings.Join(members, ", "), func() error {
		return environment.Await(ctx, connectTimeout, "every member to be Ready", func(ctx context.Context) error {
			var waiting []error
			for _, name := range members {
				member := &v1alpha1.MemberCluster{}
				if err := hub.Get(ctx, client.ObjectKey{Name: name}, member); err != nil {
					waiting = append(waiting, err)
				} else if _, replaced := member.Annotations[v1alpha1.AnnotationAcceptIdentity]; replaced || !member.IsReady() {
					// The operator removes the annotation when it uses the other cluster.
					waiting = append(waiting, fmt.Errorf("%s: %s", name, conditions(member.Status.Conditions)))
				}
			}
			return errors.Join(waiting...)
		})
	}))
}

// app applies the sample, unless it exists and may have been edited, and waits until it is Ready. An
// edited one need not become Ready.
func (d *demo) app(ctx context.Context, hub client.Client) error {
	existing := &v1alpha1.AppService{}
	err := hub.Get(ctx, sampleKey, existing)
	if err == nil && !existing.DeletionTimestamp.IsZero() {
		if err := d.awaitDeletion(ctx, hub); err != nil {
			return err
		}
		err = apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("appservices").GroupResource(), sampleKey.Name)
	}
	switch {
	case apierrors.IsNotFound(err):
		say("AppService %s, from %s", sampleKey.Name, sample)
		if err := environment.ApplyFile(ctx, hub, sample); err != nil {
			return err
		}
		return d.explain(d.awaitSample(ctx, hub, time.Minute))
	case err != nil:
		return fmt.Errorf("get AppService %s: %w", sampleKey, err)
	}
	say("AppService %s exists already", sampleKey.Name)
	if err := d.awaitSample(ctx, hub, 30*time.Second); err != nil {
		if ctx.Err() != nil {
			return err
		}
		say("  it is not Ready: see %s status %s", d.plugin(), sampleKey.Name)
	}
	return nil
}

// isBroken reports whether a cluster cannot pull the image of the AppService.
func isBroken(app *v1alpha1.AppService) bool {
	return slices.ContainsFunc(app.Status.Clusters, func(c v1alpha1.ClusterStatus) bool {
		return c.Reason == v1alpha1.ReasonImagePullBackOff
	})
}

// awaitDeletion waits until the sample, which is being deleted, is gone.
func (d *demo) awaitDeletion(ctx context.Context, hub client.Client) error {
	return d.explain(step("finish the deletion of AppService "+sampleKey.Name, func() error {
		return environment.Await(ctx, time.Minute, "it to be gone", func(ctx context.Context) error {
			app := &v1alpha1.AppService{}
			if err := hub.Get(ctx, sampleKey, app); err != nil {
				return client.IgnoreNotFound(err)
			}
			return errors.New(conditions(app.Status.Conditions))
		})
	}))
}

// awaitSample waits until the sample is Ready, and shows on how many clusters it is ready. An image
// that cannot be pulled ends it with an error.
func (d *demo) awaitSample(ctx context.Context, hub client.Client, timeout time.Duration) error {
	start, shown := time.Now(), ""
	var broken error
	err := environment.Await(ctx, timeout, "AppService "+sampleKey.String()+" to be Ready", func(ctx context.Context) error {
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
			err := errors.New(conditions(app.Status.Conditions))
			if isBroken(app) {
				broken = err
				return nil
			}
			return err
		}
		return nil
	})
	return errors.Join(err, broken)
}

// awaitCluster waits until the sample is Ready on one cluster, and says what else it finds. The user
// may have deleted or edited the sample.
func (d *demo) awaitCluster(ctx context.Context, hub client.Client, cluster string) error {
	err := step("AppService "+sampleKey.Name+" on "+cluster, func() error {
		return environment.Await(ctx, time.Minute, "it to run there", func(ctx context.Context) error {
			app := &v1alpha1.AppService{}
			if err := hub.Get(ctx, sampleKey, app); err != nil {
				return err
			}
			c := app.Status.Cluster(cluster)
			if c == nil {
				return fmt.Errorf("%s does not run it: see %s why %s", cluster, d.plugin(), sampleKey.Name)
			}
			if c.Phase != v1alpha1.ClusterReady {
				return fmt.Errorf("it is %s (%s: %s)", c.Phase, c.Reason, c.Message)
			}
			return nil
		})
	})
	if err != nil && ctx.Err() == nil {
		say("%v", err)
		return nil
	}
	return err
}

// explain adds the end of the operator's log to an error.
func (d *demo) explain(err error) error {
	operator, findErr := d.env.Operator()
	switch {
	case err == nil:
		return nil
	case operator == nil || findErr != nil:
		return fmt.Errorf("%w\nThe operator is not running: run make %s to start it; its log is %s", err, d.target, filepath.Join(d.dir, "operator.log"))
	default:
		return fmt.Errorf("%w\nThe last lines of the operator's log:\n%s", err, environment.Tail(operator.Log(), 10))
	}
}

// show prints the AppServices and MemberClusters with kubectl.
func (d *demo) show(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, filepath.Join(d.bin, "kubectl"), "get", "appservices,memberclusters", "--kubeconfig", d.kubeconfig(hubName), "--cache-dir", filepath.Join(d.dir, ".kube"))
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("kubectl get: %w", err)
	}
	return nil
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
