package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/e2e/framework"
	"github.com/fleetwright/fleetwright/internal/environment"
)

// quietTime is how long nothing may be written when everything has converged.
const quietTime = 5 * time.Second

// awaitConverged waits until the hub and the members are as the user wants, and nothing is written
// any more. It returns how long that took, without the time in which nothing was written.
func (f *fleet) awaitConverged(ctx context.Context, timeout time.Duration, apps []wanted) (time.Duration, error) {
	begin := time.Now()
	var since time.Time // of the last write that was noticed
	last := -1
	err := environment.Await(ctx, timeout+quietTime, "everything to converge", func(ctx context.Context) error {
		if err := f.checkConverged(ctx, apps); err != nil {
			last = -1
			return errors.Join(err, f.approve(ctx))
		}
		if n := f.writes(); n != last {
			last, since = n, time.Now()
		}
		if quiet := time.Since(since); quiet < quietTime {
			return fmt.Errorf("the operator wrote something %s ago", quiet.Round(time.Millisecond))
		}
		return nil
	})
	return since.Sub(begin), err
}

// writes returns the number of requests that changed something so far.
func (f *fleet) writes() (sum int) {
	for _, p := range f.proxies {
		n, _ := p.written()
		sum += n
	}
	return sum
}

// checkConverged returns an error unless the hub and the members are as the user wants.
func (f *fleet) checkConverged(ctx context.Context, apps []wanted) error {
	if err := f.CheckMembersReady(ctx, f.MemberNames()...); err != nil {
		return err
	}
	stored := &v1alpha1.AppServiceList{}
	if err := f.Hub.Client.List(ctx, stored, client.InNamespace(namespace)); err != nil {
		return err
	}
	var errs []error
	var names, wantedNames []string
	for i := range stored.Items {
		names = append(names, stored.Items[i].Name)
	}
	for _, w := range apps {
		if w.exists() {
			wantedNames = append(wantedNames, w.name)
			errs = append(errs, f.checkApp(ctx, w))
		}
	}
	slices.Sort(wantedNames)
	if diff := cmp.Diff(wantedNames, names); diff != "" {
		errs = append(errs, fmt.Errorf("AppServices (-want +got):\n%s", diff))
	}
	for _, name := range f.MemberNames() {
		errs = append(errs, f.checkMember(ctx, name, apps))
	}
	return errors.Join(errs...)
}

// checkApp returns an error unless an AppService is Ready, with entries of its clusters only.
func (f *fleet) checkApp(ctx context.Context, w wanted) error {
	current, err := f.ReadApp(ctx, framework.NewAppService(namespace, w.name))
	if err != nil {
		return err
	}
	if err := framework.IsReady(current); err != nil {
		return fmt.Errorf("%s: %w", w.name, err)
	}
	var names []string
	for _, entry := range current.Status.Clusters {
		names = append(names, entry.Name)
	}
	if diff := cmp.Diff(w.clusters, names); diff != "" {
		return fmt.Errorf("entries of %s (-want +got):\n%s", w.name, diff)
	}
	return nil
}

// delivered is what a member has of an AppService.
type delivered struct {
	Image    string
	Replicas int32
	Ports    []int32
}

// checkMember returns an error unless a member has exactly the objects that the user wants.
func (f *fleet) checkMember(ctx context.Context, member string, apps []wanted) error {
	deployments, services := &appsv1.DeploymentList{}, &corev1.ServiceList{}
	api := f.Members[member].Client
	if err := errors.Join(api.List(ctx, deployments, client.InNamespace(namespace)), api.List(ctx, services, client.InNamespace(namespace))); err != nil {
		return fmt.Errorf("%s: %w", member, err)
	}
	want, got := map[string]delivered{}, map[string]delivered{}
	for _, w := range apps {
		if w.includes(member) {
			want[w.name] = delivered{w.image, w.replicas, w.ports}
		}
	}
	for i := range deployments.Items {
		d := &deployments.Items[i]
		got[d.Name] = delivered{Image: d.Spec.Template.Spec.Containers[0].Image, Replicas: *d.Spec.Replicas}
	}
	for i := range services.Items {
		has := got[services.Items[i].Name]
		for _, port := range services.Items[i].Spec.Ports {
			has.Ports = append(has.Ports, port.Port)
		}
		got[services.Items[i].Name] = has
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("%s (-want +got):\n%s", member, diff)
	}
	return nil
}
