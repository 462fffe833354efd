package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// readOwn returns this repository.
func readOwn(t *testing.T) *repository {
	t.Helper()
	own, err := readRepository("../..")
	if err != nil {
		t.Fatal(err)
	}
	return own
}

func TestLinksOfTheRepository(t *testing.T) {
	own := readOwn(t)
	links := 0
	for _, d := range own.documents {
		links += len(linksOf(d.body))
	}
	if len(own.documents) < 50 || links < 500 {
		t.Errorf("%d links of %d documents: some were not found", links, len(own.documents))
	}
	for _, err := range append(own.checkLinks(), own.checkCitations()...) {
		t.Error(err)
	}
}

func TestSite(t *testing.T) {
	out, own := t.TempDir(), readOwn(t)
	built := newSite(own, "v1.2.3")
	if _, err := built.build(out); err != nil {
		t.Fatal(err)
	}
	for _, err := range checkSite(out) {
		t.Error(err)
	}
	front, err := os.ReadFile(filepath.Join(out, "index.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"v1.2.3", `<a href="install.html"`, `href="https://github.com/fleetwright/fleetwright/blob/main/`} {
		if !strings.Contains(string(front), want) {
			t.Errorf("index.html lacks %s", want)
		}
	}
	for name := range own.documents {
		if address := built.addressOf(name); address != "" {
			if _, err := os.Stat(filepath.Join(out, address)); err != nil {
				t.Errorf("%s has no page: %v", name, err)
			}
			isRecord := strings.HasPrefix(name, "docs/decisions/") && !strings.HasSuffix(name, "README.md")
			if !isRecord && !strings.Contains(string(front), `<a href="`+address+`"`) {
				t.Errorf("the navigation lacks %s", name)
			}
		}
	}
}

// writeFiles writes files and returns their directory.
func writeFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range files {
		file := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o750), os.WriteFile(file, []byte(content), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestCheckLinks(t *testing.T) {
	const other = "# One `two`\n\n## The_end, really!\n\n## Twice\n\n## Twice\n\n<a id=\"own\"></a>\n"
	for content, want := range map[string]string{
		"[a](other.md) [b](sub/) [c](code.go#L3-L5) [d](https://example.com/x#y) [e](mailto:a@example.com)": "",
		"[a](other.md#one-two) [b](other.md#the_end-really) [c](other.md#twice-1) [d](other.md#own)":        "",
		"# Here\n\n[a](#here) [b][r]\n\n[r]: other.md":                                                      "",
		"[a](https://github.com/fleetwright/fleetwright/blob/main/docs/other.md#twice)":                     "",
		"```\n[a](missing.md)\n```\n\n`[b](missing.md)`":                                                    "",
		"[a](missing.md)":                     "docs/missing.md does not exist",
		"[a](Other.md)":                       "docs/Other.md does not exist",
		"![a](missing.svg)":                   "docs/missing.svg does not exist",
		"<img alt=\"a\" src=\"missing.svg\">": "docs/missing.svg does not exist",
		"<picture><source media=\"(prefers-color-scheme: dark)\" srcset=\"dark.svg\"></picture>": "docs/dark.svg does not exist",
		"[a][r]\n\n[r]: missing.md": "docs/missing.md does not exist",
		"[a](other.md#twice-2)":     "docs/other.md has no heading #twice-2",
		"[a](#nowhere)":             "docs/page.md has no heading #nowhere",
		"[a](code.go#main)":         "docs/code.go has no anchors",
		"[a](sub/#x)":               "docs/sub has no anchors",
		"[a](/docs/other.md)":       "is an absolute path",
		"[a](../../elsewhere.md)":   "is outside of the repository",
		"[a](https://github.com/fleetwright/fleetwright/blob/main/docs/missing.md)": "docs/missing.md does not exist",
		"| a |\n|---|\n| [a](missing.md) |":                                         "docs/missing.md does not exist",
		"> - [a](missing.md)":                                                       "docs/missing.md does not exist",
	} {
		t.Run(content, func(t *testing.T) {
			r, err := readRepository(writeFiles(t, map[string]string{"docs/page.md": content, "docs/other.md": other, "docs/code.go": "", "docs/sub/x": ""}))
			if err != nil {
				t.Fatal(err)
			}
			err = errors.Join(r.checkLinks()...)
			if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), "docs/page.md: broken link ") || !strings.Contains(err.Error(), want)) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}

func TestLinksOfTheSite(t *testing.T) {
	out := t.TempDir()
	r, err := readRepository(writeFiles(t, map[string]string{
		"README.md":                "# A\n\n[a](docs/use.md#x) ![b](docs/images/b.svg) [c](tools/) [d](LICENSE) [e](docs/decisions/) [f](docs/decisions/README.md)",
		"LICENSE":                  "",
		"tools/x":                  "",
		"docs/use.md":              "# Use\n\n## X\n\n[a](../README.md) [b](decisions/r.md) [c](images/b.svg) <a href=\"https://example.com\">d</a>",
		"docs/images/b.svg":        "<svg/>",
		"docs/decisions/README.md": "# Decisions",
		"docs/decisions/r.md":      "# R\n\n[a](../use.md#x) [b](../../LICENSE) [c](README.md) [d](#r)",
	}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := newSite(r, "").build(out); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string][]string{
		"index.html":       {"use.html#x", "images/b.svg", github + "tree/main/tools", github + "blob/main/LICENSE", "decisions/index.html"},
		"use.html":         {"index.html", "decisions/r.html", "images/b.svg", "https://example.com"},
		"decisions/r.html": {"../use.html#x", github + "blob/main/LICENSE", "index.html", "#r", "../style.css"},
	} {
		content, err := os.ReadFile(filepath.Join(out, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range want {
			if !strings.Contains(string(content), `"`+link+`"`) {
				t.Errorf("%s lacks the link %s:\n%s", file, link, content)
			}
		}
	}
	if broken := checkSite(out); len(broken) > 0 {
		t.Error(broken)
	}
	if err := os.WriteFile(filepath.Join(out, "bad.html"), []byte(`<a href="gone.html">a</a> <a href="use.html#y">b</a> <a href="use.html#x">c</a>`), 0o600); err != nil {
		t.Fatal(err)
	}
	if broken := checkSite(out); len(broken) != 2 || !strings.Contains(broken[0].Error(), "gone.html does not exist") || !strings.Contains(broken[1].Error(), "no anchor #y") {
		t.Errorf("got %v", broken)
	}
}

func TestCheckCitations(t *testing.T) {
	r, err := readRepository(writeFiles(t, map[string]string{
		"a/code.go":                   "package a\n\n// f is a function. docs/decisions/cited.md says why, and docs/decisions/gone.md does not.\nfunc f() {}\n",
		"a/code_test.go":              "// docs/decisions/forgotten.md",
		"docs/decisions/README.md":    "[a](cited.md) [b](linked.md) [c](forgotten.md)",
		"docs/decisions/cited.md":     "# A",
		"docs/decisions/linked.md":    "# B",
		"docs/decisions/forgotten.md": "# C",
		"docs/use.md":                 "[b](decisions/linked.md)",
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := "a/code.go: docs/decisions/gone.md does not exist\ndocs/decisions/forgotten.md: cite it in a comment of the code that it explains"
	if got := errors.Join(r.checkCitations()...); got == nil || got.Error() != want {
		t.Errorf("got %v, want %s", got, want)
	}
}
