package kwok

import "testing"

// Two suites start at the same time, at the same offset. Neither listens yet.
func TestPorts_of_two_environments_differ(t *testing.T) {
	taken := map[int]bool{}
	one := &ports{dir: t.TempDir(), next: firstPort}
	other := &ports{dir: t.TempDir(), next: firstPort}
	for range 10 {
		for _, p := range []*ports{one, other} {
			free, err := p.take(1)
			if err != nil {
				t.Fatal(err)
			}
			if taken[free[0]] {
				t.Fatalf("port %d is taken twice", free[0])
			}
			taken[free[0]] = true
		}
	}
}
