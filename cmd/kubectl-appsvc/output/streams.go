package output

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// defaultWidth is the number of columns if the output is no terminal.
const defaultWidth = 80

// Streams are the input, the output and the error stream of a command.
type Streams struct{ genericiooptions.IOStreams }

// Say prints what a command has done. The command continues if it cannot be printed.
func (s Streams) Say(format string, args ...any) {
	_, _ = fmt.Fprintf(s.Out, format+"\n", args...)
}

// Note prints a line for people. It is not part of the output, and is lost if it cannot be written.
func (s Streams) Note(format string, args ...any) {
	_, _ = fmt.Fprintf(s.ErrOut, format+"\n", args...)
}

// Write writes a text to the output.
func (s Streams) Write(text string) error {
	_, err := io.WriteString(s.Out, text)
	return err
}

// terminal returns the output if it is a terminal, and nil otherwise.
func (s Streams) terminal() *os.File {
	file, isFile := s.Out.(*os.File)
	if !isFile || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	return file
}

// size returns the columns and the lines of the terminal. Without a terminal, there is no limit of
// lines.
func (s Streams) size() (columns, lines int) {
	if terminal := s.terminal(); terminal != nil {
		if columns, lines, err := term.GetSize(int(terminal.Fd())); err == nil && columns > 0 {
			return columns, lines
		}
	}
	return defaultWidth, 0
}

// Width returns the number of columns of the output.
func (s Streams) Width() int {
	columns, _ := s.size()
	return columns
}

// HasColor reports whether the output is to have colours (https://no-color.org).
func (s Streams) HasColor() bool {
	return s.terminal() != nil && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
