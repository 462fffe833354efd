package main

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// tool is a tool that has published binaries.
type tool struct {
	name string
	// module pins the version, in the go.mod of directory.
	module, directory string
}

var tools = []tool{
	{"etcd", "go.etcd.io/etcd/server/v3", "."},
	{"kube-apiserver", "k8s.io/kubernetes", "."},
	{"kube-apiserver-skew", "k8s.io/kubernetes", "skew"},
	{"kube-controller-manager", "k8s.io/kubernetes", "."},
	{"kube-scheduler", "k8s.io/kubernetes", "."},
	{"kubectl", "k8s.io/kubernetes", "."},
	{"kwok", "sigs.k8s.io/kwok", "."},
	{"kwokctl", "sigs.k8s.io/kwok", "."},
}

var platforms = []string{"darwin/amd64", "darwin/arm64", "linux/amd64", "linux/arm64"}

// entry is a line of checksums.txt.
type entry struct {
	name, version, platform string
	// checksum is that of the file at url, with its algorithm: sha256:… or sha512:….
	checksum, url string
	// member is the path of the binary in the archive at url, or empty if url is the binary.
	member string
}

func (e entry) String() string {
	return strings.TrimSpace(strings.Join([]string{e.name, e.version, e.platform, e.checksum, e.url, e.member}, " "))
}

func readEntries(file string) ([]entry, error) {
	content, err := os.ReadFile(file) //nolint:gosec // a file of the repository
	if err != nil {
		return nil, err
	}
	var entries []entry
	for number, line := range strings.Split(string(content), "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		entry, err := parseEntry(fields)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", file, number+1, err)
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

func parseEntry(fields []string) (entry, error) {
	if len(fields) < 5 || len(fields) > 6 {
		return entry{}, fmt.Errorf("%d fields, but want: tool version platform checksum URL [path in the archive]", len(fields))
	}
	e := entry{name: fields[0], version: fields[1], platform: fields[2], checksum: fields[3], url: fields[4]}
	if len(fields) == 6 {
		e.member = fields[5]
	}
	algorithm, sum, _ := strings.Cut(e.checksum, ":")
	length, ok := map[string]int{"sha256": 32, "sha512": 64}[algorithm]
	if decoded, err := hex.DecodeString(sum); !ok || err != nil || len(decoded) != length {
		return entry{}, fmt.Errorf("%s is no checksum: want sha256: or sha512: and all of its digits", e.checksum)
	}
	if parsed, err := url.Parse(e.url); err != nil || parsed.Scheme != "https" || parsed.Host == "" {
		return entry{}, fmt.Errorf("%s is no https URL", e.url)
	}
	return e, nil
}

// verify returns an error if an entry is not for the pinned version of its tool.
func verify(entries []entry, directory string) error {
	var problems []string
	for _, entry := range entries {
		index := slices.IndexFunc(tools, func(t tool) bool { return t.name == entry.name })
		if index < 0 {
			problems = append(problems, entry.name+" is no tool that is downloaded")
			continue
		}
		pinned, err := tools[index].version(directory)
		if err != nil {
			return err
		}
		if entry.version != pinned {
			problems = append(problems, fmt.Sprintf("%s %s %s: go.mod has %s", entry.name, entry.version, entry.platform, pinned))
		}
	}
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("checksums.txt is not for the versions that are pinned:\n  %s\nRun `make checksums` on a machine with internet access, or delete these lines: the tools are then built from source", strings.Join(problems, "\n  "))
}

// version returns the version that go.mod pins.
func (t tool) version(directory string) (string, error) {
	file, err := os.Open(filepath.Join(directory, t.directory, "go.mod")) //nolint:gosec // a file of the repository
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // only read
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		fields := strings.Fields(scanner.Text())
		if len(fields) >= 2 && fields[0] == t.module && strings.HasPrefix(fields[1], "v") {
			return fields[1], nil
		}
	}
	return "", fmt.Errorf("%s does not require %s", file.Name(), t.module)
}
