package tracing

import (
	"errors"
	"net"
	"net/url"
	"strings"
	"syscall"
)

// maxMessage is the maximum length of an error message in a span, in bytes.
const maxMessage = 256

// safeMessage returns the message of an error for a span. For a network error it returns only the
// kind, because the text of a network error contains addresses and queries. Package delivery redacts
// errors for entries in the same way, with messages for users.
func safeMessage(err error) string {
	var request *url.Error
	var network net.Error
	if errors.As(err, &request) || errors.As(err, &network) {
		return requestFailure(err)
	}
	return truncate(err.Error())
}

// requestFailure returns the message for a request without a response.
func requestFailure(err error) string {
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

// truncate returns the text as valid UTF-8 of limited length.
func truncate(text string) string {
	if len(text) > maxMessage {
		text = text[:maxMessage] + "…"
	}
	return strings.ToValidUTF8(text, "")
}
