package output

import (
	"fmt"
	"strings"
)

// Screen shows a text in place of the previous one if the output is a terminal, and below it
// otherwise.
type Screen struct {
	Streams
	last string
}

// Show shows a text.
func (s *Screen) Show(text string) error {
	if s.terminal() == nil {
		if text == s.last {
			return nil
		}
		s.last = text
		return s.Write(text + "\n")
	}
	_, height := s.size()
	lines := strings.SplitAfter(strings.TrimRight(text, "\n")+"\n", "\n")
	lines = lines[:len(lines)-1]
	if height > 1 && len(lines) >= height {
		hidden := len(lines) - (height - 2)
		lines = append(lines[:height-2], fmt.Sprintf("… %d more lines\n", hidden))
	}
	const clearScreen = "\x1b[H\x1b[2J"
	return s.Write(clearScreen + strings.Join(lines, ""))
}
