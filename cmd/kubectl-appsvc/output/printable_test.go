package output

import "testing"

func TestPrintable(t *testing.T) {
	for text, expected := range map[string]string{
		"":                                 "",
		"nginx:1.27":                       "nginx:1.27",
		"zwölf Änderungen …":               "zwölf Änderungen …",
		"two\n  lines\tand a tab":          "two lines and a tab",
		"\x1b]0;title\x07nginx\x1b[2J":     "]0;titlenginx[2J",
		"right\u202eto left, \u200bzero":   "rightto left, zero",
		"\u009b2Ja control sequence of C1": "2Ja control sequence of C1",
	} {
		if got := Printable(text); got != expected {
			t.Errorf("Printable(%q) is %q, and %q was expected", text, got, expected)
		}
	}
}
