package revision

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/numbering"
)

// DefaultHistoryLimit is the number of old revisions that are kept if the spec does not say it.
const DefaultHistoryLimit = 10

// Name returns the name of a ControllerRevision.
func Name(app string, number int64) string { return app + "-" + strconv.FormatInt(number, 10) }

// numberOf returns the number in the name of a ControllerRevision, or 0 if the name is not one of
// the AppService's.
func numberOf(app, name string) int64 {
	suffix, found := strings.CutPrefix(name, app+"-")
	number, err := strconv.ParseInt(suffix, 10, 64)
	if !found || err != nil || Name(app, number) != name {
		return 0
	}
	return max(0, number)
}

// Of returns the revision that a member's Deployment was last applied for, or 0 if it does not say
// one. The number may be an outlier.
func Of(deployment metav1.Object) int64 {
	return numbering.Parse(deployment.GetAnnotations()[v1alpha1.AnnotationRevision])
}

// content is what a ControllerRevision stores: an AppService with only its template, the names of
// the snapshots of its configuration, and what its pod template must comply with.
type content struct {
	metav1.TypeMeta `json:",inline"`
	Spec            v1alpha1.AppServiceSpec `json:"spec"`
	Configuration   []configuration.Named   `json:"configuration,omitempty"`
	PodSecurity     *v1alpha1.PodSecurity   `json:"podSecurity,omitempty"`
}

// New returns the ControllerRevision for the template of an AppService, with these snapshots. Its pod
// template must comply with a policy; nil allows everything.
func New(app *v1alpha1.AppService, number int64, snapshots []configuration.Named, policy *v1alpha1.PodSecurity) (*appsv1.ControllerRevision, error) {
	kind := v1alpha1.GroupVersion.WithKind("AppService")
	data, err := json.Marshal(content{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: kind.Kind},
		Spec:     Template(app.Spec),

		Configuration: snapshots,
		PodSecurity:   policy,
	})
	if err != nil {
		return nil, fmt.Errorf("encode revision %d: %w", number, err)
	}
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: app.Namespace,
			Name:      Name(app.Name, number),
			Labels:    map[string]string{v1alpha1.LabelAppService: app.Name},
			// Without blockOwnerDeletion, which needs another permission on some clusters.
			OwnerReferences: []metav1.OwnerReference{{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: app.Name, UID: app.UID, Controller: new(true)}},
		},
		Data:     runtime.RawExtension{Raw: data},
		Revision: number,
	}, nil
}

// Stored is a revision in the history.
type Stored struct {
	Number   int64
	Template v1alpha1.AppServiceSpec
	// Configuration are the snapshots of the content that its Versioned sources have.
	Configuration []configuration.Named
	// PodSecurity is what the pod template must comply with, or nil.
	PodSecurity *v1alpha1.PodSecurity
	// Object is the ControllerRevision.
	Object *appsv1.ControllerRevision
}

// Read returns the revision that a ControllerRevision stores, and an error if the AppService does
// not own it, or if it cannot be decoded.
func Read(app *v1alpha1.AppService, object *appsv1.ControllerRevision) (Stored, error) {
	number := numberOf(app.Name, object.Name)
	if number == 0 || number != object.Revision {
		return Stored{}, fmt.Errorf("ControllerRevision %s has the revision %d, not the number in its name", object.Name, object.Revision)
	}
	if !metav1.IsControlledBy(object, app) {
		return Stored{}, fmt.Errorf("ControllerRevision %s is not controlled by AppService %s with UID %s", object.Name, app.Name, app.UID)
	}
	var stored content
	if err := json.Unmarshal(object.Data.Raw, &stored); err != nil {
		return Stored{}, fmt.Errorf("decode ControllerRevision %s: %w", object.Name, err)
	}
	// An older version of Fleetwright stored fields that take effect immediately now.
	template := Template(stored.Spec)
	return Stored{Number: number, Template: template, Configuration: stored.Configuration, PodSecurity: stored.PodSecurity, Object: object}, nil
}

