package kubeconfig

import "fmt"

// RejectedError is why a Secret is not used: a reason of the API, and a message that says what to
// do instead. It quotes nothing of the Secret. Retrying without a change is of no use.
type RejectedError struct {
	Reason, Message string
}

// Error returns the message.
func (e *RejectedError) Error() string { return e.Message }

func reject(reason, format string, args ...any) *RejectedError {
	return &RejectedError{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Policy is what an administrator permits beyond what is safe. The zero value permits nothing.
type Policy struct {
	// AllowInsecureTLS permits a kubeconfig that does not verify the server's certificate.
	AllowInsecureTLS bool
	// AllowProxy permits a kubeconfig that names a proxy. The proxy then decides which addresses
	// are reached.
	AllowProxy bool
	// AllowLoopback permits members at loopback addresses, for demonstrations and tests on one
	// machine.
	AllowLoopback bool
}
