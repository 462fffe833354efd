// Command release writes all files of a release into a directory: the image, install.yaml, the
// kubectl plugin, what is in them (SBOM) and their checksums. The same commit and the same version
// of Go give the same bytes. It needs go, git, kubectl and helm, and no network.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/fleetwright/fleetwright/tools/release/oci"
	"github.com/fleetwright/fleetwright/tools/release/plugin"
	"github.com/fleetwright/fleetwright/tools/release/roots"
	"github.com/fleetwright/fleetwright/tools/release/sbom"
	"github.com/fleetwright/fleetwright/tools/release/source"
)

const (
	image     = "ghcr.io/fleetwright/fleetwright"
	downloads = "https://github.com/fleetwright/fleetwright/releases/download/"

	unreleased = "Nothing is released yet" // in the documentation, until the first release
)

var versionPattern = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

// release is a release in the making.
type release struct {
	tree     *source.Tree
	version  string
	out      string // the files of the release
	work     string // files that are no part of it
	binaries string // the directory with kubectl and helm
}

type options struct {
	root, version, out, notes, binaries string
	imagePlatforms, pluginPlatforms     string
	pluginOnly, final                   bool
}

func main() {
	var o options
	flag.StringVar(&o.root, "root", "../..", "the directory of the clone")
	flag.StringVar(&o.version, "version", "", "the version, such as v0.1.0")
	flag.StringVar(&o.out, "out", "", "the directory to write; it is replaced")
	flag.StringVar(&o.notes, "notes", "", "write the version's section of docs/CHANGELOG.md to this file")
	flag.StringVar(&o.binaries, "binaries", "../../bin", "the directory that has kubectl and helm")
	flag.StringVar(&o.imagePlatforms, "platforms", "linux/amd64 linux/arm64", "platforms of the image")
	flag.StringVar(&o.pluginPlatforms, "plugin-platforms", "linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64", "platforms of the plugin")
	flag.BoolVar(&o.pluginOnly, "plugin-only", false, "write only the plugin and its krew manifest")
	flag.BoolVar(&o.final, "final", false, "fail if a file is not committed, or docs/CHANGELOG.md has no section for the version")
	flag.Parse()
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	err := o.run(ctx)
	cancel()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// run writes the release beside its directory, and then replaces the directory. So an interrupted
// run leaves no part of a release.
func (o *options) run(ctx context.Context) error {
	if !versionPattern.MatchString(o.version) {
		return fmt.Errorf("%q is no version of a release: set VERSION, such as VERSION=v0.1.0", o.version)
	}
	if o.out == "" {
		return errors.New("-out is missing")
	}
	root, err := filepath.Abs(o.root)
	if err != nil {
		return err
	}
	if o.out, err = filepath.Abs(o.out); err != nil {
		return err
	}
	tree, err := source.Open(ctx, root)
	if err != nil {
		return err
	}
	if o.final && tree.Changes != "" {
		return fmt.Errorf("files differ from the commit: commit or remove them, or use make release-dry-run\n%s", tree.Changes)
	}
	if err := os.MkdirAll(filepath.Dir(o.out), 0o755); err != nil {
		return err
	}
	beside, err := os.MkdirTemp(filepath.Dir(o.out), ".release-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(beside) }()
	r := &release{tree: tree, version: o.version, out: filepath.Join(beside, "out"), work: filepath.Join(beside, "work"), binaries: o.binaries}
	if err := errors.Join(os.Mkdir(r.out, 0o755), os.Mkdir(r.work, 0o755)); err != nil {
		return err
	}
	if err := r.write(ctx, o); err != nil {
		return err
	}
	if err := os.RemoveAll(o.out); err != nil {
		return err
	}
	if err := os.Rename(r.out, o.out); err != nil {
		return err
	}
	return list(o.out)
}

// write writes the parts of the release.
func (r *release) write(ctx context.Context, o *options) error {
	imagePlatforms, err := parsePlatforms(o.imagePlatforms)
	if err != nil {
		return err
	}
	pluginPlatforms, err := parsePlatforms(o.pluginPlatforms)
	if err != nil {
		return err
	}
	if o.notes != "" {
		if err := r.notes(o.notes, o.final); err != nil {
			return err
		}
	}
	if err := r.plugins(ctx, pluginPlatforms); err != nil || o.pluginOnly {
		return err
	}
	if err := r.images(ctx, imagePlatforms); err != nil {
		return err
	}
	if err := r.manifest(ctx); err != nil {
		return err
	}
	if err := r.charts(ctx); err != nil {
		return err
	}
	return r.checksums()
}

func parsePlatforms(text string) ([]source.Platform, error) {
	var platforms []source.Platform
	for _, field := range strings.Fields(text) {
		platform, err := source.ParsePlatform(field)
		if err != nil {
			return nil, err
		}
		platforms = append(platforms, platform)
	}
	return platforms, nil
}

// notes writes the section of the change log. Without a section for the version, it is the one for
// what is not released, unless the release is final.
func (r *release) notes(path string, final bool) error {
	changes, err := os.ReadFile(filepath.Join(r.tree.Dir, "docs", "CHANGELOG.md"))
	if err != nil {
		return err
	}
	section, found := findSection(string(changes), strings.TrimPrefix(r.version, "v"))
	if !found && final {
		return fmt.Errorf("docs/CHANGELOG.md has no section %s: rename Unreleased, and add an empty one", strings.TrimPrefix(r.version, "v"))
	}
	if final && strings.Contains(section, unreleased) {
		return fmt.Errorf("section %s of docs/CHANGELOG.md says %q: remove the statements that docs/releases.md lists", strings.TrimPrefix(r.version, "v"), unreleased)
	}
	if !found {
		section, _ = findSection(string(changes), "Unreleased")
	}
	return os.WriteFile(path, []byte(section), 0o644)
}

// findSection returns the text below the heading ## [VERSION].
func findSection(changes, version string) (string, bool) {
	_, rest, found := strings.Cut(changes, "\n## ["+version+"]")
	if !found {
		return "", false
	}
	_, rest, _ = strings.Cut(rest, "\n")
	section, _, _ := strings.Cut(rest, "\n## ")
	return strings.TrimSpace(section) + "\n", true
}

// images writes one archive with the images for all platforms, the name of the image with its
// digest, and what is in each.
func (r *release) images(ctx context.Context, platforms []source.Platform) error {
	tag, err := oci.ParseTag(image + ":" + r.version)
	if err != nil {
		return err
	}
	images, err := oci.Build(ctx, r.tree, r.version, platforms...)
	if err != nil {
		return err
	}
	var archive bytes.Buffer
	if err := oci.WriteArchive(&archive, tag, images); err != nil {
		return err
	}
	if err := r.file(fmt.Sprintf("fleetwright_%s_image.tar", r.version), archive.Bytes()); err != nil {
		return err
	}
	index, err := oci.NewIndex(images)
	if err != nil {
		return err
	}
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	if err := r.file("image.txt", []byte(tag.String()+"@"+digest.String()+"\n")); err != nil {
		return err
	}
	for _, built := range images {
		if err := r.imageSBOM(built); err != nil {
			return err
		}
	}
	return nil
}

// imageSBOM writes what is in an image.
func (r *release) imageSBOM(built oci.Image) error {
	digest, err := built.Digest()
	if err != nil {
		return err
	}
	binary := filepath.Join(r.work, "fleetwright")
	if err := os.WriteFile(binary, built.Operator, 0o644); err != nil {
		return err
	}
	certificates, version := roots.Version()
	return r.sbom(fmt.Sprintf("fleetwright_%s_%s_%s.spdx.json", r.version, built.Platform.OS, built.Platform.Arch), sbom.Artifact{
		Name:    image,
		Version: r.version,
		Purpose: "CONTAINER",
		SHA256:  digest.Hex,
		PURL:    fmt.Sprintf("pkg:oci/fleetwright@sha256%%3A%s?arch=%s&repository_url=%s", digest.Hex, built.Platform.Arch, image),
		Created: r.tree.Time,
		Binary:  binary,
		Others:  []*sbom.Module{{Path: certificates, Version: version}},
	})
}

// plugins writes the archives of the plugin, what is in each, and the krew manifest.
func (r *release) plugins(ctx context.Context, platforms []source.Platform) error {
	var archives []plugin.Archive
	for _, platform := range platforms {
		archive, err := plugin.Write(ctx, r.tree, r.version, platform, r.out, r.work)
		if err != nil {
			return err
		}
		archives = append(archives, archive)
		if err := r.sbom(archive.Name+".spdx.json", sbom.Artifact{
			Name: archive.Name, Version: r.version, Purpose: "ARCHIVE", SHA256: archive.SHA256,
			Created: r.tree.Time, Binary: filepath.Join(r.work, archive.Binary),
		}); err != nil {
			return err
		}
	}
	manifest, err := plugin.Manifest(r.version, downloads+r.version, archives)
	if err != nil {
		return err
	}
	return r.file("appsvc.yaml", manifest)
}

// manifest writes install.yaml.
func (r *release) manifest(ctx context.Context) error {
	var out, stderr bytes.Buffer
	command := exec.CommandContext(ctx, filepath.Join(r.tree.Dir, "tools", "manifests.sh"), r.binaries, "render", image+":"+r.version)
	command.Stdout, command.Stderr = &out, &stderr
	if err := command.Run(); err != nil {
		return fmt.Errorf("install.yaml: %w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	return r.file("install.yaml", out.Bytes())
}

// charts writes the Helm charts.
func (r *release) charts(ctx context.Context) error {
	command := exec.CommandContext(ctx, filepath.Join(r.tree.Dir, "tools", "package-charts.sh"), r.binaries, r.version, r.out)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("charts: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// checksums writes the checksums of all files, in the format of sha256sum.
func (r *release) checksums() error {
	entries, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, entry := range entries {
		content, err := os.ReadFile(filepath.Join(r.out, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), entry.Name())
	}
	return r.file("checksums.txt", []byte(sums.String()))
}

// sbom writes what is in an artifact.
func (r *release) sbom(name string, artifact sbom.Artifact) error {
	var out bytes.Buffer
	if err := sbom.Write(&out, artifact); err != nil {
		return err
	}
	return r.file(name, out.Bytes())
}

// file writes a file of the release.
func (r *release) file(name string, content []byte) error {
	return os.WriteFile(filepath.Join(r.out, name), content, 0o644)
}

// list prints the files with their sizes.
func list(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, entry := range entries {
		info, err := entry.Info()
		errs = append(errs, err)
		if err == nil {
			fmt.Printf("%9.1f KiB  %s\n", float64(info.Size())/1024, filepath.Join(dir, info.Name()))
		}
	}
	return errors.Join(errs...)
}
