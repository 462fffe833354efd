package main

import (
	"math/rand/v2"
	"testing"
	"time"
)

// walk returns the samples of a value that varies around a line. Each sample depends on the one
// before, as the memory of a process does.
func walk(random *rand.Rand, n int, start, perMinute, noise float64) []measured {
	var all []measured
	state := 0.0
	for i := range n {
		at := time.Duration(i) * 2 * time.Second
		state = 0.8*state + noise*random.NormFloat64()
		all = append(all, measured{at: at, value: start + perMinute*at.Minutes() + state})
	}
	return all
}

func TestTrend_states_the_slope(t *testing.T) {
	got := newTrend(walk(rand.New(rand.NewPCG(1, 1)), 300, 60, 2, 0.1))
	if got.slope < 1.9 || got.slope > 2.1 || got.mean < 69 || got.mean > 71 || got.samples != 300 {
		t.Errorf("a line of 2 per minute: %s", got)
	}
}

func TestTrend_reports_growth_and_is_not_tripped_by_noise(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 200 {
		if err := newTrend(walk(random, 90, 60, 0, 4)).check("RSS", 8); err != nil {
			t.Errorf("noise %d: %v", i, err)
		}
		if err := newTrend(walk(random, 600, 60, 4, 4)).check("RSS", 8); err == nil {
			t.Errorf("leak %d of 4 MiB per minute, in 20 minutes: no error", i)
		}
	}
	if err := newTrend(walk(random, 5, 60, 0, 1)).check("RSS", 8); err == nil {
		t.Error("too few samples: no error")
	}
}
