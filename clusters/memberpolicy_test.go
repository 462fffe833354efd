package clusters_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/config/member"
	"github.com/fleetwright/fleetwright/internal/wait"
)

// restrict applies the policy of config/member to the member's user, and waits until the API server
// enforces it.
func (m *testMember) restrict(t testing.TB, token string) {
	t.Helper()
	objects, err := member.Policy()
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		text, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		own := strings.NewReplacer(
			"system:serviceaccount:"+member.Namespace+":"+member.ServiceAccount, m.user(),
			"'"+member.Namespace+"'", "'"+memberNamespace+"'",
			"request.?name.orValue('') == '"+member.ServiceAccount+"'", "request.?name.orValue('') == '"+m.name+"'",
			member.PolicyName+`"`, m.name+`"`, // not the codes
		).Replace(string(text))
		if err := json.Unmarshal([]byte(own), object); err != nil {
			t.Fatal(err)
		}
		m.createObject(t, m.testEnv.member, object)
	}
	config := rest.AnonymousClientConfig(m.testEnv.member.environment.Config)
	config.BearerToken = token
	user, err := client.New(config, client.Options{Scheme: testScheme})
	if err != nil {
		t.Fatal(err)
	}
	wait.Eventually(t, func() error {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "without-labels"}}
		err := user.Create(ctx, namespace, client.DryRunAll)
		if err == nil || !strings.Contains(err.Error(), "LabelsMissing") {
			return errors.Join(fmt.Errorf("the policy is not enforced"), err)
		}
		return nil
	})
}

// Otherwise, each member with the policy would be lost when its token expires.
func TestToken_of_a_member_with_the_policy_is_renewed(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	m := env.newMember(t, env.operator, "restricted")
	m.permitRenewal(t)
	const lifetime = 2 * time.Minute
	old := m.agedToken(t, 45*time.Second, lifetime)
	m.restrict(t, old)
	e := m.join(t, withToken(old))
	m.askForRenewal(t)

	next := m.waitForRenewal(t, old)
	m.waitForCredential(t, e, m.user(), tokenID(next))
	m.checkContinues(t, e)
	if got := m.renewals(t); got["failed"] != 0 {
		t.Errorf("renewals: %v", got)
	}
}
