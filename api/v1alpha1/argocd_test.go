package v1alpha1_test

import (
	"fmt"
	"os"
	"testing"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/google/go-cmp/cmp"
	lua "github.com/yuin/gopher-lua"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// health is the health of an object in Argo CD.
type health struct{ Status, Message string }

// argoHealth returns the health that Argo CD would compute, in Lua with the libraries that Argo CD
// allows.
func argoHealth(t *testing.T, object *unstructured.Unstructured) health {
	t.Helper()
	content, err := os.ReadFile("../../config/argocd/argocd-cm.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var settings corev1.ConfigMap
	if err := yaml.UnmarshalStrict(content, &settings); err != nil {
		t.Fatal(err)
	}
	script, found := settings.Data["resource.customizations.health."+v1alpha1.GroupVersion.Group+"_"+object.GetKind()]
	if !found {
		t.Fatalf("no health check for %s", object.GetKind())
	}
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	state.SetContext(t.Context())
	for name, open := range map[string]lua.LGFunction{lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable} {
		if err := state.CallByParam(lua.P{Fn: state.NewFunction(open), Protect: true}, lua.LString(name)); err != nil {
			t.Fatal(err)
		}
	}
	state.SetGlobal("obj", toLua(state, object.Object))
	if err := state.DoString(script); err != nil {
		t.Fatal(err)
	}
	answer, isTable := state.Get(-1).(*lua.LTable)
	if !isTable {
		t.Fatalf("returned a %s", state.Get(-1).Type())
	}
	return health{answer.RawGetString("status").String(), answer.RawGetString("message").String()}
}

func toLua(state *lua.LState, value any) lua.LValue {
	switch value := value.(type) {
	case bool:
		return lua.LBool(value)
	case string:
		return lua.LString(value)
	case float64:
		return lua.LNumber(value)
	case int64:
		return lua.LNumber(value)
	case []any:
		list := state.NewTable()
		for _, item := range value {
			list.Append(toLua(state, item))
		}
		return list
	case map[string]any:
		table := state.NewTable()
		for key, item := range value {
			table.RawSetString(key, toLua(state, item))
		}
		return table
	}
	return lua.LNil
}

func TestMemberCluster_has_the_right_status_in_kstatus_and_Argo_CD(t *testing.T) {
	type outcome struct {
		Status kstatus.Status
		Argo   health
	}
	ready := func(status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: v1alpha1.ConditionReady, Status: status, Reason: reason, Message: "message of Ready"}
	}
	credentials := func(status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: v1alpha1.ConditionCredentialsValid, Status: status, Reason: reason, Message: "message of CredentialsValid"}
	}
	allocatableUnknown := metav1.Condition{Type: v1alpha1.ConditionAllocatableKnown, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonForbidden}
	tests := map[string]struct {
		conditions []metav1.Condition
		deleted    bool
		want       outcome
	}{
		"new": {
			want: outcome{kstatus.InProgressStatus, health{"Progressing", "waiting for its Secret"}},
		},
		"connecting": {
			conditions: []metav1.Condition{ready(metav1.ConditionFalse, v1alpha1.ReasonConnecting), credentials(metav1.ConditionUnknown, v1alpha1.ReasonNotVerified)},
			want:       outcome{kstatus.InProgressStatus, health{"Progressing", "message of Ready"}},
		},
		"connected, without permission to list nodes": {
			conditions: []metav1.Condition{ready(metav1.ConditionTrue, v1alpha1.ReasonConnected), credentials(metav1.ConditionTrue, v1alpha1.ReasonExpiringSoon), allocatableUnknown},
			want:       outcome{kstatus.CurrentStatus, health{"Healthy", "message of Ready"}},
		},
		"connected, with a newer kubeconfig that is refused": {
			conditions: []metav1.Condition{ready(metav1.ConditionTrue, v1alpha1.ReasonConnected), credentials(metav1.ConditionFalse, v1alpha1.ReasonExecRefused)},
			want:       outcome{kstatus.CurrentStatus, health{"Degraded", "message of CredentialsValid"}},
		},
		"unreachable": {
			conditions: []metav1.Condition{ready(metav1.ConditionFalse, v1alpha1.ReasonUnreachable), credentials(metav1.ConditionTrue, v1alpha1.ReasonAccepted)},
			want:       outcome{kstatus.InProgressStatus, health{"Degraded", "message of Ready"}},
		},
		"another cluster behind the Secret": {
			conditions: []metav1.Condition{ready(metav1.ConditionFalse, v1alpha1.ReasonIdentityChanged)},
			want:       outcome{kstatus.InProgressStatus, health{"Degraded", "message of Ready"}},
		},
		"being deleted": {
			conditions: []metav1.Condition{ready(metav1.ConditionTrue, v1alpha1.ReasonConnected)},
			deleted:    true,
			want:       outcome{kstatus.TerminatingStatus, health{"Progressing", "being deleted"}},
		},
	}
	number := 0
	for title, test := range tests {
		number++
		t.Run(title, func(t *testing.T) {
			member := &v1alpha1.MemberCluster{}
			member.Name, member.Finalizers = fmt.Sprintf("argo-%d", number), []string{"example.com/stay"}
			if err := hub.Create(t.Context(), member); err != nil {
				t.Fatal(err)
			}
			if test.conditions != nil {
				for i := range test.conditions {
					test.conditions[i].LastTransitionTime = metav1.Now()
				}
				member.Status.ObservedGeneration, member.Status.Conditions = member.Generation, test.conditions
				if err := hub.Status().Update(t.Context(), member); err != nil {
					t.Fatal(err)
				}
			}
			if test.deleted {
				if err := hub.Delete(t.Context(), member); err != nil {
					t.Fatal(err)
				}
			}
			object := &unstructured.Unstructured{}
			object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("MemberCluster"))
			if err := hub.Get(t.Context(), client.ObjectKeyFromObject(member), object); err != nil {
				t.Fatal(err)
			}
			result, err := kstatus.Compute(object)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, outcome{result.Status, argoHealth(t, object)}); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}
