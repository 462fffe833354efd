#!/usr/bin/env bash
# Builds the operator's image, so that the same commit gives the same image, to the byte.
#
#   tools/image.sh IMAGE [PLATFORM...]     PLATFORM: linux/amd64, linux/arm64 ...; that of the Docker engine by default
#
# One image for each platform: IMAGE is that of the engine's own, the others are IMAGE-arm64 and so on. To publish them as
# one: docker push each, then `docker manifest create` and `docker manifest push`.
#
# Needs: go, git, GNU tar and a Docker engine of any kind; pulls nothing. VERSION is what the operator says that it is.
# `docker build` writes the time of day into an image, and other things that differ: so what it built is taken apart and
# put together again with the time of the commit.
set -euo pipefail
umask 022 # what the operator's user cannot read, it cannot run
cd "$(dirname "$0")/.."

log() { printf 'image: %s\n' "$*" >&2; }
die() { log "$*"; exit 1; }

[[ $# -ge 1 ]] || die "usage: tools/image.sh IMAGE [PLATFORM...]"
image=$1; shift
engine=$(docker version --format '{{.Server.Arch}}' 2>/dev/null) || die "no Docker engine answers"
[[ $# -gt 0 ]] || set -- "linux/$engine"

version=${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo unknown)}
revision=$(git rev-parse HEAD 2>/dev/null || echo unknown)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}
created=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT

# context ARCH: what the Dockerfile copies.
context() {
  local root=$work/context/linux-$1
  install -d -m 755 "$root/etc/ssl/certs"
  (cd tools/image && GOFLAGS=-buildvcs=false go run .) >"$root/etc/ssl/certs/ca-certificates.crt"
  CGO_ENABLED=0 GOOS=linux GOARCH=$1 go build -trimpath -buildvcs=false \
    -ldflags "-s -w -buildid= -X main.version=$version" -o "$root/fleetwright" ./cmd/fleetwright
  chmod 644 "$root/etc/ssl/certs/ca-certificates.crt"; chmod 755 "$root/fleetwright"
}

# settle ID ARCH REF: makes REF an image of the same content and configuration, with nothing in it that differs from build to
# build. It also says which architecture that is: without BuildKit, `docker build --platform` cannot.
settle() {
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

# forget ID: that image, unless it has a name.
forget() { [[ -z $1 || -n $(docker image inspect --format '{{range .RepoTags}}{{.}} {{end}}' "$1" 2>/dev/null) ]] || docker image rm "$1" >/dev/null 2>&1 || true; }

for platform; do
  arch=${platform#linux/}
  [[ $platform == linux/* && $arch != */* ]] || die "$platform: want linux/amd64, linux/arm64 or another without a variant"
  ref=$image; [[ $arch == "$engine" ]] || ref+=-$arch
  context "$arch"
  old=$(docker image inspect --format '{{.Id}}' "$ref" 2>/dev/null || true)
  built=$(DOCKER_CLI_HINTS=false docker build --quiet --file Dockerfile --build-arg "TARGETARCH=$arch" --build-arg "VERSION=$version" \
    --build-arg "REVISION=$revision" "$work/context" 2>"$work/log") || { cat "$work/log" >&2; die "docker build failed"; }
  settle "$built" "$arch" "$ref"
  new=$(docker image inspect --format '{{.Id}}' "$ref")
  forget "$built"; [[ $old == "$new" ]] || forget "$old"
  log "$ref $platform $new"
  log "$ref $version: $(($(stat -c %s "$work/parts/new/layer.tar") / 1024)) KiB, $(($(gzip -n <"$work/parts/new/layer.tar" | wc -c) / 1024)) KiB to pull"
  rm -rf "$work/context"
done
