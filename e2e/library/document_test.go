package main

import (
	"os"
	"strings"
	"testing"
)

// The code in docs/library.md is that of this program.
func TestDocument_shows_this_program(t *testing.T) {
	document, program := read(t, "../../docs/library.md"), read(t, "main.go")+read(t, "reporter.go")
	blocks := strings.Split(document, "```go\n")[1:]
	if len(blocks) < 4 {
		t.Errorf("the document has %d blocks of code", len(blocks))
	}
	for _, block := range blocks {
		if code, _, _ := strings.Cut(block, "```"); !strings.Contains(program, code) {
			t.Errorf("the program does not contain:\n%s", code)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
