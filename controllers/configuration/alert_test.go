package configuration_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// The alert FleetwrightConfigurationUnusable looks back ten minutes for ConfigurationChangesOften,
// because the reason is missing between two contents that are used. Prometheus sees the status every
// 30 seconds.
func TestASourceThatChangesAllTheTimeIsSeenByTheAlert(t *testing.T) {
	const scrapeSeconds, lookBack, afterBurst = 30, 10 * time.Minute, 2 * time.Hour
	for _, interval := range []int{1, 3, 10, 20, 30, 45} {
		t.Run(fmt.Sprintf("every %d s", interval), func(t *testing.T) {
			h := running(t, entry(settings))
			var seen time.Time
			for second := range 3 * 3600 {
				if second%interval == 0 {
					h.put(settings, text(fmt.Sprint(second)))
				}
				h.apply(h.decide())
				if second%scrapeSeconds == 0 && h.status(t, settings).Reason == v1alpha1.ReasonConfigurationChangesOften {
					seen = h.Now
				}
				if h.Now.Sub(start) > afterBurst && h.Now.Sub(seen) > lookBack {
					t.Fatalf("after %d s, the reason was last seen %s ago", second, h.Now.Sub(seen))
				}
				h.pass(time.Second)
			}
		})
	}
}
