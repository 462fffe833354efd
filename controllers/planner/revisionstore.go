package planner

import (
	"context"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/planner/revise"
	"github.com/fleetwright/fleetwright/controllers/revision"
)

// maxTakenNames is the number of names in a row that another owner may have taken.
const maxTakenNames = 100

// revisionStore lists, creates and deletes the ControllerRevisions of AppServices.
type revisionStore struct {
	hub  client.Client
	live client.Reader // from the API server, not from the cache
}

// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;create;delete

// list reads the revisions of an AppService from the API server.
func (s *revisionStore) list(ctx context.Context, app *v1alpha1.AppService) (revision.History, error) {
	var stored appsv1.ControllerRevisionList
	if err := s.live.List(ctx, &stored, client.InNamespace(app.Namespace), client.MatchingLabels{v1alpha1.LabelAppService: app.Name}); err != nil {
		return revision.History{}, fmt.Errorf("read the revisions: %w", err)
	}
	return revision.HistoryOf(app, stored.Items), nil
}

// errTaken is returned if an object has the name of the next revision that a remembered history does not
// have.
var errTaken = errors.New("another object has the name of the next revision")

// create stores the template of an AppService, with the snapshots and the policy of a step. The
// revision has the number of the step, or the next one whose name nobody has. If the history was
// remembered, a name that is taken is an error.
func (s *revisionStore) create(ctx context.Context, app *v1alpha1.AppService, step revise.Step, isRemembered bool) (revision.Stored, error) {
	first := step.Outcome.Revision
	for number := first; number < first+maxTakenNames; number++ {
		next, err := revision.New(app, number, step.Snapshots, step.Outcome.PodSecurity)
		if err != nil {
			return revision.Stored{}, err
		}
		if err := s.hub.Create(ctx, next); err == nil {
			return revision.Read(app, next)
		} else if !apierrors.IsAlreadyExists(err) {
			return revision.Stored{}, fmt.Errorf("store revision %d: %w", number, err)
		}
		if isRemembered {
			return revision.Stored{}, errTaken
		}
		stored, err := s.find(ctx, app, next)
		if err != nil {
			return revision.Stored{}, err
		} else if stored != nil && stored.Is(app, step.Snapshots) {
			return *stored, nil
		}
	}
	return revision.Stored{}, errors.New("store a revision: other objects have the names " + revision.Name(app.Name, first) + " and later")
}

// find returns the revision that the hub has with the name of another, or nil if it is no revision
// of the AppService. The response to its creation was lost, or its label was removed.
func (s *revisionStore) find(ctx context.Context, app *v1alpha1.AppService, want *appsv1.ControllerRevision) (*revision.Stored, error) {
	existing := &appsv1.ControllerRevision{}
	if err := s.live.Get(ctx, client.ObjectKeyFromObject(want), existing); err != nil {
		return nil, fmt.Errorf("read ControllerRevision %s: %w", want.Name, err)
	}
	stored, err := revision.Read(app, existing)
	if err != nil {
		return nil, nil //nolint:nilerr // another object has the name
	}
	return &stored, nil
}

// delete deletes old revisions, and returns the history without those that are deleted.
func (s *revisionStore) delete(ctx context.Context, history revision.History, superfluous []*appsv1.ControllerRevision) revision.History {
	for _, object := range superfluous {
		only := client.Preconditions{UID: new(object.UID)}
		if err := s.hub.Delete(ctx, object, only); client.IgnoreNotFound(err) != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Delete an old revision; the next edit tries again", "controllerRevision", object.Name)
			continue
		}
		history = history.Without(object)
	}
	return history
}
