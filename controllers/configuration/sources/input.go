package sources

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
)

// newInput returns the input of a decision, without sources and snapshots.
func newInput(request Request) configuration.Input {
	app := request.App
	return configuration.Input{
		App: client.ObjectKeyFromObject(app), UID: app.UID,
		Spec:      configuration.TemplateOf(app.Spec),
		Status:    app.Status.Configuration,
		Serial:    app.Status.ConfigurationSerial,
		Accepted:  app.Annotations[v1alpha1.AnnotationAcceptConfiguration],
		Sources:   map[configuration.Ref]configuration.Source{},
		Revisions: request.Revisions,
		Revision:  app.Status.Rollout.Revision,
		InUse:     inUse(app),
		Serials:   request.Serials,
		Now:       request.Now,
	}
}

// inUse returns the revisions that clusters have, or may get.
func inUse(app *v1alpha1.AppService) []int64 {
	numbers := []int64{app.Status.Rollout.Revision, app.Status.Rollout.StableRevision}
	for i := range app.Status.Clusters {
		numbers = append(numbers, app.Status.Clusters[i].Revision)
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	return slices.DeleteFunc(numbers, func(number int64) bool { return number == 0 })
}

// named returns the snapshots that the status and the revisions name, as if they existed: a missing
// right to see them must not look as if they were deleted. None of them is ever deleted, because
// something names it.
func named(in configuration.Input) []configuration.Snapshot {
	var all []configuration.Snapshot
	add := func(ref configuration.Ref, name string) {
		isListed := slices.ContainsFunc(all, func(s configuration.Snapshot) bool { return s.Ref == ref && s.Name == name })
		if configuration.IsSnapshot(name) && !isListed {
			all = append(all, configuration.Snapshot{Ref: ref, Name: name, Owner: in.UID, CreationTime: metav1.NewTime(in.Now)})
		}
	}
	for _, status := range in.Status {
		add(configuration.Ref{Kind: status.Kind, From: status.From}, status.Snapshot)
	}
	for _, revision := range in.Revisions {
		for _, snapshot := range revision.Configuration {
			add(configuration.Ref{Kind: snapshot.Kind, From: snapshot.From}, snapshot.Snapshot)
		}
	}
	return all
}
