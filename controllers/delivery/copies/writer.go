package copies

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/delivery/memberpolicy"
	"github.com/fleetwright/fleetwright/controllers/workload"
)

// metadataOnly asks for an answer without content. The member's connection accepts only JSON, so
// the metadata client of client-go, which prefers another format, cannot be used.
const metadataOnly = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

// maxUID is the length of the longest UID that is remembered. Those of Kubernetes have 36
// characters.
const maxUID = 64

// Writer writes copies to one member. It is safe for concurrent use.
// docs/decisions/copies-are-not-read.md says why.
type Writer struct{ core *rest.RESTClient }

// NewWriter returns a Writer that uses the client of a member. It sends no request.
func NewWriter(config *rest.Config, client *http.Client) (*Writer, error) {
	sending := *client
	sending.Transport = bodyTransport{cmp.Or(client.Transport, http.DefaultTransport)}
	config = rest.CopyConfig(config)
	config.APIPath, config.GroupVersion = "/api", &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	config.ContentType, config.AcceptContentTypes = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	core, err := rest.RESTClientForConfigAndClient(config, &sending)
	if err != nil {
		return nil, fmt.Errorf("make the client for copies: %w", err)
	}
	return &Writer{core}, nil
}

// Object is a copy to apply.
type Object struct {
	Key
	Namespace  string
	AppService string
	// Deployment is the UID of the Deployment that owns the copy. It has the name of the
	// AppService.
	Deployment types.UID
	// IsImmutable makes the copy immutable.
	IsImmutable bool
	// Content are the other fields as JSON, each with a comma before it. All members share them.
	Content []byte
}

// Apply creates a copy, or makes it have the content and the owner. It needs no right to read. An
// object of the name that is no copy of the AppService is left alone, and the error is a
// [NotCopyError]: its keys would stay beside the content. It returns the UID of the copy, or "" if
// the member does not say it.
func (w *Writer) Apply(ctx context.Context, object Object) (types.UID, error) {
	// An apply with a resource version creates an object, or conflicts; no object has version 1.
	uid, err := w.apply(ctx, object, metav1.ObjectMeta{ResourceVersion: "1"})
	if !isTaken(err) {
		return uid, describe("apply", object.Key, err)
	}
	found, lookUpErr := w.lookUpCopy(ctx, object)
	switch {
	case lookUpErr != nil:
		return "", lookUpErr
	case found == "": // it was deleted meanwhile
		return "", describe("apply", object.Key, err)
	}
	uid, err = w.apply(ctx, object, metav1.ObjectMeta{UID: found})
	return uid, describe("apply", object.Key, err)
}

// Update makes a copy that is there have another content. The UID is that of the copy, or "" if it
// is not known. If the copy is gone, or another object has its name, Update does the same as Apply.
func (w *Writer) Update(ctx context.Context, object Object, uid types.UID) (types.UID, error) {
	if uid != "" {
		updated, err := w.apply(ctx, object, metav1.ObjectMeta{UID: uid})
		if !isTaken(err) {
			return updated, describe("apply", object.Key, err)
		}
	}
	found, err := w.lookUpCopy(ctx, object)
	switch {
	case err != nil:
		return "", err
	case found == "":
		return w.Apply(ctx, object)
	}
	updated, err := w.apply(ctx, object, metav1.ObjectMeta{UID: found})
	return updated, describe("apply", object.Key, err)
}

