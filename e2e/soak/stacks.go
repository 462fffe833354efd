package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/fleetwright/fleetwright/internal/environment"
)

// stacks are numbers of goroutines, by the function that started them.
type stacks map[string]int

// dump ends the operator with SIGQUIT, by which it writes the stacks of its goroutines to its log.
func (f *fleet) dump(ctx context.Context) (stacks, error) {
	f.running = false
	logged := len(f.Operator.Log())
	replicas, err := f.Operator.Replicas(ctx)
	if err != nil {
		return nil, err
	}
	for _, replica := range replicas {
		if err := replica.Signal(ctx, syscall.SIGQUIT); err != nil {
			return nil, err
		}
	}
	err = environment.Await(ctx, 30*time.Second, "the operator to end", func(context.Context) error {
		running, err := f.env.Operator()
		if err == nil && running != nil {
			err = fmt.Errorf("it runs")
		}
		return err
	})
	return parseStacks(f.Operator.Log()[logged:]), err
}

// parseStacks counts the goroutines in a dump.
func parseStacks(dump string) stacks {
	counts := stacks{}
	for line := range strings.Lines(dump) {
		if creator, found := strings.CutPrefix(line, "created by "); found {
			name, _, _ := strings.Cut(strings.TrimSpace(creator), " in goroutine")
			counts[name]++
		}
	}
	return counts
}

// more returns the functions that started more goroutines than in another operator, as text.
func (s stacks) more(than stacks) string {
	differences := map[string]int{}
	for name, n := range s {
		if n > than[name] {
			differences[name] = n - than[name]
		}
	}
	names := slices.SortedFunc(maps.Keys(differences), func(a, b string) int {
		return cmp.Or(cmp.Compare(differences[b], differences[a]), cmp.Compare(a, b))
	})
	var texts []string
	for _, name := range names {
		texts = append(texts, fmt.Sprintf("%d × %s", differences[name], name))
	}
	return strings.Join(texts, ", ")
}
