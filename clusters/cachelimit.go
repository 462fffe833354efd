package clusters

import (
	"fmt"
	"reflect"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/fleetwright/fleetwright/clusters/transport"
)

// objectOverhead is the memory of a cached object in addition to the object itself: its key, and
// its entries in the store and its indexes.
const objectOverhead = 1 << 10

// mapOverhead is the memory of a map in addition to its slots.
const mapOverhead = 64

// cacheLimit limits the memory of one member's cache. A list is limited while it is read, but a
// watch could add objects without end. It is safe for concurrent use.
type cacheLimit struct {
	maxBytes int64
	// onExceeded is called when an object does not fit.
	onExceeded func()
	used       atomic.Int64
	exceeded   atomic.Bool
}

// add counts an object in place of the previous one, and reports whether the object fits. Either
// may be nil.
func (l *cacheLimit) add(object, previous any) bool {
	more := weightOf(object) - weightOf(previous)
	used := l.used.Add(more)
	if more <= 0 || used <= l.maxBytes {
		return true
	}
	l.used.Add(-more)
	l.exceeded.Store(true)
	l.onExceeded()
	return false
}

// err returns an error if any object did not fit, because the cache is incomplete from then on.
func (l *cacheLimit) err() error {
	if !l.exceeded.Load() {
		return nil
	}
	return &transport.LimitError{Message: fmt.Sprintf("the member's objects take up more than %s of memory; if you trust the member, raise --member-max-list and the memory limit of the operator",
		resource.NewQuantity(l.maxBytes, resource.BinarySI))}
}

// weightOf returns the approximate memory of a cached object in bytes.
func weightOf(object any) int64 {
	if object == nil {
		return 0
	}
	return objectOverhead + referencedBytes(reflect.ValueOf(object))
}

// referencedBytes returns the memory that a value references, in addition to its own size.
func referencedBytes(v reflect.Value) (bytes int64) {
	switch v.Kind() {
	case reflect.String:
		return int64(v.Len())
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() || v.Type() == locationType {
			return 0
		}
		return int64(v.Elem().Type().Size()) + referencedBytes(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			bytes += referencedBytes(v.Field(i))
		}
	case reflect.Slice, reflect.Array:
		element := v.Type().Elem()
		if v.Kind() == reflect.Slice {
			bytes = int64(v.Cap()) * int64(element.Size())
		}
		if !hasPointers(element) {
			return bytes
		}
		for i := range v.Len() {
			bytes += referencedBytes(v.Index(i))
		}
	case reflect.Map:
		if v.IsNil() {
			return 0
		}
		slots := 8 // at least 8, and an eighth stays free
		for slots*7/8 < v.Len() {
			slots *= 2
		}
		bytes = mapOverhead + int64(slots)*int64(v.Type().Key().Size()+v.Type().Elem().Size())
		for entries := v.MapRange(); entries.Next(); {
			bytes += referencedBytes(entries.Key()) + referencedBytes(entries.Value())
		}
	}
	return bytes
}

// locationType is not counted, because all times share their location.
var locationType = reflect.TypeFor[*time.Location]()

// hasPointers reports whether a value of this type may reference other memory.
func hasPointers(t reflect.Type) bool { return t.Kind() > reflect.Complex128 }
