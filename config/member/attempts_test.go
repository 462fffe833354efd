package member_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/config/member"
)

const (
	allowed      = "allowed"
	noPermission = "no permission"
)

// ours are the labels of an object of an AppService.
var ours = map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelAppService: "web"}

// theirs are the labels of an object of another owner.
var theirs = map[string]string{v1alpha1.LabelManagedBy: "helm"}

func in(namespace, name string, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}
}

func deployment(meta metav1.ObjectMeta) client.Object {
	app := map[string]string{"app": "web"}
	return &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: app},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: app}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "web:1"}}}},
	}}
}

func service(meta metav1.ObjectMeta) client.Object {
	return &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
}

// addressed returns a Service that receives the traffic to an address of the cluster.
func addressed(meta metav1.ObjectMeta, address string) client.Object {
	addressed := service(meta).(*corev1.Service)
	addressed.Spec.ExternalIPs = []string{address}
	return addressed
}

func horizontalPodAutoscaler(meta metav1.ObjectMeta) client.Object {
	return &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: meta, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
		MaxReplicas: 3, ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: "Deployment", Name: "web", APIVersion: "apps/v1"}}}
}

func disruptionBudget(meta metav1.ObjectMeta) client.Object {
	return &policyv1.PodDisruptionBudget{ObjectMeta: meta}
}

func configMap(meta metav1.ObjectMeta) client.Object { return &corev1.ConfigMap{ObjectMeta: meta} }

func secret(meta metav1.ObjectMeta) client.Object { return &corev1.Secret{ObjectMeta: meta} }

// tokenSecret returns a Secret into which the cluster writes a token of a ServiceAccount.
func tokenSecret(meta metav1.ObjectMeta) client.Object {
	meta.Annotations = map[string]string{corev1.ServiceAccountNameKey: "default"}
	return &corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeServiceAccountToken}
}

// created are the kinds that an AppService has on a member.
var created = map[string]func(metav1.ObjectMeta) client.Object{
	"Deployment": deployment, "Service": service, "HorizontalPodAutoscaler": horizontalPodAutoscaler,
	"PodDisruptionBudget": disruptionBudget, "ConfigMap": configMap, "Secret": secret,
}

// attempt is what somebody tries with the token. Nothing is changed: it is a dry run, or a token.
type attempt struct {
	do func(context.Context) error
	// without and with are the results without and with the policy. If without is noPermission, the
	// result with the policy is that of a ServiceAccount that has more permissions.
	without, with string
}

// creates creates an object. Fleetwright does not apply Namespaces and Events.
func creates(object client.Object) func(context.Context) error {
	return func(ctx context.Context) error { return token.Create(ctx, object, client.DryRunAll) }
}

// applies applies an object that does not exist, and then creates it.
func applies(object client.Object) func(context.Context) error {
	return func(ctx context.Context) error {
		applied := apply(ctx, object)
		created := token.Create(ctx, object.DeepCopyObject().(client.Object), client.DryRunAll)
		if (applied == nil) != (created == nil) {
			return fmt.Errorf("apply: %w, create: %w", applied, created)
		}
		return created
	}
}

// apply applies an object by server-side apply.
func apply(ctx context.Context, object client.Object) error {
	kind, err := admin.GroupVersionKindFor(object)
	if err != nil {
		return err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return err
	}
	applied := &unstructured.Unstructured{Object: content}
	applied.SetGroupVersionKind(kind)
	unstructured.RemoveNestedField(content, "status")
	return token.Apply(ctx, client.ApplyConfigurationFromUnstructured(applied), client.FieldOwner(v1alpha1.ManagedBy), client.ForceOwnership, client.DryRunAll)
}

