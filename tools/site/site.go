package main

import (
	_ "embed"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// group is a group of pages in the navigation.
type group struct {
	Title string
	paths []string
}

// groups are the navigation. Other files of docs/ follow in the group More, and the records in
// docs/decisions only in their README.
var groups = []group{
	{"Start", []string{"README.md", "docs/install.md", "docs/comparison.md"}},
	{"Use", []string{"docs/fields.md", "docs/rollouts.md", "docs/rollout-recipes.md", "docs/configuration.md", "docs/ui.md"}},
	{"Operate", []string{"docs/operations.md", "docs/maintenance.md", "docs/permissions.md", "docs/metrics.md", "docs/kubeconfig.md", "docs/releases.md", "docs/CHANGELOG.md"}},
	{"Build", []string{"docs/library.md"}},
	{"Reference", []string{"docs/api.md", "docs/cli.md"}},
	{"Background", []string{"docs/architecture.md", "docs/correctness.md", "docs/benchmarks.md", "docs/decisions/README.md"}},
	{"More", nil},
}

var (
	//go:embed page.html
	pageText string
	//go:embed style.css
	style []byte

	layout = template.Must(template.New("page").Parse(pageText))
)

// site is the documentation site: the README and all files of docs/.
type site struct {
	*repository
	version string
	groups  []group
}

func newSite(r *repository, version string) *site {
	s := &site{repository: r, version: version}
	listed := map[string]bool{}
	for _, g := range groups {
		g.paths = slices.DeleteFunc(slices.Clone(g.paths), func(name string) bool { return r.documents[name] == nil })
		for _, name := range g.paths {
			listed[name] = true
		}
		s.groups = append(s.groups, g)
	}
	more := &s.groups[len(s.groups)-1]
	for _, name := range sortedKeys(r.documents) {
		if path.Dir(name) == "docs" && !listed[name] {
			more.paths = append(more.paths, name)
		}
	}
	s.groups = slices.DeleteFunc(s.groups, func(g group) bool { return len(g.paths) == 0 })
	return s
}

// addressOf returns the path in the site of a file of the repository, or "" if the site does not have
// the file.
func (s *site) addressOf(name string) string {
	if name == "README.md" {
		return "index.html"
	}
	inDocs, is := strings.CutPrefix(name, "docs/")
	if !is {
		return ""
	}
	if readme := name + "/README.md"; s.documents[readme] != nil {
		return s.addressOf(readme)
	}
	if s.documents[name] == nil {
		if info, err := os.Stat(filepath.Join(s.root, filepath.FromSlash(name))); err != nil || info.IsDir() {
			return ""
		}
		return inDocs // an image
	}
	if path.Base(inDocs) == "README.md" {
		return path.Join(path.Dir(inDocs), "index.html")
	}
	return strings.TrimSuffix(inDocs, ".md") + ".html"
}

// linkFrom returns the address in the site for a link of a document.
func (s *site) linkFrom(document, link string) string {
	found, err := resolve(document, link)
	if err != nil || found.path == "" {
		return link
	}
	fragment := ""
	if found.fragment != "" {
		fragment = "#" + found.fragment
	}
	if found.path == document && fragment != "" {
		return fragment
	}
	if address := s.addressOf(found.path); address != "" {
		return relative(s.addressOf(document), address) + fragment
	}
	kind := "blob/main/"
	if info, err := os.Stat(filepath.Join(s.root, filepath.FromSlash(found.path))); err == nil && info.IsDir() {
		kind = "tree/main/"
	}
	return github + kind + found.path + fragment
}

// relative returns the path of a page of the site, relative to another one.
func relative(from, to string) string {
	if path.Dir(from) == path.Dir(to) {
		return path.Base(to)
	}
	return strings.Repeat("../", strings.Count(from, "/")) + to
}

// entry is a line of the navigation.
type entry struct {
	Title, Link string
	Current     bool
	Sections    []heading // of the current page
}

// navigationGroup is a group of the navigation, as a page shows it.
type navigationGroup struct {
	Title   string
	Entries []entry
}

func (s *site) navigation(current *document) (all []navigationGroup) {
	for _, g := range s.groups {
		shown := navigationGroup{Title: g.Title}
		for _, name := range g.paths {
			d := s.documents[name]
			title := d.title
			if name == "README.md" {
				title = "Overview"
			}
			e := entry{Title: title, Link: relative(s.addressOf(current.path), s.addressOf(name)), Current: d == current}
			if e.Current {
				e.Sections = d.sections
			}
			shown.Entries = append(shown.Entries, e)
		}
		all = append(all, shown)
	}
	return all
}

// build writes the site to a directory and returns the number of its pages.
func (s *site) build(out string) (pages int, err error) {
	for _, name := range sortedKeys(s.documents) {
		address := s.addressOf(name)
		if address == "" {
			continue
		}
		if err := s.writePage(filepath.Join(out, filepath.FromSlash(address)), s.documents[name]); err != nil {
			return 0, err
		}
		pages++
	}
	if err := os.WriteFile(filepath.Join(out, "style.css"), style, 0o644); err != nil {
		return 0, err
	}
	return pages, s.copyImages(out)
}

func (s *site) writePage(file string, d *document) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	var page strings.Builder
	err := layout.Execute(&page, map[string]any{
		"Title":      d.title,
		"Home":       relative(s.addressOf(d.path), "index.html"),
		"Style":      relative(s.addressOf(d.path), "style.css"),
		"Version":    s.version,
		"Source":     github + "blob/main/" + d.path,
		"Repository": github,
		"Navigation": s.navigation(d),
		// The body is rendered from our own files.
		"Body": template.HTML(replaceLinks(d.body, func(link string) string { return s.linkFrom(d.path, link) })),
	})
	if err != nil {
		return fmt.Errorf("write the page of %s: %w", d.path, err)
	}
	return os.WriteFile(file, []byte(page.String()), 0o644)
}

// copyImages copies the files of docs/ that are not Markdown.
func (s *site) copyImages(out string) error {
	docs := filepath.Join(s.root, "docs")
	return filepath.WalkDir(docs, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(file) == ".md" {
			return err
		}
		name, err := filepath.Rel(docs, file)
		if err != nil {
			return err
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		copied := filepath.Join(out, name)
		if err := os.MkdirAll(filepath.Dir(copied), 0o755); err != nil {
			return err
		}
		return os.WriteFile(copied, content, 0o644)
	})
}
