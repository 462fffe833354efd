package workload

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// inJSON returns an error of encoding/json in terms of JSON: a value has another type than its
// field.
func inJSON(err error) error {
	var mismatch *json.UnmarshalTypeError
	if !errors.As(err, &mismatch) {
		return err
	}
	field := mismatch.Field
	if field == "" {
		field = "a field"
	}
	return fmt.Errorf("%s must be %s, not %s", field, typeName(mismatch.Type), valueName(mismatch.Value))
}

// typeName returns the JSON name for the values of a type.
func typeName(of reflect.Type) string {
	switch of.Kind() {
	case reflect.Pointer:
		return typeName(of.Elem())
	case reflect.Bool:
		return "a boolean"
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "an integer of " + strings.TrimLeft(of.Kind().String(), "int") + " bits"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "an array"
	case reflect.String:
		return "a string"
	default:
		return "an object"
	}
}

// valueName returns the JSON name for what encoding/json calls a value: "string", or "number 1.5".
func valueName(value string) string {
	switch kind, number, _ := strings.Cut(value, " "); {
	case number != "":
		return "the number " + number
	case kind == "bool":
		return "a boolean"
	case kind == "object", kind == "array":
		return "an " + kind
	default:
		return "a " + kind
	}
}
