package transport

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
)

const (
	// MaxEventBytes is the size of the largest watch event, and of the largest response to a write.
	// etcd refuses objects over 1.5 MiB, and JSON is larger than the form that etcd stores.
	MaxEventBytes = 4 << 20
	// maxEventMemory is the memory of the largest event, including elementCost.
	maxEventMemory = 8 * MaxEventBytes
	// MinReadBurst is the largest chunk that is read before the limiter permits it.
	MinReadBurst = 64 << 10
	// elementCost is the cost of an element of a JSON array in addition to its bytes: the two bytes
	// of "{}" become a struct such as a Container. itemCost is the cost of an item of a list: the
	// two bytes become a Deployment, which occupies a kilobyte, and more while the list is decoded.
	// eventCost is the cost of a watch event, which is decoded, cached and enqueued.
	elementCost, itemCost, eventCost = 512, 2048, 4096
	// numbersRate and numbersBurst limit the computing time for quantities; see exponentCosts.
	numbersRate, numbersBurst = 1 << 20, 64 << 20
)

// LimitError ends a response that is larger than a limit.
type LimitError struct{ Message string }

// Error returns the message.
func (e *LimitError) Error() string { return e.Message }

var errEventTooLarge = &LimitError{Message: "the member sends an object of more than 4 MiB, which no API server stores"}

// listTooLarge is the error of a list over the limit.
func listTooLarge(limit int64) error {
	return &LimitError{Message: fmt.Sprintf("a list of the member is larger than %s; if you trust the member, raise --member-max-list and the memory limit of the operator",
		resource.NewQuantity(limit, resource.BinarySI))}
}

// responseLimiter throttles the data that one member sends. It delays reading and never ends a
// response because of its rate: TCP flow control passes the delay on to the member. So a busy
// member becomes slow, and a lying member cannot send faster than the hub is willing to process.
// The limiter refuses only data that would take too much memory at once: an event over
// MaxEventBytes, and a list over maxList. It is safe for concurrent use.
// docs/decisions/members-are-throttled.md says why.
type responseLimiter struct {
	next http.RoundTripper
	// read limits bytes, elements and events; numbers limits the computing for quantities.
	read, numbers *rate.Limiter
	maxList       int64
}

func newResponseLimiter(next http.RoundTripper, read *rate.Limiter, maxList int64) *responseLimiter {
	return &responseLimiter{next: next, read: read, numbers: rate.NewLimiter(numbersRate, numbersBurst), maxList: maxList}
}

// unlimited marks the context of a request whose response is not throttled: a probe must get
// through while everything else is throttled. The reader of the probe limits its size.
type unlimited struct{}

// RoundTrip sends the request and limits the body of a successful response. authTransport limits
// other bodies; see redactBody.
func (l *responseLimiter) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := l.next.RoundTrip(acceptingJSON(request))
	if err != nil || response.StatusCode >= http.StatusMultipleChoices {
		return response, err
	}
	if !isJSON(response.Header.Get("Content-Type")) {
		return nil, errors.Join(ErrNotAPIServer, response.Body.Close())
	}
	ctx := request.Context()
	if ctx.Value(unlimited{}) != nil {
		return response, nil
	}
	body := &limitedBody{ReadCloser: response.Body, ctx: ctx, limiter: l}
	switch {
	case isWatch(request):
		body.maxBytes, body.maxMemory, body.tooLarge, body.perEvent = MaxEventBytes, maxEventMemory, errEventTooLarge, true
	case request.Method == http.MethodGet:
		body.maxBytes, body.maxMemory, body.tooLarge = l.maxList, l.maxList, listTooLarge(l.maxList)
	default:
		body.maxBytes, body.maxMemory, body.tooLarge = MaxEventBytes, maxEventMemory, errEventTooLarge
	}
	response.Body = body
	return response, nil
}

func isWatch(request *http.Request) bool { return request.URL.Query().Has("watch") }

// acceptingJSON returns a request that accepts JSON only. client-go's client for metadata prefers another
// format, also if its configuration asks for JSON.
func acceptingJSON(request *http.Request) *http.Request {
	accepted := strings.Split(request.Header.Get("Accept"), ",")
	onlyJSON := slices.DeleteFunc(slices.Clone(accepted), func(format string) bool { return !isJSON(format) })
	if len(onlyJSON) == len(accepted) {
		return request
	}
	request = request.Clone(request.Context())
	request.Header.Set("Accept", cmp.Or(strings.Join(onlyJSON, ","), runtime.ContentTypeJSON))
	return request
}

// isJSON reports whether a media type is JSON. A decoder would follow the content type of any other
// response, and the limiter cannot determine its cost.
func isJSON(mediaType string) bool {
	kind, _, err := mime.ParseMediaType(mediaType)
	return err == nil && kind == runtime.ContentTypeJSON
}

