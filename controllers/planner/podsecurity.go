package planner

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/podsecurity"
	"github.com/fleetwright/fleetwright/controllers/revision"
	"github.com/fleetwright/fleetwright/controllers/revision/reader"
	"github.com/fleetwright/fleetwright/controllers/rollout"
	"github.com/fleetwright/fleetwright/controllers/rollout/stages"
	"github.com/fleetwright/fleetwright/controllers/status"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// A revision keeps the policy that its namespace had when the template was new, and complies with
// it on every cluster. So what runs is not affected by a later label, a later flag or an upgrade:
// the template is scaled, repaired, rotated, retried and returned to under its own policy. If the
// present policy allows more, it replaces that of the present revision where a cluster needs it. On a
// cluster that does not run the AppService yet, the present policy decides.

// admitUnlessKnown decides whether the template of the spec may become a revision, and returns what
// it must comply with. A template that the history has is not new, and keeps its policy.
func (r *Reconciler) admitUnlessKnown(ctx context.Context, in *rollout.Input, history revision.History) (policy *v1alpha1.PodSecurity, isRefused bool, err error) {
	if known := history.WithTemplateOf(in.App); known != nil {
		return known.PodSecurity, false, nil
	}
	return r.admit(ctx, in)
}

// admit decides whether a new template of the spec may become a revision, and returns what it must
// comply with. It is refused if every cluster would have to run pods that violate the policy of the
// namespace. If only some would, the rollout fails on these.
// docs/decisions/pod-security-belongs-to-a-revision.md says why.
func (r *Reconciler) admit(ctx context.Context, in *rollout.Input) (policy *v1alpha1.PodSecurity, isRefused bool, err error) {
	if runsUnnumbered(in.App) {
		return nil, false, nil
	}
	if policy, err = r.presentPolicy(ctx, in.App.Namespace); policy == nil || err != nil {
		return nil, false, err
	}
	checks := newPodChecks(in.App)
	refusal := ""
	for _, cluster := range placedClusters(*in) {
		next := checks.refusal(in.Members[cluster], policy)
		if next == "" {
			return policy, false, nil
		}
		if refusal == "" {
			refusal = next
		}
	}
	in.SpecRefusal, in.IsSpecPending = refusal, in.IsSpecPending || refusal != ""
	return policy, refusal != "", nil
}

// runsUnnumbered reports whether clusters run the AppService without a revision, because an older
// version of Fleetwright applied it.
func runsUnnumbered(app *v1alpha1.AppService) bool {
	return app.Status.Rollout.Revision == 0 && slices.ContainsFunc(app.Status.Clusters, func(entry v1alpha1.ClusterStatus) bool {
		return entry.Revision == 0 && entry.ObservedGeneration > 0
	})
}

// refuse sets the refusals of the revisions that clusters may get. If every cluster has its revision,
// nothing is rendered.
func (r *Reconciler) refuse(ctx context.Context, in *rollout.Input) error {
	if in.App.IsDeleting() || in.Revision == 0 {
		return nil
	}
	candidates := []int64{in.Revision}
	state := in.App.Status.Rollout
	if stable := state.StableRevision; stable != 0 && stable != in.Revision && !in.IsStableMissing && (in.App.Spec.Rollout != nil || state.Phase != "") {
		candidates = append(candidates, stable)
	}
	for _, number := range candidates {
		found, err := r.refusalsOf(ctx, in, number)
		if err != nil {
			return err
		}
		if len(found) > 0 {
			if in.Refusals == nil {
				in.Refusals = stages.Refusals{}
			}
			in.Refusals[number] = found
		}
	}
	return nil
}

// refusalsOf returns why clusters must not get a revision, by cluster. It sets the policy of the
// revision of the spec to the present one if a cluster may get it only by that.
func (r *Reconciler) refusalsOf(ctx context.Context, in *rollout.Input, number int64) (map[string]stages.Refusal, error) {
	var refusals map[string]stages.Refusal
	var checks *podChecks
	var own, present *v1alpha1.PodSecurity
	for _, cluster := range placedClusters(*in) {
		entry := in.App.Status.Cluster(cluster)
		if entry != nil && entry.Revision == number {
			continue
		}
		if checks == nil {
			var err error
			if checks, own, err = r.checksOf(ctx, in, number); checks == nil || err != nil {
				return nil, err
			}
			if present, err = r.presentPolicy(ctx, in.App.Namespace); err != nil {
				return nil, err
			}
		}
		byOwn, byPresent := checks.refusal(in.Members[cluster], own), checks.refusal(in.Members[cluster], present)
		refusal := stages.Refusal{
			Violation:       podsecurity.Decisive(isFirstDelivery(in, entry, cluster), byOwn, byPresent),
			IsByLaterPolicy: byOwn == "",
		}
		switch isByPresent := refusal.Violation == "" && byOwn != ""; {
		case isByPresent && number == in.Revision && !in.IsSpecPending:
			in.PodSecurity = present
		case isByPresent: // the policy of a revision that is stored does not change
			refusal.Violation = byOwn
		}
		if refusal.Violation != "" {
			if refusals == nil {
				refusals = map[string]stages.Refusal{}
			}
			refusals[cluster] = refusal
		}
	}
	return refusals, nil
}

