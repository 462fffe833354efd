package output

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/printers"
	"k8s.io/client-go/util/jsonpath"
)

// The formats for columns that the user chooses, as kubectl has them. The package of kubectl that
// prints them is not used, because it depends on all of kubectl.
const (
	customColumns     = "custom-columns"
	customColumnsFile = "custom-columns-file"
)

// customPrinter prints objects as a table whose columns are fields.
type customPrinter struct {
	columns []customColumn
	// hasHeader is false until the header is printed, so that a watch prints it once.
	hasHeader bool
}

// customColumn is a column with the values of a field.
type customColumn struct {
	header string
	field  *jsonpath.JSONPath
}

// newCustomColumns returns the printer for custom-columns=HEADER:JSONPATH,… or for
// custom-columns-file=FILE, which has the headers in its first line and the paths in its second.
func newCustomColumns(format, argument string, hasNoHeaders bool) (printers.ResourcePrinter, error) {
	var headers, paths []string
	switch {
	case argument == "" && format == customColumns:
		return nil, errors.New("--output custom-columns has no columns: name them as in custom-columns=NAME:.metadata.name,AGE:.metadata.creationTimestamp")
	case argument == "":
		return nil, errors.New("--output custom-columns-file has no file: name it as in custom-columns-file=FILE")
	case format == customColumnsFile:
		content, err := os.ReadFile(argument)
		if err != nil {
			return nil, err
		}
		first, second, _ := strings.Cut(strings.TrimSpace(string(content)), "\n")
		headers, paths = strings.Fields(first), strings.Fields(second)
		if len(headers) != len(paths) {
			return nil, fmt.Errorf("%s has %d headers in its first line, and %d paths in its second", argument, len(headers), len(paths))
		}
	default:
		for column := range strings.SplitSeq(argument, ",") {
			header, path, hasPath := strings.Cut(column, ":")
			if !hasPath {
				return nil, fmt.Errorf("--output custom-columns has the column %q: it must be HEADER:JSONPATH, such as NAME:.metadata.name", column)
			}
			headers, paths = append(headers, header), append(paths, path)
		}
	}
	p := &customPrinter{hasHeader: hasNoHeaders}
	for i, path := range paths {
		field, err := parseField(path)
		if err != nil {
			return nil, fmt.Errorf("--output %s, column %q: %w", format, headers[i], err)
		}
		p.columns = append(p.columns, customColumn{headers[i], field})
	}
	return p, nil
}

// PrintObj prints an object, or the objects of a list.
func (p *customPrinter) PrintObj(object runtime.Object, out io.Writer) error {
	w := printers.GetNewTabWriter(out)
	var headers []string
	for _, column := range p.columns {
		headers = append(headers, column.header)
	}
	if !p.hasHeader {
		p.hasHeader = true
		if _, err := fmt.Fprintln(w, strings.Join(headers, "\t")); err != nil {
			return err
		}
	}
	printItem := func(item runtime.Object) error {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(item)
		if err != nil {
			return err
		}
		var cells []string
		for _, column := range p.columns {
			cells = append(cells, column.text(content))
		}
		_, err = fmt.Fprintln(w, strings.Join(cells, "\t"))
		return err
	}
	var err error
	if meta.IsListType(object) {
		err = meta.EachListItem(object, printItem)
	} else {
		err = printItem(object)
	}
	return errors.Join(err, w.Flush())
}

// text returns the values of the column in an object. A field that the object does not have is <none>.
func (c customColumn) text(content map[string]any) string {
	var values []string
	for _, value := range valuesOf(c.field, content) {
		values = append(values, Printable(fmt.Sprint(value)))
	}
	if len(values) == 0 {
		return OrNone("")
	}
	return strings.Join(values, ",")
}