// changes applies an object that exists, and then patches it in other ways.
func changes(object client.Object) func(context.Context) error {
	return func(ctx context.Context) error {
		err := apply(ctx, object)
		for kind, patch := range map[types.PatchType]string{types.MergePatchType: `{}`, types.JSONPatchType: `[{"op":"add","path":"/metadata/annotations","value":{"a":"b"}}]`} {
			patched := token.Patch(ctx, object.DeepCopyObject().(client.Object), client.RawPatch(kind, []byte(patch)), client.DryRunAll)
			if (patched == nil) != (err == nil) {
				return fmt.Errorf("apply: %w, %s: %w", err, kind, patched)
			}
		}
		return err
	}
}

// reapplies applies an object that exists, and changes it in no other way.
func reapplies(object client.Object) func(context.Context) error {
	return func(ctx context.Context) error { return apply(ctx, object) }
}

// releases removes the labels of an object, as Fleetwright does if the deletion policy is Orphan.
func releases(object client.Object) func(context.Context) error {
	return func(ctx context.Context) error {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":null}}`))
		return token.Patch(ctx, object, patch, client.DryRunAll)
	}
}

func deletes(object client.Object) func(context.Context) error {
	return func(ctx context.Context) error { return token.Delete(ctx, object, client.DryRunAll) }
}

func deletesAllOf(object client.Object, namespace string) func(context.Context) error {
	return func(ctx context.Context) error {
		return token.DeleteAllOf(ctx, object, client.InNamespace(namespace), client.DryRunAll)
	}
}

func requestsToken(namespace, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		account := &corev1.ServiceAccount{ObjectMeta: in(namespace, name, nil)}
		return token.SubResource("token").Create(ctx, account, &authenticationv1.TokenRequest{})
	}
}

func scales(namespace, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		scale := &autoscalingv1.Scale{ObjectMeta: in(namespace, name, nil), Spec: autoscalingv1.ScaleSpec{Replicas: 2}}
		return token.SubResource("scale").Update(ctx, deployment(in(namespace, name, nil)), client.WithSubResourceBody(scale), client.DryRunAll)
	}
}

func patchesStatus(namespace, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		return token.Status().Patch(ctx, deployment(in(namespace, name, nil)), client.RawPatch(types.MergePatchType, []byte(`{"status":{"replicas":7}}`)), client.DryRunAll)
	}
}

func event(namespace, name string) client.Object {
	return &eventsv1.Event{
		ObjectMeta: in(namespace, name, nil), EventTime: metav1.NowMicro(), Type: corev1.EventTypeNormal,
		ReportingController: "fleetwright", ReportingInstance: "fleetwright", Action: "Correct", Reason: "DriftCorrected",
		Regarding: corev1.ObjectReference{Kind: "Deployment", Namespace: namespace, Name: "web"},
	}
}

// namespaces of the tests. Each has objects of each kind: ours, theirs, half, which has lost a label, and
// other, which has lost the other one.
const (
	closed = "closed" // does not agree to adoptions
	agreed = "agreed"
)

func half() map[string]string {
	return map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy}
}

func otherHalf() map[string]string {
	return map[string]string{v1alpha1.LabelAppService: "web", v1alpha1.LabelManagedBy: "helm"}
}

// snapshot returns the labels of a snapshot of spec.configuration, which a hub has that is a member too.
func snapshot() map[string]string {
	return map[string]string{v1alpha1.LabelAppService: "web", v1alpha1.LabelPropagate: v1alpha1.PropagateSnapshot}
}

// labelled returns the labels of an object of an AppService that has the label of a Namespace, too.
func labelled() map[string]string {
	all := maps.Clone(ours)
	all[v1alpha1.LabelAdoption] = v1alpha1.AdoptionAllowed
	return all
}

