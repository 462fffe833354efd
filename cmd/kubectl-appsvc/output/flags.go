package output

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
)

// Flags is the flag --output of a command that prints objects.
type Flags struct {
	*genericclioptions.PrintFlags
	// hasNoHeaders is set by --no-headers, which only lists have.
	hasNoHeaders *bool
}

// NewFlags returns the flag of a command that prints objects of these kinds.
func NewFlags(kinds *runtime.Scheme) Flags {
	return Flags{genericclioptions.NewPrintFlags("").WithTypeSetter(kinds), new(bool)}
}

// AddFlags adds the flag --output.
func (f Flags) AddFlags(command *cobra.Command) {
	f.PrintFlags.AddFlags(command)
	flag := command.Flags().Lookup("output")
	flag.Usage = fmt.Sprintf("Output format. One of: (wide, %s).", strings.Join(f.AllowedFormats(), ", "))
}

// AllowedFormats returns the formats of the flag, except wide.
func (f Flags) AllowedFormats() []string {
	return append(f.PrintFlags.AllowedFormats(), customColumns, customColumnsFile)
}

// IsTable reports whether the output is text for people, and not an object.
func (f Flags) IsTable() bool { return *f.OutputFormat == "" || f.IsWide() }

// IsWide reports whether the output has all columns.
func (f Flags) IsWide() bool { return *f.OutputFormat == "wide" }

// ToPrinter returns the printer for the format of the flag, which is not a table.
func (f Flags) ToPrinter() (printers.ResourcePrinter, error) {
	format, argument, _ := strings.Cut(*f.OutputFormat, "=")
	switch {
	case format == customColumns || format == customColumnsFile:
		return newCustomColumns(format, argument, *f.hasNoHeaders)
	case slices.Contains(f.AllowedFormats(), format):
		return f.PrintFlags.ToPrinter()
	}
	return nil, genericclioptions.NoCompatiblePrinterError{OutputFormat: f.OutputFormat, AllowedFormats: f.AllowedFormats()}
}

// Print prints an object, or a list, in the format of the flag, which is not a table.
func (f Flags) Print(object runtime.Object, out io.Writer) error {
	printer, err := f.ToPrinter()
	if err != nil {
		return err
	}
	return f.PrintList(printer, object, out)
}

// PrintList prints an object, or a list, with the printer of the flag.
func (f Flags) PrintList(printer printers.ResourcePrinter, object runtime.Object, out io.Writer) error {
	if *f.OutputFormat != "name" || !meta.IsListType(object) {
		return printer.PrintObj(object, out)
	}
	return meta.EachListItem(object, func(item runtime.Object) error { return printer.PrintObj(item, out) })
}

// ListFlags are the flags of a command that lists objects: --output, --sort-by and --no-headers.
type ListFlags struct {
	Flags
	// SortBy is the JSONPath of the field by which the list is sorted, or "": see [SortList].
	SortBy string
}

// NewListFlags returns the flags of a command that lists objects of these kinds.
func NewListFlags(kinds *runtime.Scheme) ListFlags { return ListFlags{Flags: NewFlags(kinds)} }

// AddFlags adds the flags.
func (f *ListFlags) AddFlags(command *cobra.Command) {
	f.Flags.AddFlags(command)
	f.AddListFlags(command)
}

// AddListFlags adds the flags that only lists have.
func (f *ListFlags) AddListFlags(command *cobra.Command) {
	command.Flags().StringVar(&f.SortBy, "sort-by", "", "sort the list by the field at this JSONPath `expression`, such as .metadata.creationTimestamp")
	command.Flags().BoolVar(f.hasNoHeaders, "no-headers", false, "print a table without its header")
}

// NewTable returns a table that is printed as the flags say.
func (f *ListFlags) NewTable(streams Streams, columns []Column) *Table {
	return &Table{Streams: streams, Columns: columns, IsWide: f.IsWide(), HasNoHeader: *f.hasNoHeaders}
}
