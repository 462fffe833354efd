#!/usr/bin/env bash
# Builds the operator's image reproducibly: the same commit gives the same image, byte for byte.
#
#   tools/image.sh IMAGE [PLATFORM...]     PLATFORM: linux/amd64, linux/arm64, ...
#
# The default platform is that of the Docker engine. It builds one image per platform. IMAGE is for
# the platform of the engine, the others are IMAGE-arm64 and so on. To publish them as one image,
# run `docker push` for each, then `docker manifest create` and `docker manifest push`.
#
# Needs: go, git, GNU tar and a Docker engine. It pulls no image. VERSION is the version that the
# operator reports. `docker build` writes the current time and other variable data into an image, so
# the script unpacks the built image and assembles it again with the time of the commit.
set -euo pipefail
umask 022 # the operator's user must be able to read the files
cd "$(dirname "$0")/.."

log() { printf 'image: %s\n' "$*" >&2; }
die() { log "$*"; exit 1; }

[[ $# -ge 1 ]] || die "usage: tools/image.sh IMAGE [PLATFORM...]"
image=$1; shift
engine=$(docker version --format '{{.Server.Arch}}' 2>/dev/null) || die "no Docker engine responds: start one, or run tools/docker.sh up"
[[ $# -gt 0 ]] || set -- "linux/$engine"

version=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo unknown)}
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT

# context ARCH creates the build context of the Dockerfile.
context() {
  local root=$work/context/linux-$1
  install -d -m 755 "$root/etc/ssl/certs"
  (cd tools/image && GOFLAGS=-buildvcs=false go run .) >"$root/etc/ssl/certs/ca-certificates.crt"
  CGO_ENABLED=0 GOOS=linux GOARCH=$1 go build -trimpath -buildvcs=false \
    -ldflags "-s -w -buildid= -X main.version=$version" -o "$root/fleetwright" ./cmd/fleetwright
  chmod 644 "$root/etc/ssl/certs/ca-certificates.crt"; chmod 755 "$root/fleetwright"
}

# normalize ID ARCH REF creates image REF with the same content and configuration, without data that
# varies between builds. It also sets the architecture, because `docker build --platform` needs
# BuildKit.
normalize() {
  local parts=$work/parts layer
  rm -rf "$parts"; mkdir -p "$parts/saved" "$parts/root" "$parts/new"
  docker save "$1" | tar -C "$parts/saved" -x
  for layer in $(grep -o '"Layers":\[[^]]*\]' "$parts/saved/manifest.json" | grep -oE '"[^"]+"' | tr -d '"' | tail -n +2); do
    tar -C "$parts/root" -xf "$parts/saved/$layer"
  done
  (cd "$parts/root" && tar --format=ustar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner -cf ../new/layer.tar -- *)
  docker image inspect --format '{"architecture":"'"$2"'","os":"{{.Os}}","created":"'"$created"'","config":{
    "User":{{json .Config.User}},"Env":{{json .Config.Env}},"Entrypoint":{{json .Config.Entrypoint}},"Labels":{{json .Config.Labels}}},
    "rootfs":{"type":"layers","diff_ids":["sha256:'"$(sha256sum <"$parts/new/layer.tar" | cut -d' ' -f1)"'"]},
    "history":[{"created":"'"$created"'","created_by":"tools/image.sh"}]}' "$1" >"$parts/new/config.json"
  printf '[{"Config":"config.json","RepoTags":["%s"],"Layers":["layer.tar"]}]' "$3" >"$parts/new/manifest.json"
  tar -C "$parts/new" -c . | docker load --quiet >/dev/null
}

# untag ID deletes the image unless it has a name.
untag() { [[ -z $1 || -n $(docker image inspect --format '{{range .RepoTags}}{{.}} {{end}}' "$1" 2>/dev/null) ]] || docker image rm "$1" >/dev/null 2>&1 || true; }

for platform; do
  arch=${platform#linux/}
  [[ $platform == linux/* && $arch != */* ]] || die "$platform: the platform must be linux/amd64, linux/arm64 or another one without a variant"
  ref=$image; [[ $arch == "$engine" ]] || ref+=-$arch
  context "$arch"
  old=$(docker image inspect --format '{{.Id}}' "$ref" 2>/dev/null || true)
  built=$(DOCKER_CLI_HINTS=false docker build --quiet --file Dockerfile --build-arg "TARGETARCH=$arch" --build-arg "VERSION=$version" \
    --build-arg "REVISION=$revision" "$work/context" 2>"$work/log") || { cat "$work/log" >&2; die "docker build failed"; }
  normalize "$built" "$arch" "$ref"
  new=$(docker image inspect --format '{{.Id}}' "$ref")
  untag "$built"; [[ $old == "$new" ]] || untag "$old"
  log "$ref $platform $new"
  log "$ref $version: $(($(stat -c %s "$work/parts/new/layer.tar") / 1024)) KiB, $(($(gzip -n <"$work/parts/new/layer.tar" | wc -c) / 1024)) KiB to pull"
  rm -rf "$work/context"
done
