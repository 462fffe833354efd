package clusters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
)

// Nodes are read a page at a time, and of each page one node at a time: thousands of nodes have a hundred megabytes, and
// only two of their fields are needed. They are read with a limit of their own, so that they take nothing from lists,
// watches and writes.
const (
	nodesInPage  = 500
	maxNodePages = 200
	maxPageBytes = 64 << 20
	// maxPageMemory allows for the elements of a page, none of which is kept.
	maxPageMemory = 8 * maxPageBytes
	// maxContinue is how long the token may be that continues a list.
	maxContinue = 8 << 10
	// surveyRate and surveyBurst throttle the reading of nodes: 5,000 take half a minute.
	surveyRate, surveyBurst = 8 << 20, 16 << 20
)

var errTooManyNodes = &limitError{fmt.Sprintf("the member has more than %d nodes", maxNodePages*nodesInPage)}

// node is what is read of a Node.
type node struct {
	Spec struct {
		Unschedulable bool `json:"unschedulable"`
	} `json:"spec"`
	Status struct {
		Allocatable corev1.ResourceList `json:"allocatable"`
	} `json:"status"`
}

// allocatable returns the sum of what the nodes that take pods can hold.
func (c *connection) allocatable(ctx context.Context) (sum corev1.ResourceList, err error) {
	defer func() { // of the parser of quantities, with exponents near 2^31
		if recover() != nil {
			sum, err = nil, errors.New("a node has a quantity that cannot be read")
		}
	}()
	sum = corev1.ResourceList{}
	limiter := newResponseLimiter(nil, rate.NewLimiter(surveyRate, surveyBurst), maxPageBytes)
	next := ""
	for range maxNodePages {
		next, err = c.nodes(ctx, limiter, next, func(n *node) {
			if !n.Spec.Unschedulable {
				add(sum, n.Status.Allocatable)
			}
		})
		if err != nil || next == "" {
			return sum, err
		}
	}
	return nil, errTooManyNodes
}

// nodes reads one page, and returns how to ask for the next one; "" after the last.
func (c *connection) nodes(ctx context.Context, limiter *responseLimiter, page string, each func(*node)) (next string, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	timer := newMemberTimer(surveyPageTimeout, func() { cancel(context.DeadlineExceeded) })
	defer timer.stop()
	query := url.Values{"limit": {strconv.Itoa(nodesInPage)}}
	if page != "" {
		query.Set("continue", page)
	}
	request, err := http.NewRequestWithContext(context.WithValue(ctx, unlimited{}, true), http.MethodGet, c.config.Host+"/api/v1/nodes?"+query.Encode(), http.NoBody)
	if err != nil {
		return "", fmt.Errorf("list nodes: %w", err)
	}
	request.Header.Set("Accept", "application/json")
	response, err := c.client.Do(request)
	if err != nil {
		return "", fmt.Errorf("list nodes: %w", errors.Join(err, context.Cause(ctx)))
	}
	defer func() { _ = response.Body.Close() }() // read only
	if response.StatusCode != http.StatusOK {
		return "", &statusError{code: response.StatusCode}
	}
	body := &limitedBody{
		ReadCloser: response.Body, ctx: withTimers(ctx, timer), limiter: limiter,
		maxBytes: maxPageBytes, maxMemory: maxPageMemory, tooLarge: errTooManyNodes,
	}
	next, err = readNodes(body, each)
	if err != nil {
		return "", fmt.Errorf("list nodes: %w", errors.Join(err, body.ended, context.Cause(ctx)))
	}
	return next, nil
}

// readNodes decodes a NodeList without keeping it, and returns the token that continues the list.
func readNodes(from io.Reader, each func(*node)) (next string, err error) {
	decoder := json.NewDecoder(from)
	if err := begins(decoder, '{'); err != nil {
		return "", err
	}
	var metadata struct {
		Continue string `json:"continue"`
	}
	for decoder.More() {
		field, err := decoder.Token()
		if err != nil {
			return "", errNoAPIServer
		}
		switch field {
		case "items":
			err = readItems(decoder, each)
		case "metadata":
			err = decoder.Decode(&metadata)
		default:
			err = decoder.Decode(&json.RawMessage{})
		}
		if err != nil {
			return "", errNoAPIServer // its text may quote what the server sent
		}
	}
	if err := begins(decoder, '}'); err != nil || len(metadata.Continue) > maxContinue {
		return "", errNoAPIServer
	}
	return metadata.Continue, nil
}

func readItems(decoder *json.Decoder, each func(*node)) error {
	if token, err := decoder.Token(); err != nil || token == nil { // null
		return err
	} else if token != json.Delim('[') {
		return errNoAPIServer
	}
	for decoder.More() {
		var n node
		if err := decoder.Decode(&n); err != nil {
			return err
		}
		each(&n)
	}
	return begins(decoder, ']')
}

// begins reads a delimiter.
func begins(decoder *json.Decoder, with json.Delim) error {
	if token, err := decoder.Token(); err != nil || token != with {
		return errNoAPIServer
	}
	return nil
}
