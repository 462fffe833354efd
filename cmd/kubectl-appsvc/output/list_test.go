package output

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// nodes returns a list of nodes with these names and numbers of CPUs.
func nodes(cpus ...string) *corev1.NodeList {
	list := &corev1.NodeList{}
	for _, item := range cpus {
		name, cpu, _ := strings.Cut(item, "=")
		node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if cpu != "" {
			node.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
		}
		list.Items = append(list.Items, node)
	}
	return list
}

// printAs returns what the flags print of a list in a format.
func printAs(format string, hasNoHeaders bool, list *corev1.NodeList) (string, error) {
	flags := NewListFlags(clientgoscheme.Scheme)
	*flags.OutputFormat, *flags.hasNoHeaders = format, hasNoHeaders
	out := &bytes.Buffer{}
	err := flags.Print(list, out)
	return out.String(), err
}

func TestSortList(t *testing.T) {
	list := []string{"east-10=500m", "east-2=2", "east-1", "west=1"}
	for by, want := range map[string]string{
		"":                        "east-10 east-2 east-1 west",
		".metadata.name":          "east-1 east-2 east-10 west",
		"metadata.name":           "east-1 east-2 east-10 west",
		"{.metadata.name}":        "east-1 east-2 east-10 west",
		"{metadata.name}":         "east-1 east-2 east-10 west",
		".status.capacity.cpu":    "east-1 east-10 west east-2",
		`.status.capacity['cpu']`: "east-1 east-10 west east-2",
	} {
		sorted := nodes(list...)
		if err := SortList(sorted, by); err != nil {
			t.Errorf("%q: %v", by, err)
		}
		var names []string
		for i := range sorted.Items {
			names = append(names, sorted.Items[i].Name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("by %q: %s, want %s", by, got, want)
		}
	}
	for by, want := range map[string]string{
		".spec.none":  "no object of the list has the field .spec.none",
		"{.a}{.b}":    "is not a JSONPath of a field",
		".metadata[x": "is not a JSONPath of a field",
	} {
		if err := SortList(nodes(list...), by); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("by %q: the error is %v, want %q", by, err, want)
		}
	}
	if err := SortList(nodes(), ".spec.none"); err != nil {
		t.Errorf("an empty list: %v", err)
	}
}