func prepare(t *testing.T) {
	t.Helper()
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: in("", closed, map[string]string{v1alpha1.LabelAdoption: "no"})},
		&corev1.Namespace{ObjectMeta: in("", agreed, map[string]string{v1alpha1.LabelAdoption: v1alpha1.AdoptionAllowed})},
		&corev1.Namespace{ObjectMeta: in("", "made", half())},
		&corev1.ServiceAccount{ObjectMeta: in(member.Namespace, "other", nil)},
		&corev1.ServiceAccount{ObjectMeta: in(closed, member.ServiceAccount, nil)},
		service(in("kube-system", "kube-dns", nil)), event(closed, "web.1"),
		tokenSecret(in(closed, "token", ours)), service(in(closed, "labelled", labelled())),
		addressed(in(closed, "addressed", ours), "10.0.0.10"), addressed(in(agreed, "addressed", theirs), "10.0.0.10"),
	}
	for _, kind := range []string{"ConfigMap", "Secret"} {
		objects = append(objects, created[kind](in(closed, "snapshot", snapshot())))
	}
	for _, make := range created {
		for _, namespace := range []string{closed, agreed, "kube-system", member.Namespace} {
			objects = append(objects, make(in(namespace, "ours", ours)), make(in(namespace, "theirs", theirs)),
				make(in(namespace, "half", half())), make(in(namespace, "other", otherHalf())))
		}
	}
	for _, object := range objects {
		if err := admin.Create(t.Context(), object.DeepCopyObject().(client.Object)); err != nil {
			t.Fatal(err)
		}
	}
}

