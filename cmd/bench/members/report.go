package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// The goals for each of 1,000 members. The code determines the live heap. Resident memory is about
// twice as much, because Go's default collects garbage when the heap has doubled.
const (
	goalLive       = 250 // KiB
	goalRSS        = 700 // KiB
	goalGoroutines = 30
)

// stage is a measurement with a number of members.
type stage struct {
	members, batch int // batch of them joined last
	took           time.Duration
	weight         weight
	load           string
}

func reportJoining(alone, beside []time.Duration) {
	fmt.Printf("\n%d members join, alone: %s; with 3 that do not respond and 1 that forbids to list: %s (load average %s)\n",
		together, list(alone), list(beside), loadAverage())
	slices.Sort(alone)
	slices.Sort(beside)
	fmt.Printf("members_%d_joined_seconds: %.2f\n", together, median(alone).Seconds())
	fmt.Printf("members_%d_with_bad_joined_seconds: %.2f\n", together, median(beside).Seconds())
}

func list(times []time.Duration) string {
	var all []string
	for _, t := range times {
		all = append(all, fmt.Sprintf("%.2f s", t.Seconds()))
	}
	return strings.Join(all, ", ")
}

// reportWeights prints a table of all stages, and the figures of the stages with members.
func reportWeights(stages []stage) error {
	none := stages[0].weight
	fmt.Printf("\nThe operator at rest. The time of a batch is from its first Secret until all of it is Ready. The cost of\na member is the difference to no member.\n\n")
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	printRow := func(cells ...string) { _, _ = fmt.Fprintln(table, strings.Join(cells, "\t")+"\t") } // Flush returns the error
	printRow("members", "batch", "joined in s", "load", "goroutines", "RSS MiB", "heap in use", "alive", "stacks", "CPU %",
		"each: goroutines", "RSS KiB", "heap in use", "alive", "stacks", "CPU millicores")
	for _, s := range stages {
		w, part := s.weight, s.part(none)
		printRow(fmt.Sprint(s.members), fmt.Sprint(s.batch), digits(s.took.Seconds(), 1), s.load,
			digits(w.goroutines, 0), digits(w.rss/1024, 0), digits(w.heap/1024, 0), digits(w.live/1024, 0), digits(w.stacks/1024, 0), digits(w.processor, 1),
			digits(part.goroutines, 1), digits(part.rss, 0), digits(part.heap, 0), digits(part.live, 0), digits(part.stacks, 0), digits(part.millicores(), 2))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Println()
	for _, s := range stages[1:] {
		s.figures(none)
	}
	return nil
}

// part returns the cost of each member.
func (s stage) part(none weight) weight {
	n := float64(max(1, s.members))
	return weight{
		rss:        (s.weight.rss - none.rss) / n,
		heap:       (s.weight.heap - none.heap) / n,
		live:       (s.weight.live - none.live) / n,
		stacks:     (s.weight.stacks - none.stacks) / n,
		goroutines: (s.weight.goroutines - none.goroutines) / n,
		processor:  (s.weight.processor - none.processor) / n,
	}
}

func digits(value float64, after int) string { return strconv.FormatFloat(value, 'f', after, 64) }

func (s stage) figures(none weight) {
	part := s.part(none)
	fmt.Printf("member_rss_kib_at_%d: %.0f\n", s.members, part.rss)
	fmt.Printf("member_live_heap_kib_at_%d: %.0f\n", s.members, part.live)
	fmt.Printf("member_heap_kib_at_%d: %.0f\n", s.members, part.heap)
	fmt.Printf("member_cpu_millicores_at_%d: %.2f\n", s.members, part.millicores())
	fmt.Printf("member_goroutines_at_%d: %.1f\n", s.members, part.goroutines)
	fmt.Printf("operator_idle_cpu_percent_at_%d: %.1f\n", s.members, s.weight.processor)
	fmt.Printf("members_%d_joined_seconds: %.1f\n", s.members, s.took.Seconds())
	if part.live > goalLive || part.rss > goalRSS || part.goroutines > goalGoroutines {
		fmt.Printf("above the goals for each member: %d KiB of live heap, %d KiB resident, %d goroutines\n", goalLive, goalRSS, goalGoroutines)
	}
}

// loadAverage returns the machine's load average of the last minute.
func loadAverage() string {
	content, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "-"
	}
	load, _, _ := strings.Cut(string(content), " ")
	return load
}