// isTaken reports whether an apply failed because another object has the name of the copy, or none.
func isTaken(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// apply applies a copy if the object on the member has the UID and the resource version, and
// returns its UID.
func (w *Writer) apply(ctx context.Context, object Object, only metav1.ObjectMeta) (types.UID, error) {
	body, err := object.encode(only)
	if err != nil {
		return "", err
	}
	applied, err := metadataOf(w.request(w.core.Patch(types.ApplyYAMLPatchType), object.Namespace, object.Key).
		Param("fieldManager", v1alpha1.ManagedBy).Param("force", "true").Body(body).Do(silent(ctx)))
	if err != nil || applied == nil || len(applied.UID) > maxUID {
		return "", err // the next change looks it up
	}
	return applied.UID, nil
}

// metadataOf returns the metadata in an answer, or nil if the answer is not JSON.
func metadataOf(answer rest.Result) (*metav1.PartialObjectMetadata, error) {
	if err := answer.Error(); err != nil { // Raw does not decode the reason
		return nil, err
	}
	text, err := answer.Raw()
	if err != nil {
		return nil, err
	}
	found := &metav1.PartialObjectMetadata{}
	if !json.Valid(text) {
		return nil, nil
	}
	return found, json.Unmarshal(text, found)
}

// lookUpCopy returns the UID of a copy, or "" if there is no object of its name. If the object is
// no copy of the AppService, the error is a [NotCopyError]; also if the policy of the member shows
// only copies.
func (w *Writer) lookUpCopy(ctx context.Context, object Object) (types.UID, error) {
	found, err := w.lookUp(ctx, object.Namespace, object.Key)
	switch {
	case errors.Is(err, errNotLabelled):
		return "", &NotCopyError{object.Key}
	case found == nil:
		return "", err
	case !object.isCopy(found):
		return "", &NotCopyError{object.Key}
	}
	return found.UID, nil
}

// isCopy reports whether an object is a copy of the AppService, also of an earlier Deployment of
// it.
func (o Object) isCopy(found *metav1.PartialObjectMetadata) bool {
	isMarked := found.Labels[v1alpha1.LabelAppService] == o.AppService && found.Labels[v1alpha1.LabelManagedBy] == v1alpha1.ManagedBy
	return isMarked || slices.ContainsFunc(found.OwnerReferences, func(owner metav1.OwnerReference) bool {
		return owner.Kind == "Deployment" && owner.Name == o.AppService
	})
}

// NotCopyError is the error for an object that has the name of a copy, and was not created by
// Fleetwright.
type NotCopyError struct{ Key }

// Error describes what to do.
func (e *NotCopyError) Error() string {
	return fmt.Sprintf("%s %s exists and was not created by Fleetwright: delete it, so that the copy can be created", e.Kind, e.Name)
}

// Delete deletes a copy if the Deployment owns it. Other managers may change the record in the
// Deployment, so it is no reason to delete an object. It is success if a copy is gone, has another owner,
// or is not shown by the policy of the member. If there is something to delete, verify is called just
// before the request, and its error prevents it.
func (w *Writer) Delete(ctx context.Context, namespace string, of Key, deployment types.UID, verify func(context.Context) error) error {
	found, err := w.lookUp(ctx, namespace, of)
	if errors.Is(err, errNotLabelled) {
		return nil
	}
	if found == nil {
		return err
	}
	if len(found.OwnerReferences) != 1 || found.OwnerReferences[0].UID != deployment || found.UID == "" {
		return nil
	}
	if err := verify(ctx); err != nil {
		return err
	}
	options, err := json.Marshal(metav1.DeleteOptions{
		TypeMeta:      metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions: metav1.NewUIDPreconditions(string(found.UID)),
	})
	if err != nil {
		return err
	}
	err = w.request(w.core.Delete(), namespace, of).SetHeader("Content-Type", runtime.ContentTypeJSON).Body(options).Do(silent(ctx)).Error()
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // another object has taken its place
		return nil
	}
	return describe("delete", of, err)
}

// errNotLabelled is returned for an object that the policy of the member does not show.
var errNotLabelled = errors.New("the object has none of Fleetwright's labels")

// lookUp returns the metadata of an object, or nil if it does not exist. They are in the response
// to an empty patch, because Fleetwright may not read the object.
func (w *Writer) lookUp(ctx context.Context, namespace string, of Key) (*metav1.PartialObjectMetadata, error) {
	found, err := metadataOf(w.request(w.core.Patch(types.MergePatchType), namespace, of).
		Param("fieldManager", v1alpha1.ManagedBy).Body([]byte(`{}`)).Do(silent(ctx)))
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if refusal := memberpolicy.RefusalOf(err); refusal != nil && refusal.Code == memberpolicy.NotLabelled {
		return nil, errNotLabelled
	}
	if err != nil {
		return nil, describe("look up", of, err)
	}
	if found == nil {
		return nil, fmt.Errorf("look up %s %s: the answer is not JSON", of.Kind, of.Name)
	}
	return found, nil
}

