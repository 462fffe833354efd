package command

import (
	"io"
	"os"

	"golang.org/x/term"
)

// defaultWidth is the number of columns if the output is no terminal.
const defaultWidth = 80

// write writes a text to the output.
func (o *hubOptions) write(text string) error {
	_, err := io.WriteString(o.streams.Out, text)
	return err
}

// terminal returns the output if it is a terminal, and nil otherwise.
func (o *hubOptions) terminal() *os.File {
	file, isFile := o.streams.Out.(*os.File)
	if !isFile || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	return file
}

// size returns the columns and the lines of the terminal. Without a terminal, there is no limit of
// lines.
func (o *hubOptions) size() (columns, lines int) {
	if terminal := o.terminal(); terminal != nil {
		if columns, lines, err := term.GetSize(int(terminal.Fd())); err == nil && columns > 0 {
			return columns, lines
		}
	}
	return defaultWidth, 0
}

// width returns the number of columns of the output.
func (o *hubOptions) width() int {
	columns, _ := o.size()
	return columns
}

// hasColor reports whether the output is to have colours (https://no-color.org).
func (o *hubOptions) hasColor() bool {
	return o.terminal() != nil && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
