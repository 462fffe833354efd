package clusters

import (
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/fleetwright/fleetwright/clusters/transport"
)

// objectOverhead is what a cached object takes up in addition to itself: its key, and its place in the store and its
// indexes.
const objectOverhead = 1 << 10

// mapOverhead is what a map takes up in addition to its slots.
const mapOverhead = 64

// cacheLimit bounds the memory of one member's cache. A list is bounded when it is read, but a watch could add objects
// for ever. It is safe for concurrent use.
type cacheLimit struct {
	most int64
	// onExceeded is called when an object does not fit.
	onExceeded func()
	used       atomic.Int64
	exceeded   atomic.Bool
}

// add counts an object in the place of the one before; either may be nil. It reports whether the object fits.
func (l *cacheLimit) add(object, before any) bool {
	more := weightOf(object) - weightOf(before)
	used := l.used.Add(more)
	if more <= 0 || used <= l.most {
		return true
	}
	l.used.Add(-more)
	l.exceeded.Store(true)
	l.onExceeded()
	return false
}

// err returns an error once an object did not fit: the cache is incomplete from then on.
func (l *cacheLimit) err() error {
	if !l.exceeded.Load() {
		return nil
	}
	return &transport.LimitError{Message: fmt.Sprintf("the member's objects take up more than %s of memory; if the member is to be trusted, raise --member-max-list and the memory limit of the operator",
		resource.NewQuantity(l.most, resource.BinarySI))}
}

// weightOf returns about how many bytes a cached object takes up.
func weightOf(object any) int64 {
	if object == nil {
		return 0
	}
	return objectOverhead + beyond(reflect.ValueOf(object))
}

// beyond returns how many bytes a value refers to, in addition to its own.
func beyond(v reflect.Value) (bytes int64) {
	switch v.Kind() {
	case reflect.String:
		return int64(v.Len())
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() || v.Type() == locationType {
			return 0
		}
		return int64(v.Elem().Type().Size()) + beyond(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			bytes += beyond(v.Field(i))
		}
	case reflect.Slice, reflect.Array:
		element := v.Type().Elem()
		if v.Kind() == reflect.Slice {
			bytes = int64(v.Cap()) * int64(element.Size())
		}
		if !refers(element) {
			return bytes
		}
		for i := range v.Len() {
			bytes += beyond(v.Index(i))
		}
	case reflect.Map:
		if v.IsNil() {
			return 0
		}
		slots := 8 // at least, and an eighth stays free
		for slots*7/8 < v.Len() {
			slots *= 2
		}
		bytes = mapOverhead + int64(slots)*int64(v.Type().Key().Size()+v.Type().Elem().Size())
		for entries := v.MapRange(); entries.Next(); {
			bytes += beyond(entries.Key()) + beyond(entries.Value())
		}
	}
	return bytes
}

// locationType is shared by all times.
var locationType = reflect.TypeFor[*time.Location]()

// refers reports whether a value of a type may refer to others.
func refers(t reflect.Type) bool { return t.Kind() > reflect.Complex128 }
