package command

import (
	"strings"
	"testing"
	"time"
)

func TestDoctor_decides(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	for name, test := range map[string]struct {
		got     check
		outcome outcome
		text    string
	}{
		"equal clocks":                     {offsetCheck("clock", -30*time.Second), checkOK, "less than 60s"},
		"a clock that is ahead":            {offsetCheck("clock", 2*time.Minute), checkFailed, "it is 2m0s ahead of the clock of this machine"},
		"a clock that is behind":           {offsetCheck("clock", -time.Hour), checkFailed, "it is 1h0m0s behind the clock of this machine"},
		"the oldest version":               {versionCheck("v1.33.0"), checkOK, "v1.33.0"},
		"a newer version of a vendor":      {versionCheck("v1.36.3-gke.100"), checkOK, "v1.36.3-gke.100"},
		"an older version":                 {versionCheck("v1.32.9"), checkFailed, "v1.32.9 is older than 1.33"},
		"something that is not Kubernetes": {versionCheck("nginx"), checkFailed, "it is not a Kubernetes API server"},
		"a fresh certificate":              {certificateCheck(now.Add(-day), now.Add(day), now), checkOK, "valid until 2026-11-24"},
		"a certificate that ends":          {certificateCheck(now.Add(-99*day), now.Add(day), now), checkFailed, "ends on 2026-11-24: renew it"},
		"valid credentials":                {expiryCheck(now.Add(time.Hour), now), checkOK, "valid until 2026-11-23 13:00 UTC"},
		"credentials that have ended":      {expiryCheck(now, now), checkFailed, "ended at 2026-11-23 12:00 UTC"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.got.outcome != test.outcome || !strings.Contains(test.got.text, test.text) {
				t.Errorf("got %+v, want %s with %q", test.got, test.outcome, test.text)
			}
		})
	}
}
