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

// Request is one that an API server got and has answered, as its audit log has it. Of a watch it is the beginning.
type Request struct {
	ID   string    `json:"auditID"`
	At   time.Time `json:"requestReceivedTimestamp"`
	Verb string    `json:"verb"`
	User struct {
		Name string `json:"username"`
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
	// Body is what was sent, of requests that write.
	Body json.RawMessage `json:"requestObject"`
}

// Writes tells whether it was to change something.
func (r *Request) Writes() bool {
	switch r.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	}
	return false
}

// Succeeded tells whether the answer was no error.
func (r *Request) Succeeded() bool { return r.Response.Code < http.StatusMultipleChoices }

// Denied tells whether the right to it was missing.
func (r *Request) Denied() bool { return r.Response.Code == http.StatusForbidden }

// What is what was asked for of which kind of resource, and whether it failed.
func (r *Request) What() string {
	what := r.Verb + " " + r.Object.Resource
	if r.Object.Subresource != "" {
		what += "/" + r.Object.Subresource
	}
	if !r.Succeeded() {
		what += " (failed)"
	}
	return what
}

// String is for people.
func (r *Request) String() string {
	return fmt.Sprintf("%s %s %s/%s: %d %s", r.At.Format(time.TimeOnly), r.What(), r.Object.Namespace, r.Object.Name, r.Response.Code, r.Response.Message)
}

// AuditPolicy has an API server log what the operator asks of it, and nobody else: see [Requests].
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

// Denied tells with a nil error that each of the clusters was asked for something by the operator's ServiceAccounts, and has granted all of it.
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
		return fmt.Errorf("read what the operator has asked of %s: %w", c.Name(), err)
	}
	if len(requests) == 0 {
		return fmt.Errorf("nothing is logged of what the operator has asked of %s: it acts as somebody else", c.Name())
	}
	var denied []error
	for i := range requests {
		if requests[i].Denied() {
			denied = append(denied, fmt.Errorf("%s has denied the operator: %s", c.Name(), &requests[i]))
		}
	}
	return errors.Join(denied...)
}

// Requests reads an audit log. A last line that is not whole yet is left out, and of a watch the end.
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
