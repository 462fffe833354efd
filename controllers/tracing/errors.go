package tracing

import (
	"errors"
	"net"
	"net/url"
	"strings"
	"syscall"
)

// maxMessage is how many bytes of an error are told.
const maxMessage = 256

// message is what is told of an error. Those of the network hold addresses, and queries: of them only the kind is told.
func message(err error) string {
	var request *url.Error
	var network net.Error
	if errors.As(err, &request) || errors.As(err, &network) {
		return broken(err)
	}
	return bounded(err.Error())
}

// broken is what is told of a request that had no answer.
func broken(err error) string {
	var errno syscall.Errno
	var network net.Error
	switch {
	case errors.As(err, &errno):
		return "the request failed: " + errno.Error()
	case errors.As(err, &network) && network.Timeout():
		return "the request failed: timed out"
	}
	return "the request failed"
}

// bounded is a text that the wire format takes.
func bounded(text string) string {
	if len(text) > maxMessage {
		text = text[:maxMessage] + "…"
	}
	return strings.ToValidUTF8(text, "")
}
