package doctor

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/output"
)

func TestDoctor_decides(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	joined := advice{cluster: "east", secret: "fleetwright-system/east", isJoined: true}
	byHand := advice{cluster: "east", secret: "capi/east-kubeconfig"}
	local, localByHand := joined, byHand
	local.isLoopback, localByHand.isLoopback = true, true
	condition := func(status metav1.ConditionStatus, reason string) *metav1.Condition {
		return &metav1.Condition{Status: status, Reason: reason, Message: "the message."}
	}
	denied := []*authorizationv1.SubjectAccessReview{{Spec: authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Resource: "nodes"}}}}
	unauthorized := condition(metav1.ConditionFalse, v1alpha1.ReasonUnauthorized)
	for name, test := range map[string]struct {
		got     check
		outcome outcome
		text    string
	}{
		"equal clocks":                                    {offsetCheck("clock", -30*time.Second), checkOK, "less than 60s"},
		"a clock that is ahead":                           {offsetCheck("clock", 2*time.Minute), checkFailed, "it is 2m0s ahead of the clock of this machine"},
		"a clock that is behind":                          {offsetCheck("clock", -time.Hour), checkFailed, "it is 1h0m0s behind the clock of this machine"},
		"the oldest version":                              {versionCheck("v1.33.0"), checkOK, "v1.33.0"},
		"a newer version of a vendor":                     {versionCheck("v1.36.3-gke.100"), checkOK, "v1.36.3-gke.100"},
		"an older version":                                {versionCheck("v1.32.9"), checkFailed, "v1.32.9 is older than 1.33"},
		"something that is not Kubernetes":                {versionCheck("nginx"), checkFailed, "it is not a Kubernetes API server"},
		"a fresh certificate":                             {certificateCheck(now.Add(-day), now.Add(day), now), checkOK, "valid until 2026-11-24"},
		"a certificate that ends":                         {certificateCheck(now.Add(-99*day), now.Add(day), now), checkFailed, "ends on 2026-11-24: renew it"},
		"valid credentials":                               {expiryCheck(now.Add(time.Hour), now, joined), checkOK, "valid until 2026-11-23 13:00 UTC"},
		"credentials that have ended":                     {expiryCheck(now, now, joined), checkFailed, "ended at 2026-11-23 12:00 UTC. Run: kubectl appsvc join CONTEXT --name east"},
		"credentials of a Secret that join did not write": {expiryCheck(now, now, byHand), checkFailed, `UTC. Write new ones to Secret capi/east-kubeconfig ("Rotate credentials" in docs/maintenance.md)`},
		"a version that is not tested yet":                {versionCheck("v1.37.0"), checkNote, "v1.37.0 is newer than 1.36"},
		"a major version that is not tested yet":          {versionCheck("v2.0.0"), checkNote, "v2.0.0 is newer than 1.36"},

		"no condition":                        {conditionCheck("credentials", nil), checkFailed, "the hub does not report it"},
		"a condition that is True":            {conditionCheck("credentials", condition(metav1.ConditionTrue, v1alpha1.ReasonAccepted)), checkOK, "Accepted"},
		"credentials that end soon":           {conditionCheck("credentials", condition(metav1.ConditionTrue, v1alpha1.ReasonExpiringSoon)), checkFailed, "ExpiringSoon, as the hub reports: the message. See"},
		"a renewal that failed":               {conditionCheck("credentials", condition(metav1.ConditionTrue, v1alpha1.ReasonRenewalFailed)), checkFailed, "RenewalFailed, as the hub reports: the message. See"},
		"credentials that cannot be renewed":  {conditionCheck("credentials", condition(metav1.ConditionTrue, v1alpha1.ReasonNotRenewable)), checkNote, "NotRenewable, as the hub reports: the message. See"},
		"a reason that doctor does not know":  {conditionCheck("credentials", condition(metav1.ConditionTrue, "Strange")), checkFailed, "Strange, as the hub reports"},
		"a condition that is Unknown":         {conditionCheck("connection", condition(metav1.ConditionUnknown, v1alpha1.ReasonConnected)), checkFailed, "Connected, as the hub reports"},
		"no ServiceAccount for another user":  {noAccountCheck("permissions", condition(metav1.ConditionTrue, v1alpha1.ReasonConnected), "east", nil, joined), checkNote, "it was deleted, or the hub uses another user"},
		"no ServiceAccount before a status":   {noAccountCheck("permissions", nil, "east", nil, joined), checkNote, "it was deleted, or the hub uses another user"},
		"no ServiceAccount, and unauthorized": {noAccountCheck("permissions", unauthorized, "east", nil, joined), checkFailed, "so its tokens are not valid. Run: kubectl appsvc join east --name east"},
		"no ServiceAccount of a cluster of another tool": {noAccountCheck("permissions", unauthorized, "east-admin", []string{"shop", "web"}, byHand), checkFailed,
			"Run: kubectl appsvc join east-admin --namespaces shop,web --print-only member | kubectl --context east-admin apply --server-side -f -. " +
				"The credentials of the hub then remain invalid. Write new ones to Secret capi/east-kubeconfig"},
		"no permission": {permissionCheck("permissions", denied, nil, joined.forPermissions("admin", nil)), checkFailed, "1 of 1 are missing: list nodes. Run: kubectl appsvc join admin --name east"},
		"no permission on a cluster of this machine": {permissionCheck("permissions", denied, nil, local.forPermissions("admin", nil)), checkFailed, "Run: kubectl appsvc join admin --allow-loopback --name east"},
		"no permission for configuration on a cluster of this machine": {permissionCheck("permissions", denied, nil, localByHand.forConfiguration("admin", nil)), checkFailed,
			"Run: kubectl appsvc join admin --allow-loopback --configuration --print-only member | kubectl"},
		"no permission for what another tool adds": {permissionCheck("permissions", denied, nil, byHand.forPermissions("admin", nil)), checkFailed, "Run: kubectl appsvc join admin --print-only member | kubectl --context admin apply --server-side -f -"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.got.outcome != test.outcome || !strings.Contains(test.got.text, test.text) {
				t.Errorf("got %+v, want %s with %q", test.got, test.outcome, test.text)
			}
		})
	}
}

