package snapshots

import (
	"fmt"
	"strings"
	"testing"
)

// What is kept is bounded by its size, and what was used recently stays.
func TestReader_keeps_a_bounded_size(t *testing.T) {
	reader := NewReader(nil, 1, nil)
	add := func(name string, size int) key {
		of := key{app: "uid", kind: "Secret", namespace: "shop", name: name}
		reader.keep(&result{key: of, fields: make([]byte, size)})
		return of
	}
	first, second := add("first", 1<<20), add("second", 1<<20)
	for i := range 40 {
		add(fmt.Sprint(i), 1<<20)
		if reader.lookUp(first) == nil {
			t.Fatalf("after %d others, what is used is forgotten", i)
		}
		if reader.size > maxSize {
			t.Fatalf("%d bytes are kept", reader.size)
		}
	}
	if reader.lookUp(second) != nil {
		t.Error("nothing is forgotten")
	}
	add("first", 10)
	if total := reader.recent.Len(); total != len(reader.known) {
		t.Errorf("%d results are kept, and %d are known", total, len(reader.known))
	}
}

func TestContent_is_never_printed(t *testing.T) {
	content := Content{fields: []byte(`,"data":{"a":"secret"}`)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(verb, content); strings.Contains(text, "secret") {
			t.Errorf("%s prints %s", verb, text)
		}
	}
}
