package rollout

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/contents"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/difference"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/revision"
)

// suspectSources returns the snapshots of a revision whose sources may have another content now. At
// rest, a source has the content of the snapshot in its status.
func suspectSources(app *v1alpha1.AppService, to revision.Stored) []configuration.Named {
	var suspect []configuration.Named
	for _, named := range to.Configuration {
		status := contents.ConfigurationStatus(app, contents.RefOf(named))
		if status.Snapshot != named.Snapshot || status.Reason != "" {
			suspect = append(suspect, named)
		}
	}
	return suspect
}

// differentSources returns the suspect snapshots of a revision whose content is not the one that the
// next revision has. Snapshots of one content have different names if the key has changed. Where the
// caller may not read the content, the names decide.
func differentSources(all contents.Reader, to revision.Stored, suspect []configuration.Named) []configuration.Named {
	var different []configuration.Named
	for _, named := range suspect {
		was, is := all.Named(to, contents.RefOf(named)), all.Present(contents.RefOf(named))
		if was.Name == is.Name || was.Known != nil && is.Known != nil && was.Known.Equal(*is.Known) {
			continue
		}
		different = append(different, named)
	}
	return different
}

// listResources names the sources of snapshots.
func listResources(all []configuration.Named) string {
	var names []string
	for _, named := range all {
		names = append(names, difference.Resource(contents.RefOf(named)))
	}
	return strings.Join(names, ", ")
}

// restoration is a source whose content is to be that of a snapshot again.
type restoration struct {
	configuration.Named
	// source is the object as it is, or nil if it does not exist.
	source *contents.Carrier
	// restored is the object as it is to be.
	restored client.Object
}

func (r restoration) String() string { return difference.Resource(contents.RefOf(r.Named)) }

// restoreSources returns sources to the content of a revision. It checks all of them before it
// changes the first one.
func restoreSources(ctx context.Context, o *hub.Options, h hub.Client, app *v1alpha1.AppService, to revision.Stored, suspect []configuration.Named, isForced bool) error {
	var all []restoration
	for _, named := range suspect {
		found, err := prepareRestoration(ctx, h, app, named, isForced)
		if err != nil {
			return fmt.Errorf("%s cannot have the content of revision %d again: %w. Nothing is changed", difference.Resource(contents.RefOf(named)), to.Number, err)
		}
		if found.restored == nil {
			o.Say("%s: has the content of revision %d", found, to.Number)
			noteConsent(o, app, found)
			continue
		}
		all = append(all, found)
	}
	for _, r := range all {
		if err := restore(ctx, h, r, client.DryRunAll); err != nil {
			return fmt.Errorf("%s cannot be changed: %w. Nothing is changed", r, err)
		}
	}
	for _, r := range all {
		if err := restore(ctx, h, r); err != nil {
			return fmt.Errorf("%s cannot be changed: %w. What is printed above is done; the command can be repeated", r, err)
		}
		o.Say("%s: has the content of revision %d again", r, to.Number)
		noteConsent(o, app, r)
	}
	return nil
}

// noteConsent says that the content of a source is not used before its owner agrees.
func noteConsent(o *hub.Options, app *v1alpha1.AppService, r restoration) {
	if r.source != nil && !contents.IsPropagated(r.source) {
		o.Note("%s has no effect before its owner agrees: kubectl label %s -n %s %s=true", r, r, app.Namespace, v1alpha1.LabelPropagate)
	}
}

// prepareRestoration reads a source and its snapshot. The source has the content already if nothing
// is to be restored.
func prepareRestoration(ctx context.Context, h hub.Client, app *v1alpha1.AppService, named configuration.Named, isForced bool) (restoration, error) {
	r := restoration{Named: named}
	if configuration.IsAbsent(named.Snapshot) {
		return r, fmt.Errorf("the object did not exist then. To run without it, remove it from spec.configuration")
	}
	snapshot, err := contents.Read(ctx, h, named.Kind, app.Namespace, named.Snapshot)
	switch {
	case apierrors.IsNotFound(err):
		return r, fmt.Errorf("its snapshot %s does not exist any more", named.Snapshot)
	case err != nil:
		return r, fmt.Errorf("read the snapshot %s: %s", named.Snapshot, hub.Describe(err))
	case !contents.IsSnapshot(app, contents.RefOf(named), snapshot):
		return r, fmt.Errorf("%s is not a snapshot of AppService %s", named.Snapshot, app.Name)
	}
	source, err := contents.Read(ctx, h, named.Kind, app.Namespace, named.From)
	if apierrors.IsNotFound(err) {
		r.restored = newSource(named, app.Namespace, snapshot)
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("read it: %s", hub.Describe(err))
	}
	r.source = &source
	switch owner := ownerOf(source); {
	case source.Content.Equal(snapshot.Content):
		return r, nil
	case source.IsImmutable:
		return r, fmt.Errorf("it is immutable. Delete it, and repeat the command, which creates it again: kubectl delete %s -n %s", r, app.Namespace)
	case source.Content.Type != snapshot.Content.Type:
		return r, fmt.Errorf("its type is %s, and was %s. Delete it, and repeat the command, which creates it again: kubectl delete %s -n %s",
			source.Content.Type, snapshot.Content.Type, r, app.Namespace)
	case owner != "" && !isForced:
		return r, fmt.Errorf("%s owns it and would change it back: restore the content there; --force changes it here nevertheless", owner)
	}
	r.restored = source.WithContent(snapshot.Content)
	return r, nil
}

// newSource returns a source with the content of a snapshot. Its creator agrees that it leaves the
// hub.
func newSource(named configuration.Named, namespace string, snapshot contents.Carrier) client.Object {
	empty := contents.CarrierOf(contents.NewCarrier(named.Kind, namespace, named.From))
	source := empty.WithContent(snapshot.Content)
	contents.SetType(source, snapshot.Content.Type)
	source.SetLabels(map[string]string{v1alpha1.LabelPropagate: "true"})
	return source
}

// ownerOf returns what writes the content of a source, or "" if nothing is known to do so.
func ownerOf(source contents.Carrier) string {
	if owner := metav1.GetControllerOf(source); owner != nil {
		return owner.Kind + " " + owner.Name
	}
	return gitOwner(source)
}

// restore writes a source, unless it has changed since it was read.
func restore(ctx context.Context, h hub.Client, r restoration, options ...client.PatchOption) error {
	var err error
	restored := r.restored.DeepCopyObject().(client.Object)
	if r.source == nil {
		create := []client.CreateOption{client.FieldOwner(hub.FieldManager)}
		if len(options) > 0 {
			create = append(create, client.DryRunAll)
		}
		err = h.Create(ctx, restored, create...)
	} else {
		patch := client.MergeFromWithOptions(r.source.Object, client.MergeFromWithOptimisticLock{})
		err = h.Patch(ctx, restored, patch, append(options, hub.PatchOptions)...)
	}
	return contents.WithoutContent(r.Kind, err)
}
