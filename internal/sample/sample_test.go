package sample

import (
	"fmt"
	"testing"
)

func TestSamples_of_successive_numbers_take_everything(t *testing.T) {
	for i := range 100 {
		name := fmt.Sprint("Test", i)
		taken := 0
		for number := 1; number <= 4; number++ {
			t.Setenv("SAMPLE", fmt.Sprint(number))
			if Takes(name, 4) {
				taken++
			}
		}
		if taken != 1 {
			t.Errorf("%s is taken by %d of 4 samples", name, taken)
		}
	}
}

func TestEverything_is_taken_without_a_sample(t *testing.T) {
	for _, value := range []string{"", "0", "nonsense"} {
		t.Setenv("SAMPLE", value)
		if !Takes("a", 4) || !Takes("b", 4) || !Takes("c", 4) {
			t.Errorf("SAMPLE=%q takes a part", value)
		}
	}
}
