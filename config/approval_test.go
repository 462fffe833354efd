package config_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// attempt is a change that a user tries.
type attempt struct {
	user string
	do   func(ctx context.Context, as client.Client) error
	want string // a part of the error; nothing if the change is accepted
}

const (
	needsVerb    = "needs the verb approve on appservices.fleetwright.dev"
	needsRollout = "so each AppService in it needs spec.rollout"
)

func TestApprovalPolicy(t *testing.T) {
	users := prepareApproval(t)
	const (
		approve = `{"metadata":{"annotations":{"fleetwright.dev/approve":"7/eu"}}}`
		promote = `{"metadata":{"annotations":{"fleetwright.dev/promote":"7"}}}`
		retry   = `{"metadata":{"annotations":{"fleetwright.dev/retry":"7"}}}`
		abort   = `{"metadata":{"annotations":{"fleetwright.dev/abort":"7"}}}`
		pause   = `{"metadata":{"annotations":{"fleetwright.dev/pause":"7"}}}`
		image   = `{"spec":{"image":"web:2"}}`
	)
	// Changes of AppServices with spec.rollout. They need the verb, or they do not.
	changes := map[string]struct {
		do    func(ctx context.Context, as client.Client) error
		needs bool
	}{
		"approve":                           {tryPatch(shop, "web", approve), true},
		"promote":                           {tryPatch(shop, "web", promote), true},
		"retry":                             {tryPatch(shop, "web", retry), true},
		"approve and edit":                  {tryPatch(shop, "web", `{"metadata":{"annotations":{"fleetwright.dev/approve":"7/eu"}},"spec":{"image":"web:2"}}`), true},
		"approve one more stage":            {tryPatch(shop, "approved", `{"metadata":{"annotations":{"fleetwright.dev/approve":"7/eu,7/us"}}}`), true},
		"remove an approval":                {tryPatch(shop, "approved", `{"metadata":{"annotations":{"fleetwright.dev/approve":null}}}`), true},
		"remove all annotations":            {tryPatch(shop, "approved", `{"metadata":{"annotations":null}}`), true},
		"replace without the approval":      {tryReplace(shop, "approved", func(o *unstructured.Unstructured) { o.SetAnnotations(nil) }), true},
		"create with an approval":           {tryCreate(shop, "new", allStages, "fleetwright.dev/approve", "1/eu"), true},
		"create with a promotion":           {tryCreate(shop, "new", allStages, "fleetwright.dev/promote", "1"), true},
		"create by a generated name":        {tryGenerate(shop, "web-", "fleetwright.dev/approve", "1/eu"), true},
		"create by apply with an approval":  {tryApply(shop, "new", allStages, "fleetwright.dev/approve", "1/eu"), true},
		"approve by apply":                  {tryApply(shop, "web", allStages, "fleetwright.dev/approve", "7/eu"), true},
		"remove spec.rollout":               {tryPatch(shop, "web", `{"spec":{"rollout":null}}`), true},
		"add spec.rollout":                  {tryPatch(shop, "plain", `{"spec":{"rollout":{}}}`), true},
		"empty spec.rollout":                {tryPatch(shop, "web", `{"spec":{"rollout":{"stages":null}}}`), true},
		"remove the approval from a stage":  {tryPatch(shop, "web", `{"spec":{"rollout":{"stages":[{"name":"canary","clusterNames":["east"]},{"name":"eu"}]}}}`), true},
		"another order of the stages":       {tryPatch(shop, "web", `{"spec":{"rollout":{"stages":[{"name":"eu","approval":"Required"},{"name":"canary","clusterNames":["east"]}]}}}`), true},
		"a field of spec.rollout":           {tryPatch(shop, "web", `{"spec":{"rollout":{"paused":true}}}`), true},
		"the last cluster of many":          {tryReplace(shop, "large", renameLastCluster), true},
		"edit the template":                 {tryPatch(shop, "web", image), false},
		"edit the template of an approved":  {tryPatch(shop, "approved", image), false},
		"edit the template of a large one":  {tryPatch(shop, "large", image), false},
		"edit without spec.rollout":         {tryPatch(shop, "plain", image), false},
		"replicas and placement":            {tryPatch(shop, "web", `{"spec":{"replicas":9,"placement":{"clusterNames":["east"]}}}`), false},
		"abort":                             {tryPatch(shop, "web", abort), false},
		"pause":                             {tryPatch(shop, "web", pause), false},
		"another annotation":                {tryPatch(shop, "approved", `{"metadata":{"annotations":{"example.com/approve":"7/eu"}}}`), false},
		"an empty approval":                 {tryPatch(shop, "web", `{"metadata":{"annotations":{"fleetwright.dev/approve":""}}}`), false},
		"replace with the approval":         {tryReplace(shop, "approved", func(o *unstructured.Unstructured) { o.SetLabels(map[string]string{"a": "b"}) }), false},
		"apply an approval that is present": {tryApply(shop, "approved", allStages, "fleetwright.dev/approve", "7/eu"), false},
		"apply the same stages":             {tryApply(shop, "web", allStages), false},
		"create with spec.rollout":          {tryCreate(shop, "new", allStages), false},
		"create without spec.rollout":       {tryCreate(shop, "new", ""), false},
		"delete":                            {tryDelete(shop, "approved"), false},
		"scale":                             {tryScale(shop, "web"), false},
	}
	table := map[string]attempt{}
	for title, change := range changes {
		table[title+", by a user with the verb"] = attempt{approver, change.do, ""}
		table[title+", by a user without the verb"] = attempt{developer, change.do, map[bool]string{true: needsVerb}[change.needs]}
	}
	for title, more := range map[string]attempt{
		"a program with nothing but the role approves":    {robot, tryPatch(shop, "web", approve), ""},
		"the role does not allow to create":               {robot, tryCreate(shop, "new", allStages), `cannot create resource "appservices"`},
		"the role does not allow to delete":               {robot, tryDelete(shop, "web"), `cannot delete resource "appservices"`},
		"the verb for one name approves that AppService":  {owner, tryPatch(shop, "web", approve), ""},
		"the verb for one name approves no other":         {owner, tryPatch(shop, "approved", promote), needsVerb},
		"the verb in one namespace approves in no other":  {approver, tryPatch(guarded, "staged", approve), needsVerb},
		"the operator adds its finalizer":                 {operator, tryPatch(shop, "web", `{"metadata":{"finalizers":["fleetwright.dev/cleanup"]}}`), ""},
		"the operator adds its finalizer to an approved":  {operator, tryPatch(shop, "approved", `{"metadata":{"finalizers":["fleetwright.dev/cleanup"]}}`), ""},
		"the operator cannot approve":                     {operator, tryPatch(shop, "web", approve), needsVerb},
		"the operator writes the status":                  {operator, tryPatchStatus(shop, "approved"), ""},
		"the operator adds its finalizer where it is old": {operator, tryPatch(guarded, "old", `{"metadata":{"finalizers":["fleetwright.dev/cleanup","example.com/other"]}}`), ""},
		"the operator writes the status of an old one":    {operator, tryPatchStatus(guarded, "old"), ""},

		// The namespace that requires spec.rollout.
		"an AppService without spec.rollout":             {developer, tryCreate(guarded, "new", ""), needsRollout},
		"an AppService by apply":                         {developer, tryApply(guarded, "new", ""), needsRollout},
		"an AppService of a user with the verb":          {approver, tryCreate(guarded, "new", ""), needsRollout},
		"an AppService with an empty spec.rollout":       {developer, tryCreate(guarded, "new", "onFailure: Pause"), ""},
		"an AppService with stages":                      {developer, tryCreate(guarded, "new", allStages), ""},
		"an edit of one with stages":                     {developer, tryPatch(guarded, "staged", image), ""},
		"the removal of spec.rollout":                    {"", tryPatch(guarded, "staged", `{"spec":{"rollout":null}}`), needsRollout},
		"an edit of one that is older than the label":    {developer, tryPatch(guarded, "old", image), needsRollout},
		"an annotation of one that is older":             {developer, tryPatch(guarded, "old", pause), ""},
		"a scale-up of one that is older":                {developer, tryScale(guarded, "old"), ""},
		"a deletion of one that is older":                {developer, tryDelete(guarded, "old"), ""},
		"spec.rollout for one that is older":             {"", tryPatch(guarded, "old", `{"spec":{"rollout":{}}}`), ""},
		"spec.rollout for one that is older, unapproved": {developer, tryPatch(guarded, "old", `{"spec":{"rollout":{}}}`), needsVerb},
	} {
		table[title] = more
	}
	for title, attempt := range table {
		t.Run(title, func(t *testing.T) {
			err := attempt.do(t.Context(), users[attempt.user])
			switch {
			case attempt.want == "" && err != nil:
				t.Errorf("refused: %v", err)
			case attempt.want != "" && (err == nil || !strings.Contains(err.Error(), attempt.want)):
				t.Errorf("want an error that contains %q, got: %v", attempt.want, err)
			case attempt.want == needsVerb && !apierrors.IsForbidden(err), attempt.want == needsRollout && !apierrors.IsInvalid(err):
				t.Errorf("unexpected reason %s", apierrors.ReasonForError(err))
			}
		})
	}
}

