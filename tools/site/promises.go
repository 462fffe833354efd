package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/yuin/goldmark/ast"
	tables "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
)

const (
	// promises is the document that has a proof for each promise, in the tables of a section.
	promises        = "docs/correctness.md"
	promisesSection = "promises-and-their-proofs"
)

// promised is a section whose promises need proofs.
type promised struct {
	document, section string
	// wantsAll is set if each sentence needs a row. Otherwise only the bold titles of its items do.
	wantsAll bool
}

var allPromised = []promised{
	{"README.md", "why-fleetwright", true},
	{"docs/architecture.md", "invariants", false},
	{"docs/library.md", "what-the-provider-promises", false},
}

// row is a row of a table of promises.
type row struct {
	quote  string // of its first cell, or of the row above if that is empty
	proofs []string
	others string // what its last cell has beside the proofs
}

// checkPromises returns an error for each promise without a row, for each row that quotes what is
// not promised, and for each proof that does not exist.
func (r *repository) checkPromises() (errs []error) {
	rows, err := r.readPromises()
	if err != nil {
		return []error{fmt.Errorf("%s: %w", promises, err)}
	}
	known := &proofs{root: r.root, packages: map[string]goPackage{}}
	for _, p := range allPromised {
		all, needed, err := r.statements(p)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		var quotes []string
		for _, row := range rows[p.document+"#"+p.section] {
			if isNew := !slices.Contains(quotes, row.quote); isNew && (row.quote == "" || !strings.Contains(all, row.quote)) {
				errs = append(errs, fmt.Errorf("%s: %s#%s does not say %q", promises, p.document, p.section, row.quote))
			}
			quotes = append(quotes, row.quote)
			for _, err := range known.check(row) {
				errs = append(errs, fmt.Errorf("%s: %s: %w", promises, row.quote, err))
			}
		}
		for _, s := range needed {
			if left := withoutQuotes(s, quotes); left != "" {
				errs = append(errs, fmt.Errorf("%s has no row for %s#%s: %s", promises, p.document, p.section, left))
			}
		}
	}
	return errs
}

// withoutQuotes returns what no quote has of a text, or "" if that has no letter.
func withoutQuotes(words string, quotes []string) string {
	if slices.ContainsFunc(quotes, func(quote string) bool { return strings.Contains(quote, words) }) {
		return ""
	}
	for _, quote := range quotes {
		if quote != "" {
			words = strings.ReplaceAll(words, quote, "")
		}
	}
	if !strings.ContainsFunc(words, unicode.IsLetter) {
		return ""
	}
	return strings.TrimSpace(words)
}

// parseMarkdown returns the tree of a document.
func (r *repository) parseMarkdown(name string) (ast.Node, []byte, error) {
	source, err := os.ReadFile(filepath.Join(r.root, filepath.FromSlash(name)))
	if err != nil {
		return nil, nil, err
	}
	return markdown.Parser().Parse(text.NewReader(source)), source, nil
}

// blocksOf returns the blocks of a section of the second level, with those of its subsections.
func blocksOf(root ast.Node, source []byte, section string) (blocks []ast.Node) {
	used, isInside := map[string]int{}, false
	for block := root.FirstChild(); block != nil; block = block.NextSibling() {
		if heading, is := block.(*ast.Heading); is {
			slug := uniqueSlug(textOf(heading, source), used)
			isInside = slug == section || isInside && heading.Level > 2
			continue
		}
		if isInside {
			blocks = append(blocks, block)
		}
	}
	return blocks
}

// statements returns the text of a section, and the parts of it that need a row.
func (r *repository) statements(p promised) (all string, needed []string, err error) {
	root, source, err := r.parseMarkdown(p.document)
	if err != nil {
		return "", nil, err
	}
	var texts []string
	for _, block := range blocksOf(root, source, p.section) {
		if _, is := block.(*ast.List); !is {
			texts = append(texts, textOf(block, source))
			continue
		}
		for item := block.FirstChild(); item != nil; item = item.NextSibling() {
			words, title := textOf(item, source), titleOf(item, source)
			if title == "" {
				return "", nil, fmt.Errorf("%s#%s: an item has no bold title: %s", p.document, p.section, words)
			}
			texts, needed = append(texts, words), append(needed, title)
		}
	}
	if len(needed) == 0 {
		return "", nil, fmt.Errorf("%s#%s has no items", p.document, p.section)
	}
	if p.wantsAll {
		needed = texts
	}
	return strings.Join(texts, "\n"), needed, nil
}

// titleOf returns the bold text at the beginning of an item, or "".
func titleOf(item ast.Node, source []byte) string {
	if item.FirstChild() == nil {
		return ""
	}
	title, is := item.FirstChild().FirstChild().(*ast.Emphasis)
	if !is || title.Level != 2 {
		return ""
	}
	return textOf(title, source)
}

// readPromises returns the rows of the tables, by the section that a table links to.
func (r *repository) readPromises() (map[string][]row, error) {
	root, source, err := r.parseMarkdown(promises)
	if err != nil {
		return nil, err
	}
	rows := map[string][]row{}
	for _, block := range blocksOf(root, source, promisesSection) {
		table, is := block.(*tables.Table)
		if !is {
			continue
		}
		section, err := sectionOf(table)
		if err != nil {
			return nil, err
		}
		for line := table.FirstChild().NextSibling(); line != nil; line = line.NextSibling() {
			next := rowOf(line, source)
			if before := rows[section]; next.quote == "" && len(before) > 0 {
				next.quote = before[len(before)-1].quote
			}
			rows[section] = append(rows[section], next)
		}
	}
	return rows, nil
}

// sectionOf returns the document and the anchor that the header of a table links to.
func sectionOf(table *tables.Table) (string, error) {
	link, is := table.FirstChild().FirstChild().FirstChild().(*ast.Link)
	if !is {
		return "", errors.New("the first cell of a table must link to the section that it quotes")
	}
	found, err := resolve(promises, string(link.Destination))
	if err != nil {
		return "", err
	}
	section := found.path + "#" + found.fragment
	if !slices.ContainsFunc(allPromised, func(p promised) bool { return p.document+"#"+p.section == section }) {
		return "", fmt.Errorf("a table quotes %s, which is not in allPromised of tools/site/promises.go", section)
	}
	return section, nil
}

// rowOf returns a row of a table. Its proofs are the code in its last cell.
func rowOf(line ast.Node, source []byte) row {
	parsed := row{quote: strings.TrimSpace(textOf(line.FirstChild(), source))}
	for part := line.LastChild().FirstChild(); part != nil; part = part.NextSibling() {
		switch found := part.(type) {
		case *ast.CodeSpan:
			parsed.proofs = append(parsed.proofs, textOf(found, source))
		case *ast.Text:
			parsed.others += string(found.Segment.Value(source))
		default:
			parsed.others += textOf(found, source)
		}
	}
	return parsed
}
