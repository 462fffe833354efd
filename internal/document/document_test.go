package document

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const example = "# Guide\n" +
	"```\nfirst\n```\n" +
	"## Install\n" +
	"```yaml\n# no heading\nkind: A\n```\n" +
	"### With Helm\n" +
	"- in a list:\n\n  ```\n  helm install\n  ```\n" +
	"#no-heading\n" +
	"```\nsecond\n```\n" +
	"## Installed\n" +
	"```\nthird\n```\n"

func write(t *testing.T) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "guide.md")
	if err := os.WriteFile(file, []byte(example), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestSection(t *testing.T) {
	file := write(t)
	for heading, want := range map[string][]Block{
		"## Install":    {{Language: "yaml", Text: "# no heading\nkind: A\n"}, {Text: "  helm install\n"}, {Text: "second\n"}},
		"### With Helm": {{Text: "  helm install\n"}, {Text: "second\n"}},
		"## Installed":  {{Text: "third\n"}},
	} {
		got, err := Section(file, heading)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", heading, err, diff)
		}
	}
	if _, err := Section(file, "## Upgrade"); err == nil || !strings.Contains(err.Error(), `no section "## Upgrade"`) {
		t.Errorf("a section that does not exist: %v", err)
	}
}

func TestFind(t *testing.T) {
	file := write(t)
	for start, want := range map[string]Block{
		"fir":     {Text: "first\n"},
		"third\n": {Text: "third\n"},
		"# no":    {Language: "yaml", Text: "# no heading\nkind: A\n"},
	} {
		if got, err := Find(file, start); got != want || err != nil {
			t.Errorf("%q: got %+v, %v", start, got, err)
		}
	}
	if _, err := Find(file, "kind: A"); err == nil || !strings.Contains(err.Error(), `no code block that starts with "kind: A"`) {
		t.Errorf("a block that does not exist: %v", err)
	}
}

func TestCommands(t *testing.T) {
	script := "# a comment\n\none --flag  # why\ntwo \\\n  --flag\nthree -f - <<'END'\n# text\nfour\nEND\nfive\n"
	want := []string{"one --flag  # why", "two \\\n  --flag", "three -f - <<'END'\n# text\nfour\nEND", "five"}
	if diff := cmp.Diff(want, Commands(script)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
