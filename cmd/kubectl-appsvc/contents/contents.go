package contents

import (
	"cmp"
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/difference"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/revision"
)

// Carrier is a ConfigMap or a Secret of the hub: a source of the configuration, or a snapshot.
type Carrier struct {
	client.Object
	Content     configuration.Content
	IsImmutable bool
}

// NewCarrier returns an empty ConfigMap or Secret.
func NewCarrier(kind v1alpha1.ConfigurationKind, namespace, name string) client.Object {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name}
	if kind == v1alpha1.ConfigurationSecret {
		return &corev1.Secret{ObjectMeta: meta}
	}
	return &corev1.ConfigMap{ObjectMeta: meta}
}

// Read reads a ConfigMap or a Secret with the permissions of the caller.
func Read(ctx context.Context, h hub.Client, kind v1alpha1.ConfigurationKind, namespace, name string) (Carrier, error) {
	object := NewCarrier(kind, namespace, name)
	if err := h.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
		return Carrier{}, err
	}
	return CarrierOf(object), nil
}

// CarrierOf returns a ConfigMap or a Secret with its content.
func CarrierOf(object client.Object) Carrier {
	switch typed := object.(type) {
	case *corev1.ConfigMap:
		return Carrier{object, configuration.OfConfigMap(typed), typed.Immutable != nil && *typed.Immutable}
	case *corev1.Secret:
		return Carrier{object, configuration.OfSecret(typed), typed.Immutable != nil && *typed.Immutable}
	}
	return Carrier{Object: object}
}

// WithContent returns a copy of an object with another content. Its type stays.
func (c Carrier) WithContent(content configuration.Content) client.Object {
	changed := c.DeepCopyObject().(client.Object)
	switch typed := changed.(type) {
	case *corev1.ConfigMap:
		typed.Data, typed.BinaryData = map[string]string{}, maps.Clone(content.BinaryData)
		for key, value := range content.Data {
			typed.Data[key] = string(value)
		}
	case *corev1.Secret:
		typed.Data = maps.Clone(content.Data)
	}
	return changed
}

// Reader reads the contents of the configuration of an AppService, each once.
type Reader struct {
	app  *v1alpha1.AppService
	read func(kind v1alpha1.ConfigurationKind, name string) (Carrier, error)
}

// Of returns a reader of the contents of the configuration of an AppService.
func Of(ctx context.Context, h hub.Client, app *v1alpha1.AppService) Reader {
	type result struct {
		found Carrier
		err   error
	}
	known := map[configuration.Ref]result{}
	return Reader{app, func(kind v1alpha1.ConfigurationKind, name string) (Carrier, error) {
		key := configuration.Ref{Kind: kind, From: name}
		if _, isKnown := known[key]; !isKnown {
			found, err := Read(ctx, h, kind, app.Namespace, name)
			known[key] = result{found, err}
		}
		return known[key].found, known[key].err
	}}
}

// Snapshot returns the content that a snapshot of a source has.
func (r Reader) Snapshot(source configuration.Ref, name string) difference.Content {
	found, err := r.read(source.Kind, name)
	switch {
	case err != nil:
		return difference.Content{Name: name, Problem: describeRead(err)}
	case !IsSnapshot(r.app, source, found):
		return difference.Content{Name: name, Problem: "it is not a snapshot of the AppService"}
	}
	return difference.Content{Name: name, Known: &found.Content}
}

// IsSnapshot reports whether an object is a snapshot of a source of an AppService.
func IsSnapshot(app *v1alpha1.AppService, source configuration.Ref, object client.Object) bool {
	snapshot := configuration.SnapshotOf(source.Kind, object)
	id := configuration.Identity{Namespace: app.Namespace, AppService: app.Name, Ref: source}
	return snapshot.Owner == app.UID && snapshot.Ref == source && snapshot.Name == configuration.Name(id, snapshot.Digest)
}

