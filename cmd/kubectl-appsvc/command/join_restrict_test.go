package command_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/config/member"
)

// decode returns the objects of YAML documents.
func decode(t *testing.T, content string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	for decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(content)), 4096); ; {
		object := &unstructured.Unstructured{}
		if err := decoder.Decode(&object.Object); errors.Is(err, io.EOF) {
			return objects
		} else if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
}

// hasPolicy reports whether the member has the policy and its binding.
func (m *memberEnv) hasPolicy(t *testing.T) bool {
	t.Helper()
	policy, err := member.Policy()
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, object := range policy {
		err := m.Get(t.Context(), client.ObjectKeyFromObject(object), object)
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		if err == nil {
			count++
		}
	}
	if count != 0 && count != len(policy) {
		t.Errorf("the member has %d of %d objects of the policy", count, len(policy))
	}
	return count > 0
}

// TestJoin_restrict applies, keeps and removes the policy. Each step continues where the previous one
// ended.
func TestJoin_restrict(t *testing.T) {
	m := newMember(t)
	deleteSecret(t, "east")
	const kept = "The member has the policy that limits Fleetwright's token, and join keeps it. --restrict=false removes it.\n"

	m.join(t)
	m.connect(t, "east")()

	t.Run("it is not there unless it is asked for", func(t *testing.T) {
		if m.hasPolicy(t) {
			t.Error("the member has the policy")
		}
		m.checkMayCreate(t, readSecret(t, "east"), "default", true) // without labels
		if got := m.doctor(t); !strings.Contains(got, "ok policy none; join --restrict limits what the token may change") {
			t.Error(got)
		}
	})
	t.Run("with the flag, the token can create only objects with labels", func(t *testing.T) {
		got := m.join(t, "--restrict")
		for _, want := range []string{"  validatingadmissionpolicy/member.fleetwright.dev created\n", "  validatingadmissionpolicybinding/member.fleetwright.dev created\n"} {
			if !strings.Contains(got.out, want) {
				t.Errorf("want %q in %s", want, got.out)
			}
		}
		m.checkMayCreate(t, readSecret(t, "east"), "default", false)
		if got := m.doctor(t); !strings.Contains(got, "ok policy it limits what the token of Fleetwright may change") {
			t.Error(got)
		}
	})
	t.Run("without the flag, it stays, and join says so", func(t *testing.T) {
		if got := m.join(t); got.errOut != kept || !m.hasPolicy(t) {
			t.Error(got)
		}
	})
	t.Run("a change of it is found, and corrected", func(t *testing.T) {
		objects, err := member.Policy()
		if err != nil {
			t.Fatal(err)
		}
		policy, binding := objects[0], objects[1]
		if err := m.Patch(t.Context(), policy, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"failurePolicy":"Ignore"}}`))); err != nil {
			t.Fatal(err)
		}
		if got := m.doctor(t); !strings.Contains(got, "note policy it is not that of this version of Fleetwright. Run: kubectl appsvc join east --restrict --allow-loopback --name east") {
			t.Error(got)
		}
		m.join(t, "--restrict", "--force")
		if got := m.doctor(t); !strings.Contains(got, "ok policy it limits") {
			t.Error(got)
		}
		if err := m.Delete(t.Context(), binding); err != nil {
			t.Fatal(err)
		}
		if got := m.doctor(t); !strings.Contains(got, "note policy only a part of it exists, so it limits nothing. Run: kubectl appsvc join east --restrict --allow-loopback --name east") {
			t.Error(got)
		}
		m.join(t)
	})
	t.Run("it is removed", func(t *testing.T) {
		got := m.join(t, "--restrict=false")
		if !strings.Contains(got.out, "  validatingadmissionpolicy/member.fleetwright.dev deleted\n") || m.hasPolicy(t) {
			t.Error(got)
		}
		m.checkMayCreate(t, readSecret(t, "east"), "default", true)
	})
}

// An API server before Kubernetes 1.30 does not serve the API of the policy.
func TestJoin_restrict_needs_the_API_of_the_policy(t *testing.T) {
	m := newMember(t)
	deleteSecret(t, "east")
	file := m.throughProxy(t, m.environment, "east", func(w http.ResponseWriter, request *http.Request) bool {
		if request.URL.Path == "/apis" {
			request.Header.Set("Accept", "application/json") // the groups only, without their resources
		}
		if request.URL.Path != "/apis/admissionregistration.k8s.io/v1" {
			return false
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"admissionregistration.k8s.io/v1","resources":[]}`)
		return true
	})
	got := runAs(t, file, "join", "east", "--allow-loopback", "--timeout", "0", "--restrict")
	want := "error: the cluster of context east: it does not serve ValidatingAdmissionPolicy of admissionregistration.k8s.io/v1, which Kubernetes has from version 1.30 on: upgrade it, or join it without --restrict\n"
	got.check(t, result{code: 1, errOut: want})
	if readSecret(t, "east") != nil {
		t.Error("the Secret was written")
	}
	if got := runAs(t, file, "join", "east", "--allow-loopback", "--timeout", "0"); got.code != 0 || got.errOut != "" {
		t.Errorf("without --restrict: %v", got)
	}
}

func TestJoin_prints_the_policy_for_GitOps(t *testing.T) {
	for _, restricted := range []bool{false, true} {
		args := []string{"join", "nowhere", "--print-only", "member"}
		if restricted {
			args = append(args, "--restrict")
		}
		kinds := map[string]bool{}
		for _, object := range decode(t, runWith(t, "", args...).out) {
			kinds[object.GetKind()] = true
		}
		if kinds["ValidatingAdmissionPolicy"] != restricted || kinds["ValidatingAdmissionPolicyBinding"] != restricted || !kinds["ServiceAccount"] {
			t.Errorf("--restrict=%t: %v", restricted, kinds)
		}
	}
}

// A token that a Secret of the member has does not expire. join replaces it on the hub, and it stays
// valid until that Secret is deleted.
func TestJoin_force_says_which_token_stays_valid(t *testing.T) {
	m := newMember(t)
	secret := m.leaving(t)
	lasting := withToken(t, secret, m.lastingToken(t))
	byHand := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretNamespace, Name: "east", Labels: secret.Labels}, Data: lasting.Data}
	remove(t, secret)
	createAll(t, hub, byHand)
	got := m.run(t, "join", "east", "--allow-loopback", "--timeout", "0", "--force")
	want := "The former token stays valid and does not expire: it is that of Secret fleetwright in namespace fleetwright-system of the member, for ServiceAccount fleetwright. To end it:\n" +
		"  kubectl --context east delete secret fleetwright -n fleetwright-system\n"
	if got.code != 0 || got.errOut != want {
		t.Errorf("want %q, got %v", want, got)
	}
	checkToken(t, lasting, true)
	if err := m.Delete(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: member.Namespace, Name: "fleetwright"}}); err != nil {
		t.Fatal(err)
	}
	checkToken(t, lasting, false)
	checkToken(t, readSecret(t, "east"), true)
	if got := m.run(t, "join", "east", "--allow-loopback", "--timeout", "0"); got.errOut != "" {
		t.Errorf("a token that expires is mentioned: %v", got)
	}
}
