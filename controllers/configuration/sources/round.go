package sources

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
)

// round is one call of Decide.
type round struct {
	*Sources
	app   *v1alpha1.AppService
	state *appState
	in    configuration.Input
}

func (r *round) keyOf(ref configuration.Ref) objectKey {
	return objectKey{ref.Kind, r.app.Namespace, ref.From}
}

func (r *round) identity(ref configuration.Ref) configuration.Identity {
	return configuration.Identity{Namespace: r.app.Namespace, AppService: r.app.Name, Ref: ref}
}

// gather sets what is known about the sources and the snapshots.
func (r *round) gather(ctx context.Context) {
	r.in.Memory = r.state.memory
	for _, kind := range kinds {
		r.in.Snapshots = append(r.in.Snapshots, r.snapshots(kind)...)
	}
	for _, ref := range r.in.Refs() {
		r.in.Sources[ref] = r.withKnown(ref, r.source(ctx, ref))
	}
}

// snapshots returns the snapshots of a kind. If they cannot be listed, those that are named count as
// existing.
func (r *round) snapshots(kind v1alpha1.ConfigurationKind) []configuration.Snapshot {
	w := r.watchOf(kind, r.app.Namespace)
	if w.isForbidden() || !w.informer.HasSynced() {
		if !w.isForbidden() {
			r.in.Unlisted = append(r.in.Unlisted, kind)
		}
		ofOtherKind := func(s configuration.Snapshot) bool { return s.Kind != kind }
		return slices.DeleteFunc(named(r.in), ofOtherKind)
	}
	cached := r.state.withoutPruned(w.snapshots(r.app.Namespace, r.app.Name))
	return r.state.withWritten(kind, cached, r.in.Now)
}

// source returns what is known about a source, without its content. A source that the watch lacks is
// looked up: the watch does not know whether it exists without the label.
func (r *round) source(ctx context.Context, ref configuration.Ref) configuration.Source {
	w, key := r.watchOf(ref.Kind, r.app.Namespace), r.keyOf(ref)
	switch {
	case w.isForbidden():
		return configuration.Source{Presence: configuration.PresenceForbidden}
	case r.app.Namespace == r.options.OperatorNamespace:
		return configuration.Source{}
	case !w.informer.HasSynced():
		return configuration.Source{Failure: w.lastFailure()}
	}
	known, isKnown := r.lookups.get(key, r.in.Now)
	cached := w.get(key.namespace, key.name)
	switch {
	case cached != nil && isKnown && known.Presence == configuration.PresenceFound && isAtLeast(known.Version, versionOf(cached)):
		return known // the watch may be behind
	case cached != nil:
		return r.describe(ref, &object{ObjectMeta: &cached.ObjectMeta})
	case isKnown:
		return known
	}
	if refused, exists := r.state.refusals[ref]; exists && refused.version == "" && r.in.Now.Before(refused.until) {
		return configuration.Source{Presence: configuration.PresenceFound}
	}
	if r.in.Now.Before(r.state.failures[ref].until) {
		return configuration.Source{}
	}
	return r.lookUp(ctx, ref)
}

// lookUp reads the metadata of a source live.
func (r *round) lookUp(ctx context.Context, ref configuration.Ref) configuration.Source {
	events := r.events.Load()
	found, err := r.contents.metadata(ctx, r.keyOf(ref))
	switch {
	case apierrors.IsNotFound(err):
		return r.remember(ref, configuration.Source{Presence: configuration.PresenceAbsent}, events)
	case err != nil && isRefusal(err):
		r.refuse(ref, "", problemOf(r.app.Namespace, err))
		return configuration.Source{Presence: configuration.PresenceFound}
	case err != nil:
		r.fail(ref, err)
		return configuration.Source{}
	}
	return r.remember(ref, r.describe(ref, found), events)
}

// describe returns what the metadata of a source say.
func (r *round) describe(ref configuration.Ref, found *object) configuration.Source {
	return configuration.Source{
		Presence:     configuration.PresenceFound,
		Version:      versionOf(found),
		IsLabelled:   found.Labels[v1alpha1.LabelPropagate] == "true",
		IsKubeconfig: ref.Kind == v1alpha1.ConfigurationSecret && r.options.IsKubeconfig != nil && r.options.IsKubeconfig(found),
	}
}

// remember keeps the result of a live read, unless there was an event since it began, which may be
// newer.
func (r *round) remember(ref configuration.Ref, source configuration.Source, eventsBefore uint64) configuration.Source {
	if r.events.Load() == eventsBefore {
		r.lookups.set(r.keyOf(ref), source, r.in.Now)
	}
	return source
}

