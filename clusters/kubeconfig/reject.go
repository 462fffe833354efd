package kubeconfig

import "fmt"

// RejectedError explains why a Secret is not used: a reason of the API, and a message that says
// what to do instead. It quotes nothing of the Secret. A retry without a change fails again.
type RejectedError struct {
	Reason, Message string
}

// Error returns the message.
func (e *RejectedError) Error() string { return e.Message }

func reject(reason, format string, args ...any) *RejectedError {
	return &RejectedError{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Policy lists what an administrator permits beyond the safe defaults. The zero value permits
// nothing.
type Policy struct {
	// AllowInsecureTLS permits a kubeconfig that does not verify the server's certificate.
	AllowInsecureTLS bool
	// AllowProxy permits a kubeconfig that names a proxy. The proxy then decides which addresses
	// the hub can reach.
	AllowProxy bool
	// AllowLoopback permits members at loopback addresses, for demonstrations and tests on one
	// machine.
	AllowLoopback bool
}
