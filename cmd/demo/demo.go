package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/internal/environment"
)

const (
	hubName = "hub"
	config  = "config"
	crds    = config + "/crd/bases"
	sample  = config + "/samples/appservice.yaml"
)

// regions are the regions of the members, for their labels.
var regions = map[string]string{"north": "eu", "south": "us", "east": "ap", "west": "us"}

// demo has the commands. It has no state: the state is in the directory and in the clusters.
type demo struct {
	invocation
	dir string
	bin string
	env localEnvironment
	// initial are the members of a new demo.
	initial []string
}

func (d *demo) down(ctx context.Context) error {
	return step("remove the clusters and the operator", func() error { return d.env.Clean(ctx) })
}

func (d *demo) stop(ctx context.Context, name string) error {
	cluster, err := d.member(name)
	if err != nil {
		return err
	}
	if err := step("stop cluster "+name, func() error { return cluster.Stop(ctx) }); err != nil {
		return err
	}
	fmt.Printf("\nWithin a minute its cluster status becomes Unknown. The other clusters are not affected:\n\n")
	fmt.Printf("  %s status web --watch --kubeconfig %s\n  %s start %s\n", d.plugin(), d.contexts(), d.command, name)
	return nil
}

func (d *demo) start(ctx context.Context, name string) error {
	if err := d.env.CheckPrograms(); err != nil {
		return err
	}
	cluster, err := d.member(name)
	if err != nil {
		return err
	}
	created, err := d.restore(ctx, cluster)
	if err != nil {
		return err
	}
	hub, err := d.hub(ctx)
	if err != nil {
		return err
	}
	joined, err := isJoined(ctx, hub, name)
	if err != nil {
		return err
	}
	if !joined {
		say("It is not in the fleet. To join it: %s add %s", d.command, name)
		return nil
	}
	if created {
		return d.admit(ctx, hub, name)
	}
	if err := d.join(ctx, hub, name); err != nil {
		return err
	}
	return d.show(ctx)
}

var clusterName = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,30}[a-z0-9])?$`)

// checkName returns an error unless the name is a valid name of a member.
func checkName(name string) error {
	if !clusterName.MatchString(name) {
		return fmt.Errorf("%q is not a valid name for a cluster: use up to 32 lower-case letters, digits and '-'", name)
	}
	if name == hubName {
		return fmt.Errorf("%s is the hub, not a member", name)
	}
	return nil
}

// add makes sure that the cluster exists, runs and is a member.
func (d *demo) add(ctx context.Context, name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	if err := d.env.CheckPrograms(); err != nil {
		return err
	}
	hub, err := d.hub(ctx)
	if err != nil {
		return err
	}
	cluster, err := d.member(name)
	if err == nil {
		// Perhaps an earlier call was interrupted.
		_, err = d.restore(ctx, cluster)
	} else {
		err = step("create cluster "+name, func() error { return d.create(ctx, name) })
	}
	if err != nil {
		return err
	}
	return d.admit(ctx, hub, name)
}

// admit joins a new member, and shows the fleet when the sample runs there.
func (d *demo) admit(ctx context.Context, hub client.Client, name string) error {
	if err := d.writeKubeconfigs(); err != nil {
		return err
	}
	if err := d.image(ctx, name); err != nil {
		return err
	}
	if err := d.join(ctx, hub, name); err != nil {
		return err
	}
	if err := d.awaitCluster(ctx, hub, name); err != nil {
		return err
	}
	return d.show(ctx)
}

// restore makes an existing member run, and reports whether it is a new, empty cluster: one that
// cannot be started is created again. Its AppServices are delivered to it again.
func (d *demo) restore(ctx context.Context, cluster environment.Cluster) (created bool, err error) {
	lost, err := d.revive(ctx, cluster)
	if err != nil || len(lost) == 0 {
		return false, err
	}
	return true, step("create cluster "+cluster.Name()+" again, empty", func() error { return d.create(ctx, cluster.Name()) })
}

// revive starts those of the clusters that do not run, and returns the names of those that cannot be
// started.
func (d *demo) revive(ctx context.Context, clusters ...environment.Cluster) (lost []string, err error) {
	stopped := slices.DeleteFunc(slices.Clone(clusters), func(c environment.Cluster) bool {
		if c.Ready(ctx) != nil {
			return false
		}
		say("cluster %s runs already", c.Name())
		return true
	})
	if len(stopped) == 0 {
		return nil, ctx.Err()
	}
	errs := make([]error, len(stopped))
	err = step("start "+strings.Join(names(stopped), ", "), func() error {
		var group sync.WaitGroup
		for i, cluster := range stopped {
			group.Go(func() { errs[i] = cluster.Start(ctx) })
		}
		group.Wait()
		return errors.Join(errs...)
	})
	if ctx.Err() != nil {
		return nil, err
	}
	for i, cluster := range stopped {
		if errs[i] != nil {
			say("%v", errs[i])
			lost = append(lost, cluster.Name())
		}
	}
	return lost, nil
}

// labelsOf returns the labels of a member: its region, which placements can select, and which the column
// REGION of kubectl shows.
func labelsOf(member string) map[string]string {
	return map[string]string{corev1.LabelTopologyRegion: regions[member]}
}

// create creates clusters.
func (d *demo) create(ctx context.Context, names ...string) error {
	_, err := environment.CreateAll(ctx, d.env, names...)
	return err
}

// hub returns a client of the hub, if the hub is ready.
func (d *demo) hub(ctx context.Context) (client.Client, error) {
	cluster, err := d.cluster(hubName)
	if err != nil {
		return nil, err
	}
	if err := cluster.Ready(ctx); err != nil {
		return nil, fmt.Errorf("the hub is not ready: run make %s to repair it: %w", d.target, err)
	}
	return environment.NewClient(cluster.Kubeconfig())
}

func (d *demo) member(name string) (environment.Cluster, error) {
	if name == hubName {
		return nil, fmt.Errorf("%s is the hub, not a member", name)
	}
	return d.cluster(name)
}

func (d *demo) cluster(name string) (environment.Cluster, error) {
	clusters, err := d.env.Clusters()
	if err != nil {
		return nil, err
	}
	for _, cluster := range clusters {
		if cluster.Name() == name {
			return cluster, nil
		}
	}
	if len(clusters) == 0 {
		return nil, fmt.Errorf("the demo does not run: run make %s", d.target)
	}
	return nil, fmt.Errorf("there is no cluster %s; the clusters are: %s; to create it: %s add %[1]s", name, strings.Join(names(clusters), ", "), d.command)
}

// isJoined reports whether the hub has a Secret of the member.
func isJoined(ctx context.Context, hub client.Client, member string) (bool, error) {
	key := client.ObjectKey{Namespace: environment.SecretNamespace, Name: member}
	err := hub.Get(ctx, key, &corev1.Secret{})
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("get the Secret of member %s: %w", member, err)
	}
	return err == nil, nil
}

// members returns all clusters except the hub.
func (d *demo) members() ([]environment.Cluster, error) {
	clusters, err := d.env.Clusters()
	return slices.DeleteFunc(clusters, func(c environment.Cluster) bool { return c.Name() == hubName }), err
}

func names(clusters []environment.Cluster) []string {
	var all []string
	for _, cluster := range clusters {
		all = append(all, cluster.Name())
	}
	return all
}
