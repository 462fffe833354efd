package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fleetwright/fleetwright/internal/environment"
)

// Go collects garbage at least every two minutes, so a window of that length has a collection.
const (
	window   = 125 * time.Second
	interval = 5 * time.Second
)

// weight is the operator's use of resources.
type weight struct {
	rss, heap, live, stacks float64 // in KiB
	goroutines              float64
	processor               float64 // in percent of one
}

// millicores is the processor time in thousandths of one.
func (w weight) millicores() float64 { return 10 * w.processor }

// sample is a sample of the operator's metrics, in bytes and seconds.
type sample map[string]float64

// The resident memory and the processor time are those of /proc/PID.
const (
	rss        = "process_resident_memory_bytes"
	heap       = "go_memstats_heap_inuse_bytes"
	live       = "go_gc_heap_live_bytes"
	stacks     = "go_memstats_stack_inuse_bytes"
	goroutines = "go_goroutines"
	processor  = "process_cpu_seconds_total"
)

// weighAtRest samples the operator for some time and returns medians, except for the heap in use,
// which is the minimum (after a collection), and the live heap, which is that of the last
// collection.
func weighAtRest(ctx context.Context, operator environment.Operator) (weight, error) {
	var samples []sample
	start := time.Now()
	for time.Since(start) < window {
		s, err := read(ctx, operator)
		if err != nil {
			return weight{}, err
		}
		samples = append(samples, s)
		if err := pause(ctx, interval); err != nil {
			return weight{}, err
		}
	}
	last, err := read(ctx, operator)
	if err != nil {
		return weight{}, err
	}
	column := func(name string) []float64 {
		var values []float64
		for _, s := range samples {
			values = append(values, s[name])
		}
		slices.Sort(values)
		return values
	}
	return weight{
		rss:        median(column(rss)) / 1024,
		heap:       slices.Min(column(heap)) / 1024,
		live:       last[live] / 1024,
		stacks:     median(column(stacks)) / 1024,
		goroutines: median(column(goroutines)),
		processor:  100 * (last[processor] - samples[0][processor]) / time.Since(start).Seconds(),
	}, nil
}

// read returns the operator's metrics without labels.
func read(ctx context.Context, operator environment.Operator) (sample, error) {
	replicas, err := operator.Replicas(ctx)
	if err != nil {
		return nil, err
	}
	if len(replicas) == 0 {
		return nil, errors.New("the operator has exited")
	}
	metrics, err := replicas[0].Metrics(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the operator's metrics: %w", err)
	}
	s := sample{}
	for line := range strings.Lines(string(metrics)) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		if value, err := strconv.ParseFloat(text, 64); err == nil {
			s[name] = value
		}
	}
	for _, name := range []string{rss, heap, live, stacks, goroutines, processor} {
		if _, found := s[name]; !found {
			return nil, fmt.Errorf("the operator's metrics lack %s", name)
		}
	}
	return s, nil
}

func median[T any](sorted []T) T { return sorted[len(sorted)/2] }

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
