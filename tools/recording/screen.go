package main

import (
	"image/color"
	"io"
	"slices"
	"strings"
	"time"

	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/ansi"
	"github.com/charmbracelet/x/vt"
)

// frameTime is the shortest time that a screen is shown.
const frameTime = 40 * time.Millisecond

// span is text of one style in a row of the screen.
type span struct {
	column int
	text   string
	class  string
}

// interval is when a row of the screen has a content.
type interval struct{ from, to time.Duration }

// segment is the content of a row during an interval.
type segment struct {
	interval
	row   int
	spans []span
}

// segments returns what the screen showed, sorted by time.
func (r *recording) segments() []segment {
	terminal := vt.NewEmulator(columns, rows)
	go func() { _, _ = io.Copy(io.Discard, terminal) }() // what a terminal would reply
	defer func() { _ = terminal.Close() }()
	var all []segment
	current := make([]segment, rows)
	for i := range current {
		current[i].row = i
	}
	show := func(at time.Duration) {
		for row := range rows {
			spans := spansOf(terminal, row)
			if slices.Equal(spans, current[row].spans) {
				continue
			}
			if current[row].to = at; len(current[row].spans) > 0 {
				all = append(all, current[row])
			}
			current[row] = segment{row: row, spans: spans, interval: interval{from: at}}
		}
	}
	for i, output := range r.outputs {
		_, _ = terminal.Write(output.text) // It never fails.
		if i+1 == len(r.outputs) || r.outputs[i+1].at-output.at >= frameTime {
			show(output.at)
		}
	}
	for _, last := range current {
		if last.to = r.now; len(last.spans) > 0 {
			all = append(all, last)
		}
	}
	slices.SortFunc(all, func(a, b segment) int { return int(a.from - b.from) })
	return all
}

// spansOf returns the content of a row, with the cursor. A span has either letters of ASCII or
// others, which may come from a font with another width.
func spansOf(terminal *vt.Emulator, row int) []span {
	var spans []span
	cursor := terminal.CursorPosition()
	for column := range columns {
		content, class := " ", ""
		if cell := terminal.CellAt(column, row); cell != nil && cell.Content != "" {
			content, class = cell.Content, classOf(cell.Style)
		}
		if cursor.X == column && cursor.Y == row && content == " " {
			content, class = "█", "cursor"
		}
		if last := len(spans) - 1; last >= 0 && spans[last].class == class && isASCII(spans[last].text) == isASCII(content) {
			spans[last].text += content
			continue
		}
		spans = append(spans, span{column: column, text: content, class: class})
	}
	for i := range spans {
		trimmed := strings.TrimLeft(spans[i].text, " ")
		spans[i].column += len(spans[i].text) - len(trimmed)
		spans[i].text = strings.TrimRight(trimmed, " ")
	}
	return slices.DeleteFunc(spans, func(s span) bool { return s.text == "" })
}

func isASCII(text string) bool { return text[0] < 0x80 }

var colors = []string{"black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"}

// classOf returns the CSS classes of a style. Other colors than the sixteen of a terminal become the
// nearest of them.
func classOf(style uv.Style) string {
	var classes []string
	if style.Fg != nil {
		classes = append(classes, colors[basic(style.Fg)%8])
	}
	if style.Attrs&uv.AttrBold != 0 {
		classes = append(classes, "bold")
	}
	if style.Attrs&uv.AttrFaint != 0 {
		classes = append(classes, "faint")
	}
	return strings.Join(classes, " ")
}

func basic(c color.Color) ansi.BasicColor {
	if basic, ok := c.(ansi.BasicColor); ok {
		return basic
	}
	return ansi.Convert16(c)
}
