// Package memberpolicy recognizes refusals by the policy of config/member/policy, with which a member
// limits Fleetwright.
//
// The API server says nothing typed about the policy that refused a request: the cause in the status
// has only a message. So each message of the policy starts with its name and a code, which no other
// policy has.
package memberpolicy

import (
	"errors"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Name is the name of the policy.
const Name = "member.fleetwright.dev"

// Code is why the policy refused a request. Package memberpolicy has those that Fleetwright handles.
type Code string

const (
	// NotLabelled is the code for an object that has none of Fleetwright's labels, and that is to be
	// deleted, or is of a kind that is never adopted.
	NotLabelled Code = "NotLabelled"
	// AdoptionNotAllowed is the code for an object that has none of Fleetwright's labels, in a namespace
	// that does not agree to adoptions.
	AdoptionNotAllowed Code = "AdoptionNotAllowed"
)

// Refusal is a refusal by the policy.
type Refusal struct {
	Code Code
	// Resource and Name are those of the object, as the API server names them: deployments, web.
	Resource, Name string
}

// RefusalOf returns the refusal by the policy in an error, or nil if the error has another cause.
func RefusalOf(err error) *Refusal {
	var answered apierrors.APIStatus
	if !apierrors.IsForbidden(err) || !errors.As(err, &answered) || answered.Status().Details == nil {
		return nil
	}
	details := answered.Status().Details
	for _, cause := range details.Causes {
		_, message, isOfPolicy := strings.Cut(cause.Message, Name+"/")
		if code, _, hasCode := strings.Cut(message, ": "); isOfPolicy && hasCode {
			return &Refusal{Code: Code(code), Resource: details.Kind, Name: details.Name}
		}
	}
	return nil
}
