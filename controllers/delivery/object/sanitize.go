package object

import (
	"math"
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
)

// maxQuantity is more than a cluster has of any resource: an exabyte.
const maxQuantity = 1e18

// SanitizeQuantities replaces impossible quantities by zero, in place: to write or to compare
// 1e2000000000 takes a gigabyte, and the time for it. The object then differs from the desired one,
// so the quantity is corrected.
func SanitizeQuantities(object any) {
	sanitize(reflect.ValueOf(object))
}

var quantityType = reflect.TypeFor[resource.Quantity]()

// sanitize sanitizes a value of any type.
func sanitize(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			sanitize(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			if kind := v.Type().Elem().Kind(); kind != reflect.Struct && kind != reflect.Pointer {
				return // the bytes of a long text are not visited
			}
			sanitize(v.Index(i))
		}
	case reflect.Map:
		if v.Type().Elem() != quantityType {
			return // only resource lists have quantities as values
		}
		for _, key := range v.MapKeys() {
			if isImpossible(v.MapIndex(key).Interface().(resource.Quantity)) {
				v.SetMapIndex(key, reflect.ValueOf(resource.Quantity{}))
			}
		}
	case reflect.Struct:
		if v.Type() == quantityType {
			if isImpossible(v.Interface().(resource.Quantity)) {
				v.SetZero()
			}
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				sanitize(v.Field(i))
			}
		}
	}
}

// isImpossible reports whether a quantity is more than any cluster has.
func isImpossible(q resource.Quantity) bool {
	return math.Abs(q.AsApproximateFloat64()) > maxQuantity
}
