//go:build unix

package command_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/entries/appslice"
)

var clusterCount = flag.Int("clusters", 600, "number of clusters in TestLarge_fleet")

// createFleet creates clusters of which every tenth has a region of its own, and the AppService big
// with an entry on each of the others. Every seventh entry has failed, each with its own message.
func createFleet(t *testing.T, count int) {
	t.Helper()
	var creating errgroup.Group
	creating.SetLimit(16)
	var all []v1alpha1.ClusterStatus
	for i := range count {
		member := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("cluster-%05d", i), Labels: map[string]string{"region": "eu"}}}
		if i%10 == 0 {
			member.Labels["region"] = fmt.Sprintf("edge-%d", i)
		} else {
			entry := v1alpha1.ClusterStatus{Name: member.Name, Phase: v1alpha1.ClusterReady, Replicas: 1, ReadyReplicas: 1, LastTransitionTime: metav1.Now()}
			if i%7 == 0 {
				entry.Phase, entry.ReadyReplicas, entry.Reason = v1alpha1.ClusterFailed, 0, v1alpha1.ReasonImagePullBackOff
				entry.Message = fmt.Sprintf("pod big-%d: the image nginx:1 cannot be pulled from the registry mirror-%d.example.com", i, i)
			}
			all = append(all, entry)
		}
		creating.Go(func() error { return createReady(t.Context(), member) })
	}
	t.Cleanup(func() {
		if err := hub.DeleteAllOf(context.Background(), &v1alpha1.MemberCluster{}); err != nil {
			t.Error(err)
		}
	})
	if err := creating.Wait(); err != nil {
		t.Fatal(err)
	}
	app := &v1alpha1.AppService{}
	create(t, app, "{metadata: {name: big, namespace: default}, spec: {image: nginx:1, placement: {clusterSelector: {matchLabels: {region: eu}}}}}")
	createSlices(t, app, all)
}

// createReady creates a MemberCluster that is Ready.
func createReady(ctx context.Context, member *v1alpha1.MemberCluster) error {
	if err := hub.Create(ctx, member); err != nil {
		return err
	}
	member.Status.Version = "v1.36.3"
	member.Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "Connected", LastTransitionTime: metav1.Now()},
		{Type: v1alpha1.ConditionCredentialsValid, Status: metav1.ConditionTrue, Reason: "Accepted", LastTransitionTime: metav1.Now()},
	}
	return hub.Status().Update(ctx, member)
}

// createSlices stores the entries of an AppService in slices, as the operator does.
func createSlices(t *testing.T, app *v1alpha1.AppService, all []v1alpha1.ClusterStatus) {
	t.Helper()
	for _, slice := range appslice.Split(app, all) {
		if err := hub.Create(t.Context(), slice); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { // this API server has no garbage collection
			if err := hub.Delete(context.Background(), slice); client.IgnoreNotFound(err) != nil {
				t.Error(err)
			}
		})
	}
	setStatus(t, app, func(s *v1alpha1.AppServiceStatus) { s.ClustersIn, s.Summary.Clusters = v1alpha1.ClustersInSlices, 1 })
}

// countRequests returns the kubeconfig of a proxy of the hub, and the number of requests so far.
func countRequests(t *testing.T) (kubeconfig string, requests *atomic.Int64) {
	t.Helper()
	requests = &atomic.Int64{}
	kubeconfig, _ = proxyHub(t, func(*http.Request) { requests.Add(1) })
	return kubeconfig, requests
}