func TestDoctor_reports_of_the_hub(t *testing.T) {
	// A cluster that was never connected has no conditions, and no end of its credentials.
	var got []string
	for _, c := range hubChecks(&v1alpha1.MemberCluster{}, advice{}) {
		got = append(got, string(c.outcome)+" "+c.what)
	}
	if text := strings.Join(got, ", "); text != "FAIL connection, FAIL credentials" {
		t.Errorf("got %s", text)
	}
}

func TestDoctor_searches_the_context(t *testing.T) {
	all := hub.Contexts{Source: "your kubeconfig"}
	all.Kubeconfig.Clusters = map[string]*clientcmdapi.Cluster{"any": {Server: "https://any.example"}}
	all.Kubeconfig.AuthInfos = map[string]*clientcmdapi.AuthInfo{"me": {Token: "mine"}}
	all.Kubeconfig.Contexts = map[string]*clientcmdapi.Context{}
	for _, name := range []string{"East", "east", "admin"} {
		all.Kubeconfig.Contexts[name] = &clientcmdapi.Context{Cluster: "any", AuthInfo: "me"}
	}
	silent := errors.New("it does not answer")
	for name, test := range map[string]struct {
		cluster, id string
		matches     hub.ContextMatches
		context     string
		lines       []string
	}{
		"the identity decides": {"east", "1", hub.ContextMatches{ByID: map[types.UID]hub.ContextCluster{"1": {Name: "admin"}}, Errs: map[string]error{"east": silent}},
			"admin", []string{"admin leads to the cluster"}},
		"a context of the name that does not answer": {"east", "1", hub.ContextMatches{Errs: map[string]error{"east": silent}},
			"east", []string{"east has the name of the cluster"}},
		"a context of the name that leads to another cluster": {"east", "1", hub.ContextMatches{ByID: map[types.UID]hub.ContextCluster{"2": {Name: "east"}}, Errs: map[string]error{"admin": silent}},
			"", []string{"no context of your kubeconfig leads to the cluster", "the cluster of context admin: it does not answer"}},
		"a context of the name that answers, for a cluster whose identity the hub does not know": {"east", "", hub.ContextMatches{ByID: map[types.UID]hub.ContextCluster{"2": {Name: "east"}}},
			"east", []string{"east has the name of the cluster"}},
		"a cluster of another name whose identity the hub does not know": {"west", "", hub.ContextMatches{ByID: map[types.UID]hub.ContextCluster{"": {Name: "east"}}},
			"", []string{"no context of your kubeconfig leads to the cluster"}},
	} {
		t.Run(name, func(t *testing.T) {
			found := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: test.cluster}, Status: v1alpha1.MemberClusterStatus{ClusterID: types.UID(test.id)}}
			cluster, checks := searchContext(found, all, test.matches)
			if cluster.Name != test.context || len(checks) != len(test.lines) {
				t.Fatalf("got context %q and %v", cluster.Name, checks)
			}
			for i, line := range test.lines {
				if !strings.HasPrefix(checks[i].text, line) {
					t.Errorf("got %q, want %q", checks[i].text, line)
				}
			}
		})
	}
}

func TestDoctor_resolves_the_address(t *testing.T) {
	in, _, _, _ := genericiooptions.NewTestIOStreams()
	e := &examination{report: &report{Options: &hub.Options{Streams: output.Streams{IOStreams: in}}}}
	for server, want := range map[string]string{
		"https://192.0.2.1":        "192.0.2.1:443",
		"https://192.0.2.1:6443":   "192.0.2.1:6443",
		"https://[2001:db8::1]":    "[2001:db8::1]:443",
		"https://localhost":        "localhost:443",
		"https://localhost:6443/x": "localhost:6443",
	} {
		parsed, err := url.Parse(server)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := e.resolve(context.Background(), parsed); got != want || !ok {
			t.Errorf("%s: got %s, want %s", server, got, want)
		}
	}
}
