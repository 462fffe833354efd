package planner

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/planner/revise"
	"github.com/fleetwright/fleetwright/controllers/podsecurity"
	"github.com/fleetwright/fleetwright/controllers/revision/reader"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	"github.com/fleetwright/fleetwright/controllers/rollout/stages"
)

// policies reads what pods of a namespace must comply with.
type policies struct {
	hub  client.Reader // the cache
	live client.Reader // the API server
	// byDefault applies if the namespace does not say it.
	byDefault podsecurity.Level
}

// present returns what new pods of a namespace must comply with. The cache may not have a namespace
// yet that is as new as its AppService.
func (p *policies) present(ctx context.Context, namespace string) (*revise.Policy, error) {
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(namespaceKind)
	err := p.hub.Get(ctx, client.ObjectKey{Name: namespace}, found)
	if apierrors.IsNotFound(err) {
		err = p.live.Get(ctx, client.ObjectKey{Name: namespace}, found)
	}
	if err != nil {
		return nil, fmt.Errorf("read what pods of namespace %s must comply with: %w", namespace, err)
	}
	return &revise.Policy{PodSecurity: podsecurity.PolicyOf(found.Labels, p.byDefault)}, nil
}

// refuse adds the refusals of the revisions that clusters may get to an outcome. If every cluster has
// its revision, nothing is rendered.
func (r *reviser) refuse(ctx context.Context, in rollout.Input, outcome *revise.Outcome) error {
	for _, number := range outcome.Candidates(in.App) {
		to := recipients(in, number)
		if len(to) == 0 {
			continue
		}
		candidate, err := r.candidate(ctx, in.App, outcome, number)
		if err != nil {
			return err
		}
		if candidate == nil {
			continue
		}
		present, err := r.policies.present(ctx, in.App.Namespace)
		if err != nil {
			return err
		}
		refusals := candidate.Refusals(to, present.PodSecurity)
		if refusals.NeedsPresent {
			outcome.PodSecurity = present.PodSecurity
		}
		if len(refusals.ByCluster) > 0 {
			if outcome.Refusals == nil {
				outcome.Refusals = stages.Refusals{}
			}
			outcome.Refusals[number] = refusals.ByCluster
		}
	}
	return nil
}

// candidate returns a revision that clusters may get. It returns nil for a revision that is missing,
// which no cluster gets, and for one that cannot be read: see withoutContent.
func (r *reviser) candidate(ctx context.Context, app *v1alpha1.AppService, outcome *revise.Outcome, number int64) (*revise.Candidate, error) {
	if outcome.IsOfSpec(number) {
		return outcome.OfSpec(app), nil
	}
	stored, err := r.contents.Revision(ctx, app, number)
	if reader.IsMissing(err) {
		return nil, nil
	} else if err != nil {
		return nil, r.withoutContent(app, outcome, number, err)
	}
	return revise.OfHistory(app, stored), nil
}

// recipients returns the members that are to run the AppService and do not have a revision, in the
// order of the plan.
func recipients(in rollout.Input, number int64) []revise.Recipient {
	var recipients []revise.Recipient
	for _, decision := range in.Plan {
		member, entry := in.Members[decision.Cluster], in.App.Status.Cluster(decision.Cluster)
		if decision.Chosen() && member != nil && (entry == nil || entry.Revision != number) {
			recipients = append(recipients, revise.Recipient{Member: member, IsFirst: isFirstDelivery(in, entry, decision.Cluster)})
		}
	}
	return recipients
}

// isFirstDelivery reports whether nothing of the AppService runs on the cluster of an entry, which is
// nil if the cluster is new in the plan.
func isFirstDelivery(in rollout.Input, entry *v1alpha1.ClusterStatus, cluster string) bool {
	if entry == nil {
		return true
	}
	seen := in.ObservationOf(cluster)
	return entry.Revision == 0 && entry.ObservedGeneration == 0 && (seen == nil || !seen.Found)
}

// changesPolicy returns a predicate for namespaces whose labels demand something else than before.
func changesPolicy() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			return !podsecurity.SamePolicy(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels())
		},
	}
}
