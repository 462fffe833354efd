package stall

import (
	"testing"
	"time"
)

const timeout = 5 * time.Second

// probeAt returns a probe that was due at zero.
func probeAt(result Result, started, ended, stalled time.Duration) Probe {
	due := time.Now()
	return Probe{Result: result, Due: due, Started: due.Add(started), Ended: due.Add(ended), Stalled: stalled, Timeout: timeout}
}

func TestRecord_judges_a_probe(t *testing.T) {
	for name, test := range map[string]struct {
		probe Probe
		want  Outcome
	}{
		"an answer":                   {probeAt(Answered, 0, time.Millisecond, 0), Alive},
		"an answer after a stall":     {probeAt(Answered, time.Minute, 2*time.Minute, 50*time.Second), Alive},
		"no answer":                   {probeAt(Unanswered, 0, timeout, 0), Failed},
		"no answer, and short stalls": {probeAt(Unanswered, 0, timeout, timeout/10), Failed},
		"its timer fired late":        {probeAt(Unanswered, 0, timeout+time.Second, 2*time.Second), Inconclusive},
		"it started late":             {probeAt(Unanswered, time.Second, time.Second+time.Millisecond, 0), Inconclusive},
		"no answer in all of the timeout, apart from stalls":   {probeAt(Unanswered, 0, 2*timeout, timeout), Failed},
		"the connection was closed at once":                    {probeAt(Unanswered, 0, time.Millisecond, 0), Failed},
		"the connection was closed after a stall":              {probeAt(Unanswered, 0, 6*time.Second, 5900*time.Millisecond), Inconclusive},
		"the member refuses":                                   {probeAt(Refused, 0, time.Millisecond, 0), Failed},
		"the member refuses, and the process stalls":           {probeAt(Refused, time.Second, 6*time.Second, 4*time.Second), Failed},
		"the process has no file descriptors":                  {probeAt(NotSent, 0, time.Millisecond, 0), Inconclusive},
		"the process has no file descriptors for a long while": {probeAt(NotSent, 0, 2*timeout, 0), Inconclusive},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (&Streak{}).Add(test.probe); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestRecord_finds_a_lost_member(t *testing.T) {
	failed, late := probeAt(Unanswered, 0, timeout, 0), probeAt(Unanswered, time.Second, time.Second, 0)
	answered := probeAt(Answered, 0, 0, 0)
	repeat := func(p Probe, times int) (probes []Probe) {
		for range times {
			probes = append(probes, p)
		}
		return probes
	}
	for name, test := range map[string]struct {
		probes []Probe
		want   int // the probe after which the member is lost; 0 means never
	}{
		"three fail":                    {repeat(failed, 5), 3},
		"one in between is answered":    {[]Probe{failed, failed, answered, failed, failed}, 0},
		"inconclusive ones between":     {[]Probe{failed, late, failed, late, failed}, 5},
		"ten are inconclusive":          {repeat(late, maxInconclusive), 0},
		"all are inconclusive":          {repeat(late, 20), maxInconclusive + maxFailed},
		"an answer among inconclusive":  {append(append(repeat(late, maxInconclusive), answered), repeat(late, maxInconclusive)...), 0},
		"inconclusive ones then failed": {append(repeat(late, maxInconclusive), repeat(failed, 3)...), maxInconclusive + 3},
	} {
		t.Run(name, func(t *testing.T) {
			var r Streak
			got := 0
			for i, p := range test.probes {
				if r.Add(p); r.IsLost() {
					got = i + 1
					break
				}
			}
			if got != test.want {
				t.Errorf("lost after probe %d, want %d", got, test.want)
			}
		})
	}
}
