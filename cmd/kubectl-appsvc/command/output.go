package command

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

// outputFlags is the flag --output of a command that prints objects.
type outputFlags struct {
	*genericclioptions.PrintFlags
}

// newOutputFlags returns the flag of a command. operation is for the format name, such as "cordoned".
func newOutputFlags(operation string) outputFlags {
	return outputFlags{genericclioptions.NewPrintFlags(operation).WithTypeSetter(newScheme())}
}

// AddFlags adds the flag --output.
func (f outputFlags) AddFlags(command *cobra.Command) {
	f.PrintFlags.AddFlags(command)
	flag := command.Flags().Lookup("output")
	flag.Usage = fmt.Sprintf("Output format. One of: (wide, %s).", strings.Join(f.AllowedFormats(), ", "))
}

// isTable reports whether the output is text for people, and not an object.
func (f outputFlags) isTable() bool { return *f.OutputFormat == "" || f.isWide() }

func (f outputFlags) isWide() bool { return *f.OutputFormat == "wide" }

// print prints an object, or a list, in the format of the flag, which is not a table.
func (f outputFlags) print(object runtime.Object, out io.Writer) error {
	printer, err := f.ToPrinter()
	if err != nil {
		return err
	}
	if *f.OutputFormat != "name" || !meta.IsListType(object) {
		return printer.PrintObj(object, out)
	}
	return meta.EachListItem(object, func(item runtime.Object) error { return printer.PrintObj(item, out) })
}

// column is a column of a table. It is printed only with -o wide if isWide is set.
type column struct {
	name   string
	isWide bool
}

// printTable prints rows of texts as kubectl does. A row has as many texts as there are columns.
func printTable(out io.Writer, isWide bool, columns []column, rows [][]string) error {
	table := &metav1.Table{}
	for _, c := range columns {
		priority := int32(0)
		if c.isWide {
			priority = 1
		}
		table.ColumnDefinitions = append(table.ColumnDefinitions, metav1.TableColumnDefinition{Name: c.name, Type: "string", Priority: priority})
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

// age returns how long ago a time was, as kubectl prints it.
func age(since time.Time) string {
	if since.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(time.Since(since))
}

// orNone returns the text, or <none> if it is empty.
func orNone(text string) string {
	if text == "" {
		return "<none>"
	}
	return text
}