// checksOf returns the checks of a revision, and what it must comply with. It returns nil for a
// revision that is missing, which no cluster gets, and for one that cannot be read: see planUnread.
func (r *Reconciler) checksOf(ctx context.Context, in *rollout.Input, number int64) (*podChecks, *v1alpha1.PodSecurity, error) {
	if number == in.Revision && !in.IsSpecPending {
		return newPodChecks(in.App), in.PodSecurity, nil
	}
	stored, err := r.revisions.Revision(ctx, in.App, number)
	if reader.IsMissing(err) {
		return nil, nil, nil
	} else if err != nil {
		return nil, nil, r.planUnread(in, number, err)
	}
	composed := *in.App // which must not be modified
	composed.Spec = revision.Compose(in.App.Spec, stored.Template)
	return newPodChecks(&composed), stored.PodSecurity, nil
}

// isFirstDelivery reports whether nothing of the AppService runs on the cluster of an entry, which is
// nil if the cluster is new in the plan.
func isFirstDelivery(in *rollout.Input, entry *v1alpha1.ClusterStatus, cluster string) bool {
	if entry == nil {
		return true
	}
	seen := in.ObservationOf(cluster)
	return entry.Revision == 0 && entry.ObservedGeneration == 0 && (seen == nil || !seen.Found)
}

// placedClusters returns the members that are to run the AppService, in the order of the plan.
func placedClusters(in rollout.Input) []string {
	clusters := make([]string, 0, len(in.Plan))
	for _, decision := range in.Plan {
		if decision.Chosen() && in.Members[decision.Cluster] != nil {
			clusters = append(clusters, decision.Cluster)
		}
	}
	return clusters
}

// podChecks checks the pod templates of one AppService for many members. Members that share a
// template share the result.
type podChecks struct {
	templates *workload.PodTemplates
	results   map[podCheck]string
}

type podCheck struct {
	template *corev1.PodTemplateSpec
	policy   v1alpha1.PodSecurity
}

func newPodChecks(app *v1alpha1.AppService) *podChecks {
	return &podChecks{templates: workload.PodTemplatesOf(app), results: map[podCheck]string{}}
}

// refusal returns why a policy forbids the pods of a member, or "". It forbids nothing that cannot be
// rendered: delivery reports that as InvalidOverride.
func (c *podChecks) refusal(member *v1alpha1.MemberCluster, policy *v1alpha1.PodSecurity) string {
	if policy == nil {
		return ""
	}
	template, err := c.templates.For(member)
	if err != nil {
		return ""
	}
	check := podCheck{template, *policy}
	result, isKnown := c.results[check]
	if !isKnown {
		result = podsecurity.Refusal(template, policy)
		c.results[check] = result
	}
	return result
}

// presentPolicy returns what new pods of a namespace must comply with. The cache may not have a
// namespace yet that is as new as its AppService.
func (r *Reconciler) presentPolicy(ctx context.Context, namespace string) (*v1alpha1.PodSecurity, error) {
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(namespaceKind)
	err := r.hub.Get(ctx, client.ObjectKey{Name: namespace}, found)
	if apierrors.IsNotFound(err) {
		err = r.live.Get(ctx, client.ObjectKey{Name: namespace}, found)
	}
	if err != nil {
		return nil, fmt.Errorf("read what pods of namespace %s must comply with: %w", namespace, err)
	}
	return podsecurity.PolicyOf(found.Labels, r.options.PodSecurityLevel), nil
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

// enqueueOfNamespace returns an event handler that enqueues the AppServices of a namespace.
func (r *Reconciler) enqueueOfNamespace() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, namespace client.Object) []reconcile.Request {
		var apps v1alpha1.AppServiceList
		if err := r.hub.List(ctx, &apps, client.InNamespace(namespace.GetName()), client.UnsafeDisableDeepCopy); err != nil {
			ctrl.LoggerFrom(ctx).Error(err, "List AppServices")
			return nil
		}
		requests := make([]reconcile.Request, 0, len(apps.Items))
		for i := range apps.Items {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&apps.Items[i])})
		}
		return requests
	})
}

// announceRefusal emits an event for each edit that is refused.
func (r *Reconciler) announceRefusal(in rollout.Input) {
	if in.SpecRefusal != "" && (isEdited(in.App) || !in.App.Status.Rollout.SpecRefused) {
		r.event(in.App, nil, true, v1alpha1.ReasonPodSecurityRefused, planAction, status.SpecRefusedMessage(in))
	}
}
