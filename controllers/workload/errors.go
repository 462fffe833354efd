package workload

import (
	"errors"
	"fmt"
)

// OverrideError reports that an override cannot be applied on a cluster. Other clusters may not be
// affected.
type OverrideError struct {
	// Override is its name.
	Override string
	// Err is the cause.
	Err error
}

// Error names the override.
func (e *OverrideError) Error() string { return fmt.Sprintf("override %q: %s", e.Override, e.Err) }

// Unwrap returns the cause.
func (e *OverrideError) Unwrap() error { return e.Err }

// VariableError reports that a variable of the spec has no value on a cluster. Other clusters may
// have the label that this one lacks.
type VariableError struct {
	// Where is the field that has the variable: spec.env[name=REGION].
	Where string
	// Err is the cause.
	Err error
}

// Error names the field.
func (e *VariableError) Error() string { return fmt.Sprintf("%s: %s", e.Where, e.Err) }

// Unwrap returns the cause.
func (e *VariableError) Unwrap() error { return e.Err }

// IsInvalid reports whether [Render] failed because the AppService is invalid for this cluster. It
// fails in the same way until the AppService or the labels of the MemberCluster change. Until then
// the cluster keeps what it runs.
func IsInvalid(err error) bool {
	var override *OverrideError
	var variable *VariableError
	return errors.As(err, &override) || errors.As(err, &variable)
}
