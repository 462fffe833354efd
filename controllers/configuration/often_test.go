package configuration_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// The reason of a source that changes all the time does not change after the first contents. So its
// status is not written each time, and the alert FleetwrightConfigurationUnusable fires. Another source
// that changes once is used within a minute, and is not blamed.
func TestASourceThatChangesAllTheTime(t *testing.T) {
	const burst = 20 * 60 // seconds
	for _, interval := range []int{1, 3, 10, 20, 30, 45} {
		t.Run(fmt.Sprintf("every %d s", interval), func(t *testing.T) {
			h := running(t, entry(settings), entry(tls))
			var edited time.Time
			for second := range 3600 {
				if second%interval == 0 {
					h.put(settings, text(fmt.Sprint(second)))
				}
				if second%600 == 0 {
					h.put(tls, text(fmt.Sprint(second)))
					edited = h.Now
				}
				decision := h.decide()
				h.apply(decision)
				if reason := h.status(t, settings).Reason; second > burst && reason != v1alpha1.ReasonConfigurationChangesOften {
					t.Fatalf("after %d s, the reason is %q", second, reason)
				}
				switch reason := h.status(t, tls).Reason; {
				case reason == "":
				case reason != v1alpha1.ReasonConfigurationChanged:
					t.Fatalf("after %d s, the other source has the reason %s", second, reason)
				case !decision.IsCollecting && decision.Delayed == nil:
					t.Fatalf("after %d s, a tool that waits sees the old state of the other source", second)
				case h.Now.Sub(edited) > 75*time.Second:
					t.Fatalf("after %d s, the other source was not used for %s", second, h.Now.Sub(edited))
				}
				h.pass(time.Second)
			}
		})
	}
}
