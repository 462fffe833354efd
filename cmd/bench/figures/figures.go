// Package figures summarizes the samples of a benchmark: medians with their spread, ratios of two
// writers within a repetition, and goals. It is pure.
package figures

import (
	"math"
	"slices"
)

// Key identifies a figure, such as the p50 of scenario B1.
type Key struct {
	Scenario string `json:"scenario"`
	Name     string `json:"name"`
}

// Sample is one measurement of a figure.
type Sample struct {
	Key
	// Writer is what was measured, such as "operator".
	Writer     string  `json:"writer"`
	Repetition int     `json:"repetition"`
	Value      float64 `json:"value"`
	Unit       string  `json:"unit,omitempty"`
	// Taken is the share of the machine that other programs and the host took meanwhile.
	Taken float64 `json:"taken"`
}

// busy is the share of the machine from which on a sample is marked.
const busy = 0.10

// Summary is the median of some values and their range.
type Summary struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	Count  int     `json:"count"`
	// Busy is the number of values that were measured while others took much of the machine.
	Busy int `json:"busy,omitempty"`
}

// Samples are the samples of a run.
type Samples []Sample

// of returns the samples of a figure of a writer.
func (s Samples) of(key Key, writer string) Samples {
	var found Samples
	for _, sample := range s {
		if sample.Key == key && sample.Writer == writer {
			found = append(found, sample)
		}
	}
	return found
}

// Summarize returns the summary of a figure of a writer. Its count is 0 if there are no samples.
func (s Samples) Summarize(key Key, writer string) Summary {
	return summarize(s.of(key, writer))
}

func summarize(samples Samples) Summary {
	values, marked := make([]float64, 0, len(samples)), 0
	for _, sample := range samples {
		values = append(values, sample.Value)
		if sample.Taken >= busy {
			marked++
		}
	}
	if len(values) == 0 {
		return Summary{}
	}
	slices.Sort(values)
	return Summary{Median: Percentile(values, 0.5), Min: values[0], Max: values[len(values)-1], Count: len(values), Busy: marked}
}

// Ratio returns the summary of the ratios of two figures, each within one repetition. Repetitions
// that lack one of the figures, or in which the divisor is 0, are left out.
func (s Samples) Ratio(key Key, writer string, toKey Key, toWriter string) Summary {
	return s.summarizePairs(key, writer, toKey, toWriter, func(value, divisor float64) (float64, bool) { return value / divisor, divisor > 0 })
}

// Difference returns the summary of the differences of two figures, each within one repetition.
// Repetitions that lack one of the figures are left out.
func (s Samples) Difference(key Key, writer string, toKey Key, toWriter string) Summary {
	return s.summarizePairs(key, writer, toKey, toWriter, func(value, other float64) (float64, bool) { return value - other, true })
}

// summarizePairs returns the summary of what a function returns for the two figures of each
// repetition that has both. It leaves out those for which the function returns false.
func (s Samples) summarizePairs(key Key, writer string, toKey Key, toWriter string, compare func(value, other float64) (float64, bool)) Summary {
	others := map[int]Sample{}
	for _, sample := range s.of(toKey, toWriter) {
		others[sample.Repetition] = sample
	}
	var compared Samples
	for _, sample := range s.of(key, writer) {
		other, found := others[sample.Repetition]
		if !found {
			continue
		}
		value, isComparable := compare(sample.Value, other.Value)
		if isComparable {
			sample.Value, sample.Taken = value, max(sample.Taken, other.Taken)
			compared = append(compared, sample)
		}
	}
	return summarize(compared)
}

// Percentile returns the p-quantile of sorted values, interpolated between the two nearest ones.
func Percentile(sorted []float64, p float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	at := p * float64(len(sorted)-1)
	below := int(at)
	above := min(below+1, len(sorted)-1)
	return sorted[below] + (at-float64(below))*(sorted[above]-sorted[below])
}
