package delivery

import (
	"testing"
	"testing/synctest"
	"time"
)

// A process that has waited for the Lease for a long time knows no more than one that has just
// started.
func TestLook_begins_when_the_process_leads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLooks()
		time.Sleep(time.Hour)
		leads := time.Now()
		first := l.of("app")
		if first.Since.Time.Before(leads.Truncate(time.Second)) {
			t.Errorf("the look began at %s, and the process leads since %s", first.Since, leads)
		}
		time.Sleep(time.Minute)
		if again := l.of("app"); again != first {
			t.Errorf("the look changed from %v to %v", first, again)
		}
	})
}
