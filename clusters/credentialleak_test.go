package clusters_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	dto "github.com/prometheus/client_model/go"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	toolscache "k8s.io/client-go/tools/cache"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// The operator emits no credential, and an address of a member only in the log. A check covers
// everything that the operator emits during the tests of this package.
var (
	operatorLog      = &output{}         // its log
	publishedObjects = &output{}         // its events, and each version of its MemberClusters
	knownCredentials = &forbiddenTexts{} // the credentials that the operator was given
	memberAddresses  = &forbiddenTexts{} // the addresses of the members
	serverAddresses  = &forbiddenTexts{} // addresses of API servers, for the metrics of the tests' clients
)

// forbiddenTexts holds texts that must not be emitted. It is safe for concurrent use.
type forbiddenTexts struct {
	mu    sync.Mutex
	texts []string
}

func (s *forbiddenTexts) add(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts = append(s.texts, text)
}

// foundIn returns the texts that occur in a text.
func (s *forbiddenTexts) foundIn(text string) (found []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, unwanted := range s.texts {
		if strings.Contains(text, unwanted) {
			found = append(found, unwanted)
		}
	}
	return found
}

// findLeaks returns the emitted lines that contain a forbidden text.
func findLeaks() (lines []string) {
	for _, source := range []struct {
		what  string
		lines []string
		not   []*forbiddenTexts
	}{
		{"the log", operatorLog.lines(), []*forbiddenTexts{knownCredentials}},
		{"events and MemberClusters", publishedObjects.lines(), []*forbiddenTexts{knownCredentials, memberAddresses}},
		{"metrics", metricLines(), []*forbiddenTexts{knownCredentials, memberAddresses}},
	} {
		for _, line := range source.lines {
			for _, unwanted := range source.not {
				if len(unwanted.foundIn(line)) > 0 {
					lines = append(lines, source.what+": "+line)
				}
			}
		}
		fmt.Printf("looked for %d credentials and %d addresses in %s: %d lines\n", len(knownCredentials.texts), len(memberAddresses.texts), source.what, len(source.lines))
	}
	return lines
}

// metricLines returns the metrics, one line for each.
func metricLines() (lines []string) {
	families, err := metrics.Registry.Gather()
	if err != nil {
		panic(err)
	}
	for _, family := range families {
		for _, metric := range family.Metric {
			lines = append(lines, family.GetName()+" "+(&dto.Metric{Label: metric.Label}).String())
		}
	}
	return lines
}

// recordPublished records all events and MemberClusters of a hub from now on.
func (env *testEnv) recordPublished(ctx context.Context) error {
	heard, err := cache.New(env.hub.environment.Config, cache.Options{Scheme: testScheme})
	if err != nil {
		return err
	}
	keep := func(object any) {
		line, err := json.Marshal(object)
		if err != nil {
			panic(err)
		}
		_, _ = publishedObjects.Write(append(line, '\n'))
	}
	for _, object := range []client.Object{&v1alpha1.MemberCluster{}, &eventsv1.Event{}} {
		informer, err := heard.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return err
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: keep, UpdateFunc: func(_, now any) { keep(now) }}); err != nil {
			return err
		}
	}
	go func() { _ = heard.Start(ctx) }()
	return nil
}

// Messages of a member appear in conditions, events and the log. A member may echo the token that
// it received.
func TestAMemberThatQuotesTheToken(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		fault func(http.HandlerFunc) func(testing.TB, *testMember)
		code  int
		want  string
	}{
		"in a refusal":  {onAllButProbes, http.StatusForbidden, "False Forbidden"},
		"in an error":   {onAllButProbes, http.StatusInternalServerError, "Unknown Unhealthy"},
		"to everything": {onAllRequests, http.StatusForbidden, "False Forbidden"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := sharedEnv(t)
			m := env.newMember(t, env.operator, "quotes-"+memberName(name))
			test.fault(quoteToken(test.code))(t, m)
			m.createSecret(t, m.kubeconfig(t))
			m.waitForConditions(t, withinConnectTimeout, expectedConditions(test.want, "Unknown NotVerified"))
		})
	}
}

// quoteToken answers as an API server does, with the token in the message.
func quoteToken(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": %d, "reason": "%s", "message": "no: %s"}`,
			code, map[int]string{http.StatusForbidden: "Forbidden"}[code], token)
	}
}
