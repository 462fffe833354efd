package transport

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"
)

// slowList is the body of a list that calls a function before each piece.
type slowList struct {
	size, sent int
	before     func(sent int)
}

func (l *slowList) Read(into []byte) (int, error) {
	if l.sent >= l.size {
		return 0, io.EOF
	}
	l.before(l.sent)
	into = into[:min(len(into), MinReadBurst)]
	for i := range into {
		into[i] = ' '
	}
	if l.sent == 0 {
		into[0] = '{'
	}
	l.sent += len(into)
	return len(into), nil
}

// read reads a list as client-go does, decodes it, and ends its turn.
func (l *slowList) read(ctx context.Context, all *LargeLists, decode func()) error {
	ctx, end := all.Begin(ctx)
	l.before(0)
	limiter := newResponseLimiter(staticServer{body: l}, rate.NewLimiter(rate.Inf, testBurst), testMaxList)
	response, err := limiter.RoundTrip(newRequest(ctx, http.MethodGet, "resourceVersion=0"))
	if err != nil {
		return end(err)
	}
	if _, err = io.Copy(io.Discard, response.Body); err == nil {
		decode()
	}
	return end(err)
}

// Three members send large lists at the same time. One at a time is read beyond the first bytes and
// decoded, and no wait counts as slowness of a member. A small list waits for nobody.
func TestLargeLists_are_read_one_after_the_other(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := NewLargeLists(nil)
		var mu sync.Mutex
		large, most := 0, 0
		count := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			large += n
			most = max(most, large)
		}
		decoding := make(chan struct{})
		var ended sync.WaitGroup
		for range 3 {
			ended.Go(func() {
				timer := NewTimer(nil, time.Minute, func() { t.Error("the wait counts as slowness of the member") })
				defer timer.Stop()
				list := &slowList{size: smallListBytes + 4*MinReadBurst, before: func(sent int) {
					if sent == smallListBytes+2*MinReadBurst {
						count(1)
					}
				}}
				if err := list.read(withTimers(t.Context(), timer), all, func() {
					decoding <- struct{}{}
					time.Sleep(50 * time.Second)
					count(-1)
				}); err != nil {
					t.Error(err)
				}
			})
		}
		<-decoding
		small := &slowList{size: smallListBytes / 2, before: func(int) {}}
		if err := small.read(t.Context(), all, func() {}); err != nil {
			t.Error(err)
		}
		for range 2 {
			<-decoding
		}
		ended.Wait()
		if most != 1 {
			t.Errorf("%d large lists were in memory at a time", most)
		}
	})
}

// A member that stops in the middle of a large list loses its turn.
func TestLargeList_of_a_member_that_is_silent_ends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := NewLargeLists(nil)
		ctx, end := all.Begin(t.Context())
		if err := waitForTurn(ctx, smallListBytes+1); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		<-ctx.Done() // a request ends with its context
		if took := time.Since(begin); took != maxListTurn {
			t.Errorf("it took %s", took)
		}
		if err := end(ctx.Err()); !errors.Is(err, errTurnTooLong) {
			t.Errorf("got %v", err)
		}
		next := &slowList{size: smallListBytes + MinReadBurst, before: func(int) {}}
		if err := next.read(t.Context(), all, func() {}); err != nil {
			t.Errorf("the next list: %v", err)
		}
	})
}
