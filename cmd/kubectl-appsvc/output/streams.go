package output

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// defaultWidth is the number of columns if the output is no terminal.
const defaultWidth = 80

// Streams are the input, the output and the error stream of a command.
type Streams struct{ genericiooptions.IOStreams }

// NewStreams returns streams that remember whether the output could be written: see
// [Streams.WriteError].
func NewStreams(of genericiooptions.IOStreams) Streams {
	of.Out = &rememberer{Writer: of.Out}
	return Streams{of}
}

// rememberer is an output that remembers the first error of a write.
type rememberer struct {
	io.Writer
	lock sync.Mutex
	err  error
}

// Write is part of io.Writer.
func (r *rememberer) Write(content []byte) (int, error) {
	n, err := r.Writer.Write(content)
	r.lock.Lock()
	defer r.lock.Unlock()
	if r.err == nil {
		r.err = err
	}
	return n, err
}

// WriteError returns the first error of a write to the output, or nil. A command that continues without
// its output ends with this error.
func (s Streams) WriteError() error {
	r, isRemembered := s.Out.(*rememberer)
	if !isRemembered {
		return nil
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.err
}

// Say prints what a command has done, without characters that are not printable. The command continues
// if it cannot be printed; its exit code says it in the end.
func (s Streams) Say(format string, args ...any) {
	_ = s.Write(fmt.Sprintf(format+"\n", args...))
}

// Note prints lines for people, without characters that are not printable. They are not part of the
// output, and are lost if they cannot be written.
func (s Streams) Note(format string, args ...any) {
	_, _ = io.WriteString(s.ErrOut, PrintableLines(fmt.Sprintf(format+"\n", args...)))
}

// NoteAll prints notes about the output, such as that it may be old.
func (s Streams) NoteAll(notes []string) {
	for _, note := range notes {
		s.Note("! %s", note)
	}
}

// Write writes a text to the output, without characters that are not printable, except line breaks,
// tabs and the colours of package view.
func (s Streams) Write(text string) error { return s.WriteRaw(printableColored(text)) }

// WriteRaw writes a text to the output as it is: the log of a pod, or a text for programs.
func (s Streams) WriteRaw(text string) error {
	_, err := io.WriteString(s.Out, text)
	return err
}

// terminal returns the output if it is a terminal, and nil otherwise.
func (s Streams) terminal() *os.File {
	out := s.Out
	if r, isRemembered := out.(*rememberer); isRemembered {
		out = r.Writer
	}
	file, isFile := out.(*os.File)
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
