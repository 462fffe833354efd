package machine

import "testing"

func TestNeeds_refuse_one_processor_and_little_memory(t *testing.T) {
	if err := needCores(2, 1); err == nil {
		t.Error("one processor is accepted")
	}
	if err := needCores(2, 2); err != nil {
		t.Error(err)
	}
	available, err := parseAvailable("MemTotal: 99 kB\nMemAvailable:   2048 kB\n")
	if err != nil || available != 2<<20 {
		t.Errorf("got %d, %v", available, err)
	}
	if err := NeedMemory(1 << 50); err == nil {
		t.Error("a petabyte is accepted")
	}
	if err := NeedMemory(1); err != nil {
		t.Error(err)
	}
}