// attempts returns the table: what the token may and may not do.
func attempts() map[string]attempt {
	all := map[string]attempt{
		"create a Namespace":                        {creates(&corev1.Namespace{ObjectMeta: in("", "new", half())}), allowed, allowed},
		"create a Namespace without a label":        {creates(&corev1.Namespace{ObjectMeta: in("", "new", nil)}), allowed, "LabelsMissing"},
		"create a Namespace that agrees":            {creates(&corev1.Namespace{ObjectMeta: in("", "new", map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedBy, v1alpha1.LabelAdoption: "allowed"})}), allowed, "OwnConsent"},
		"change a Namespace that it has created":    {changes(&corev1.Namespace{ObjectMeta: in("", "made", half())}), noPermission, "CreateOnly"},
		"delete a Namespace that it has created":    {deletes(&corev1.Namespace{ObjectMeta: in("", "made", nil)}), noPermission, "CreateOnly"},
		"create an Event":                           {creates(event(closed, "web.2")), allowed, allowed},
		"create an Event in kube-system":            {creates(event("kube-system", "web.1")), allowed, "SystemNamespace"},
		"delete an Event":                           {deletes(event(closed, "web.1")), noPermission, "CreateOnly"},
		"request a token of its own ServiceAccount": {requestsToken(member.Namespace, member.ServiceAccount), allowed, allowed},
		"request a token of another one":            {requestsToken(member.Namespace, "other"), noPermission, "OtherAccount"},
		"request a token of its name elsewhere":     {requestsToken(closed, member.ServiceAccount), noPermission, "OtherAccount"},
		"patch kube-dns":                            {changes(service(in("kube-system", "kube-dns", ours))), allowed, "SystemNamespace"},
		"redirect an address by a Service":          {applies(addressed(in(closed, "new", ours), "10.0.0.10")), allowed, "ExternalIPs"},
		"redirect an address by its Service":        {reapplies(addressed(in(closed, "ours", ours), "10.0.0.10")), allowed, "ExternalIPs"},
		"redirect another address by its Service":   {reapplies(addressed(in(closed, "addressed", ours), "10.0.0.11")), allowed, "ExternalIPs"},
		"change its Service that has an address":    {changes(addressed(in(closed, "addressed", ours), "10.0.0.10")), allowed, allowed},
		"adopt a Service that has an address":       {changes(service(in(agreed, "addressed", ours))), allowed, allowed},
		"delete its Service that has an address":    {deletes(service(in(closed, "addressed", nil))), allowed, allowed},
		"create a Secret for another one's token":   {applies(tokenSecret(in(closed, "new", ours))), allowed, "TokenSecret"},
		"change a Secret with another one's token":  {reapplies(tokenSecret(in(closed, "token", ours))), allowed, "TokenSecret"},
		"change its Service that seems to agree":    {changes(service(in(closed, "labelled", ours))), allowed, allowed},
		"scale a Deployment of its own":             {scales(closed, "ours"), noPermission, "NotLabelled"},
		"patch the status of its Deployment":        {patchesStatus(closed, "ours"), noPermission, allowed},
		"patch the status of another Deployment":    {patchesStatus(agreed, "theirs"), noPermission, "NotLabelled"},
		"patch an autoscaler in version 1": {changes(&autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: in(closed, "theirs", ours), Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
			MaxReplicas: 3, ScaleTargetRef: autoscalingv1.CrossVersionObjectReference{Kind: "Deployment", Name: "web", APIVersion: "apps/v1"}}}), allowed, "AdoptionNotAllowed"},
	}
	for _, namespace := range []string{"kube-public", "kube-node-lease"} {
		all["create a Service in "+namespace] = attempt{applies(service(in(namespace, "new", ours))), allowed, "SystemNamespace"}
	}
	for kind, make := range created {
		adopts, refused := allowed, "AdoptionNotAllowed"
		if kind == "ConfigMap" || kind == "Secret" {
			adopts, refused = "NotLabelled", "NotLabelled"
			all["change a snapshot of a hub: "+kind] = attempt{changes(make(in(closed, "snapshot", ours))), allowed, refused}
			all["delete a snapshot of a hub: "+kind] = attempt{deletes(make(in(closed, "snapshot", nil))), allowed, refused}
		}
		for name, a := range map[string]attempt{
			"create a KIND":                                  {applies(make(in(closed, "new", ours))), allowed, allowed},
			"create a KIND without labels":                   {applies(make(in(agreed, "new", nil))), allowed, "LabelsMissing"},
			"create a KIND without an AppService":            {applies(make(in(closed, "new", half()))), allowed, "LabelsMissing"},
			"create a KIND that Helm manages":                {applies(make(in(closed, "new", otherHalf()))), allowed, "LabelsMissing"},
			"create a KIND in kube-system":                   {applies(make(in("kube-system", "new", ours))), allowed, "SystemNamespace"},
			"create a KIND in its own namespace":             {applies(make(in(member.Namespace, "new", ours))), allowed, "SystemNamespace"},
			"change its KIND":                                {changes(make(in(closed, "ours", ours))), allowed, allowed},
			"restore a label of its KIND":                    {changes(make(in(closed, "half", ours))), allowed, allowed},
			"restore the other label of its KIND":            {changes(make(in(closed, "other", ours))), allowed, allowed},
			"change a KIND of another owner":                 {changes(make(in(closed, "theirs", theirs))), allowed, refused},
			"adopt a KIND":                                   {changes(make(in(closed, "theirs", ours))), allowed, refused},
			"adopt a KIND where the Namespace agrees":        {changes(make(in(agreed, "theirs", ours))), allowed, adopts},
			"adopt a KIND of kube-system":                    {changes(make(in("kube-system", "theirs", ours))), allowed, "SystemNamespace"},
			"change its KIND in kube-system":                 {changes(make(in("kube-system", "ours", ours))), allowed, "SystemNamespace"},
			"release its KIND":                               {releases(make(in(closed, "ours", nil))), allowed, allowed},
			"delete its KIND":                                {deletes(make(in(closed, "ours", nil))), allowed, allowed},
			"delete a KIND of another owner":                 {deletes(make(in(closed, "theirs", nil))), allowed, "NotLabelled"},
			"delete a KIND although the Namespace agrees":    {deletes(make(in(agreed, "theirs", nil))), allowed, "NotLabelled"},
			"delete its KIND in kube-system":                 {deletes(make(in("kube-system", "ours", nil))), allowed, "SystemNamespace"},
			"delete each KIND of a Namespace in one request": {deletesAllOf(make(metav1.ObjectMeta{}), closed), noPermission, "NotLabelled"},
		} {
			all[strings.ReplaceAll(name, "KIND", kind)] = a
		}
	}
	return all
}
