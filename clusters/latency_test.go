package clusters_test

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/internal/wait"
)

// Invariant 1: bad members never slow other members, even if many kinds of faults occur at the same
// time.
//
// Two operators have three healthy members each, and one of them also has all the bad members. Each
// write through that operator is paired with a write through the other operator, directly before or
// after it. Other load on the machine, including the faults of this test, slows both writes of a
// pair equally. The remaining difference is the effect of the bad members on the other members of
// their operator. The median covers the pairs of both rounds, so that a good round cannot hide a
// bad one. This test does not measure the processor time that both operators lose to a bad member.
// The back-off and the response limiter limit that time.
//
// This test does not run in parallel with others, because it measures time. So it runs in `make
// nightly` only.
func TestMember_is_not_slowed_by_bad_members(t *testing.T) {
	if os.Getenv("FULL") == "" {
		t.Skip("it measures time; FULL=1 runs it")
	}
	env := sharedEnv(t)
	baseline, loaded := env.newOperator(t, "fleet-alone", productionProbeInterval), env.newOperator(t, "fleet-beside", productionProbeInterval)
	pairs := make([][2]*writer, 3)
	for i := range pairs {
		for side, o := range []*operator{baseline, loaded} {
			m := env.newMember(t, o, fmt.Sprintf("%s-%d", o.namespace, i))
			pairs[i][side] = m.writer(t, m.join(t))
		}
	}
	var bad []*testMember
	for i, b := range faultCases() {
		if b.whenNew != "" {
			m := env.newMember(t, loaded, fmt.Sprintf("latency-bad-%d", i))
			b.inject(t, m)
			bad = append(bad, m)
		}
	}
	var before, during [2][]time.Duration
	for range 2 {
		measureWrites(t, pairs, &before)
		for _, m := range bad {
			m.createSecret(t, m.kubeconfig(t))
		}
		for _, m := range bad {
			wait.Eventually(t, func() error {
				if m.memberCluster(t).Name == "" {
					return fmt.Errorf("MemberCluster %s does not exist", m.name)
				}
				return nil
			})
		}
		measureWrites(t, pairs, &during)
		for _, m := range bad {
			m.deleteSecret(t)
		}
		for _, m := range bad {
			m.waitForConditions(t, summarySecretMissing)
		}
	}
	t.Logf("without bad members, a write takes %s and its pair %s", median(before[1]), median(before[0]))
	t.Logf("next to bad members, a write takes %s (%d bad members), and its pair without them %s, over %d pairs", median(during[1]), len(bad), median(during[0]), len(during[0]))
	// A member that waits for a bad one waits for seconds. The limit is far above what the load of the
	// machine adds to one side of the pairs only.
	if limit := 2*median(during[0]) + 20*time.Millisecond; median(during[1]) > limit {
		t.Errorf("healthy members are slowed: want at most %s", limit)
	}
}

// writer writes to a member through the client of its engagement.
type writer struct {
	client client.Client
	app    appsv1.Deployment
}

func (m *testMember) writer(t *testing.T, e engagement) *writer {
	t.Helper()
	m.createDeployment(t, m.name)
	return &writer{e.cluster.GetClient(), appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: memberNamespace, Name: m.name}}}
}

// write sends one request, which changes an annotation.
func (w *writer) write(i int) (time.Duration, error) {
	patch := fmt.Appendf(nil, `{"metadata": {"annotations": {"written": "%d"}}}`, i)
	begun := time.Now()
	err := w.client.Patch(ctx, w.app.DeepCopy(), client.RawPatch(types.MergePatchType, patch))
	return time.Since(begun), err
}

// measureWrites makes 150 pairs of writes, and records their durations.
func measureWrites(t *testing.T, pairs [][2]*writer, took *[2][]time.Duration) {
	t.Helper()
	const each, pace = 50, 60 * time.Millisecond // within the rate limit of a member
	var mu sync.Mutex
	var all sync.WaitGroup
	for _, pair := range pairs {
		all.Go(func() {
			tick := time.NewTicker(pace)
			defer tick.Stop()
			for i := range each {
				<-tick.C
				for order := range 2 {
					side := (i + order) % 2 // the sides alternate in being the first
					d, err := pair[side].write(i)
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					took[side] = append(took[side], d)
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
}

func median(took []time.Duration) time.Duration {
	took = slices.Sorted(slices.Values(took))
	return took[len(took)/2].Round(10 * time.Microsecond)
}
