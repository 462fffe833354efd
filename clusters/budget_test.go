package clusters

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// endless is a body that never ends.
type endless struct{}

func (endless) Read(into []byte) (int, error) { return len(into), nil }

// answers is a server whose every answer has the body, or that fails.
type answers struct {
	body io.Reader
	err  error
}

func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	if a.err != nil {
		return nil, a.err
	}
	header := http.Header{"Content-Type": {"application/json; charset=utf-8"}}
	return &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(a.body)}, nil
}

func TestBudgetLetsABodyThroughThatIsWithinIt(t *testing.T) {
	response, err := newBudget(answers{body: io.LimitReader(endless{}, maxAtOnce)}).RoundTrip(&http.Request{})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, response.Body); n != maxAtOnce || err != nil {
		t.Errorf("read %d bytes, then %v", n, err)
	}
}

func TestBudgetEndsABodyThatIsBeyondIt(t *testing.T) {
	start := time.Now()
	b := newBudget(answers{body: endless{}})
	for _, least := range []int64{maxAtOnce, 0} { // what the first has spent, the second lacks
		response, err := b.RoundTrip(&http.Request{})
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, response.Body)
		most := least + int64(time.Since(start).Seconds()+1)*maxRate
		if !errors.Is(err, errTooMuch) || n < least || n > most {
			t.Errorf("read %d bytes, want %d to %d; then %v", n, least, most, err)
		}
	}
}

func TestBudgetPassesErrorsOn(t *testing.T) {
	refused := errors.New("refused")
	b := newBudget(answers{err: refused})
	if response, err := b.RoundTrip(&http.Request{}); response != nil || !errors.Is(err, refused) {
		t.Errorf("got %v, %v", response, err)
	}
	if b.WrappedRoundTripper() != b.next {
		t.Error("the transport below is hidden")
	}
}

func TestBudgetIsRefilledOverTime(t *testing.T) {
	type step struct {
		after time.Duration // since the beginning
		bytes int
		want  bool
	}
	tests := map[string][]step{
		"all at once":                    {{0, maxAtOnce, true}},
		"one more than all":              {{0, maxAtOnce + 1, false}},
		"all, then one":                  {{0, maxAtOnce, true}, {0, 1, false}},
		"all, then a second's":           {{0, maxAtOnce, true}, {time.Second, maxRate, true}, {time.Second, 1, false}},
		"all, then half a second's":      {{0, maxAtOnce, true}, {time.Second / 2, maxRate / 2, true}, {time.Second / 2, 1, false}},
		"at the rate, for ever":          {{0, maxAtOnce, true}, {time.Hour, maxAtOnce, true}, {time.Hour + time.Minute, 60 * maxRate, true}},
		"no more is saved than all":      {{time.Hour, maxAtOnce, true}, {time.Hour, 1, false}},
		"what was too much is owed":      {{0, maxAtOnce + 2*maxRate, false}, {time.Second, 1, false}, {3 * time.Second, maxRate - 1, true}, {3 * time.Second, 1, false}},
		"clocks that are read late":      {{time.Second, maxAtOnce, true}, {0, 1, false}, {2 * time.Second, maxRate - 1, true}},
		"nothing, with nothing left":     {{0, maxAtOnce, true}, {0, 0, true}},
		"too fast, in small steps":       {{0, maxAtOnce, true}, {time.Second, 2 * maxRate, false}, {2 * time.Second, 0, true}},
		"refused once, not for all time": {{0, maxAtOnce + 1, false}, {time.Hour, maxAtOnce, true}},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBudget(nil)
			start := b.at
			for i, s := range steps {
				if got := b.spend(s.bytes, start.Add(s.after)); got != s.want {
					t.Errorf("step %d: %t, left %d", i, got, b.left)
				}
			}
		})
	}
}

func TestBudgetIsOneForAllBodies(t *testing.T) {
	b := newBudget(nil)
	start := b.at
	var passed atomic.Int64
	var all sync.WaitGroup
	for range 4 * maxAtOnce / maxRate {
		all.Go(func() {
			if b.spend(maxRate, start) {
				passed.Add(1)
			}
		})
	}
	all.Wait()
	if got := passed.Load(); got != maxAtOnce/maxRate {
		t.Errorf("%d passed, want %d", got, maxAtOnce/maxRate)
	}
}

// What is no JSON is neither weighed nor decoded: a list of protobuf has a thousand objects in two thousand bytes.
func TestBudgetRefusesWhatIsNoJSON(t *testing.T) {
	for _, kind := range []string{"", "application/vnd.kubernetes.protobuf", "application/yaml", "text/html", "application/json/x"} {
		answer := respond(func() *http.Response {
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(endless{})}
		})
		if _, err := newBudget(answer).RoundTrip(&http.Request{}); !errors.Is(err, errNoAPIServer) {
			t.Errorf("%q: %v", kind, err)
		}
	}
}

type respond func() *http.Response

func (r respond) RoundTrip(*http.Request) (*http.Response, error) { return r(), nil }
