package output

import (
	"bytes"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"
)

// Column is a column of a table.
type Column struct {
	Name string
	// IsWide is set if the column is printed only with -o wide.
	IsWide bool
	// IsAge is set if the column changes with the time alone. Such a change is not printed.
	IsAge bool
}

// Row is a row of a table. It has as many cells as there are columns.
type Row struct {
	// Key identifies the row when the table is shown again.
	Key   string
	Cells []string
}

// Table prints rows of texts as kubectl does: once with [Table.Print], or again and again with
// [Table.Show].
type Table struct {
	Streams
	Columns             []Column
	IsWide, HasNoHeader bool

	screen  *Screen
	printer printers.ResourcePrinter
	aligned flusher
	// shown are the rows that Show has printed, by their keys, and notes are the last ones.
	shown map[string]Row
	notes []string
}

// flusher is a writer that aligns columns.
type flusher interface {
	io.Writer
	Flush() error
}

// Print prints the table once.
func (t *Table) Print(rows []Row) error { return t.printTo(t.Out, rows) }

func (t *Table) printTo(out io.Writer, rows []Row) error {
	return t.newPrinter().PrintObj(t.tableOf(rows), out)
}

func (t *Table) newPrinter() printers.ResourcePrinter {
	return printers.NewTablePrinter(printers.PrintOptions{Wide: t.IsWide, NoHeaders: t.HasNoHeader})
}

// tableOf returns the rows as kubectl prints them. Each cell is a text of an object, so it goes through
// Printable.
func (t *Table) tableOf(rows []Row) *metav1.Table {
	table := &metav1.Table{}
	for _, c := range t.Columns {
		priority := int32(0)
		if c.IsWide {
			priority = 1
		}
		table.ColumnDefinitions = append(table.ColumnDefinitions, metav1.TableColumnDefinition{Name: c.Name, Type: "string", Priority: priority})
	}
	for _, row := range rows {
		var cells []any
		for _, text := range row.Cells {
			cells = append(cells, Printable(text))
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: cells})
	}
	return table
}

// Show shows the table. On a terminal, it replaces the one before, with the notes below it. Otherwise,
// only rows that are new or that have changed are printed; of a row that is gone, the first cell with
// <deleted>. The notes are on the error stream then, when there were less of them before.
func (t *Table) Show(rows []Row, notes ...string) error {
	if t.terminal() != nil {
		return t.replace(rows, notes)
	}
	if len(notes) > len(t.notes) {
		t.NoteAll(notes)
	}
	t.notes = notes
	changed := t.changesTo(rows)
	if len(changed) == 0 {
		return nil
	}
	if t.printer == nil {
		t.printer, t.aligned = t.newPrinter(), printers.GetNewTabWriter(t.Out)
	}
	if err := t.printer.PrintObj(t.tableOf(changed), t.aligned); err != nil {
		return err
	}
	return t.aligned.Flush()
}

// replace shows the table and notes in place of the ones before.
func (t *Table) replace(rows []Row, notes []string) error {
	if t.screen == nil {
		t.screen = &Screen{Streams: t.Streams}
	}
	text := &bytes.Buffer{}
	if err := t.printTo(text, rows); err != nil {
		return err
	}
	for _, note := range notes {
		text.WriteString("! " + Printable(note) + "\n")
	}
	return t.screen.Show(text.String(), text.String())
}

// changesTo returns the rows that differ from those that were shown, and remembers all.
func (t *Table) changesTo(rows []Row) []Row {
	var changed []Row
	shown := map[string]Row{}
	for _, row := range rows {
		shown[row.Key] = row
		if before, isKnown := t.shown[row.Key]; !isKnown || !slices.Equal(t.comparable(before), t.comparable(row)) {
			changed = append(changed, row)
		}
	}
	var gone []Row
	for key, row := range t.shown {
		if _, stays := shown[key]; stays {
			continue
		}
		cells := make([]string, len(row.Cells))
		cells[0], cells[min(1, len(cells)-1)] = row.Cells[0], "<deleted>"
		gone = append(gone, Row{Key: key, Cells: cells})
	}
	slices.SortFunc(gone, func(a, b Row) int { return strings.Compare(a.Key, b.Key) })
	t.shown = shown
	return append(changed, gone...)
}

// comparable returns the cells of a row that are printed and that do not change with the time alone.
func (t *Table) comparable(row Row) []string {
	var cells []string
	for i, column := range t.Columns {
		if !column.IsAge && (t.IsWide || !column.IsWide) {
			cells = append(cells, row.Cells[i])
		}
	}
	return cells
}

// PrintTable prints rows of texts as kubectl does. A row has as many texts as there are columns.
func PrintTable(out io.Writer, isWide bool, columns []Column, rows [][]string) error {
	t := &Table{Columns: columns, IsWide: isWide}
	var all []Row
	for _, cells := range rows {
		all = append(all, Row{Cells: cells})
	}
	return t.printTo(out, all)
}
