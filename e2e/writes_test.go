package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/e2e/environment"
)

// quiet is how long nothing may be written.
const quiet = 20 * time.Second

// writes are how many requests each cluster's API server got that write, from anybody: by cluster, then by
// what was done to which resource. These are left out:
//   - Leases: the control planes, the simulated nodes and the leader renew theirs all the time;
//   - reviews of tokens and of access, and dry runs: nothing is stored;
//   - the Event by which a new leader says so.
//
// All else that an idle cluster of this suite writes in minutes is nothing.
type writes map[string]map[string]int

func (f *fleet) writes(t *testing.T) writes {
	t.Helper()
	counted := writes{"hub": requests(t, f.hub)}
	for name, member := range f.members {
		counted[name] = requests(t, member)
	}
	counted["hub"]["POST events"] -= f.leaderEvents(t)
	return counted
}

func totals(w writes) map[string]int {
	sums := map[string]int{}
	for cluster, counts := range w {
		for _, n := range counts {
			sums[cluster] += n
		}
	}
	return sums
}

// awaitSilence waits until nothing was written for three seconds: what the last change caused is over.
func (f *fleet) awaitSilence(t *testing.T) {
	t.Helper()
	last, since := f.writes(t), time.Now()
	eventually(t, "three seconds without a write", func() error {
		now := f.writes(t)
		diff := cmp.Diff(last, now)
		if diff != "" {
			last, since = now, time.Now()
		}
		if time.Since(since) < 3*time.Second {
			return fmt.Errorf("written last (-before +after):\n%s", diff)
		}
		return nil
	})
}

var (
	requestTotal = regexp.MustCompile(`(?m)^apiserver_request_total\{(.*)\} (\S+)$`)
	label        = regexp.MustCompile(`(\w+)="([^"]*)"`)
	writeVerbs   = []string{"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"}
	notStored    = []string{"coordination.k8s.io", "authentication.k8s.io", "authorization.k8s.io"}
)

// requests reads an API server's metric, as "verb resource/subresource" to count.
func requests(t *testing.T, c *cluster) map[string]int {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(c.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := clientset.RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatalf("read the metrics of %s: %v", c.Name(), err)
	}
	counts := map[string]int{}
	for _, line := range requestTotal.FindAllStringSubmatch(string(metrics), -1) {
		labels := map[string]string{}
		for _, pair := range label.FindAllStringSubmatch(line[1], -1) {
			labels[pair[1]] = pair[2]
		}
		if !slices.Contains(writeVerbs, labels["verb"]) || slices.Contains(notStored, labels["group"]) || labels["dry_run"] != "" {
			continue
		}
		n, err := strconv.ParseFloat(line[2], 64)
		if err != nil {
			t.Fatalf("read the metrics of %s: %v", c.Name(), err)
		}
		key := labels["verb"] + " " + labels["resource"]
		if labels["subresource"] != "" {
			key += "/" + labels["subresource"]
		}
		counts[key] += int(n)
	}
	if len(counts) == 0 {
		t.Fatalf("the metrics of %s count no writes at all", c.Name())
	}
	return counts
}

// leaderEvents is how often an operator has said by an Event that it leads, or no longer.
func (f *fleet) leaderEvents(t *testing.T) int {
	t.Helper()
	events := &corev1.EventList{}
	if err := f.hub.api.List(t.Context(), events, client.InNamespace(environment.SecretNamespace)); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, event := range events.Items {
		if event.Reason == "LeaderElection" {
			n++
		}
	}
	return n
}
