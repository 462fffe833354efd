package kubeconfig

import (
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fleetwright/fleetwright/clusters/internal/cputime"
)

// Limits on the cost of a decision on a Secret. The operator makes the decision for everyone who
// may write a Secret.
const (
	maxDecisionTime   = 100 * time.Millisecond
	maxDecisionMemory = 50 << 20
)

// This test is not parallel, because it would count the allocations of other tests.
func TestHostile_Secret_costs_little(t *testing.T) {
	decisions := map[string]func(){}
	for name, test := range hostileKubeconfigs(t) {
		decisions[name] = func() { _, _ = parse(test.raw, Policy{}) }
	}
	for name, test := range rejectedKubeconfigs(t) {
		decisions[name] = func() { _, _ = parse(test.raw, Policy{}) }
	}
	for name, test := range acceptedKubeconfigs(t) {
		decisions[name] = func() { _, _ = parse(test.raw, Policy{}) }
	}
	for name, test := range rejectedArgoCDs(t) {
		decisions["Argo CD: "+name] = func() { _, _ = parseArgoCDConfig(test.config, test.policy) }
	}
	decisions["Argo CD: a server of a MiB"] = func() {
		_, _ = SecretRules{argoSecrets}.Member(secret("x", withArgoCDLabel, withData("server", strings.Repeat("x", 1<<20)))).Parse(Policy{})
	}
	for name, decide := range decisions {
		t.Run(name, func(t *testing.T) {
			took, allocated := measureCost(decide)
			if limit := maxDecisionTime * slowness(); took > limit || allocated > maxDecisionMemory {
				t.Errorf("took %s and %d KiB, want at most %s and %d KiB", took, allocated>>10, limit, maxDecisionMemory>>10)
			}
		})
	}
}

// slowness returns the approximate factor by which the race detector slows down the tests.
func slowness() time.Duration {
	if build, known := debug.ReadBuildInfo(); known && slices.Contains(build.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		return 10
	}
	return 1
}

// The name is read for every event of a Secret, and again in the reconciliation.
func TestHostile_name_of_a_MiB_is_not_validated(t *testing.T) {
	s := secret("x", withArgoCDLabel, withData("name", strings.Repeat("x", 1<<20)))
	if _, allocated := measureCost(func() { _ = argoSecrets.member(s) }); allocated > 64<<10 {
		t.Errorf("took %d KiB", allocated>>10)
	}
}

// measureCost returns the processor time and the memory of the cheapest of three runs, because the
// garbage of other code counts too.
func measureCost(decide func()) (took time.Duration, allocated uint64) {
	took, allocated = time.Hour, 1<<63
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		took = min(took, cputime.Of(decide))
		runtime.ReadMemStats(&after)
		allocated = min(allocated, after.TotalAlloc-before.TotalAlloc)
	}
	return took, allocated
}
