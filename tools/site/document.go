package main

import (
	"bytes"
	"fmt"
	"html"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	renderer "github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"
)

// document is a Markdown file.
type document struct {
	path     string // in the repository, with slashes
	title    string // its first heading
	sections []heading
	body     string // as HTML
	anchors  map[string]bool
}

// heading is a heading of the second level.
type heading struct{ Text, ID string }

// markdown converts Markdown as GitHub does. Raw HTML stays, because all files are our own.
var markdown = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithRendererOptions(renderer.WithUnsafe()))

// parseDocument returns the document of a file.
func parseDocument(path string, source []byte) (*document, error) {
	d := &document{path: path}
	root := markdown.Parser().Parse(text.NewReader(source))
	used := map[string]int{}
	err := ast.Walk(root, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		found, is := node.(*ast.Heading)
		if !is || !entering {
			return ast.WalkContinue, nil
		}
		words := textOf(found, source)
		id := uniqueSlug(words, used)
		found.SetAttributeString("id", []byte(id))
		if d.title == "" {
			d.title = words
		}
		if found.Level == 2 {
			d.sections = append(d.sections, heading{Text: words, ID: id})
		}
		return ast.WalkSkipChildren, nil
	})
	if err != nil {
		return nil, err
	}
	var body bytes.Buffer
	if err := markdown.Renderer().Render(&body, source, root); err != nil {
		return nil, fmt.Errorf("render %s: %w", path, err)
	}
	d.body = body.String()
	d.anchors = anchorsOf(d.body)
	return d, nil
}

// textOf returns the text of a node without its markup.
func textOf(node ast.Node, source []byte) string {
	var words strings.Builder
	for child := node.FirstChild(); child != nil; child = child.NextSibling() {
		switch found := child.(type) {
		case *ast.Text:
			words.Write(found.Segment.Value(source))
			if found.SoftLineBreak() {
				words.WriteByte(' ')
			}
		case *ast.String:
			words.Write(found.Value)
		default:
			words.WriteString(textOf(child, source))
		}
	}
	return html.UnescapeString(words.String())
}

// uniqueSlug returns the anchor that GitHub gives to a heading: lower case, without punctuation, and
// with a number if an earlier heading has the same one.
func uniqueSlug(words string, used map[string]int) string {
	slug := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsMark(r), unicode.IsNumber(r):
			return unicode.ToLower(r)
		default:
			return -1
		}
	}, words)
	n := used[slug]
	used[slug]++
	if n > 0 {
		return slug + "-" + strconv.Itoa(n)
	}
	return slug
}

var (
	// reference matches an attribute with an address. Code contains no quote: it is escaped there.
	reference = regexp.MustCompile(`(<[a-z]+\s[^<>]*?\b(?:href|src|srcset)=")([^"]*)(")`)
	anchor    = regexp.MustCompile(`<[a-z0-9]+\s[^<>]*?\b(?:id|name)="([^"]*)"`)
)

// linksOf returns the addresses in HTML.
func linksOf(page string) (links []string) {
	for _, match := range reference.FindAllStringSubmatch(page, -1) {
		links = append(links, html.UnescapeString(match[2]))
	}
	return links
}

// replaceLinks replaces each address in HTML.
func replaceLinks(page string, replace func(link string) string) string {
	return reference.ReplaceAllStringFunc(page, func(found string) string {
		parts := reference.FindStringSubmatch(found)
		return parts[1] + html.EscapeString(replace(html.UnescapeString(parts[2]))) + parts[3]
	})
}

// anchorsOf returns the IDs of the elements in HTML.
func anchorsOf(page string) map[string]bool {
	anchors := map[string]bool{}
	for _, match := range anchor.FindAllStringSubmatch(page, -1) {
		anchors[html.UnescapeString(match[1])] = true
	}
	return anchors
}
