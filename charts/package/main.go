// Command package writes the charts of this repository as archives. The same sources give the same
// bytes, which `helm package` does not: it stores the times of the files.
//
//	go run ./charts/package VERSION DIRECTORY
//
// VERSION is that of the release, such as v1.2.3. Each chart gets it as its version, without the v,
// and as the version of the application, which is the tag of the image.
package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// charts are the directories in charts/ that become archives.
var charts = []string{"fleetwright", "fleetwright-member"}

// release is the form of a version that Helm and a registry accept.
var release = regexp.MustCompile(`^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$`)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: go run ./charts/package VERSION DIRECTORY")
		os.Exit(2)
	}
	if err := writeCharts("charts", os.Args[1], os.Args[2], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "package:", err)
		os.Exit(1)
	}
}

// writeCharts writes an archive of each chart to a directory, and prints their paths.
func writeCharts(from, version, to string, out io.Writer) error {
	if !release.MatchString(version) {
		return fmt.Errorf("VERSION %s is no version of a release, such as v0.1.0", version)
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, chart := range charts {
		file := filepath.Join(to, chart+"-"+strings.TrimPrefix(version, "v")+".tgz")
		if err := writeChart(os.DirFS(from), chart, version, file); err != nil {
			return fmt.Errorf("package %s: %w", chart, err)
		}
		if _, err := fmt.Fprintln(out, file); err != nil {
			return err
		}
	}
	return nil
}

// writeChart writes an archive of one chart.
func writeChart(from fs.FS, chart, version, file string) (err error) {
	created, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, created.Close()); err != nil {
			_ = os.Remove(file)
		}
	}()
	compressed := gzip.NewWriter(created)
	archive := tar.NewWriter(compressed)
	err = fs.WalkDir(from, chart, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() || strings.HasPrefix(entry.Name(), ".") && entry.Name() != ".helmignore" {
			return err
		}
		content, err := fs.ReadFile(from, name)
		if err != nil {
			return err
		}
		if name == path.Join(chart, "Chart.yaml") {
			if content, err = setVersion(content, version); err != nil {
				return err
			}
		}
		// The time must not be zero, because Helm warns about it.
		header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content)), ModTime: time.Unix(1, 0)}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		_, err = archive.Write(content)
		return err
	})
	return errors.Join(err, archive.Close(), compressed.Close())
}

// setVersion returns a Chart.yaml with the versions of a release.
func setVersion(content []byte, version string) ([]byte, error) {
	text := string(content)
	for _, line := range []struct{ before, after string }{
		{"\nversion: 0.0.0\n", "\nversion: " + strings.TrimPrefix(version, "v") + "\n"},
		{"\nappVersion: v0.0.0\n", "\nappVersion: " + version + "\n"},
	} {
		if strings.Count(text, line.before) != 1 {
			return nil, fmt.Errorf("want one line %q in Chart.yaml", strings.TrimSpace(line.before))
		}
		text = strings.Replace(text, line.before, line.after, 1)
	}
	return []byte(text), nil
}
