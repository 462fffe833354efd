package convert

import (
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// decode decodes an object into its type. It returns an error for a field that the type does not have,
// or that has a value of another type.
func decode(object *unstructured.Unstructured, into any) error {
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true)
	if err == nil || runtime.IsStrictDecodingError(err) {
		return err
	}
	// The converter does not name the field, and JSON does.
	content, encodeErr := object.MarshalJSON()
	if encodeErr != nil {
		return err
	}
	decodeErr := json.Unmarshal(content, into)
	var mistyped *json.UnmarshalTypeError
	switch {
	case errors.As(decodeErr, &mistyped) && mistyped.Field != "":
		return fmt.Errorf("%s: want %s, got %s", mistyped.Field, mistyped.Type, mistyped.Value)
	case decodeErr != nil:
		return decodeErr
	}
	return err
}
