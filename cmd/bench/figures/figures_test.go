package figures

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var took = Key{"B1", "p50"}

// samples returns a sample for each value, in as many repetitions.
func samples(writer string, values ...float64) Samples {
	var all Samples
	for i, value := range values {
		all = append(all, Sample{Key: took, Writer: writer, Repetition: i, Value: value, Unit: "s"})
	}
	return all
}

func TestPercentile(t *testing.T) {
	for _, test := range []struct {
		name   string
		values []float64
		p      float64
		want   float64
	}{
		{"of one value is the value", []float64{3}, 0.99, 3},
		{"the median of an odd number", []float64{1, 2, 9}, 0.5, 2},
		{"the median of an even number is between", []float64{1, 2, 4, 9}, 0.5, 3},
		{"the last one", []float64{1, 2, 9}, 1, 9},
		{"is interpolated", []float64{0, 10}, 0.99, 9.9},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Percentile(test.values, test.p); math.Abs(got-test.want) > 1e-9 {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
	if got := Percentile(nil, 0.5); !math.IsNaN(got) {
		t.Errorf("of no values: got %v, want NaN", got)
	}
}

func TestSummarize(t *testing.T) {
	all := samples("operator", 5, 1, 3)
	all[0].Taken = 0.5
	all = append(all, samples("naked", 100)...)
	if diff := cmp.Diff(Summary{Median: 3, Min: 1, Max: 5, Count: 3, Busy: 1}, all.Summarize(took, "operator")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Summary{}, all.Summarize(Key{"B2", "p50"}, "operator")); diff != "" {
		t.Errorf("without samples (-want +got):\n%s", diff)
	}
}

func TestRatio_divides_within_a_repetition(t *testing.T) {
	// The machine was slow in repetition 1, for both.
	all := append(samples("operator", 2, 20, 3), samples("naked", 1, 10)...)
	if diff := cmp.Diff(Summary{Median: 2, Min: 2, Max: 2, Count: 2}, all.Ratio(took, "operator", took, "naked")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRatio_leaves_out_a_divisor_of_zero(t *testing.T) {
	all := append(samples("operator", 2), samples("naked", 0)...)
	if got := all.Ratio(took, "operator", took, "naked"); got.Count != 0 {
		t.Errorf("got %+v, want no ratio", got)
	}
}

func TestJudge(t *testing.T) {
	all := append(samples("operator", 2, 3, 9), samples("naked", 1, 1, 1)...)
	for _, test := range []struct {
		name string
		goal Goal
		want Verdict
	}{
		{"the median is the limit", Goal{Figure: took, Limit: 3}, Reached},
		{"the median is above", Goal{Figure: took, Limit: 2.9}, Missed},
		{"the ratio to another writer", Goal{Figure: took, To: took, ToWriter: "naked", Limit: 3}, Reached},
		{"the ratio to the same writer", Goal{Figure: took, To: took, Limit: 0.9}, Missed},
		{"the difference to another writer", Goal{Figure: took, To: took, ToWriter: "naked", IsDifference: true, Limit: 2}, Reached},
		{"the difference is above", Goal{Figure: took, To: took, ToWriter: "naked", IsDifference: true, Limit: 1.9}, Missed},
		{"the difference for each", Goal{Figure: took, To: took, ToWriter: "naked", IsDifference: true, Per: 2, Limit: 1}, Reached},
		{"the difference to nothing", Goal{Figure: took, To: Key{"B9", "all"}, IsDifference: true, Limit: 3}, NotMeasured},
		{"for each", Goal{Figure: took, Per: 10, Limit: 0.3}, Reached},
		{"no samples", Goal{Figure: Key{"B9", "all"}, Limit: 3}, NotMeasured},
		{"no samples to compare with", Goal{Figure: took, To: Key{"B9", "all"}, Limit: 3}, NotMeasured},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := all.Judge([]Goal{test.goal}, "operator")[0]; got.Verdict != test.want {
				t.Errorf("got %s with %+v, want %s", got.Verdict, got.Measured, test.want)
			}
		})
	}
}

func TestCompare_reports_what_is_worse_beyond_the_spread(t *testing.T) {
	for _, test := range []struct {
		name       string
		base, head []float64
		want       bool
	}{
		{"the same", []float64{10, 11, 12}, []float64{10, 11, 12}, false},
		{"a fifth worse, but within the spread", []float64{8, 10, 14}, []float64{11, 12, 13}, false},
		{"beyond the spread, but only by a twentieth", []float64{10, 10, 10}, []float64{10.5, 10.5, 10.6}, false},
		{"a fifth worse, beyond the spread", []float64{9.8, 10, 10.2}, []float64{11.8, 12, 12.2}, true},
		{"something from nothing", []float64{0, 0, 0}, []float64{1, 2, 1}, true},
		{"better", []float64{12, 12, 12}, []float64{6, 6, 6}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			all := append(samples("base", test.base...), samples("head", test.head...)...)
			changes := all.Compare([]Key{took, {"B9", "all"}}, "base", "head")
			if len(changes) != 1 {
				t.Fatalf("got %d changes, want the one of the measured figure", len(changes))
			}
			if changes[0].Worse != test.want {
				t.Errorf("got %+v", changes[0])
			}
		})
	}
}

func TestTables(t *testing.T) {
	all := append(samples("naked", 0.1, 0.12), samples("operator", 0.2123, 0.36)...)
	for i := range all {
		if all[i].Writer == "operator" {
			all[i].Taken = 0.2
		}
	}
	results := all.Judge([]Goal{{Figure: took, To: took, ToWriter: "naked", Limit: 2}, {Figure: took, Per: 2, Limit: 1},
		{Figure: took, To: took, ToWriter: "naked", IsDifference: true, Per: 2, Limit: 1}, {Figure: Key{"B9", "all"}, Limit: 1}}, "operator")
	for _, test := range []struct{ name, got, want string }{
		{"goals", all.GoalTable(results, "operator"), `| figure | compared with | operator | reference | ratio, difference or value | goal | |
|---|---|---|---|---|---|---|
| B1 p50 | naked | 0.286 (0.212–0.36)\* | 0.11 (0.1–0.12) | 2.56 (2.12–3)\* | ≤ 2 | missed |
| B1 p50 | for each of 2 | 0.286 (0.212–0.36)\* |  | 0.143 (0.106–0.18)\* | ≤ 1 | reached |
| B1 p50 | naked, difference, for each of 2 | 0.286 (0.212–0.36)\* | 0.11 (0.1–0.12) | 0.0881 (0.0561–0.12)\* | ≤ 1 | reached |
`},
		{"figures", all.FigureTable("naked", "operator"), `| scenario | figure | unit | naked | operator |
|---|---|---|---|---|
| B1 | p50 | s | 0.11 (0.1–0.12) | 0.286 (0.212–0.36)\* |
`},
		{"peers", append(samples("karmada", 1, 2), all...).PeerTable("operator", "naked", "karmada", "other"), `| scenario | figure | unit | operator | naked | karmada | other | operator / karmada | operator / other |
|---|---|---|---|---|---|---|---|---|
| B1 | p50 | s | 0.286 (0.212–0.36)\* | 0.11 (0.1–0.12) | 1.5 (1–2) |  | 0.196 (0.18–0.212)\* |  |
`},
		{"figures of others", all.FigureTable("karmada"), `| scenario | figure | unit | karmada |
|---|---|---|---|
`},
		{"peers without a figure of the peer", all.PeerTable("operator", "naked", "karmada"), `| scenario | figure | unit | operator | naked | karmada | operator / karmada |
|---|---|---|---|---|---|---|
`},
		{"changes", ChangeTable(all.Compare([]Key{took}, "naked", "operator")), `| figure | base | head | change | |
|---|---|---|---|---|
| B1 p50 | 0.11 (0.1–0.12) | 0.286 (0.212–0.36)\* | +160 % | **worse** |
`},
	} {
		if diff := cmp.Diff(test.want, test.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

func TestNumber(t *testing.T) {
	for value, want := range map[float64]string{0: "0", 1234.5: "1234", 0.05: "0.05", 12.34: "12.3", 0.000123: "0.0001", 3: "3", 0.9999: "1", 100: "100", 1500: "1500"} {
		if got := number(value); got != want {
			t.Errorf("%v: got %s, want %s", value, got, want)
		}
	}
}
