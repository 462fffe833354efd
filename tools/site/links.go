package main

import (
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// github is the address of the repository.
const github = "https://github.com/fleetwright/fleetwright/"

// repository is the Markdown files of a repository, by path.
type repository struct {
	root      string
	documents map[string]*document
	// citations are the paths of decision records in comments of source files, by file.
	citations map[string][]string
}

// decisions is the directory of the decision records.
const decisions = "docs/decisions/"

var citation = regexp.MustCompile(decisions + `[a-z0-9-]+\.md`)

// readRepository parses all Markdown files, and finds the citations in Go files and scripts, except those in directories of tools and of generated
// files.
func readRepository(root string) (*repository, error) {
	r := &repository{root: root, documents: map[string]*document{}, citations: map[string][]string{}}
	err := filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		hidden := strings.HasPrefix(entry.Name(), ".") && name != "." && name != ".github"
		switch {
		case entry.IsDir() && (hidden || slices.Contains([]string{"bin", "dist", "node_modules"}, entry.Name())):
			return filepath.SkipDir
		case entry.IsDir() || !slices.Contains([]string{".md", ".go", ".sh"}, filepath.Ext(file)) || strings.HasSuffix(file, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if filepath.Ext(file) == ".md" {
			r.documents[name], err = parseDocument(name, source)
		} else if cited := citation.FindAllString(string(source), -1); cited != nil {
			r.citations[name] = cited
		}
		return err
	})
	return r, err
}

// target is what a link of a document leads to.
type target struct {
	path     string // in the repository; empty if the link is external
	fragment string
}

// resolve returns the target of a link in a document.
func resolve(document, link string) (target, error) {
	parsed, err := url.Parse(link)
	if err != nil {
		return target{}, err
	}
	for _, prefix := range []string{github + "blob/main/", github + "tree/main/"} {
		if own, is := strings.CutPrefix(link, prefix); is {
			return resolve("README.md", own)
		}
	}
	switch {
	case parsed.Scheme != "" || parsed.Host != "":
		return target{}, nil
	case strings.HasPrefix(parsed.Path, "/"):
		return target{}, fmt.Errorf("%s is an absolute path: use a relative one", link)
	case parsed.Path == "":
		return target{document, parsed.Fragment}, nil
	}
	found := path.Join(path.Dir(document), parsed.Path)
	if found == ".." || strings.HasPrefix(found, "../") {
		return target{}, fmt.Errorf("%s is outside of the repository", link)
	}
	return target{found, parsed.Fragment}, nil
}

// checkLinks returns an error for each broken link, sorted.
func (r *repository) checkLinks() (broken []error) {
	for _, name := range sortedKeys(r.documents) {
		for _, link := range linksOf(r.documents[name].body) {
			if err := r.checkLink(name, link); err != nil {
				broken = append(broken, fmt.Errorf("%s: broken link %s: %w", name, link, err))
			}
		}
	}
	return broken
}

// line is the fragment of lines of a file on GitHub.
var line = regexp.MustCompile(`^L[0-9]+(-L[0-9]+)?$`)

// checkCitations returns an error for each cited decision record that does not exist, and for each
// record that neither a source file cites nor a document links to, except the index of the records.
func (r *repository) checkCitations() (errs []error) {
	const index = decisions + "README.md"
	known := map[string]bool{}
	for _, file := range sortedKeys(r.citations) {
		for _, record := range r.citations[file] {
			if known[record] = true; r.documents[record] == nil {
				errs = append(errs, fmt.Errorf("%s: %s does not exist", file, record))
			}
		}
	}
	for name, d := range r.documents {
		for _, link := range linksOf(d.body) {
			if found, err := resolve(name, link); err == nil && name != index && found.path != name {
				known[found.path] = true
			}
		}
	}
	for _, name := range sortedKeys(r.documents) {
		if strings.HasPrefix(name, decisions) && name != index && !known[name] {
			errs = append(errs, fmt.Errorf("%s: cite it in a comment of the code that it explains", name))
		}
	}
	return errs
}

func (r *repository) checkLink(name, link string) error {
	found, err := resolve(name, link)
	if err != nil || found.path == "" {
		return err
	}
	info, err := os.Stat(filepath.Join(r.root, filepath.FromSlash(found.path)))
	switch {
	case err != nil:
		return fmt.Errorf("%s does not exist", found.path)
	case found.fragment == "":
		return nil
	case r.documents[found.path] != nil:
		if !r.documents[found.path].anchors[found.fragment] {
			return fmt.Errorf("%s has no heading #%s", found.path, found.fragment)
		}
		return nil
	case info.IsDir() || !line.MatchString(found.fragment):
		return fmt.Errorf("%s has no anchors", found.path)
	}
	return nil
}

// checkSite returns an error for each link in the HTML files of a directory that leads to no file in
// it, or to no anchor.
func checkSite(dir string) (broken []error) {
	links, anchors := map[string][]string{}, map[string]map[string]bool{}
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(file) != ".html" {
			return err
		}
		content, err := os.ReadFile(file)
		links[file], anchors[file] = linksOf(string(content)), anchorsOf(string(content))
		return err
	})
	if err != nil {
		return []error{err}
	}
	for _, file := range sortedKeys(links) {
		for _, link := range links[file] {
			if err := checkSiteLink(anchors, file, link); err != nil {
				broken = append(broken, fmt.Errorf("%s: broken link %s: %w", file, link, err))
			}
		}
	}
	return broken
}

func checkSiteLink(anchors map[string]map[string]bool, file, link string) error {
	parsed, err := url.Parse(link)
	if err != nil || parsed.Scheme != "" || parsed.Host != "" {
		return err
	}
	found := file
	if parsed.Path != "" {
		found = filepath.Join(filepath.Dir(file), filepath.FromSlash(parsed.Path))
	}
	if _, err := os.Stat(found); err != nil {
		return fmt.Errorf("%s does not exist", found)
	}
	if parsed.Fragment != "" && !anchors[found][parsed.Fragment] {
		return fmt.Errorf("%s has no anchor #%s", found, parsed.Fragment)
	}
	return nil
}

func sortedKeys[V any](all map[string]V) []string {
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
