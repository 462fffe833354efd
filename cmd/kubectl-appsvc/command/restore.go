package command

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/difference"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/revision"
)

// suspectSources returns the snapshots of a revision whose sources may have another content now. At
// rest, a source has the content of the snapshot in its status.
func suspectSources(app *v1alpha1.AppService, to revision.Stored) []configuration.Named {
	var suspect []configuration.Named
	for _, named := range to.Configuration {
		status := configurationStatus(app, refOf(named))
		if status.Snapshot != named.Snapshot || status.Reason != "" {
			suspect = append(suspect, named)
		}
	}
	return suspect
}

// differentSources returns the suspect snapshots of a revision whose content is not the one that the
// next revision has. Snapshots of one content have different names if the key has changed. Where the
// caller may not read the content, the names decide.
func differentSources(contents contentReader, to revision.Stored, suspect []configuration.Named) []configuration.Named {
	var different []configuration.Named
	for _, named := range suspect {
		was, is := contents.named(to, refOf(named)), contents.Present(refOf(named))
		if was.Name == is.Name || was.Known != nil && is.Known != nil && was.Known.Equal(*is.Known) {
			continue
		}
		different = append(different, named)
	}
	return different
}

func refOf(named configuration.Named) configuration.Ref {
	return configuration.Ref{Kind: named.Kind, From: named.From}
}

// listResources names the sources of snapshots.
func listResources(all []configuration.Named) string {
	var names []string
	for _, named := range all {
		names = append(names, difference.Resource(refOf(named)))
	}
	return strings.Join(names, ", ")
}

// restoration is a source whose content is to be that of a snapshot again.
type restoration struct {
	configuration.Named
	// source is the object as it is, or nil if it does not exist.
	source *carrier
	// restored is the object as it is to be.
	restored client.Object
}

func (r restoration) String() string { return difference.Resource(refOf(r.Named)) }

// restoreSources returns sources to the content of a revision. It checks all of them before it
// changes the first one.
func (o *hubOptions) restoreSources(ctx context.Context, h hub, app *v1alpha1.AppService, to revision.Stored, suspect []configuration.Named, isForced bool) error {
	var all []restoration
	for _, named := range suspect {
		found, err := h.prepareRestoration(ctx, app, named, isForced)
		if err != nil {
			return fmt.Errorf("%s cannot have the content of revision %d again: %w. Nothing is changed", difference.Resource(refOf(named)), to.Number, err)
		}
		if found.restored == nil {
			o.say("%s: has the content of revision %d", found, to.Number)
			o.noteConsent(app, found)
			continue
		}
		all = append(all, found)
	}
	for _, r := range all {
		if err := h.restore(ctx, r, client.DryRunAll); err != nil {
			return fmt.Errorf("%s cannot be changed: %w. Nothing is changed", r, err)
		}
	}
	for _, r := range all {
		if err := h.restore(ctx, r); err != nil {
			return fmt.Errorf("%s cannot be changed: %w. What is printed above is done; the command can be repeated", r, err)
		}
		o.say("%s: has the content of revision %d again", r, to.Number)
		o.noteConsent(app, r)
	}
	return nil
}

// noteConsent says that the content of a source is not used before its owner agrees.
func (o *hubOptions) noteConsent(app *v1alpha1.AppService, r restoration) {
	if r.source != nil && !isPropagated(r.source) {
		o.note("%s has no effect before its owner agrees: kubectl label %s -n %s %s=true", r, r, app.Namespace, v1alpha1.LabelPropagate)
	}
}

// prepareRestoration reads a source and its snapshot. The source has the content already if nothing
// is to be restored.
func (h hub) prepareRestoration(ctx context.Context, app *v1alpha1.AppService, named configuration.Named, isForced bool) (restoration, error) {
	r := restoration{Named: named}
	if configuration.IsAbsent(named.Snapshot) {
		return r, fmt.Errorf("the object did not exist then. To run without it, remove it from spec.configuration")
	}
	snapshot, err := h.readCarrier(ctx, named.Kind, app.Namespace, named.Snapshot)
	switch {
	case apierrors.IsNotFound(err):
		return r, fmt.Errorf("its snapshot %s does not exist any more", named.Snapshot)
	case err != nil:
		return r, fmt.Errorf("read the snapshot %s: %s", named.Snapshot, describe(err))
	case !isSnapshot(app, refOf(named), snapshot):
		return r, fmt.Errorf("%s is not a snapshot of AppService %s", named.Snapshot, app.Name)
	}
	source, err := h.readCarrier(ctx, named.Kind, app.Namespace, named.From)
	if apierrors.IsNotFound(err) {
		r.restored = newSource(named, app.Namespace, snapshot)
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("read it: %s", describe(err))
	}
	r.source = &source
	switch owner := ownerOf(source); {
	case source.content.Equal(snapshot.content):
		return r, nil
	case source.isImmutable:
		return r, fmt.Errorf("it is immutable. Delete it, and repeat the command, which creates it again: kubectl delete %s -n %s", r, app.Namespace)
	case source.content.Type != snapshot.content.Type:
		return r, fmt.Errorf("its type is %s, and was %s. Delete it, and repeat the command, which creates it again: kubectl delete %s -n %s",
			source.content.Type, snapshot.content.Type, r, app.Namespace)
	case owner != "" && !isForced:
		return r, fmt.Errorf("%s owns it and would change it back: restore the content there; --force changes it here nevertheless", owner)
	}
	r.restored = source.withContent(snapshot.content)
	return r, nil
}

// newSource returns a source with the content of a snapshot. Its creator agrees that it leaves the
// hub.
func newSource(named configuration.Named, namespace string, snapshot carrier) client.Object {
	empty := carrierOf(newCarrier(named.Kind, namespace, named.From))
	source := empty.withContent(snapshot.content)
	setType(source, snapshot.content.Type)
	source.SetLabels(map[string]string{v1alpha1.LabelPropagate: "true"})
	return source
}

// ownerOf returns what writes the content of a source, or "" if nothing is known to do so.
func ownerOf(source carrier) string {
	if owner := metav1.GetControllerOf(source); owner != nil {
		return owner.Kind + " " + owner.Name
	}
	return gitOwner(source)
}

// restore writes a source, unless it has changed since it was read.
func (h hub) restore(ctx context.Context, r restoration, options ...client.PatchOption) error {
	var err error
	restored := r.restored.DeepCopyObject().(client.Object)
	if r.source == nil {
		create := []client.CreateOption{client.FieldOwner(fieldManager)}
		if len(options) > 0 {
			create = append(create, client.DryRunAll)
		}
		err = h.Create(ctx, restored, create...)
	} else {
		patch := client.MergeFromWithOptions(r.source.Object, client.MergeFromWithOptimisticLock{})
		err = h.Patch(ctx, restored, patch, append(options, patchOptions)...)
	}
	return withoutContent(r.Kind, err)
}
