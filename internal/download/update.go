package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path"
	"strings"
)

// updater finds the published checksums of the pinned versions.
type updater struct {
	fetcher *fetcher
	texts   map[string]string
}

// errUnpublished means that there is no binary for a platform.
var errUnpublished = errors.New("no published binary")

// update writes the checksum file again.
func update(ctx context.Context, f *fetcher, directory, file string) error {
	old, err := os.ReadFile(file) //nolint:gosec // a file of the repository
	if err != nil {
		return err
	}
	var content bytes.Buffer
	for _, line := range strings.SplitAfter(string(old), "\n") {
		if strings.HasPrefix(line, "#") {
			content.WriteString(line)
		}
	}
	u := updater{fetcher: f, texts: map[string]string{}}
	for _, t := range tools {
		version, err := t.version(directory)
		if err != nil {
			return err
		}
		for _, platform := range platforms {
			e, err := u.find(ctx, t, version, platform)
			if errors.Is(err, errUnpublished) {
				fmt.Fprintf(os.Stderr, "tools: %s %s is built from source on %s: it is not published for it\n", t.name, version, platform)
				continue
			}
			if err != nil {
				return err
			}
			if _, err := parseEntry(strings.Fields(e.String())); err != nil {
				return fmt.Errorf("%s: %w", e.url, err)
			}
			fmt.Fprintln(&content, e)
		}
	}
	return os.WriteFile(file, content.Bytes(), 0o644) //nolint:gosec // a file of the repository
}

// find returns the entry of a tool for a platform.
func (u *updater) find(ctx context.Context, t tool, version, platform string) (entry, error) {
	e := entry{name: t.name, version: version, platform: platform}
	switch t.module {
	case "go.etcd.io/etcd/server/v3":
		return u.etcd(ctx, e)
	case "sigs.k8s.io/kwok":
		return u.kwok(ctx, e)
	default:
		found, err := u.kubernetes(ctx, e)
		if errors.Is(err, errUnpublished) && t.directory == "." && (t.name == "kube-apiserver" || t.name == "kubectl") {
			return u.envtest(ctx, e)
		}
		return found, err
	}
}

// kubernetes returns the entry of a binary of a Kubernetes release.
func (u *updater) kubernetes(ctx context.Context, e entry) (entry, error) {
	e.url = "https://dl.k8s.io/release/" + e.version + "/bin/" + e.platform + "/" + strings.TrimSuffix(e.name, "-skew")
	sum, err := u.text(ctx, e.url+".sha256")
	e.checksum = "sha256:" + strings.TrimSpace(sum)
	return e, err
}

// envtest returns the entry of a binary of controller-tools' releases, which has binaries for macOS
// of some versions.
func (u *updater) envtest(ctx context.Context, e entry) (entry, error) {
	list, err := u.text(ctx, "https://raw.githubusercontent.com/kubernetes-sigs/controller-tools/HEAD/envtest-releases.yaml")
	if err != nil {
		return e, err
	}
	_, after, found := strings.Cut(list, " envtest-"+e.version+"-"+strings.ReplaceAll(e.platform, "/", "-")+".tar.gz:")
	if !found {
		return e, errUnpublished
	}
	fields := strings.Fields(after)
	if len(fields) < 4 || fields[0] != "hash:" || fields[2] != "selfLink:" {
		return e, fmt.Errorf("envtest-releases.yaml has another format than expected at %s %s", e.version, e.platform)
	}
	e.checksum, e.url, e.member = "sha512:"+fields[1], fields[3], "controller-tools/envtest/"+e.name
	return e, nil
}

// etcd returns the entry of a binary of an etcd release.
func (u *updater) etcd(ctx context.Context, e entry) (entry, error) {
	release := "https://github.com/etcd-io/etcd/releases/download/" + e.version
	directory := "etcd-" + e.version + "-" + strings.ReplaceAll(e.platform, "/", "-")
	sums, err := u.text(ctx, release+"/SHA256SUMS")
	if err != nil {
		return e, err
	}
	for line := range strings.Lines(sums) {
		fields := strings.Fields(line)
		if len(fields) == 2 && (fields[1] == directory+".tar.gz" || fields[1] == directory+".zip") {
			e.checksum, e.url, e.member = "sha256:"+fields[0], release+"/"+fields[1], path.Join(directory, "etcd")
			return e, nil
		}
	}
	return e, errUnpublished
}

// kwok returns the entry of a binary of a kwok release. GitHub computes the checksums.
func (u *updater) kwok(ctx context.Context, e entry) (entry, error) {
	content, err := u.text(ctx, "https://api.github.com/repos/kubernetes-sigs/kwok/releases/tags/"+e.version)
	if err != nil {
		return e, err
	}
	var release struct {
		Assets []struct {
			Name   string `json:"name"`
			Digest string `json:"digest"`
			URL    string `json:"browser_download_url"`
		} `json:"assets"`
	}
	if err := json.Unmarshal([]byte(content), &release); err != nil {
		return e, fmt.Errorf("the release of kwok %s: %w", e.version, err)
	}
	for _, asset := range release.Assets {
		if asset.Name == e.name+"-"+strings.ReplaceAll(e.platform, "/", "-") {
			e.checksum, e.url = asset.Digest, asset.URL
			return e, nil
		}
	}
	return e, errUnpublished
}

// text returns the content of a URL, and errUnpublished if it does not exist.
func (u *updater) text(ctx context.Context, location string) (string, error) {
	if content, ok := u.texts[location]; ok {
		return content, nil
	}
	content, err := u.fetcher.text(ctx, location)
	var status *statusError
	if errors.As(err, &status) && status.code == http.StatusNotFound {
		return "", errUnpublished
	}
	if err == nil {
		u.texts[location] = content
	}
	return content, err
}
