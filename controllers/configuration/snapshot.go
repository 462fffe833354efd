package configuration

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// Object is a ConfigMap or a Secret.
type Object interface {
	metav1.Object
	runtime.Object
}

// NewSnapshot returns the object of a snapshot: a *corev1.ConfigMap or a *corev1.Secret. It shares
// memory with the content.
// docs/decisions/configuration-belongs-to-a-revision.md says why.
func NewSnapshot(app *v1alpha1.AppService, created Creation, digest Digest, content Content) Object {
	kind := v1alpha1.GroupVersion.WithKind("AppService")
	metadata := metav1.ObjectMeta{
		Namespace: app.Namespace,
		Name:      created.Name,
		Labels: map[string]string{
			v1alpha1.LabelAppService: app.Name,
			v1alpha1.LabelPropagate:  v1alpha1.PropagateSnapshot,
		},
		Annotations: map[string]string{
			v1alpha1.AnnotationDigest: digest.String(),
			v1alpha1.AnnotationSource: created.From,
			v1alpha1.AnnotationSize:   strconv.FormatInt(content.Size(), 10),
		},
		// Without blockOwnerDeletion, which needs another permission on some clusters.
		OwnerReferences: []metav1.OwnerReference{{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: app.Name, UID: app.UID, Controller: new(true)}},
	}
	if created.Serial > 0 {
		metadata.Annotations[v1alpha1.AnnotationSerial] = strconv.FormatInt(created.Serial, 10)
	}
	if created.Kind == v1alpha1.ConfigurationSecret {
		metadata.Annotations[v1alpha1.AnnotationType] = string(content.Type)
		return &corev1.Secret{ObjectMeta: metadata, Type: content.Type, Data: content.Data, Immutable: new(true)}
	}
	object := &corev1.ConfigMap{ObjectMeta: metadata, Data: make(map[string]string, len(content.Data)), BinaryData: content.BinaryData, Immutable: new(true)}
	for key, value := range content.Data {
		object.Data[key] = string(value)
	}
	return object
}

// SnapshotOf describes an object of this kind with the name of a snapshot. An annotation that is
// missing or malformed gives the zero value.
func SnapshotOf(kind v1alpha1.ConfigurationKind, object metav1.Object) Snapshot {
	annotations := object.GetAnnotations()
	number := func(annotation string) int64 {
		value, err := strconv.ParseInt(annotations[annotation], 10, 64)
		if err != nil {
			return 0
		}
		return max(0, value)
	}
	snapshot := Snapshot{
		Ref:          Ref{kind, annotations[v1alpha1.AnnotationSource]},
		Name:         object.GetName(),
		UID:          object.GetUID(),
		Owner:        ownerOf(object),
		CreationTime: object.GetCreationTimestamp(),
		Digest:       ParseDigest(annotations[v1alpha1.AnnotationDigest]),
		Size:         number(v1alpha1.AnnotationSize),
		Serial:       number(v1alpha1.AnnotationSerial),
	}
	if kind == v1alpha1.ConfigurationSecret {
		snapshot.Type = corev1.SecretType(annotations[v1alpha1.AnnotationType])
	}
	return snapshot
}

// ownerOf returns the UID of the AppService that controls an object, or "".
func ownerOf(object metav1.Object) types.UID {
	owner := metav1.GetControllerOfNoCopy(object)
	if owner == nil || owner.Kind != "AppService" || !strings.HasPrefix(owner.APIVersion, v1alpha1.GroupVersion.Group+"/") {
		return ""
	}
	return owner.UID
}

// TemplateOf returns the configuration in a spec or in the template of a revision. It shares memory
// with it.
func TemplateOf(spec v1alpha1.AppServiceSpec) Template {
	template := Template{Entries: spec.Configuration, PullSecrets: spec.ImagePullSecrets}
	for _, override := range spec.Overrides {
		if len(override.Configuration) > 0 {
			template.Overrides = append(template.Overrides, override.Configuration)
		}
	}
	return template
}

// Refs returns the sources that a decision looks at, in no particular order.
func (in Input) Refs() []Ref {
	uses, _ := in.boundSources(in.uses())
	refs := make([]Ref, 0, len(uses))
	for _, found := range uses {
		refs = append(refs, found.Ref)
	}
	return refs
}
