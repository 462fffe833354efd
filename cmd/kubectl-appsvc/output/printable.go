package output

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"sigs.k8s.io/yaml"
)

// Printable returns a text of an object as it can be printed on a terminal: without characters that are
// not printable, such as escape sequences, which could clear the screen or hide a line. Each run of
// spaces, tabs and line breaks becomes one space. A command prints no text of an object without it.
func Printable(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	return strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return -1
	}, text)
}

// PrintableLines returns a text of several lines, such as a diff, as it can be printed on a terminal:
// as [Printable] does, but with its line breaks, tabs and spaces.
func PrintableLines(text string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case c == '\n', c == '\t', unicode.IsPrint(c):
			return c
		case unicode.IsSpace(c) && c != '\r':
			return ' '
		}
		return -1
	}, text)
}

// colors matches the colours that package view uses.
var colors = regexp.MustCompile("\x1b\\[(?:0|31|32|33)m")

// printableColored returns a text as PrintableLines does, with the colours in it.
func printableColored(text string) string {
	var b strings.Builder
	begin := 0
	for _, found := range colors.FindAllStringIndex(text, -1) {
		b.WriteString(PrintableLines(text[begin:found[0]]))
		b.WriteString(text[found[0]:found[1]])
		begin = found[1]
	}
	b.WriteString(PrintableLines(text[begin:]))
	return b.String()
}

// MarshalYAML returns a value as YAML. Unlike yaml.Marshal, it accepts texts with control characters.
func MarshalYAML(value any) (string, error) {
	content, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	content, err = yaml.JSONToYAML([]byte(escapeJSON(string(content))))
	return string(content), err
}

// MarshalPrintableYAML returns a value as YAML in which all characters are printable. It loses nothing:
// where YAML has characters of other scripts as they are, the value is written as JSON, which is YAML
// with an escape sequence for each of them.
func MarshalPrintableYAML(value any) (string, error) {
	text, err := MarshalYAML(value)
	if err != nil || PrintableLines(text) == text {
		return text, err
	}
	content, err := json.MarshalIndent(value, "", "  ")
	return escapeJSON(string(content)) + "\n", err
}

// escapeJSON returns a text in JSON with an escape sequence of YAML, such as \u202e, in place of each
// character that is not printable. They can only be in strings, so the text says the same in YAML.
func escapeJSON(text string) string {
	var b strings.Builder
	for _, c := range text {
		switch {
		case c == '\n', unicode.IsPrint(c):
			b.WriteRune(c)
		case c > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, c)
		default:
			fmt.Fprintf(&b, `\u%04x`, c)
		}
	}
	return b.String()
}
