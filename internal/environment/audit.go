package environment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// Request is a request that an API server has answered, from its audit log. A watch is logged when
// it starts.
type Request struct {
	ID   string    `json:"auditID"`
	At   time.Time `json:"requestReceivedTimestamp"`
	Verb string    `json:"verb"`
	User struct {
		Name string `json:"username"`
		// Extra has the ID of the token, but not of a token that a Secret has.
		Extra map[string][]string `json:"extra"`
	} `json:"user"`
	Object struct {
		Group       string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Response struct {
		Code    int32  `json:"code"`
		Message string `json:"message"`
	} `json:"responseStatus"`
	// Body is the body of a write request.
	Body json.RawMessage `json:"requestObject"`
}

// IsWrite reports whether the request is a write.
func (r *Request) IsWrite() bool {
	switch r.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	}
	return false
}

// HasSucceeded reports whether the response is not an error.
func (r *Request) HasSucceeded() bool { return r.Response.Code < http.StatusMultipleChoices }

// IsDenied reports whether the server denied the request because of a missing permission.
func (r *Request) IsDenied() bool { return r.Response.Code == http.StatusForbidden }

// What returns the verb and the resource, and whether the request failed.
func (r *Request) What() string {
	what := r.Verb + " " + r.Object.Resource
	if r.Object.Subresource != "" {
		what += "/" + r.Object.Subresource
	}
	if !r.HasSucceeded() {
		what += " (failed)"
	}
	return what
}

// String returns the request in one line.
func (r *Request) String() string {
	return fmt.Sprintf("%s %s %s/%s: %d %s", r.At.Format(time.TimeOnly), r.What(), r.Object.Namespace, r.Object.Name, r.Response.Code, r.Response.Message)
}

// AuditPolicy makes an API server log the requests of the operator, and no others: see [Requests].
const AuditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Request
    users: ["system:serviceaccount:` + SecretNamespace + ":" + OperatorAccount + `", "system:serviceaccount:` + SecretNamespace + ":" + MemberAccount + `"]
    verbs: [create, update, patch, delete, deletecollection]
    omitManagedFields: true
  - level: Metadata
    users: ["system:serviceaccount:` + SecretNamespace + ":" + OperatorAccount + `", "system:serviceaccount:` + SecretNamespace + ":" + MemberAccount + `"]
  - level: None
`

// WriteAuditPolicy writes the policy to a file in a directory, and returns its path.
func WriteAuditPolicy(dir string) (string, error) {
	path := filepath.Join(dir, "audit-policy.yaml")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return "", err
	}
	return path, os.WriteFile(path, []byte(AuditPolicy), 0o600)
}

// Denied returns an error if one of the clusters denied a request of the operator's
// ServiceAccounts, or has no request of them.
func Denied(ctx context.Context, clusters ...Cluster) error {
	var denied []error
	for _, c := range clusters {
		denied = append(denied, deniedBy(ctx, c))
	}
	return errors.Join(denied...)
}

func deniedBy(ctx context.Context, c Cluster) error {
	requests, err := c.Requests(ctx)
	if err != nil {
		return fmt.Errorf("read the operator's requests to %s: %w", c.Name(), err)
	}
	if len(requests) == 0 {
		return fmt.Errorf("%s has no request of the operator: it uses another identity", c.Name())
	}
	var denied []error
	for i := range requests {
		if requests[i].IsDenied() {
			denied = append(denied, fmt.Errorf("%s denied a request of the operator: %s", c.Name(), &requests[i]))
		}
	}
	return errors.Join(denied...)
}

// Requests reads an audit log. It leaves out an incomplete last line, and the end of a watch.
func Requests(log []byte) ([]Request, error) {
	var requests []Request
	seen := map[string]bool{}
	for line := range bytes.Lines(log) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		var request Request
		if err := json.Unmarshal(line, &request); err != nil {
			return nil, fmt.Errorf("read the audit log: %w", err)
		}
		if !seen[request.ID] {
			requests = append(requests, request)
		}
		seen[request.ID] = true
	}
	return requests, nil
}
