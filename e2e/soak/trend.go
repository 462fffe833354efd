package main

import (
	"fmt"
	"math"
	"time"
)

// measured is a value at a time.
type measured struct {
	at    time.Duration // since the start of the soak
	value float64
}

// trend is a straight line through samples.
type trend struct {
	samples   int
	mean      float64
	slope     float64 // per minute
	deviation float64 // the standard error of the slope, per minute
	minutes   float64 // between the first and the last sample
}

// blocks is the number of means that a trend is computed from.
const blocks = 10

// newTrend fits a line by least squares. It first replaces each tenth of the samples by its mean:
// neighbouring samples depend on each other, and so would make the error look small.
func newTrend(samples []measured) trend {
	if len(samples) < 2*blocks {
		return trend{samples: len(samples), deviation: math.Inf(1)}
	}
	var x, y []float64
	for i := range blocks {
		part := samples[i*len(samples)/blocks : (i+1)*len(samples)/blocks]
		var at, value float64
		for _, s := range part {
			at += s.at.Minutes() / float64(len(part))
			value += s.value / float64(len(part))
		}
		x, y = append(x, at), append(y, value)
	}
	meanX, meanY := mean(x), mean(y)
	var xx, xy float64
	for i := range x {
		xx += (x[i] - meanX) * (x[i] - meanX)
		xy += (x[i] - meanX) * (y[i] - meanY)
	}
	slope := xy / xx
	var residues float64
	for i := range x {
		residue := y[i] - meanY - slope*(x[i]-meanX)
		residues += residue * residue
	}
	return trend{
		samples: len(samples), mean: meanY, slope: slope, deviation: math.Sqrt(residues / (blocks - 2) / xx),
		minutes: (samples[len(samples)-1].at - samples[0].at).Minutes(),
	}
}

func mean(values []float64) (sum float64) {
	for _, v := range values {
		sum += v / float64(len(values))
	}
	return sum
}

// growth returns how much the value grew at least, with three standard errors of the slope taken
// off. It is negative if the value may not have grown at all.
func (t trend) growth() float64 { return (t.slope - 3*t.deviation) * t.minutes }

// check returns an error if the value certainly grew by more than a quarter of its mean and by more
// than a least amount.
func (t trend) check(what string, least float64) error {
	if t.samples < 2*blocks {
		return fmt.Errorf("%s: %d samples are too few for a trend", what, t.samples)
	}
	if growth, limit := t.growth(), max(least, t.mean/4); growth > limit {
		return fmt.Errorf("%s grew by at least %.1f in %.1f minutes, the limit is %.1f: %s", what, growth, t.minutes, limit, t)
	}
	return nil
}

func (t trend) String() string {
	return fmt.Sprintf("mean %.1f, slope %+.3f ± %.3f per minute (%d samples in %.1f minutes)", t.mean, t.slope, t.deviation, t.samples, t.minutes)
}