// Named returns the content that a revision names for a source, or none.
func (r Reader) Named(stored revision.Stored, source configuration.Ref) difference.Content {
	for _, named := range stored.Configuration {
		if RefOf(named) == source && !configuration.IsAbsent(named.Snapshot) {
			return r.Snapshot(source, named.Snapshot)
		}
	}
	return difference.Content{}
}

// Present returns the content of a source that the next revision has.
func (r Reader) Present(source configuration.Ref) difference.Content {
	status := ConfigurationStatus(r.app, source)
	if configuration.IsAbsent(status.Snapshot) {
		status.Snapshot = ""
	}
	content, isUsed := r.fromSource(source, status)
	if !isUsed && status.Snapshot != "" { // the last content stays in use
		return r.Snapshot(source, status.Snapshot)
	}
	return content
}

// fromSource returns the content of the object on the hub. It returns false, and why, if the object
// must not be used.
func (r Reader) fromSource(source configuration.Ref, status v1alpha1.ConfigurationStatus) (difference.Content, bool) {
	switch status.Reason {
	case v1alpha1.ReasonTypeRefused, v1alpha1.ReasonTooLarge, v1alpha1.ReasonNameTaken,
		v1alpha1.ReasonConfigurationForbidden, v1alpha1.ReasonPropagationDisabled:
		return difference.Content{Problem: status.Reason}, false
	}
	found, err := r.read(source.Kind, source.From)
	switch {
	case apierrors.IsNotFound(err):
		return difference.Content{Problem: "it does not exist", IsAbsent: true}, false
	case err != nil: // the name of the snapshot is enough to see that nothing changes
		return difference.Content{Name: cmp.Or(status.Snapshot, difference.Resource(source)), Problem: describeRead(err)}, true
	case !IsPropagated(found):
		return difference.Content{Problem: "it has no label " + v1alpha1.LabelPropagate + "=true"}, false
	case versionOf(found) == status.ObservedVersion && status.Snapshot != "":
		return difference.Content{Name: status.Snapshot, Known: &found.Content}, true
	}
	return difference.Content{Name: "the content of " + difference.Resource(source), Known: &found.Content}, true
}

// IsPropagated reports whether the owner of an object agrees that it leaves the hub.
func IsPropagated(object client.Object) bool {
	return object.GetLabels()[v1alpha1.LabelPropagate] == "true"
}

// versionOf returns the version of a source as in status.configuration.
func versionOf(object client.Object) string {
	return string(object.GetUID()) + "/" + object.GetResourceVersion()
}

// ConfigurationStatus returns what the status says about a source, or only its name.
func ConfigurationStatus(app *v1alpha1.AppService, source configuration.Ref) v1alpha1.ConfigurationStatus {
	for _, status := range app.Status.Configuration {
		if status.Kind == source.Kind && status.From == source.From {
			return status
		}
	}
	return v1alpha1.ConfigurationStatus{Kind: source.Kind, From: source.From}
}

// describeRead says why an object could not be read.
func describeRead(err error) string {
	switch {
	case apierrors.IsForbidden(err):
		return "you have no permission to read it"
	case apierrors.IsNotFound(err):
		return "it does not exist any more"
	}
	return hub.Describe(err)
}

// WithoutContent returns an error of a write without a message that may quote the content of a
// Secret, such as that of an admission webhook.
func WithoutContent(kind v1alpha1.ConfigurationKind, err error) error {
	if reason := apierrors.ReasonForError(err); kind == v1alpha1.ConfigurationSecret && reason != metav1.StatusReasonUnknown {
		return fmt.Errorf("the hub refuses it (%s)", cmp.Or(configuration.KnownReason(reason), "the reason is not shown: it may quote the Secret"))
	}
	return err
}

// SetType sets the type of a Secret that does not exist yet.
func SetType(object client.Object, kind corev1.SecretType) {
	if secret, isSecret := object.(*corev1.Secret); isSecret {
		secret.Type = kind
	}
}

// RefOf returns the source of a snapshot.
func RefOf(named configuration.Named) configuration.Ref {
	return configuration.Ref{Kind: named.Kind, From: named.From}
}
