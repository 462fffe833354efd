package figures

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// GoalTable returns a Markdown table of the goals that were measured: the figure of both writers,
// the ratio or the difference, the goal.
func (s Samples) GoalTable(results []Result, writer string) string {
	var b strings.Builder
	b.WriteString("| figure | compared with | " + writer + " | reference | ratio, difference or value | goal | |\n|---|---|---|---|---|---|---|\n")
	for _, r := range results {
		if r.Verdict == NotMeasured {
			continue
		}
		own, reference, against := s.Summarize(r.Figure, writer), Summary{}, ""
		if r.To.Scenario != "" {
			toWriter := r.ToWriter
			if toWriter == "" {
				toWriter = writer
			}
			reference = s.Summarize(r.To, toWriter)
			against = toWriter
			if r.To != r.Figure {
				against += ", " + r.To.String()
			}
		}
		if r.IsDifference {
			against += ", difference"
		}
		if r.Per != 0 {
			against = strings.TrimPrefix(against+", for each of "+number(r.Per), ", ")
		}
		_, _ = fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | ≤ %s | %s |\n", // a Builder never fails
			r.Figure, against, own, reference, r.Measured, number(r.Limit), r.Verdict)
	}
	return b.String()
}

// FigureTable returns a Markdown table of all figures that are not 0 and that one of the writers has, a
// column for each writer.
func (s Samples) FigureTable(writers ...string) string {
	var b strings.Builder
	b.WriteString("| scenario | figure | unit | " + strings.Join(writers, " | ") + " |\n|---|---|---|" + strings.Repeat("---|", len(writers)) + "\n")
	for _, key := range s.keys() {
		if !s.has(key, writers) {
			continue
		}
		cells := []string{key.Scenario, key.Name, s.unit(key)}
		for _, writer := range writers {
			cells = append(cells, s.Summarize(key, writer).String())
		}
		b.WriteString(row(cells))
	}
	return b.String()
}

// ChangeTable returns a Markdown table of changes.
func ChangeTable(changes []Change) string {
	var b strings.Builder
	b.WriteString("| figure | base | head | change | |\n|---|---|---|---|---|\n")
	for _, c := range changes {
		verdict := ""
		if c.Worse {
			verdict = "**worse**"
		}
		_, _ = fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", c.Key, c.Base, c.Head, percent(c.Base.Median, c.Head.Median), verdict)
	}
	return b.String()
}

func percent(base, head float64) string {
	if base == 0 {
		return ""
	}
	return fmt.Sprintf("%+.0f %%", 100*(head/base-1))
}

// keys returns the figures that are not always 0, by scenario in the order of their first samples.
func (s Samples) keys() []Key {
	var scenarios []string
	names := map[string][]string{}
	for _, sample := range s {
		if !slices.Contains(scenarios, sample.Scenario) {
			scenarios = append(scenarios, sample.Scenario)
		}
		if sample.Value != 0 && !slices.Contains(names[sample.Scenario], sample.Name) {
			names[sample.Scenario] = append(names[sample.Scenario], sample.Name)
		}
	}
	var keys []Key
	for _, scenario := range scenarios {
		for _, name := range names[scenario] {
			keys = append(keys, Key{scenario, name})
		}
	}
	return keys
}

func (s Samples) unit(key Key) string {
	for _, sample := range s {
		if sample.Key == key {
			return sample.Unit
		}
	}
	return ""
}

// String returns the scenario and the name.
func (k Key) String() string { return k.Scenario + " " + k.Name }

// String returns the median and the range, with an asterisk if others took much of the machine
// during at least half of the measurements.
func (s Summary) String() string {
	if s.Count == 0 {
		return ""
	}
	text := number(s.Median)
	if s.Count > 1 && s.Min != s.Max {
		text += " (" + number(s.Min) + "–" + number(s.Max) + ")"
	}
	if 2*s.Busy >= s.Count {
		text += "\\*"
	}
	return text
}

// number returns a number with three significant digits, and all digits before the point.
func number(value float64) string {
	if value == 0 || math.IsNaN(value) || math.IsInf(value, 0) {
		return strconv.FormatFloat(value, 'f', -1, 64)
	}
	decimals := max(0, 2-int(math.Floor(math.Log10(math.Abs(value)))))
	text := strconv.FormatFloat(value, 'f', min(decimals, 4), 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}
