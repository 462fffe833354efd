package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

func TestDraw(t *testing.T) {
	recorded := &recording{
		now: 4 * time.Second,
		outputs: []output{
			{at: 0, text: []byte("\x1b[32m$\x1b[0m a<b\r\n")},
			{at: time.Second, text: []byte("shown for a moment")},
			{at: time.Second + frameTime/2, text: []byte("\r\x1b[Ksecond row")},
			{at: 2 * time.Second, text: []byte("\x1b[2J\x1b[Hcleared")},
		},
	}
	svg := string(draw(recorded))
	decoder := xml.NewDecoder(strings.NewReader(svg))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in %s", err, svg)
		}
	}
	for _, want := range []string{
		`<tspan x="16" class="green">$</tspan><tspan x="32.86">a&lt;b</tspan>`,
		`<tspan x="16">second row</tspan>`,
		`@keyframes k1{0%{visibility:visible}50%,to{visibility:hidden}}`,          // the first row
		`0%{visibility:hidden}25.5%{visibility:visible}50%,to{visibility:hidden}`, // not before 1.02 seconds
		`0%{visibility:hidden}50%{visibility:visible}to{visibility:visible}`,      // the last screen
		` last" y="60"><tspan x="16">cleared</tspan>`,
	} {
		if !strings.Contains(svg, want) {
			t.Errorf("want %s", want)
		}
	}
	if strings.Contains(svg, "moment") {
		t.Error("a screen is shown for less than a frame")
	}
	if t.Failed() {
		t.Log(svg)
	}
}