// The message must say what to do, in the tool that people use.
func TestApprovalPolicyInKubectl(t *testing.T) {
	prepareApproval(t)
	manifest := filepath.Join(t.TempDir(), "worker.yaml")
	if err := os.WriteFile(manifest, []byte("apiVersion: fleetwright.dev/v1alpha1\nkind: AppService\nmetadata: {name: worker}\nspec: {image: web:1}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for title, test := range map[string]struct {
		arguments string
		want      string
	}{
		"a refused approval": {
			"annotate appservice web -n shop --as=dev --dry-run=server fleetwright.dev/approve=7/eu",
			`Error from server (Forbidden): appservices.fleetwright.dev "web" is forbidden: ValidatingAdmissionPolicy 'rollout-approval.fleetwright.dev' with binding 'rollout-approval.fleetwright.dev' denied request: ` +
				`the change of fleetwright.dev/approve needs the verb approve on appservices.fleetwright.dev, which dev does not have in namespace shop: ` +
				`ask an administrator for the ClusterRole fleetwright-approve, for example by kubectl create rolebinding web-approvers -n shop --clusterrole=fleetwright-approve --user=dev`,
		},
		"a missing spec.rollout": {
			"create -n guarded --as=dev --dry-run=server -f " + manifest,
			`The appservices "worker" is invalid: : ValidatingAdmissionPolicy 'rollout-required.fleetwright.dev' with binding 'rollout-required.fleetwright.dev' denied request: ` +
				`namespace guarded has the label fleetwright.dev/rollout=required, so each AppService in it needs spec.rollout: add stages, or rollout: {} for one stage of all clusters`,
		},
		"an approval":                 {"annotate appservice web -n shop --as=sre --dry-run=server fleetwright.dev/approve=7/eu", "appservice.fleetwright.dev/web annotated (server dry run)"},
		"the question of a user":      {"auth can-i approve appservices.fleetwright.dev -n shop --as=dev", "no"},
		"the question of an approver": {"auth can-i approve appservices.fleetwright.dev -n shop --as=sre", "yes"},
	} {
		t.Run(title, func(t *testing.T) {
			out, _ := runScript(t, "kubectl", strings.Fields(test.arguments)...)
			if diff := cmp.Diff(test.want, strings.TrimSpace(out)); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("the command of the message works", func(t *testing.T) {
		out, err := runScript(t, "kubectl", strings.Fields("create rolebinding web-approvers -n shop --clusterrole=fleetwright-approve --user=dev --dry-run=server")...)
		mustSucceed(t, out, err)
	})
}

// An AppService that is being deleted keeps its finalizer until its workloads are removed.
func TestApprovalPolicyDoesNotStopADeletion(t *testing.T) {
	users := prepareApproval(t)
	old := appService(guarded, "old", "")
	if err := users[developer].Delete(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	if err := hub.Get(t.Context(), client.ObjectKeyFromObject(old), old); err != nil || old.GetDeletionTimestamp() == nil {
		t.Fatalf("the AppService does not wait for the operator: %v", err)
	}
	if err := users[operator].Patch(t.Context(), old, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))); err != nil {
		t.Fatal(err)
	}
	if err := hub.Get(t.Context(), client.ObjectKeyFromObject(old), old); !apierrors.IsNotFound(err) {
		t.Errorf("the AppService still exists (%v)", err)
	}
}

// The subresources are not in the policy, because they change neither annotations nor spec.rollout.
func TestSubresourcesCannotApprove(t *testing.T) {
	prepareApproval(t)
	for _, subresource := range []string{"status", "scale"} {
		t.Run(subresource, func(t *testing.T) {
			object := appService(shop, "web", "")
			change := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"fleetwright.dev/approve":"7/eu"}},"spec":{"rollout":null,"replicas":5}}`))
			var answer client.Object = object
			if subresource == "scale" {
				scaled := &unstructured.Unstructured{}
				scaled.SetAPIVersion("autoscaling/v1")
				scaled.SetKind("Scale")
				answer = scaled
			}
			err := hub.SubResource(subresource).Patch(t.Context(), object, change, client.WithSubResourceBody(answer))
			if err != nil {
				t.Fatal(err)
			}
			stored := appService(shop, "web", "")
			if err := hub.Get(t.Context(), client.ObjectKeyFromObject(stored), stored); err != nil {
				t.Fatal(err)
			}
			if _, has, _ := unstructured.NestedMap(stored.Object, "spec", "rollout"); !has || len(stored.GetAnnotations()) > 0 {
				t.Errorf("changed to annotations %v, spec %v", stored.GetAnnotations(), stored.Object["spec"])
			}
		})
	}
}
