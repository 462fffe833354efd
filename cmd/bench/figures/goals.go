package figures

// Goal limits a figure of a writer, or its ratio to another figure, or its difference to another one.
type Goal struct {
	Figure Key `json:"figure"`
	// To is the figure that the ratio or the difference is to. Its scenario is empty if the figure itself
	// is limited.
	To Key `json:"to,omitzero"`
	// ToWriter is the writer of that figure, or empty for the same writer.
	ToWriter string `json:"toWriter,omitempty"`
	// IsDifference limits the difference to the other figure instead of the ratio.
	IsDifference bool    `json:"isDifference,omitempty"`
	Limit        float64 `json:"limit"`
	// Per, if it is not 0, divides the figure or the difference, such as by the number of AppServices.
	Per float64 `json:"per,omitempty"`
}

// Verdict is how a goal turned out.
type Verdict string

// The verdicts.
const (
	Reached     Verdict = "reached"
	Missed      Verdict = "missed"
	NotMeasured Verdict = "not measured"
)

// Result is a goal with what was measured.
type Result struct {
	Goal
	Measured Summary `json:"measured"`
	Verdict  Verdict `json:"verdict"`
}

// Judge compares the median of each goal with its limit.
func (s Samples) Judge(goals []Goal, writer string) []Result {
	var results []Result
	for _, goal := range goals {
		result := Result{Goal: goal, Measured: s.measure(goal, writer), Verdict: NotMeasured}
		switch {
		case result.Measured.Count == 0:
		case result.Measured.Median <= goal.Limit:
			result.Verdict = Reached
		default:
			result.Verdict = Missed
		}
		results = append(results, result)
	}
	return results
}

func (s Samples) measure(goal Goal, writer string) Summary {
	var measured Summary
	toWriter := goal.ToWriter
	if toWriter == "" {
		toWriter = writer
	}
	switch {
	case goal.To.Scenario == "":
		measured = s.Summarize(goal.Figure, writer)
	case goal.IsDifference:
		measured = s.Difference(goal.Figure, writer, goal.To, toWriter)
	default:
		measured = s.Ratio(goal.Figure, writer, goal.To, toWriter)
	}
	if goal.Per != 0 {
		measured.Median /= goal.Per
		measured.Min /= goal.Per
		measured.Max /= goal.Per
	}
	return measured
}

// tolerance is how much worse a figure may become.
const tolerance = 1.10

// Change is the change of a figure between two writers.
type Change struct {
	Key
	Base, Head Summary
	// Worse reports whether the figure became worse by more than a tenth, beyond the spread: the
	// best value of the head is worse than the worst value of the base.
	Worse bool
}

// Compare compares figures of two writers. For every figure, less is better.
func (s Samples) Compare(keys []Key, base, head string) []Change {
	var changes []Change
	for _, key := range keys {
		c := Change{Key: key, Base: s.Summarize(key, base), Head: s.Summarize(key, head)}
		if c.Base.Count == 0 || c.Head.Count == 0 {
			continue
		}
		c.Worse = c.Head.Median > tolerance*c.Base.Median && c.Head.Min > c.Base.Max
		changes = append(changes, c)
	}
	return changes
}