// withKnown returns a source with what was read of this version, and with what the hub refused, or what
// failed. What is tried again is not collected again: otherwise the status would change each time.
func (r *round) withKnown(ref configuration.Ref, source configuration.Source) configuration.Source {
	if known, exists := r.state.readings[ref]; exists && known.version == source.Version {
		source.Digest, source.EqualTo, source.Type, source.Size = known.digest, known.equalTo, known.kind, known.size
	}
	refused, exists := r.state.refusals[ref]
	switch {
	case !exists:
	case refused.version != source.Version || source.Presence != configuration.PresenceFound:
		delete(r.state.refusals, ref)
	case r.in.Now.Before(refused.until):
		source.Problem = refused.problem
	default:
		delete(r.state.refusals, ref)
		r.in.Memory = collected(r.in.Memory, ref, source.Version, r.in.Now)
	}
	switch failed, exists := r.state.failures[ref]; {
	case !exists:
	case r.in.Now.Before(failed.until):
		source.Failure = failed.problem
	case source.Presence == configuration.PresenceFound:
		r.in.Memory = collected(r.in.Memory, ref, source.Version, r.in.Now)
	}
	return source
}

// collected returns a memory in which the change to this version was collected before.
func collected(memory configuration.Memory, ref configuration.Ref, version string, now time.Time) configuration.Memory {
	versions := map[configuration.Ref]string{ref: version}
	for other, seen := range memory.Versions {
		if other != ref {
			versions[other] = seen
		}
	}
	memory.Versions = versions
	if memory.First.IsZero() {
		memory.First, memory.Last = now.Add(-time.Minute), now.Add(-time.Minute)
	}
	return memory
}

// refuse notes that the hub refuses something that a source needs, and returns the source with the
// problem.
func (r *round) refuse(ref configuration.Ref, version string, problem *configuration.Problem) {
	r.state.refusals[ref] = refusal{version, problem, r.in.Now.Add(retryRefused)}
	source := r.in.Sources[ref]
	source.Problem = problem
	r.in.Sources[ref] = source
}

// fail notes that a request for a source has failed, and when it may be tried again.
func (r *round) fail(ref configuration.Ref, err error) {
	failed := failure{problem: failureOf(err), count: r.state.failures[ref].count + 1, until: r.in.Now}
	failed.until = failed.until.Add(min(retryFailed<<min(failed.count-1, 10), retryRefused))
	r.state.failures[ref] = failed
	source := r.in.Sources[ref]
	source.Failure = failed.problem
	r.in.Sources[ref] = source
}

// forgetFailures forgets those whose time has passed: the request has succeeded since, or is not needed
// now.
func (r *round) forgetFailures() {
	maps.DeleteFunc(r.state.failures, func(_ configuration.Ref, failed failure) bool { return !r.in.Now.Before(failed.until) })
}

// giveUp makes the sources fail that change while they are read.
func (r *round) giveUp(decision configuration.Decision) {
	err := errors.New("it changes while it is read")
	for _, ref := range decision.Read {
		r.fail(ref, err)
	}
	for _, created := range decision.Create {
		r.fail(created.Ref, err)
	}
}

// carryOut reads and creates what a decision needs. It reports whether the decision can be used.
// Otherwise, it has changed the input.
func (r *round) carryOut(ctx context.Context, decision configuration.Decision) bool {
	for _, ref := range decision.Read {
		r.read(ctx, ref)
	}
	if len(decision.Read) > 0 {
		return false
	}
	isDone := true
	for _, created := range decision.Create {
		isCreated := r.create(ctx, created)
		isDone = isDone && isCreated
	}
	return isDone
}

// read reads the content of a source.
func (r *round) read(ctx context.Context, ref configuration.Ref) {
	version, events := r.in.Sources[ref].Version, r.events.Load()
	found, err := r.contents.get(ctx, r.keyOf(ref), version)
	switch {
	case apierrors.IsNotFound(err):
		r.in.Sources[ref] = r.remember(ref, configuration.Source{Presence: configuration.PresenceAbsent}, events)
		return
	case err != nil && isRefusal(err):
		r.refuse(ref, version, problemOf(r.app.Namespace, err))
		return
	case err != nil:
		r.fail(ref, err)
		return
	}
	source := r.remember(ref, r.describe(ref, found), events)
	r.in.Sources[ref] = source
	if !source.IsLabelled || source.IsKubeconfig {
		return
	}
	known, err := r.readingOf(ctx, ref, found)
	var badKey *badKeyError
	switch {
	case errors.As(err, &badKey):
		r.refuse(ref, source.Version, &configuration.Problem{Reason: v1alpha1.ReasonConfigurationForbidden, Message: badKey.Error()})
	case err != nil && isRefusal(err):
		r.refuse(ref, source.Version, problemOf(r.app.Namespace, err))
	case err != nil:
		r.fail(ref, err)
	default:
		r.state.readings[ref] = known
		r.in.Sources[ref] = r.withKnown(ref, source)
	}
}

