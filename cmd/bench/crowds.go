package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/cmd/bench/figures"
)

// besideCrowd is B11: one new AppService right after many others were edited.
func (t *operatorTurn) besideCrowd(ctx context.Context) error {
	members := len(t.servers.members)
	crowd, one := batch("crowd", t.crowd), batch("new", 1)
	say("  creating %d AppServices", t.crowd)
	if _, err := t.create(ctx, crowd, members); err != nil {
		return err
	}
	if err := t.observer.awaitQuiet(ctx, settleTime); err != nil {
		return err
	}
	edited := withImage(crowd, image("2.0.0"))
	var took, all float64
	u, err := t.phase(ctx, "B11", func() error {
		everywhere, begin := t.observer.expect(members*t.crowd, hasImage(edited)), time.Now()
		if err := t.writer.edit(ctx, edited); err != nil {
			return err
		}
		var err error
		if took, err = t.create(ctx, one, members); err != nil {
			return err
		}
		end, err := t.observer.await(ctx, everywhere, "the edits")
		all = since(begin, end)
		return err
	})
	if err != nil {
		return err
	}
	t.add("B11", "new", "s", took, u)
	t.add("B11", "all edits", "s", all, u)
	t.addUsage("B11", u)
	return t.delete(ctx, slices.Concat(crowd, one))
}

// restTime is how long the memory of the operator is sampled in B8.
const restTime = 30 * time.Second

// besideForeign is B8: the memory of an operator that has just started, without and with many
// Deployments of others on a member.
func (t *operatorTurn) besideForeign(ctx context.Context) error {
	apps := batch("b8", t.apps)
	if _, err := t.create(ctx, apps, len(t.servers.members)); err != nil {
		return err
	}
	if err := t.weigh(ctx, ""); err != nil {
		return err
	}
	if err := t.operator.process.Kill(); err != nil {
		return err
	}
	say("  creating %d Deployments", t.foreign)
	member := t.servers.members[0].api
	if err := createForeign(ctx, member, t.foreign); err != nil {
		return err
	}
	if err := t.weigh(ctx, " with foreign Deployments"); err != nil {
		return err
	}
	if err := member.DeleteAllOf(ctx, &appsv1.Deployment{}, client.InNamespace(foreignNamespace)); err != nil {
		return fmt.Errorf("delete the foreign Deployments: %w", err)
	}
	return t.delete(ctx, apps)
}

// weigh starts the operator again, and records its memory and goroutines at rest.
func (t *operatorTurn) weigh(ctx context.Context, with string) error {
	if err := t.operator.process.Kill(); err != nil {
		return err
	}
	if err := t.operator.start(); err != nil {
		return err
	}
	if err := t.warmUp(ctx); err != nil {
		return err
	}
	var resident []float64
	u, err := t.phase(ctx, "B8", func() error {
		for begin := time.Now(); time.Since(begin) < restTime; {
			bytes, err := t.operator.process.RSS()
			if err != nil {
				return err
			}
			resident = append(resident, float64(bytes)/(1<<20))
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(500 * time.Millisecond):
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	goroutines, err := t.operator.goroutines(ctx)
	if err != nil {
		return err
	}
	slices.Sort(resident)
	t.add("B8", residentMemory+with, "MiB", figures.Percentile(resident, 0.5), u)
	t.add("B8", "goroutines"+with, "", float64(goroutines), u)
	return nil
}

const residentMemory = "RSS"

// foreignNamespace is the namespace of Deployments that are not the operator's.
const foreignNamespace = "foreign"

func createForeign(ctx context.Context, member client.Client, n int) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: foreignNamespace}}
	if err := member.Create(ctx, namespace); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("create namespace %s: %w", foreignNamespace, err)
	}
	creates := make([]func() error, 0, n)
	for i := range n {
		labels := map[string]string{"app": fmt.Sprintf("foreign-%05d", i)}
		deployment := &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: foreignNamespace, Name: labels["app"], Labels: labels},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: image("1.0.0")}}},
				},
			},
		}
		creates = append(creates, func() error { return member.Create(ctx, deployment) })
	}
	return together(ctx, creates)
}
