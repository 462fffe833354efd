package view

import (
	"strings"
	"unicode/utf8"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/output"
)

// Wrap returns the lines of a text that have at most width characters, if its words are not longer. The
// text may be that of an object: characters that are not printable are left out.
func Wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(output.Printable(text)) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	if line == "" {
		return lines
	}
	return append(lines, line)
}

// pad appends spaces to a text of an object, so that it has at least width characters.
func pad(text string, width int) string {
	text = output.Printable(text)
	return text + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(text)))
}

// bar returns a bar of ten characters that shows the part of a whole.
func bar(part, whole int32) string {
	const length = 10
	full := 0
	if whole > 0 {
		full = int(min(part, whole)) * length / int(whole)
	}
	return strings.Repeat("█", full) + strings.Repeat("░", length-full)
}

// Colours of terminals (ECMA-48).
const (
	red    = "\x1b[31m"
	green  = "\x1b[32m"
	yellow = "\x1b[33m"
	normal = "\x1b[0m"
)

// colorOf returns the colour of a phase.
func colorOf(phase v1alpha1.ClusterPhase) string {
	switch phase {
	case v1alpha1.ClusterReady:
		return green
	case v1alpha1.ClusterFailed, v1alpha1.ClusterUnknown:
		return red
	}
	return yellow
}

// colored returns a text in a colour, if the terminal is to have colours.
func (o Options) colored(color, text string) string {
	if !o.Color {
		return text
	}
	return color + text + normal
}
