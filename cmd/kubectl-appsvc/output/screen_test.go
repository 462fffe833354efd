package output

import (
	"strings"
	"testing"
)

func TestFitting_counts_the_rows_that_a_long_line_takes(t *testing.T) {
	lines := []string{"\x1b[32mshort\x1b[0m\n", strings.Repeat("x", 21) + "\n", "\n", "last\n"}
	for rows, want := range []int{0, 1, 1, 1, 2, 3, 4, 4} {
		if got := fitting(lines, 10, rows); got != want {
			t.Errorf("%d lines fit into %d rows, and not %d", got, rows, want)
		}
	}
}
