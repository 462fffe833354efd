package clusters_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	toolscache "k8s.io/client-go/tools/cache"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// The operator emits no credential. It emits addresses of members only in its log. TestMain checks
// everything that the operator emits during the tests of this package.
var (
	operatorLog      = &output{}         // its log
	publishedObjects = &output{}         // its events, and each version of its MemberClusters
	knownCredentials = &forbiddenTexts{} // the credentials that the operator was given
	memberAddresses  = &forbiddenTexts{} // the addresses of the members
	serverAddresses  = &forbiddenTexts{} // the addresses of the API servers, which the metrics of the tests' clients have
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

// findLeaks returns the emitted lines that contain a credential or an address that they must not
// contain.
func findLeaks() (lines []string) {
	for _, source := range []struct {
		name      string
		lines     []string
		forbidden []*forbiddenTexts
	}{
		{"the log", operatorLog.lines(), []*forbiddenTexts{knownCredentials}},
		{"events and MemberClusters", publishedObjects.lines(), []*forbiddenTexts{knownCredentials, memberAddresses}},
		{"metrics", metricLines(), []*forbiddenTexts{knownCredentials, memberAddresses}},
	} {
		for _, line := range source.lines {
			for _, unwanted := range source.forbidden {
				if len(unwanted.foundIn(line)) > 0 {
					lines = append(lines, source.name+": "+line)
				}
			}
		}
		fmt.Printf("searched for %d credentials and %d addresses in %s: %d lines\n", len(knownCredentials.texts), len(memberAddresses.texts), source.name, len(source.lines))
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
	recorded, err := cache.New(env.hub.environment.Config, cache.Options{Scheme: testScheme})
	if err != nil {
		return err
	}
	record := func(object any) {
		line, err := json.Marshal(object)
		if err != nil {
			panic(err)
		}
		_, _ = publishedObjects.Write(append(line, '\n'))
	}
	for _, object := range []client.Object{&v1alpha1.MemberCluster{}, &eventsv1.Event{}} {
		informer, err := recorded.GetInformer(ctx, object, cache.BlockUntilSynced(false))
		if err != nil {
			return err
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: record, UpdateFunc: func(_, now any) { record(now) }}); err != nil {
			return err
		}
	}
	go func() { _ = recorded.Start(ctx) }()
	return nil
}

// Messages of a member appear in conditions, events and the log. A member may echo the token that
// it received. TestMain then finds the token if it is not redacted.
func TestMember_that_quotes_its_token_does_not_publish_it(t *testing.T) {
	t.Parallel()
	env := sharedEnv(t)
	o := env.newOperator(t, "fleet-quotes", func(o *setup) { o.ConnectTimeout = 10 * time.Second })
	tests := map[string]struct {
		fault func(http.HandlerFunc) func(testing.TB, *testMember)
		code  int
		want  string
	}{
		"in 403 responses except to probes": {onAllButProbes, http.StatusForbidden, "False Forbidden"},
		"in 500 responses except to probes": {onAllButProbes, http.StatusInternalServerError, "Unknown Unhealthy"},
		"in 403 responses to all requests":  {onAllRequests, http.StatusForbidden, "False Forbidden"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := env.newMember(t, o, "quotes-"+memberName(name))
			test.fault(quoteToken(test.code))(t, m)
			m.createSecret(t, m.kubeconfig(t))
			m.waitForConditions(t, expectedConditions(test.want, "Unknown NotVerified"))
		})
	}
}

// quoteToken responds as an API server does, with the token of the request in the message.
func quoteToken(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		_, _ = fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": %d, "reason": "%s", "message": "no: %s"}`,
			code, map[int]string{http.StatusForbidden: "Forbidden"}[code], token)
	}
}
