package delivery

import "time"

const (
	// A workload that is corrected maxCorrections times within contentionWindow is contended:
	// another manager corrects it as well. Then it is corrected only after minDriftDelay. The delay
	// doubles with each correction, up to maxDriftDelay.
	maxCorrections               = 5
	contentionWindow             = time.Minute
	minDriftDelay, maxDriftDelay = time.Minute, 10 * time.Minute
)

// driftBackoff limits how often drift of one AppService is corrected, so that two controllers do not
// write in turns without end.
type driftBackoff struct {
	corrections []time.Time // the last ones, at most maxCorrections
	delay       time.Duration
	until       time.Time
}

// wait returns how long drift must not be corrected.
func (b *driftBackoff) wait(now time.Time) time.Duration { return max(0, b.until.Sub(now)) }

// corrected records a correction.
func (b *driftBackoff) corrected(now time.Time) {
	if now.Sub(b.until) > b.delay+contentionWindow {
		b.delay = 0 // the contention is over
	}
	b.corrections = append(b.corrections, now)
	if len(b.corrections) > maxCorrections {
		b.corrections = b.corrections[1:]
	}
	again := b.delay > 0
	often := len(b.corrections) == maxCorrections && now.Sub(b.corrections[0]) <= contentionWindow
	if again || often {
		b.delay = min(max(minDriftDelay, 2*b.delay), maxDriftDelay)
		b.until = now.Add(b.delay)
	}
}
