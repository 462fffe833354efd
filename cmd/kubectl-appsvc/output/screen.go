package output

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Screen shows a text in place of the previous one if the output is a terminal, and below it
// otherwise.
type Screen struct {
	Streams
	// last is the state that was shown last without a terminal.
	last string
}

// Show shows a text. Without a terminal, it is shown only if the state that it shows is another one than
// before: a text has ages too, which are no change.
func (s *Screen) Show(text, state string) error {
	if s.terminal() != nil {
		return s.redraw(text)
	}
	if state == s.last {
		return nil
	}
	s.last = state
	return s.Write(text + "\n")
}

// redraw shows the first lines of a text for which the terminal has space.
func (s *Screen) redraw(text string) error {
	width, height := s.size()
	lines := strings.SplitAfter(strings.TrimRight(text, "\n")+"\n", "\n")
	lines = lines[:len(lines)-1]
	if shown := fitting(lines, width, height-1); height > 1 && shown < len(lines) {
		shown = fitting(lines, width, height-2)
		lines = append(lines[:shown:shown], fmt.Sprintf("… %d more lines\n", len(lines)-shown))
	}
	const clearScreen = "\x1b[H\x1b[2J"
	return s.WriteRaw(clearScreen + printableColored(strings.Join(lines, "")))
}

// fitting returns how many of the lines a terminal shows in this number of rows. A line that is longer
// than a row takes several.
func fitting(lines []string, width, rows int) int {
	for i, line := range lines {
		length := utf8.RuneCountInString(colors.ReplaceAllString(strings.TrimSuffix(line, "\n"), ""))
		if rows -= max(1, (length+width-1)/width); rows < 0 {
			return i
		}
	}
	return len(lines)
}