// CheckKnown returns an error if the ControllerRevision has fields that this version of Fleetwright
// does not know.
func (s Stored) CheckKnown() error {
	decoder := json.NewDecoder(bytes.NewReader(s.Object.Data.Raw))
	decoder.DisallowUnknownFields()
	return decoder.Decode(&content{})
}

// History has the revisions of an AppService that are stored.
type History struct {
	// revisions are sorted by number, newest first.
	revisions []Stored
	// highest is the highest number in a name, also of objects that are no revisions.
	highest int64
}

// HistoryOf returns the history of an AppService. Objects that are no revisions of it are left out.
func HistoryOf(app *v1alpha1.AppService, objects []appsv1.ControllerRevision) History {
	var history History
	for i := range objects {
		history.highest = max(history.highest, numberOf(app.Name, objects[i].Name))
		if stored, err := Read(app, &objects[i]); err == nil {
			history.revisions = append(history.revisions, stored)
		}
	}
	slices.SortFunc(history.revisions, newestFirst)
	return history
}

// Next is the revision of a spec after an edit.
type Next struct {
	Number int64
	// IsStored is set if the history has the revision.
	IsStored bool
	// IsUndo is set if the revision is new, and has the template of the previous stable revision.
	IsUndo bool
	// IsRetry is set if the revision is new, and has the template of the failed revision.
	IsRetry bool
	// Same are the other revisions with the same template and snapshots that entries have, newest first.
	Same []int64
	// ChangedSources are the names of the sources whose snapshots differ from those of the stable
	// revision, or else of the revision of the status. They are empty if the template differs too.
	ChangedSources []string
}

// NextFor returns the revision with the template of an AppService and with these snapshots. This is
// the stable revision or that of the status, if it has both; or a later one that no status names: it
// was stored before a crash, or the status was lost. Anything else gets a new number, and so does the
// revision of the status if it is retried. Members have reported the numbers up to onMembers, which
// are not used again.
func (h History) NextFor(app *v1alpha1.AppService, snapshots []configuration.Named, onMembers int64, isRetry bool) Next {
	state := app.Status.Rollout
	isRetry = isRetry && h.has(state.Revision, app, snapshots)
	newest := slices.Max(append(inUse(app), state.Revision, state.LatestRevision, state.StableRevision, state.FailedRevision))
	named := newest
	if state.Revision == 0 { // the status was lost, and members may run the revision of the spec
		named = 0
	}
	if !isRetry && state.StableRevision != 0 && h.has(state.StableRevision, app, snapshots) {
		return Next{Number: state.StableRevision, IsStored: true}
	}
	next := Next{
		IsUndo:         state.PreviousRevision != 0 && h.has(state.PreviousRevision, app, snapshots),
		IsRetry:        isRetry,
		Same:           h.sameInUse(app, snapshots),
		ChangedSources: h.changedSources(cmp.Or(state.StableRevision, state.Revision), app, snapshots),
	}
	for _, stored := range h.revisions {
		isCurrent := stored.Number == state.Revision && !isRetry
		if (isCurrent || stored.Number > named) && stored.Is(app, snapshots) {
			next.Number, next.IsStored, next.IsUndo = stored.Number, true, next.IsUndo && !isCurrent
			next.Same = slices.DeleteFunc(next.Same, func(number int64) bool { return number == stored.Number })
			return next
		}
	}
	next.Number = max(h.highest, newest, onMembers) + 1
	return next
}

// Is reports whether a revision has the template of an AppService, and these snapshots.
func (s Stored) Is(app *v1alpha1.AppService, snapshots []configuration.Named) bool {
	return configuration.SameSnapshots(s.Configuration, snapshots) && HasTemplate(app.Spec, s.Template)
}

// Find returns the revision with this number, or nil if it is not stored.
func (h History) Find(number int64) *Stored {
	for i := range h.revisions {
		if h.revisions[i].Number == number {
			return &h.revisions[i]
		}
	}
	return nil
}

// WithTemplateOf returns the newest revision that has the template of an AppService, with any
// snapshots, or nil.
func (h History) WithTemplateOf(app *v1alpha1.AppService) *Stored {
	for i := range h.revisions {
		if HasTemplate(app.Spec, h.revisions[i].Template) {
			return &h.revisions[i]
		}
	}
	return nil
}

