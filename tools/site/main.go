// Command site builds the documentation site from the Markdown files of the repository, or checks
// the links of these files and of the built site, and the table of promises. It needs no network:
// external links are not followed.
//
// GitHub shows the same files, so their links are relative paths of the repository, and the anchors
// are those that GitHub gives to headings. In the site, a link to a page leads to the page, and a link
// to another file of the repository leads to GitHub.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
)

func main() {
	root := flag.String("root", "../..", "`directory` of the repository")
	out := flag.String("out", "../../dist/docs", "`directory` to write the site to; it is replaced")
	version := flag.String("version", "", "`version` to show on each page")
	flag.Parse()
	if err := run(*root, *out, *version); err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
}

// run builds the site. A broken link, in the repository or in the site, is an error.
func run(root, out, version string) error {
	repository, err := readRepository(root)
	if err != nil {
		return err
	}
	if err := errors.Join(slices.Concat(repository.checkLinks(), repository.checkCitations(), repository.checkPromises())...); err != nil {
		return err
	}
	if err := os.RemoveAll(out); err != nil {
		return err
	}
	pages, err := newSite(repository, version).build(out)
	if err != nil {
		return err
	}
	if err := errors.Join(checkSite(out)...); err != nil {
		return err
	}
	fmt.Printf("%d pages are in %s\n", pages, out)
	return nil
}
