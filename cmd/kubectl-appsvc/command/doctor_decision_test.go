package command

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

func TestDoctor_decides(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	state := func(status metav1.ConditionStatus, reason string) *metav1.Condition {
		return &metav1.Condition{Status: status, Reason: reason, Message: "the reason."}
	}
	for name, test := range map[string]struct {
		got     check
		outcome outcome
		text    string
	}{
		"equal clocks":                     {offsetCheck("clock", -30*time.Second), checkOK, "less than 60s"},
		"a clock that is ahead":            {offsetCheck("clock", 2*time.Minute), checkFailed, "it is 2m0s ahead of the clock of this machine"},
		"a clock that is behind":           {offsetCheck("clock", -time.Hour), checkFailed, "it is 1h0m0s behind the clock of this machine"},
		"the oldest version":               {versionCheck("v1.33.0"), checkOK, "v1.33.0"},
		"a newer version of a vendor":      {versionCheck("v1.36.3-gke.100"), checkOK, "v1.36.3-gke.100"},
		"an older version":                 {versionCheck("v1.32.9"), checkFailed, "v1.32.9 is older than 1.33"},
		"something that is not Kubernetes": {versionCheck("nginx"), checkFailed, "it is not a Kubernetes API server"},
		"a fresh certificate":              {certificateCheck(now.Add(-day), now.Add(day), now), checkOK, "valid until 2026-11-24"},
		"a certificate that ends":          {certificateCheck(now.Add(-99*day), now.Add(day), now), checkFailed, "ends on 2026-11-24: renew it"},
		"valid credentials":                {expiryCheck(now.Add(time.Hour), now), checkOK, "valid until 2026-11-23 13:00 UTC"},
		"credentials that have ended":      {expiryCheck(now, now), checkFailed, "ended at 2026-11-23 12:00 UTC"},
		"a condition that is missing":      {conditionCheck("x", nil), checkFailed, "the hub does not report it: check that the operator runs"},
		"a condition that is True":         {conditionCheck("x", state(metav1.ConditionTrue, v1alpha1.ReasonAccepted)), checkOK, "Accepted, as the hub reports"},
		"a condition that is Unknown":      {conditionCheck("x", state(metav1.ConditionUnknown, v1alpha1.ReasonNotVerified)), checkFailed, "NotVerified, as the hub reports: the reason. See"},
		"credentials that end soon":        {conditionCheck("x", state(metav1.ConditionTrue, v1alpha1.ReasonExpiringSoon)), checkFailed, "ExpiringSoon, as the hub reports: the reason. See"},
		"a token that is not renewed":      {conditionCheck("x", state(metav1.ConditionTrue, v1alpha1.ReasonRenewalFailed)), checkFailed, "RenewalFailed, as the hub reports: the reason. See"},
		"nothing to renew":                 {conditionCheck("x", state(metav1.ConditionTrue, v1alpha1.ReasonNotRenewable)), checkFailed, "NotRenewable, as the hub reports: the reason. See"},
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
	for _, c := range hubChecks(&v1alpha1.MemberCluster{}) {
		got = append(got, string(c.outcome)+" "+c.what)
	}
	if text := strings.Join(got, ", "); text != "FAIL connection, FAIL credentials" {
		t.Errorf("got %s", text)
	}
}

func TestDoctor_searches_the_context(t *testing.T) {
	all := contexts{source: "your kubeconfig", kubeconfig: clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"x": {Server: "https://127.0.0.1:1"}},
		Contexts: map[string]*clientcmdapi.Context{"east": {Cluster: "x"}, "West": {Cluster: "x"}, "admin@south": {Cluster: "x"}},
	}}
	matches := contextMatches{
		byID: map[types.UID]contextCluster{"uid-east": {name: "east"}, "": {name: "broken"}},
		errs: map[string]error{"West": errors.New("canary"), "admin@south": errors.New("canary")},
	}
	for name, test := range map[string]struct {
		cluster string
		id      types.UID
		context string
		outcome outcome
		text    string
	}{
		"by the identity":                   {"a", "uid-east", "east", checkOK, "east leads to the cluster"},
		"by the name, in capital letters":   {"west", "uid-west", "West", checkNote, "West has the name of the cluster, and is used because no other one leads to it"},
		"a cluster that never connected":    {"west", "", "West", checkNote, "West has the name of the cluster"},
		"none, and some that do not answer": {"north", "uid-north", "", checkNote, "no context of your kubeconfig leads to the cluster, so the checks from this machine are left out. These did not answer: West, admin@south. Name its context"},
	} {
		t.Run(name, func(t *testing.T) {
			found := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: test.cluster}, Status: v1alpha1.MemberClusterStatus{ClusterID: test.id}}
			cluster, got := searchContext(found, all, matches)
			if cluster.name != test.context || got.outcome != test.outcome || !strings.Contains(got.text, test.text) {
				t.Errorf("got context %q and %+v", cluster.name, got)
			}
		})
	}
}

func TestDoctor_resolves_the_address(t *testing.T) {
	streams, _, _, _ := genericiooptions.NewTestIOStreams()
	e := &examination{report: &report{hubOptions: &hubOptions{streams: streams}}}
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