// All returns the revisions, newest first. They must not be modified.
func (h History) All() []Stored { return h.revisions }

// With returns the history with another revision.
func (h History) With(another Stored) History {
	h.revisions = slices.Concat([]Stored{another}, h.revisions)
	slices.SortFunc(h.revisions, newestFirst)
	h.highest = max(h.highest, another.Number)
	return h
}

// Without returns the history without the revision of a ControllerRevision.
func (h History) Without(deleted *appsv1.ControllerRevision) History {
	h.revisions = slices.DeleteFunc(slices.Clone(h.revisions), func(s Stored) bool { return s.Object == deleted })
	return h
}

func newestFirst(a, b Stored) int { return cmp.Compare(b.Number, a.Number) }

// has reports whether the revision with this number is stored, and has the template of an AppService
// and these snapshots.
func (h History) has(number int64, app *v1alpha1.AppService, snapshots []configuration.Named) bool {
	stored := h.Find(number)
	return stored != nil && stored.Is(app, snapshots)
}

// maxSame is the maximum number of revisions with the same template that are remembered.
const maxSame = 16

// sameInUse returns the revisions with the template of an AppService and these snapshots that entries
// have, newest first.
func (h History) sameInUse(app *v1alpha1.AppService, snapshots []configuration.Named) []int64 {
	used := inUse(app)
	var same []int64
	for _, stored := range h.revisions {
		if len(same) < maxSame && slices.Contains(used, stored.Number) && stored.Is(app, snapshots) {
			same = append(same, stored.Number)
		}
	}
	return same
}

// changedSources returns the names of the sources whose snapshots differ from those of a revision,
// sorted. It returns none if the template of the AppService differs too.
func (h History) changedSources(number int64, app *v1alpha1.AppService, snapshots []configuration.Named) []string {
	before := h.Find(number)
	if before == nil || !HasTemplate(app.Spec, before.Template) {
		return nil
	}
	var names []string
	for _, named := range slices.Concat(snapshots, before.Configuration) {
		isInBoth := slices.Contains(snapshots, named) && slices.Contains(before.Configuration, named)
		if !isInBoth && !slices.Contains(names, named.From) {
			names = append(names, named.From)
		}
	}
	slices.Sort(names)
	return names
}

// Superfluous returns the ControllerRevisions to delete when the AppService gets this revision. The
// revisions that the status or an entry names are kept, and as many others as
// spec.revisionHistoryLimit allows, newest first.
func (h History) Superfluous(app *v1alpha1.AppService, number int64) []*appsv1.ControllerRevision {
	state := app.Status.Rollout
	if state.Revision == 0 { // the status was lost, and it is not known what the clusters run
		return nil
	}
	used := append(Named(app), number)
	limit := DefaultHistoryLimit
	if app.Spec.RevisionHistoryLimit != nil {
		limit = int(*app.Spec.RevisionHistoryLimit)
	}
	var superfluous []*appsv1.ControllerRevision
	for _, stored := range h.revisions {
		switch {
		case slices.Contains(used, stored.Number):
		case limit > 0:
			limit--
		default:
			superfluous = append(superfluous, stored.Object)
		}
	}
	return superfluous
}

// Named returns the revisions that the status and the entries of an AppService name and that are not
// deleted because of the limit, without duplicates.
func Named(app *v1alpha1.AppService) []int64 {
	state := app.Status.Rollout
	numbers := append(inUse(app), state.Revision, state.StableRevision, state.PreviousRevision)
	slices.Sort(numbers)
	return slices.DeleteFunc(slices.Compact(numbers), func(number int64) bool { return number == 0 })
}

// inUse returns the revisions that entries name, without duplicates.
func inUse(app *v1alpha1.AppService) []int64 {
	var numbers []int64
	for i := range app.Status.Clusters {
		if number := app.Status.Clusters[i].Revision; !slices.Contains(numbers, number) {
			numbers = append(numbers, number)
		}
	}
	return numbers
}
