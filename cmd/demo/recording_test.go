package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
)

// Browsers show the recording in an <img> element: they run no script in it, and load nothing.
func TestRecording_is_small_and_complete(t *testing.T) {
	content, err := os.ReadFile("../../docs/images/demo.svg")
	if err != nil {
		t.Fatal(err)
	}
	if size := len(content); size > 200_000 {
		t.Errorf("the recording has %d bytes, want at most 200,000", size)
	}
	decoder := xml.NewDecoder(bytes.NewReader(content))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		element, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		if element.Name.Local == "script" {
			t.Error("the recording has a script")
		}
		for _, attribute := range element.Attr {
			if attribute.Name.Local == "href" || strings.HasPrefix(attribute.Name.Local, "on") {
				t.Errorf("the recording has the attribute %s", attribute.Name.Local)
			}
		}
	}
	for _, want := range []string{"prefers-reduced-motion", "prefers-color-scheme", "ImagePullBackOff", "RolledBack", "Unknown"} {
		if !bytes.Contains(content, []byte(want)) {
			t.Errorf("the recording does not contain %s", want)
		}
	}
	if bytes.Contains(content, []byte("url(")) {
		t.Error("the recording loads a file")
	}
}