func (w *Writer) request(request *rest.Request, namespace string, of Key) *rest.Request {
	resource := "configmaps"
	if of.Kind == workload.Secret {
		resource = "secrets"
	}
	return request.Namespace(namespace).Resource(resource).Name(of.Name).SetHeader("Accept", metadataOnly)
}

// silent returns a context without a logger: client-go logs requests and answers at a high
// verbosity, and the answer of an admission webhook may quote a Secret.
func silent(ctx context.Context) context.Context { return logr.NewContext(ctx, logr.Discard()) }

// encode returns the object as it is applied. The content is neither decoded nor copied.
func (o Object) encode(only metav1.ObjectMeta) (*body, error) {
	fields := map[string]any{
		"namespace": o.Namespace,
		"name":      o.Name,
		"labels":    workload.Labels(o.AppService),
		// Without blockOwnerDeletion, which needs another permission on some clusters.
		"ownerReferences": []map[string]any{{"apiVersion": "apps/v1", "kind": "Deployment", "name": o.AppService, "uid": o.Deployment}},
	}
	if only.UID != "" {
		fields["uid"] = only.UID
	}
	if only.ResourceVersion != "" {
		fields["resourceVersion"] = only.ResourceVersion
	}
	metadata, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("encode the metadata of %s %s: %w", o.Kind, o.Name, err)
	}
	return newBody(fmt.Appendf(nil, `{"apiVersion":"v1","kind":%q,"metadata":%s,"immutable":%t`, o.Kind, metadata, o.IsImmutable), o.Content), nil
}

// Error is an answer of the member to a request for a copy. Of an answer about a Secret it has only
// the reason and the code, because the message of an admission webhook may quote content.
type Error struct {
	// Key is the copy.
	Key
	verb   string
	status metav1.Status
}

// Error describes the answer.
func (e *Error) Error() string {
	answer := e.status.Message
	if answer == "" {
		answer = fmt.Sprintf("the member answered %d %s", e.status.Code, e.status.Reason)
	}
	return fmt.Sprintf("%s %s %s: %s", e.verb, e.Kind, e.Name, answer)
}

// Status returns the answer, so that the functions of apierrors can be used.
func (e *Error) Status() metav1.Status { return e.status }

// IsRefused reports whether the member refuses the copy until a person changes something: for
// permissions, a quota or an admission policy, or because the object is invalid.
func (e *Error) IsRefused() bool {
	return e.status.Code >= 400 && e.status.Code < 500 &&
		!apierrors.IsConflict(e) && !apierrors.IsTooManyRequests(e) && !apierrors.IsUnauthorized(e) && !apierrors.IsNotFound(e) && !apierrors.IsTimeout(e) &&
		!apierrors.HasStatusCause(e, corev1.NamespaceTerminatingCause)
}

// describe returns an error of a request with what it was about, and without the content of a
// Secret.
func describe(verb string, of Key, err error) error {
	if err == nil {
		return nil
	}
	var answered apierrors.APIStatus
	if !errors.As(err, &answered) {
		return fmt.Errorf("%s %s %s: %w", verb, of.Kind, of.Name, err) // of the connection
	}
	status := answered.Status()
	if of.Kind == workload.Secret {
		status = withoutMessage(status)
	}
	return &Error{Key: of, verb: verb, status: status}
}

// withoutMessage returns a status with what can have no content: the reason, the code and the
// delay.
func withoutMessage(status metav1.Status) metav1.Status {
	kept := metav1.Status{Status: status.Status, Code: status.Code, Reason: configuration.KnownReason(status.Reason)}
	if status.Details != nil {
		kept.Details = &metav1.StatusDetails{RetryAfterSeconds: status.Details.RetryAfterSeconds}
		for _, cause := range status.Details.Causes {
			if cause.Type == corev1.NamespaceTerminatingCause {
				kept.Details.Causes = []metav1.StatusCause{{Type: cause.Type}}
			}
		}
	}
	return kept
}