// readingOf returns what a decision needs of a content.
func (r *round) readingOf(ctx context.Context, ref configuration.Ref, found *object) (reading, error) {
	key, err := r.key.get(ctx)
	if err != nil {
		return reading{}, err
	}
	known := reading{
		version: versionOf(found), digest: configuration.DigestOf(key.Key, r.identity(ref), found.content),
		kind: found.content.Type, size: found.content.Size(),
	}
	known.equalTo, err = r.equalTo(ctx, key, known.digest, ref, found.content)
	return known, err
}

// maxComparisons is how many snapshots are compared with a content after the key has changed.
const maxComparisons = 3

// equalTo returns the name of a snapshot with the same content and another digest, because it was
// created with another key, or "". Snapshots with the present key are not compared: another digest
// is another content.
func (r *round) equalTo(ctx context.Context, key *storedKey, digest configuration.Digest, ref configuration.Ref, content configuration.Content) (string, error) {
	var candidates []configuration.Snapshot
	for _, snapshot := range r.in.Snapshots {
		isLike := snapshot.Ref == ref && snapshot.Owner == r.app.UID && snapshot.Size == content.Size() && snapshot.Type == content.Type
		if isLike && snapshot.Digest == digest {
			return "", nil
		}
		if isLike && !key.hasMade(snapshot) {
			candidates = append(candidates, snapshot)
		}
	}
	isInUse := func(s configuration.Snapshot) int {
		for _, status := range r.in.Status {
			if status.Snapshot == s.Name {
				return 0
			}
		}
		return 1
	}
	slices.SortFunc(candidates, func(a, b configuration.Snapshot) int {
		return cmp.Or(cmp.Compare(isInUse(a), isInUse(b)), b.CreationTime.Compare(a.CreationTime.Time), cmp.Compare(a.Name, b.Name))
	})
	for _, candidate := range candidates[:min(len(candidates), maxComparisons)] {
		stored, err := r.hub.read(ctx, objectKey{ref.Kind, r.app.Namespace, candidate.Name})
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return "", err
		case stored.UID == candidate.UID && stored.content.Equal(content):
			return candidate.Name, nil
		}
	}
	return "", nil
}

// create creates a snapshot. It reports whether the snapshot exists now. Otherwise, it has changed
// the input.
func (r *round) create(ctx context.Context, created configuration.Creation) bool {
	version := r.in.Sources[created.Ref].Version
	found, err := r.contents.get(ctx, r.keyOf(created.Ref), version)
	if err != nil || versionOf(found) != version { // it has changed since, or cannot be read any more
		r.read(ctx, created.Ref)
		return false
	}
	digest := r.in.Sources[created.Ref].Digest
	stored, err := r.hub.create(ctx, configuration.NewSnapshot(r.app, created, digest, found.content))
	switch {
	case apierrors.IsAlreadyExists(err):
		return r.adopt(ctx, created, digest)
	case err != nil && isRefusal(err):
		r.refuse(created.Ref, version, problemOf(r.app.Namespace, err))
		return false
	case err != nil:
		r.fail(created.Ref, err)
		return false
	}
	r.addSnapshot(configuration.SnapshotOf(created.Kind, stored))
	return true
}

// adopt checks an object with the name of a snapshot that was not in the cache: the response to its
// creation was lost, or somebody else has created it.
func (r *round) adopt(ctx context.Context, created configuration.Creation, digest configuration.Digest) bool {
	existing, err := r.hub.readMetadata(ctx, objectKey{created.Kind, r.app.Namespace, created.Name})
	if err != nil {
		r.fail(created.Ref, err)
		return false
	}
	snapshot := configuration.SnapshotOf(created.Kind, existing)
	if snapshot.Owner == r.app.UID && snapshot.Digest == digest {
		r.addSnapshot(snapshot)
		return true
	}
	r.addSnapshot(snapshot)
	r.refuse(created.Ref, r.in.Sources[created.Ref].Version, nil)
	return false
}

// addSnapshot adds an object with the name of a snapshot to the input of this decision, and of those
// until the cache has it.
func (r *round) addSnapshot(snapshot configuration.Snapshot) {
	r.state.addWritten(snapshot, r.in.Now)
	r.in.Snapshots = append(r.in.Snapshots, snapshot)
}

// recheckAfter returns when to decide again at the latest: when something that the hub refused, or
// that failed, is tried again. 0 is never.
func (r *round) recheckAfter(wanted time.Duration) time.Duration {
	earlier := func(until time.Time) {
		wait := max(until.Sub(r.in.Now), time.Millisecond)
		if wanted == 0 || wait < wanted {
			wanted = wait
		}
	}
	for _, refused := range r.state.refusals {
		earlier(refused.until)
	}
	for _, failed := range r.state.failures {
		earlier(failed.until)
	}
	return wanted
}
