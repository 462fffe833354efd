package clusters

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
)

// A member may send maxAtOnce bytes at once, and maxRate bytes a second for ever. Forty objects are half a megabyte.
const (
	maxAtOnce = 64 << 20
	maxRate   = 1 << 20
	// elementCost is what an element of a JSON array costs beside its bytes: the two of "{}" become a kilobyte in memory
	// when it stands for a Deployment. An event of a watch waits in queues besides.
	elementCost, eventCost = 512, 4096
)

// errTooMuch ends an answer of a member that sends more than the hub is willing to hold.
var errTooMuch = errors.New("the member sends more than 64 MiB at once")

// budget is a token bucket over the bytes of all answers of one member: one that sends without end must not
// eat the hub's memory, be it by one list or by a watch. It is safe for concurrent use.
type budget struct {
	next http.RoundTripper

	mu   sync.Mutex
	left int64
	at   time.Time
}

func newBudget(next http.RoundTripper) *budget {
	return &budget{next: next, left: maxAtOnce, at: time.Now()}
}

// RoundTrip sends the request, and counts what comes back as it is read.
func (b *budget) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := b.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode < http.StatusMultipleChoices && !isJSON(response) {
		return nil, errors.Join(errNoAPIServer, response.Body.Close())
	}
	response.Body = &counted{ReadCloser: response.Body, budget: b}
	return response, nil
}

// isJSON tells whether an answer is what was asked for. What is not would be decoded by what it calls itself, and is not weighed.
func isJSON(response *http.Response) bool {
	kind, _, err := mime.ParseMediaType(response.Header.Get("Content-Type"))
	return err == nil && kind == runtime.ContentTypeJSON
}

// WrappedRoundTripper lets client-go find the transport below.
func (b *budget) WrappedRoundTripper() http.RoundTripper { return b.next }

// spend takes bytes out of the bucket, and tells whether there were as many.
func (b *budget) spend(bytes int, now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = min(maxAtOnce, b.left+int64(now.Sub(b.at).Seconds()*maxRate)) - int64(bytes)
	b.left = max(b.left, -maxAtOnce) // a member that is mended is well again within minutes
	b.at = now
	return b.left >= 0
}

// counted is a body whose bytes are paid for.
type counted struct {
	io.ReadCloser
	budget  *budget
	before  byte // the last byte that was no space
	numbers numbers
	ended   error // why nothing more is handed on
}

// Read reads, as long as there is something left to spend. What is too much is not handed on: a decoder that gets a whole event
// with an error takes the event, forgets the error and reads on.
func (c *counted) Read(into []byte) (int, error) {
	if c.ended != nil {
		return 0, c.ended
	}
	n, err := c.ReadCloser.Read(into)
	cost, absurd := c.weigh(into[:n])
	switch {
	case absurd != nil:
		c.ended = absurd
	case n > 0 && !c.budget.spend(n+cost, time.Now()):
		c.ended = errTooMuch
	default:
		return n, err
	}
	return 0, c.ended
}

// weigh is what bytes cost beside themselves, for what becomes an element of an array, or an event of a watch: every object, or null,
// that is not the value of a field; and for numbers. It does not tell text from structure, which makes some texts a little dearer.
func (c *counted) weigh(read []byte) (cost int, err error) {
	idle := c.numbers.idle()
	for _, b := range read {
		if idle && plain[b] {
			c.before = b
			continue
		}
		number, err := c.numbers.next(b)
		if err != nil {
			return 0, err
		}
		cost += number
		switch b {
		case ' ', '\t', '\r', '\n':
			idle = c.numbers.idle()
			continue
		case '{':
			switch c.before {
			case ':':
			case 0, '}': // nothing separates events
				cost += eventCost
			default:
				cost += elementCost
			}
		case 'n':
			if c.before == ',' || c.before == '[' {
				cost += elementCost
			}
		}
		c.before = b
		idle = c.numbers.idle()
	}
	return cost, nil
}
