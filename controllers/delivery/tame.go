package delivery

import (
	"math"
	"reflect"

	"k8s.io/apimachinery/pkg/api/resource"
)

// maxQuantity is more than there is of anything on a cluster: an exabyte.
const maxQuantity = 1e18

// tame replaces what no quantity can be by zero, in place: to write or to compare 1e2000000000 takes a gigabyte, and the time for it. What is
// wanted then differs from what is there, and is put back.
func tame(object any) {
	tameIn(reflect.ValueOf(object))
}

var quantityType = reflect.TypeFor[resource.Quantity]()

func tameIn(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			tameIn(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			if kind := v.Type().Elem().Kind(); kind != reflect.Struct && kind != reflect.Pointer {
				return // a long text is not gone through by its bytes
			}
			tameIn(v.Index(i))
		}
	case reflect.Map:
		if v.Type().Elem() != quantityType {
			return // of maps, only lists of resources hold any
		}
		for _, key := range v.MapKeys() {
			if isAbsurd(v.MapIndex(key).Interface().(resource.Quantity)) {
				v.SetMapIndex(key, reflect.ValueOf(resource.Quantity{}))
			}
		}
	case reflect.Struct:
		if v.Type() == quantityType {
			if isAbsurd(v.Interface().(resource.Quantity)) {
				v.SetZero()
			}
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				tameIn(v.Field(i))
			}
		}
	}
}

func isAbsurd(q resource.Quantity) bool {
	return math.Abs(q.AsApproximateFloat64()) > maxQuantity
}
