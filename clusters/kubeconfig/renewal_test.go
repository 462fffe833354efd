package kubeconfig

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// renewed returns a Secret of a member with a kubeconfig and the annotation that asks for renewals.
func renewed(raw []byte) *MemberSecret {
	return &MemberSecret{Name: "east", format: FormatKubeconfig, Secret: &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationRenewToken: "true"}},
		Data:       map[string][]byte{"kubeconfig": raw},
	}}
}

func TestRenewal(t *testing.T) {
	const account = `"sub":"system:serviceaccount:canary-system:canary.name"`
	issued := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	lifetime := fmt.Sprintf(`"iat":%d,"exp":%d`, issued.Unix(), issued.Add(100*time.Hour).Unix())
	possible := Renewal{
		Account: types.NamespacedName{Namespace: "canary-system", Name: "canary.name"}, Issued: issued, Expires: issued.Add(100 * time.Hour),
	}
	bound := possible
	bound.Bound = BoundSecret{Name: "canary-secret", UID: "canary-uid"}
	pair := certificateA()
	blocker := func(text string) Renewal { return Renewal{Blocker: text} }
	tests := map[string]struct {
		edit   edit
		change func(*MemberSecret)
		want   Renewal
	}{
		"a token of a ServiceAccount":   {token(jwt(`{` + account + `,` + lifetime + `}`)), nil, possible},
		"a token with nbf":              {token(jwt(fmt.Sprintf(`{%s,"nbf":%d,"exp":%d}`, account, issued.Unix(), issued.Add(100*time.Hour).Unix()))), nil, possible},
		"a token bound to a Secret":     {token(jwt(`{` + account + `,` + lifetime + `,"kubernetes.io":{"secret":{"name":"canary-secret","uid":"canary-uid"}}}`)), nil, bound},
		"a token bound to a pod":        {token(jwt(`{` + account + `,` + lifetime + `,"kubernetes.io":{"pod":{"name":"canary"}}}`)), nil, blocker("the token is bound to a pod or a node")},
		"a token bound to a node":       {token(jwt(`{` + account + `,` + lifetime + `,"kubernetes.io":{"node":{"name":"canary"}}}`)), nil, blocker("the token is bound to a pod or a node")},
		"a token that does not expire":  {token(jwt(`{` + account + `}`)), nil, blocker("the token does not expire")},
		"a token without a beginning":   {token(jwt(`{` + account + `,"exp":7292520306}`)), nil, blocker("the token does not say when it was issued")},
		"a token that expires at once":  {token(jwt(`{` + account + `,"iat":7292520306,"exp":7292520306}`)), nil, blocker("the token does not say when it was issued")},
		"a token of a person":           {token(jwt(`{"sub":"canary@example.com",` + lifetime + `}`)), nil, blocker("the token is not a token of a ServiceAccount")},
		"a token with a path as name":   {token(jwt(`{"sub":"system:serviceaccount:canary:../../x",` + lifetime + `}`)), nil, blocker("the token is not a token of a ServiceAccount")},
		"a token with an extra name":    {token(jwt(`{"sub":"system:serviceaccount:canary:a:b",` + lifetime + `}`)), nil, blocker("the token is not a token of a ServiceAccount")},
		"a token with a number as name": {token(jwt(`{"sub":7,` + lifetime + `}`)), nil, blocker("the token is not a token of a ServiceAccount")},
		"an opaque token":               {token(canary), nil, blocker("the token is not a token of a ServiceAccount")},
		"a client certificate": {
			certificate(pair.Certificate, pair.Key), nil,
			blocker("the kubeconfig has a client certificate, and only tokens are renewed"),
		},
		"a Secret without the annotation": {
			token(jwt(`{` + account + `,` + lifetime + `}`)), func(m *MemberSecret) { m.Secret.Annotations = nil }, Renewal{},
		},
		"a Secret with another value": {
			token(jwt(`{` + account + `,` + lifetime + `}`)), func(m *MemberSecret) { m.Secret.Annotations[v1alpha1.AnnotationRenewToken] = "false" }, Renewal{},
		},
		"a Secret of Cluster API": {
			token(jwt(`{` + account + `,` + lifetime + `}`)), func(m *MemberSecret) { m.format = FormatClusterAPI },
			blocker("the tool that created the Secret owns its content"),
		},
		"a Secret of Argo CD": {
			token(jwt(`{` + account + `,` + lifetime + `}`)), func(m *MemberSecret) { m.format = FormatArgoCD },
			blocker("the tool that created the Secret owns its content"),
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			config, rejected := parse(kubeconfig(t, test.edit), Policy{})
			if rejected != nil {
				t.Fatal(rejected)
			}
			m := renewed(nil)
			if test.change != nil {
				test.change(m)
			}
			got := m.Renewal(config)
			if got.IsPossible() {
				if share := got.At.Sub(issued).Hours() / 100; share < 0.4 || share > 0.5 {
					t.Errorf("the token is renewed after %v of its lifetime", share)
				}
				got.At = time.Time{} // see TestRenewals_of_members_that_joined_together_are_spread
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// If all tokens were renewed at the same moment, the fleet would send a burst of writes to the hub.
func TestRenewals_of_members_that_joined_together_are_spread(t *testing.T) {
	const members = 1000
	issued := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	of := func(member string) time.Duration {
		return newRenewal(member, tokenClaims{
			Subject: "system:serviceaccount:a:b", IssuedAt: float64(issued.Unix()), Expiry: float64(issued.Add(100 * time.Hour).Unix()),
		}).At.Sub(issued)
	}
	perHour := map[int]int{}
	for i := range members {
		at := of(fmt.Sprint("member-", i))
		if at <= 40*time.Hour || at > 50*time.Hour {
			t.Fatalf("member %d renews after %s of 100 hours", i, at)
		}
		perHour[int(at.Hours())]++
	}
	for hour := 40; hour < 50; hour++ {
		if perHour[hour] < members/20 || perHour[hour] > members/5 {
			t.Errorf("%d of %d members renew in hour %d", perHour[hour], members, hour)
		}
	}
	// A restart must not move the time, so it is the same in each process.
	if got, want := of("east").Truncate(time.Second), 44*time.Hour+21*time.Minute+48*time.Second; got != want {
		t.Errorf("east renews after %s, want %s", got, want)
	}
}