// WrappedRoundTripper returns the next transport, so that client-go can find it.
func (l *responseLimiter) WrappedRoundTripper() http.RoundTripper { return l.next }

// limitedBody is a body that returns bytes only after the limiter permits them.
type limitedBody struct {
	io.ReadCloser
	ctx     context.Context // of the request
	limiter *responseLimiter

	// perEvent applies the limits to each event instead of the whole body.
	perEvent            bool
	maxBytes, maxMemory int64
	tooLarge            error

	scanner      quantityScanner
	previousByte byte // the last byte that is not whitespace
	// size, memory and computing are the costs of the current event, or of the whole body.
	size, memory, computing int64
	finalErr                error // returned by all later reads
}

// Read reads a chunk and waits until the limiter permits it. Bytes over a limit are withheld,
// because a stream decoder that receives a complete event together with an error delivers the event
// and drops the error.
func (b *limitedBody) Read(into []byte) (int, error) {
	if b.finalErr != nil {
		return 0, b.finalErr
	}
	n, err := b.ReadCloser.Read(into[:min(len(into), MinReadBurst)])
	var price price
	if price, b.finalErr = b.weigh(into[:n]); b.finalErr != nil {
		return 0, b.finalErr
	}
	if b.finalErr = waitForTurn(b.ctx, b.size+b.memory); b.finalErr != nil {
		return 0, b.finalErr
	}
	if b.finalErr = errors.Join(
		wait(b.ctx, b.limiter.read, n+price.memory),
		wait(b.ctx, b.limiter.numbers, price.computing),
	); b.finalErr != nil {
		return 0, b.finalErr
	}
	return n, err
}

// price is the cost of bytes in addition to their number.
type price struct{ memory, computing int }

// weigh returns the cost of bytes in addition to their number: the cost of each array element, of
// each watch event, and of quantities. Elements and events are the objects and nulls that are not
// the value of a field. weigh fails if the bytes exceed a limit. It also fails if the body does not
// begin with an object, because every response of an API server does.
func (b *limitedBody) weigh(read []byte) (all price, err error) {
	if first := bytes.TrimLeft(read, " \t\r\n"); b.previousByte == 0 && len(first) > 0 && first[0] != '{' {
		return price{}, ErrNotAPIServer
	}
	idle, begin := b.scanner.idle(), 0
	for i, c := range read {
		if idle && inertBytes[c] {
			b.previousByte = c
			continue
		}
		computing, err := b.scanner.next(c)
		if err != nil {
			return price{}, err
		}
		element, event := b.objectCost(c)
		all.memory += element + event
		all.computing += computing
		b.memory += int64(element)
		b.computing += int64(computing)
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			b.previousByte = c
		}
		idle = b.scanner.idle()
		if b.perEvent && c == '}' && b.scanner.atEnd() {
			b.size += int64(i + 1 - begin)
			if err := b.check(); err != nil {
				return price{}, err
			}
			b.size, b.memory, b.computing, begin = 0, 0, 0, i+1
		}
	}
	b.size += int64(len(read) - begin)
	return all, b.check()
}

// objectCost returns the cost of the element or the event that begins with c.
func (b *limitedBody) objectCost(c byte) (element, event int) {
	depth := b.scanner.depth
	switch {
	case b.scanner.quoted:
		return 0, 0
	case c == '{' && (b.previousByte == 0 || b.previousByte == '}'): // events have no separator
		return 0, eventCost
	case c == '{' && b.previousByte != ':':
		depth--
	case c == 'n' && (b.previousByte == ',' || b.previousByte == '['):
	default:
		return 0, 0
	}
	if depth <= itemDepth {
		return itemCost, 0
	}
	return elementCost, 0
}

// itemDepth is the number of open objects and arrays around an item of a list.
const itemDepth = 2

// check fails if the event or the body exceeds a limit.
func (b *limitedBody) check() error {
	switch {
	case b.size > b.maxBytes || b.size+b.memory > b.maxMemory:
		return b.tooLarge
	case b.computing > numbersBurst:
		return ErrQuantityTooExpensive
	}
	return nil
}

// wait waits until the limiter permits that many tokens. Meanwhile it holds the timers of the
// request, because the hub is slow and not the member.
func wait(ctx context.Context, limiter *rate.Limiter, tokens int) error {
	if limiter.AllowN(time.Now(), tokens) {
		return nil
	}
	defer holdTimers(ctx)()
	for burst := limiter.Burst(); tokens > 0; tokens -= burst {
		if err := limiter.WaitN(ctx, min(tokens, burst)); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			// The deadline is earlier than the time at which the limiter permits the read.
			return fmt.Errorf("wait for the read limit of the member: %w", context.DeadlineExceeded)
		}
	}
	return nil
}
