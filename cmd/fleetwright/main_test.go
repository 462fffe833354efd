package main

import (
	"cmp"
	"os"
	"runtime/debug"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

func TestMemory(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	for name, c := range map[string]struct {
		limit, own string
		want       int64
	}{
		"nine tenths of the container's limit are Go's": {limit: "1073741824", want: 966367638},
		"GOMEMLIMIT goes before":                        {limit: "1073741824", own: "2GiB", want: before},
		"no container, no bound":                        {want: before},
		"what is no number is no bound":                 {limit: "1Gi", want: before},
	} {
		t.Run(name, func(t *testing.T) {
			debug.SetMemoryLimit(before)
			t.Setenv("MEMORY_LIMIT", c.limit)
			t.Setenv("GOMEMLIMIT", c.own)
			boundMemory()
			if got := debug.SetMemoryLimit(-1); got != c.want {
				t.Errorf("the limit is %d, want %d", got, c.want)
			}
		})
	}
}

// What ends in order has given its Lease back, and sent its spans, before the kubelet kills it.
func TestTheEndFitsIntoThePodsGracePeriod(t *testing.T) {
	content, err := os.ReadFile("../../config/manager/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	deployment := &appsv1.Deployment{}
	if err := yaml.UnmarshalStrict(content, deployment); err != nil {
		t.Fatal(err)
	}
	grace := 30 * time.Second // Kubernetes' default
	if seconds := deployment.Spec.Template.Spec.TerminationGracePeriodSeconds; seconds != nil {
		grace = time.Duration(*seconds) * time.Second
	}
	options := (&options{}).managerOptions(runtime.NewScheme())
	// The manager waits, then the Lease is read and written, each for half a renewDeadline at most; then the spans go.
	if took := cmp.Or(options.GracefulShutdownTimeout, new(30*time.Second)); *took+renewDeadline+flushTimeout > grace {
		t.Errorf("the end may take %s, of %s", *took+renewDeadline+flushTimeout, grace)
	}
}