func TestCustomColumns(t *testing.T) {
	list := nodes("east=2", "\x1b[2Jwest\u202e\u009b2J")
	file := filepath.Join(t.TempDir(), "columns")
	if err := os.WriteFile(file, []byte("NAME  CPU\nmetadata.name  .status.capacity.cpu\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const header, rows = "NAME        CPU\n", "east        2\n[2Jwest2J   <none>\n"
	for _, format := range []string{"custom-columns=NAME:.metadata.name,CPU:{.status.capacity.cpu}", "custom-columns-file=" + file} {
		if got, err := printAs(format, false, list); err != nil || got != header+rows {
			t.Errorf("%s: %v\n%s", format, err, cmp.Diff(header+rows, got))
		}
		if got, err := printAs(format, true, list); err != nil || strings.Contains(got, "NAME") || !strings.Contains(got, "<none>") {
			t.Errorf("%s without headers: %v\n%s", format, err, got)
		}
	}
	for format, want := range map[string]string{
		"custom-columns":             "has no columns",
		"custom-columns=NAME":        `has the column "NAME": it must be HEADER:JSONPATH`,
		"custom-columns=NAME:{.a":    `column "NAME": "{.a" is not a JSONPath`,
		"custom-columns-file":        "has no file",
		"custom-columns-file=/none/": "/none/",
		"xml":                        "allowed formats are: custom-columns,custom-columns-file,",
	} {
		if _, err := printAs(format, false, list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want %q", format, err, want)
		}
	}
}

// Without a terminal, a table that is shown again prints only what has changed.
func TestTable_shows_changes(t *testing.T) {
	out, errOut := &bytes.Buffer{}, &bytes.Buffer{}
	table := &Table{Streams: NewStreams(genericiooptions.IOStreams{Out: out, ErrOut: errOut}),
		Columns: []Column{{Name: "Name"}, {Name: "Ready"}, {Name: "Age", IsAge: true}, {Name: "Message", IsWide: true}}}
	row := func(name, ready, age, message string) Row { return Row{name, []string{name, ready, age, message}} }
	for _, step := range []struct {
		rows  []Row
		notes []string
		want  string
		note  string
	}{
		{rows: []Row{row("east", "True", "1s", ""), row("north", "True", "1s", "")}, want: "NAME    READY   AGE\neast    True    1s\nnorth   True    1s\n"},
		{rows: []Row{row("east", "True", "6s", "another"), row("north", "True", "6s", "")}},
		{rows: []Row{row("east", "False", "7s", ""), row("north", "True", "7s", "")}, notes: []string{"old since 1s"}, want: "east    False   7s\n", note: "! old since 1s\n"},
		{rows: []Row{row("east", "False", "9s", "")}, notes: []string{"old since 3s"}, want: "north   <deleted>   \n"},
		{rows: []Row{row("east", "False", "9s", ""), row("\x1b[2Jsouth", "True", "0s", "")}, want: "[2Jsouth   True        0s\n"},
	} {
		if err := table.Show(step.rows, step.notes...); err != nil {
			t.Fatal(err)
		}
		if out.String() != step.want || errOut.String() != step.note {
			t.Errorf("got %q and %q, want %q and %q", out, errOut, step.want, step.note)
		}
		out.Reset()
		errOut.Reset()
	}
}

func TestPrintableLines(t *testing.T) {
	for text, want := range map[string]string{
		"two\n  lines\twith a tab": "two\n  lines\twith a tab",
		"\x1b[2Jcleared\r":         "[2Jcleared",
		"no\u00a0break, \u009b2J":  "no break, 2J",
		"right\u202eto left":       "rightto left",
	} {
		if got := PrintableLines(text); got != want {
			t.Errorf("PrintableLines(%q) is %q, want %q", text, got, want)
		}
	}
}

// Streams print the colours of package view, and no other escape sequence.
func TestStreams_print_no_escape_sequence(t *testing.T) {
	out, errOut := &bytes.Buffer{}, &bytes.Buffer{}
	s := Streams{genericiooptions.IOStreams{Out: out, ErrOut: errOut}}
	if err := s.Write("\x1b[31mred\x1b[0m \x1b[8mhidden\x1b]0;title\x07\n"); err != nil {
		t.Fatal(err)
	}
	s.Say("%s", "said\u202e\x1b[2J")
	s.Note("%v", errors.New("noted\u009b\x1b[2J"))
	if got, want := out.String(), "\x1b[31mred\x1b[0m [8mhidden]0;title\nsaid[2J\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := errOut.String(), "noted[2J\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// failing is an output that fails from the second write on.
type failing struct{ writes int }

func (f *failing) Write(content []byte) (int, error) {
	if f.writes++; f.writes > 1 {
		return 0, errors.New("write " + string(content))
	}
	return len(content), nil
}

func TestStreams_remember_the_first_error_of_a_write(t *testing.T) {
	s := NewStreams(genericiooptions.IOStreams{Out: &failing{}})
	for _, text := range []string{"a", "b", "c"} {
		s.Say("%s", text)
	}
	if err := s.WriteError(); err == nil || err.Error() != "write b\n" {
		t.Errorf("the error is %v", err)
	}
}

func TestMarshalYAML_says_the_same(t *testing.T) {
	for _, text := range []string{"two\nlines ä", "a\x1b[2J", "a\x1b[2J\u009b\u202eb\U000e0001 ä <&>\n"} {
		value := map[string]string{"text": text}
		for name, marshal := range map[string]func(any) (string, error){"MarshalYAML": MarshalYAML, "MarshalPrintableYAML": MarshalPrintableYAML} {
			content, err := marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			if name == "MarshalPrintableYAML" && PrintableLines(content) != content {
				t.Errorf("not printable: %q", content)
			}
			got := map[string]string{}
			if err := yaml.Unmarshal([]byte(content), &got); err != nil || got["text"] != text {
				t.Errorf("%s: got %q of %q, %v", name, got["text"], text, err)
			}
		}
	}
}
