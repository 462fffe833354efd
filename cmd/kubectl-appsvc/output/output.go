package output

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
)

// ListShort joins texts. It counts the ones beyond the third.
func ListShort(texts []string) string {
	const listed = 3
	if len(texts) <= listed {
		return strings.Join(texts, ",")
	}
	return fmt.Sprintf("%s,… %d more", strings.Join(texts[:listed], ","), len(texts)-listed)
}

// FormatTime returns a time in UTC, to the minute.
func FormatTime(at time.Time) string { return at.UTC().Format("2006-01-02 15:04 UTC") }

// Flags is the flag --output of a command that prints objects.
type Flags struct {
	*genericclioptions.PrintFlags
}

// NewFlags returns the flag of a command that prints objects of these kinds.
func NewFlags(kinds *runtime.Scheme) Flags {
	return Flags{genericclioptions.NewPrintFlags("").WithTypeSetter(kinds)}
}

// AddFlags adds the flag --output.
func (f Flags) AddFlags(command *cobra.Command) {
	f.PrintFlags.AddFlags(command)
	flag := command.Flags().Lookup("output")
	flag.Usage = fmt.Sprintf("Output format. One of: (wide, %s).", strings.Join(f.AllowedFormats(), ", "))
}

// IsTable reports whether the output is text for people, and not an object.
func (f Flags) IsTable() bool { return *f.OutputFormat == "" || f.IsWide() }

// IsWide reports whether the output has all columns.
func (f Flags) IsWide() bool { return *f.OutputFormat == "wide" }

// Print prints an object, or a list, in the format of the flag, which is not a table.
func (f Flags) Print(object runtime.Object, out io.Writer) error {
	printer, err := f.ToPrinter()
	if err != nil {
		return err
	}
	if *f.OutputFormat != "name" || !meta.IsListType(object) {
		return printer.PrintObj(object, out)
	}
	return meta.EachListItem(object, func(item runtime.Object) error { return printer.PrintObj(item, out) })
}

// Column is a column of a table. It is printed only with -o wide if isWide is set.
type Column struct {
	Name   string
	IsWide bool
}

// PrintTable prints rows of texts as kubectl does. A row has as many texts as there are columns.
func PrintTable(out io.Writer, isWide bool, columns []Column, rows [][]string) error {
	table := &metav1.Table{}
	for _, c := range columns {
		priority := int32(0)
		if c.IsWide {
			priority = 1
		}
		table.ColumnDefinitions = append(table.ColumnDefinitions, metav1.TableColumnDefinition{Name: c.Name, Type: "string", Priority: priority})
	}
	for _, row := range rows {
		var cells []any
		for _, text := range row {
			cells = append(cells, text)
		}
		table.Rows = append(table.Rows, metav1.TableRow{Cells: cells})
	}
	return printers.NewTablePrinter(printers.PrintOptions{Wide: isWide}).PrintObj(table, out)
}

// Age returns how long ago a time was, as kubectl prints it.
func Age(since time.Time) string {
	if since.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(time.Since(since))
}

// OrNone returns the text, or <none> if it is empty.
func OrNone(text string) string {
	if text == "" {
		return "<none>"
	}
	return text
}
