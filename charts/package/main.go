// Command package writes the charts of this repository as archives, from the files that Git tracks.
// The same sources give the same bytes, which `helm package` does not: it stores the times of the files.
//
//	go run ./charts/package VERSION DIRECTORY
//
// VERSION is that of the release, such as v1.2.3. Each chart gets it as its version, without the v,
// and as the version of the application, which is the tag of the image.
package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
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
		if err := writeChart(from, chart, version, file); err != nil {
			return fmt.Errorf("package %s: %w", chart, err)
		}
		if _, err := fmt.Fprintln(out, file); err != nil {
			return err
		}
	}
	return nil
}

// writeChart writes an archive of one chart.
func writeChart(from, chart, version, file string) (err error) {
	names, err := trackedFiles(from, chart)
	if err != nil {
		return err
	}
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
	for _, name := range names {
		err = errors.Join(err, addFile(archive, from, name, version))
	}
	return errors.Join(err, archive.Close(), compressed.Close())
}

// trackedFiles returns the files of a chart that Git tracks. An editor may have left others there.
func trackedFiles(from, chart string) ([]string, error) {
	var stderr strings.Builder
	command := exec.CommandContext(context.Background(), "git", "ls-files", "-z", "--", chart)
	command.Dir, command.Stderr = from, &stderr
	out, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("git ls-files: %w: %s", err, strings.TrimSpace(stderr.String()))
	}
	if len(out) == 0 {
		return nil, errors.New("git tracks no file of it")
	}
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"), nil
}

// addFile adds one file to an archive. It omits a deleted file, and one that Helm does not read.
func addFile(archive *tar.Writer, from, name, version string) error {
	if base := path.Base(name); strings.HasPrefix(base, ".") && base != ".helmignore" {
		return nil
	}
	content, err := os.ReadFile(filepath.Join(from, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if path.Base(name) == "Chart.yaml" {
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
