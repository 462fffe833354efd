package workload

import (
	"errors"
	"fmt"
)

// OverrideError says that an override cannot be applied for a cluster. Others may not be concerned.
type OverrideError struct {
	// Override is its name.
	Override string
	// Err is what is wrong.
	Err error
}

// Error names the override.
func (e *OverrideError) Error() string { return fmt.Sprintf("override %q: %s", e.Override, e.Err) }

// Unwrap returns what is wrong.
func (e *OverrideError) Unwrap() error { return e.Err }

// VariableError says that a variable of the spec itself has no value for a cluster. Others may not be concerned: they may have
// the label that this one lacks.
type VariableError struct {
	// Where is the field that holds the variable: spec.env[name=REGION].
	Where string
	// Err is what is wrong.
	Err error
}

// Error names the field.
func (e *VariableError) Error() string { return fmt.Sprintf("%s: %s", e.Where, e.Err) }

// Unwrap returns what is wrong.
func (e *VariableError) Unwrap() error { return e.Err }

// IsInvalid tells whether [Render] failed by what the AppService says for this one cluster. It fails in the same way until the
// AppService or the labels of the MemberCluster change; what the cluster runs is to be left as it is.
func IsInvalid(err error) bool {
	var override *OverrideError
	var variable *VariableError
	return errors.As(err, &override) || errors.As(err, &variable)
}
