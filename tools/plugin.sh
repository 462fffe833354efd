#!/usr/bin/env bash
# Builds the kubectl plugin for all platforms, as archives with the licence and the script for
# completion, and a krew manifest that has their checksums.
#
#   VERSION=v0.1.0 tools/plugin.sh DIRECTORY [URL]
#
# URL is where the archives will be; a release of the project by default.
set -euo pipefail
out=$(mkdir -p "$1" && cd "$1" && pwd)
cd "$(dirname "$0")/.."
version=${VERSION:?VERSION is not set: give the version of the release, such as v0.1.0}
[[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] || { echo "plugin: VERSION $version is no version of a release, such as v0.1.0" >&2; exit 1; }
url=${2:-https://github.com/fleetwright/fleetwright/releases/download/$version}

work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
platforms=
for platform in ${PLATFORMS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64}; do
  os=${platform%/*} arch=${platform#*/}
  binary=kubectl-appsvc files=(LICENSE)
  if [[ $os == windows ]]; then binary+=.exe; else files+=(kubectl_complete-appsvc); fi # a script of sh
  echo "plugin: $platform" >&2
  GOOS=$os GOARCH=$arch CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=$version" -o "$work/$binary" ./cmd/kubectl-appsvc
  cp LICENSE cmd/kubectl-appsvc/kubectl_complete-appsvc "$work/"
  archive=kubectl-appsvc_${version}_${os}_${arch}.tar.gz
  # The same sources give the same bytes.
  tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$work" -c "$binary" "${files[@]}" | gzip -n >"$out/$archive"
  rm "$work/$binary"
  platforms+="
    - selector: {matchLabels: {os: $os, arch: $arch}}
      uri: $url/$archive
      sha256: $(sha256sum "$out/$archive" | cut -d' ' -f1)
      bin: $binary"
done
cat >"$out/appsvc.yaml" <<END
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: appsvc
spec:
  version: $version
  homepage: https://github.com/fleetwright/fleetwright
  shortDescription: Run applications on many clusters with Fleetwright
  description: |
    Adds clusters to a fleet, shows the state of an AppService on all of its clusters and why it runs
    there or not, approves and undoes rollouts, and serves a page of the fleet on this machine.
  caveats: |
    It needs a hub on which Fleetwright is installed, as a context of your kubeconfig.
    kubectl appsvc completion --help says how kubectl completes its arguments.
  platforms:$platforms
END