// TestLarge_fleet tests that a fleet with many clusters costs few requests, and that what is shown of
// it can be read.
func TestLarge_fleet(t *testing.T) {
	count := *clusterCount
	createLease(t, time.Now().Add(time.Hour))
	started := time.Now()
	createFleet(t, count)
	t.Logf("%d clusters were created in %s", count, time.Since(started))
	kubeconfig, requests := countRequests(t)
	plugin := filepath.Join(filepath.SplitList(installPlugin(t))[0], pluginName)
	t.Setenv("KUBECONFIG", kubeconfig)
	placed := count - (count+9)/10
	for _, test := range []struct {
		args  []string
		code  int
		lines int  // 0 is no bound
		isAll bool // each cluster has a line
		want  []string
	}{
		{args: []string{"clusters"}, isAll: true},
		{args: []string{"status", "big"}, code: 3, lines: 150, want: []string{"cluster-00007", fmt.Sprintf("└─ %d more clusters: ", placed-30)}},
		{args: []string{"why", "big"}, lines: 150, want: []string{
			fmt.Sprintf("default/big is placed on %d of %d clusters.", placed, count), "not chosen (SelectorMismatch): region is edge-0, wanted eu", "see them with --all"}},
		{args: []string{"why", "big", "cluster-00010"}, lines: 2, want: []string{"region is edge-10, wanted eu"}},
		{args: []string{"__complete", "why", "big", ""}, isAll: true},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			before, started := requests.Load(), time.Now()
			var out, errOut bytes.Buffer
			process := exec.CommandContext(t.Context(), plugin, test.args...)
			process.Stdout, process.Stderr = &out, &errOut
			if err := process.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) || process.ProcessState.ExitCode() != test.code {
				t.Fatalf("%v, want exit code %d: %s", err, test.code, &errOut)
			}
			sent, lines := requests.Load()-before, strings.Count(out.String(), "\n")
			t.Logf("%s, %d requests, %d lines, %s", time.Since(started), sent, lines, memoryOf(process))
			if most := int64(10 + 2*count/500); sent > most {
				t.Errorf("%d requests, want at most %d", sent, most)
			}
			if test.lines > 0 && lines > test.lines {
				t.Errorf("%d lines, want at most %d", lines, test.lines)
			}
			names := map[string]bool{}
			for line := range strings.Lines(out.String()) {
				if strings.HasPrefix(line, "cluster-") {
					names[strings.Fields(line)[0]] = true
				}
				if columns := len([]rune(strings.TrimRight(line, "\n"))); columns > 80 {
					t.Errorf("%d columns: %s", columns, line)
				}
			}
			if test.isAll && len(names) != count {
				t.Errorf("%d clusters are listed", len(names))
			}
			for _, want := range test.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("the output lacks %q:\n%.4000s", want, out.String())
				}
			}
		})
	}
	t.Run("ui", func(t *testing.T) {
		before, started := requests.Load(), time.Now()
		process := exec.CommandContext(t.Context(), plugin, "ui")
		process.Cancel = func() error { return process.Process.Signal(os.Interrupt) }
		out, err := process.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		awaitPage(t, strings.TrimSpace(line), count, placed)
		took, sent := time.Since(started), requests.Load()-before
		if err := process.Cancel(); err != nil {
			t.Fatal(err)
		}
		if err := process.Wait(); err != nil {
			t.Error(err)
		}
		t.Logf("%s, %d requests, %s", took, sent, memoryOf(process))
	})
}

// memoryOf says how much memory a process had at most.
func memoryOf(process *exec.Cmd) string {
	return fmt.Sprintf("at most %d MiB", process.ProcessState.SysUsage().(*syscall.Rusage).Maxrss>>10)
}

// awaitPage waits until the page has this many clusters, and its AppService is on so many of them.
func awaitPage(t *testing.T, address string, clusters, placed int) {
	t.Helper()
	server, token, _ := strings.Cut(address, "#token=")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server+"api/stream", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	seen, cells := map[string]bool{}, 0
	for stream := bufio.NewReader(response.Body); len(seen) < clusters || cells < placed; {
		line, err := stream.ReadBytes('\n')
		if err != nil {
			t.Fatalf("the page has %d clusters and %d cells: %v", len(seen), cells, err)
		}
		data, isData := bytes.CutPrefix(line, []byte("data: "))
		if !isData {
			continue
		}
		var change struct {
			Clusters []struct{ Name string }
			Apps     []struct{ Cells []struct{} }
		}
		if err := json.Unmarshal(data, &change); err != nil {
			t.Fatal(err)
		}
		for _, cluster := range change.Clusters {
			seen[cluster.Name] = true
		}
		for _, app := range change.Apps {
			cells = max(cells, len(app.Cells))
		}
	}
}

func TestStatus_counts_missing_slices(t *testing.T) {
	createLease(t, time.Now().Add(time.Hour))
	app := &v1alpha1.AppService{}
	create(t, app, "{metadata: {name: sliced, namespace: default}, spec: {image: nginx}}")
	var all []v1alpha1.ClusterStatus
	for _, name := range []string{"east", "north", "west"} {
		all = append(all, v1alpha1.ClusterStatus{Name: name, Phase: v1alpha1.ClusterReady, Replicas: 1, ReadyReplicas: 1, LastTransitionTime: metav1.Now()})
	}
	createSlices(t, app, all)
	if got := run(t, "status", "sliced"); strings.Contains(got.out, "missing") || !strings.Contains(got.out, "─ east ") || !strings.Contains(got.out, "─ north") {
		t.Error(got)
	}
	missing := &v1alpha1.AppServiceSlice{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.SliceName("sliced", v1alpha1.SlotOf("north")), Namespace: "default"}}
	if err := hub.Delete(t.Context(), missing); err != nil {
		t.Fatal(err)
	}
	const note = "! 1 AppServiceSlices are missing, so some clusters are not listed: the operator\nwrites them again\n"
	if got := run(t, "status", "sliced"); got.code != 3 || !strings.HasSuffix(got.out, note) || !strings.Contains(got.out, "─ east") || strings.Contains(got.out, "north") {
		t.Error(got)
	}
	// What is decided from all entries is not decided from some of them.
	run(t, "why", "sliced").check(t, result{code: 1,
		errOut: "error: 1 AppServiceSlices of sliced are missing, so the state of some clusters is not known: the operator writes them again; see kubectl appsvc status sliced\n"})
}
