package clusters

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/fleetwright/fleetwright/clusters/transport"
)

// Nodes are read page by page, and each page node by node: thousands of nodes have a hundred
// megabytes, and only two of their fields are needed. Their reads have a separate rate limit, so
// that they do not slow down lists, watches and writes.
const (
	nodesInPage  = 500
	maxNodePages = 200
	maxPageBytes = 64 << 20
	// maxPageMemory includes the cost of the elements of a page, although no element is kept.
	maxPageMemory = 8 * maxPageBytes
	// maxContinue is the longest continue token.
	maxContinue = 8 << 10
	// nodesReadRate and nodesReadBurst throttle the reading of nodes: 5,000 nodes take half a
	// minute.
	nodesReadRate, nodesReadBurst = 8 << 20, 16 << 20
)

var errTooManyNodes = &transport.LimitError{Message: fmt.Sprintf("the member has more than %d nodes", maxNodePages*nodesInPage)}

// node has the fields of a Node that are read.
type node struct {
	Spec struct {
		Unschedulable bool `json:"unschedulable"`
	} `json:"spec"`
	Status struct {
		Allocatable corev1.ResourceList `json:"allocatable"`
	} `json:"status"`
}

// readAllocatable returns the sum over the nodes that accept pods.
func readAllocatable(ctx context.Context, c *transport.Client) (sum corev1.ResourceList, err error) {
	defer func() { // the quantity parser panics for exponents near 2^31
		if recover() != nil {
			sum, err = nil, errors.New("a node has a quantity that cannot be parsed")
		}
	}()
	sum = corev1.ResourceList{}
	limit := transport.NewPageLimit(nodesReadRate, nodesReadBurst, maxPageBytes, maxPageMemory, errTooManyNodes)
	next := ""
	for range maxNodePages {
		next, err = readPage(ctx, c, limit, next, func(n *node) {
			if !n.Spec.Unschedulable {
				addResources(sum, n.Status.Allocatable)
			}
		})
		if err != nil || next == "" {
			return sum, err
		}
	}
	return nil, errTooManyNodes
}

// readPage reads one page, and returns the token of the next page, or "" after the last.
func readPage(ctx context.Context, c *transport.Client, limit *transport.PageLimit, page string, each func(*node)) (next string, err error) {
	query := url.Values{"limit": {strconv.Itoa(nodesInPage)}}
	if page != "" {
		query.Set("continue", page)
	}
	err = c.GetPage(ctx, "/api/v1/nodes?"+query.Encode(), limit, nodePageTimeout, func(body io.Reader) (err error) {
		next, err = readNodes(body, each)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("list nodes: %w", err)
	}
	return next, nil
}

// readNodes decodes a NodeList without keeping it, and returns the token that continues the list.
func readNodes(from io.Reader, each func(*node)) (next string, err error) {
	decoder := json.NewDecoder(from)
	if err := expectDelim(decoder, '{'); err != nil {
		return "", err
	}
	var metadata struct {
		Continue string `json:"continue"`
	}
	for decoder.More() {
		field, err := decoder.Token()
		if err != nil {
			return "", transport.ErrNotAPIServer
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
			return "", transport.ErrNotAPIServer // its text may quote the response
		}
	}
	if err := expectDelim(decoder, '}'); err != nil || len(metadata.Continue) > maxContinue {
		return "", transport.ErrNotAPIServer
	}
	return metadata.Continue, nil
}

func readItems(decoder *json.Decoder, each func(*node)) error {
	if token, err := decoder.Token(); err != nil || token == nil { // null
		return err
	} else if token != json.Delim('[') {
		return transport.ErrNotAPIServer
	}
	for decoder.More() {
		var n node
		if err := decoder.Decode(&n); err != nil {
			return err
		}
		each(&n)
	}
	return expectDelim(decoder, ']')
}

// expectDelim reads a delimiter, and returns an error if the next token is another one.
func expectDelim(decoder *json.Decoder, want json.Delim) error {
	if token, err := decoder.Token(); err != nil || token != want {
		return transport.ErrNotAPIServer
	}
	return nil
}
