package ui

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/controllers/entries/appslice"
)

// scales are the sizes for which docs/ui.md has numbers.
var scales = []struct{ apps, clusters int }{{200, 200}, {20, 10_000}}

// newLargeMember returns a MemberCluster that is Ready, in one of ten regions.
func newLargeMember(i int) *v1alpha1.MemberCluster {
	member := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("cluster-%05d", i), Labels: map[string]string{regionLabel: fmt.Sprintf("region-%d", i%10)}}}
	member.Status.Version = "v1.36.1"
	member.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Connected", LastTransitionTime: noon}}
	return member
}

// newLargeApp returns an AppService that is Ready on all clusters, with its slices if it needs them.
func newLargeApp(namespace string, i, clusters int) (*v1alpha1.AppService, []v1alpha1.ClusterStatus) {
	entries := make([]v1alpha1.ClusterStatus, 0, clusters)
	for j := range clusters {
		entries = append(entries, newEntry(fmt.Sprintf("cluster-%05d", j), "Ready"))
	}
	app := newApp(namespace, fmt.Sprintf("app-%03d", i))
	app.Status.Summary = summaryOf(entries)
	app.Status.Rollout.Revision = 1
	app.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: "True", Reason: "Ready", LastTransitionTime: noon}}
	if !appslice.BelongInSlices(clusters, appslice.DefaultThreshold, false) {
		app.Status.Clusters = entries
		return app, nil
	}
	app.Status.ClustersIn = v1alpha1.ClustersInSlices
	return app, entries
}

// newStoredFleet returns a fleet whose informers have these many objects.
func newStoredFleet(tb testing.TB, apps, clusters int) *fleet {
	tb.Helper()
	f, err := newFleet(Options{Config: &rest.Config{Host: "https://127.0.0.1:1"}})
	if err != nil {
		tb.Fatal(err)
	}
	add := func(s *source, object any, key objectKey) {
		if err := s.informer.GetStore().Add(object); err != nil {
			tb.Fatal(err)
		}
		f.feed.touch(key)
	}
	for i := range clusters {
		member := newLargeMember(i)
		add(f.members, member, objectKey{kind: clusterKind, name: member.Name})
	}
	for i := range apps {
		app, sliced := newLargeApp("shop", i, clusters)
		app.UID = "1"
		key := objectKey{appKind, app.Namespace, app.Name}
		add(f.apps, app, key)
		if sliced != nil {
			for _, slice := range appslice.Split(app, sliced) {
				add(f.slices, slice, key)
			}
		}
	}
	return f
}

// BenchmarkSnapshot measures the first state that a page gets: "render" for the first page, "send" for
// each later one, and "change" for a change of one entry of one AppService. It reports the bytes that
// are sent, and the memory that the server keeps in addition to its informers.
func BenchmarkSnapshot(b *testing.B) {
	for _, scale := range scales {
		b.Run(fmt.Sprintf("%dx%d", scale.apps, scale.clusters), func(b *testing.B) {
			var size countingWriter
			b.Run("render", func(b *testing.B) {
				for b.Loop() {
					b.StopTimer()
					f := newStoredFleet(b, scale.apps, scale.clusters)
					before := heapInUse()
					b.StartTimer()
					if _, _, _, err := f.feed.since(0); err != nil {
						b.Fatal(err)
					}
					b.StopTimer()
					b.ReportMetric(float64(before)/(1<<20), "MiB-informers")
					b.ReportMetric(float64(heapInUse()-before)/(1<<20), "MiB-kept")
					runtime.KeepAlive(f)
					b.StartTimer()
				}
			})
			f := newStoredFleet(b, scale.apps, scale.clusters)
			_, version, _, err := f.feed.since(0)
			if err != nil {
				b.Fatal(err)
			}
			b.Run("send", func(b *testing.B) {
				for b.Loop() {
					size = 0
					change, _, _, err := f.feed.since(0)
					if err != nil {
						b.Fatal(err)
					}
					if err := writeEvent(&size, change); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(size)/(1<<20), "MiB-sent")
			})
			b.Run("change", func(b *testing.B) {
				app, _ := f.app("shop", "app-000")
				for i := int32(0); b.Loop(); i++ {
					size = 0
					app.Status.Summary.Ready = i
					f.feed.touch(objectKey{appKind, "shop", "app-000"})
					var change Change
					if change, version, _, err = f.feed.since(version); err != nil {
						b.Fatal(err)
					}
					if err := writeEvent(&size, change); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(size)/(1<<20), "MiB-sent")
			})
		})
	}
}

type countingWriter int

func (c *countingWriter) Write(data []byte) (int, error) {
	*c += countingWriter(len(data))
	return len(data), nil
}

func heapInUse() uint64 {
	runtime.GC()
	time.Sleep(10 * time.Millisecond)
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
