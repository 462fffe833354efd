package main

import (
	"cmp"
	"errors"
	"math"
	"os"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

func TestMemory_limit_follows_the_container(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	none := func(err error) memlimit.Provider { return func() (uint64, error) { return 0, err } }
	for name, c := range map[string]struct {
		container memlimit.Provider
		env       [2]string
		want      int64
		err       string
	}{
		"the limit is nine tenths of the container's": {container: memlimit.Limit(1 << 30), want: 966367641},
		"GOMEMLIMIT takes precedence":                 {container: memlimit.Limit(1 << 30), env: [2]string{"GOMEMLIMIT", "2GiB"}, want: before},
		"AUTOMEMLIMIT sets another share":             {container: memlimit.Limit(1 << 30), env: [2]string{"AUTOMEMLIMIT", "0.5"}, want: 1 << 29},
		"an AUTOMEMLIMIT that is not a number fails":  {container: memlimit.Limit(1 << 30), env: [2]string{"AUTOMEMLIMIT", "half"}, want: before, err: "AUTOMEMLIMIT"},
		"a container without a limit":                 {container: none(memlimit.ErrNoLimit), want: math.MaxInt64},
		"no container":                                {container: none(memlimit.ErrNoCgroup), want: before},
		"a system without containers":                 {container: none(memlimit.ErrCgroupsNotSupported), want: before},
		"an AUTOMEMLIMIT over 1 fails":                {container: memlimit.Limit(1 << 30), env: [2]string{"AUTOMEMLIMIT", "1.5"}, want: before, err: "ratio"},
		"a cgroup that cannot be read":                {container: none(errors.New("permission denied")), want: before},
	} {
		t.Run(name, func(t *testing.T) {
			debug.SetMemoryLimit(before)
			if c.env[0] != "" {
				t.Setenv(c.env[0], c.env[1])
			}
			if err := limitMemory(c.container, logr.Discard()); (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got error %v", err)
			}
			if got := debug.SetMemoryLimit(-1); got != c.want {
				t.Errorf("the limit is %d, want %d", got, c.want)
			}
		})
	}
}

// Lower values of GOGC doubled or tripled the CPU time in measurements.
func TestDeployment_does_not_set_GOGC(t *testing.T) {
	content, err := os.ReadFile("../../config/manager/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, variable := range []string{"GOGC", "GOMEMLIMIT", "MEMORY_LIMIT"} {
		if strings.Contains(string(content), variable) {
			t.Errorf("the Deployment sets %s", variable)
		}
	}
}

// A graceful shutdown releases the Lease and sends the last spans before the kubelet kills the pod.
func TestShutdown_fits_in_the_grace_period_of_the_pod(t *testing.T) {
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
	// The manager waits, then reads and writes the Lease within half a renewDeadline each, and then
	// spans are sent.
	if took := cmp.Or(options.GracefulShutdownTimeout, new(30*time.Second)); *took+renewDeadline+flushTimeout > grace {
		t.Errorf("the shutdown may take %s, but the grace period is %s", *took+renewDeadline+flushTimeout, grace)
	}
}
