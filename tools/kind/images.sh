#!/usr/bin/env bash
# Prepares the images for the clusters of internal/environment/kind in the Docker engine: an image for
# kind's nodes, and localhost/hello:1, the workload of the tests, which is also
# localhost/hello-unprivileged:1 for a user other than root. It takes seconds if they exist.
#
# It pulls kind's node image if a registry can be reached. Otherwise build.sh builds one from
# Debian's packages and Go modules. That takes eleven minutes the first time, mostly to compile
# Kubernetes.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
hello=localhost/hello:1
unprivileged=localhost/hello-unprivileged:1
built=localhost/kind-node:v1.36.3

log() { printf 'kind: %s\n' "$*" >&2; }
has() { docker image inspect "$1" >/dev/null 2>&1; }

# The lock prevents two clones from building the same images at the same time. It is optional.
if command -v flock >/dev/null; then
  lock=${XDG_CACHE_HOME:-$HOME/.cache}/fleetwright/kind.lock
  mkdir -p "${lock%/*}"
  exec 9>"$lock"
  flock -n 9 || { log "waiting for another clone's build"; flock 9; }
fi

docker version >/dev/null 2>&1 || { log "no Docker engine responds: start one, or run tools/docker.sh up"; exit 1; }

# The digest of the program shows whether the image is up to date: builds are reproducible.
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
(cd "$here/helpers" && CGO_ENABLED=0 GOFLAGS=-buildvcs=false GOARCH=$(docker version --format '{{.Server.Arch}}') GOOS=linux \
  go build -trimpath -ldflags "-s -w" -o "$work/root/hello" ./hello)
digest=$(git hash-object "$work/root/hello")
# hello IMAGE USER creates the image. The link replaces `sleep`, which samples run.
hello() {
  [[ $(docker image inspect --format '{{.Config.Labels.digest}}' "$1" 2>/dev/null) != "$digest" ]] || return 0
  log "image $1"
  tar -C "$work/root" -c . | docker import --change "USER $2" --change 'ENV PATH=/bin' --change 'ENTRYPOINT ["/hello"]' \
    --change "LABEL digest=$digest" - "$1" >/dev/null
}
mkdir "$work/root/bin"; ln -s ../hello "$work/root/bin/sleep"
hello "$hello" 0
hello "$unprivileged" 101

own=$(sed -n 's/^const Image = "\(.*\)"$/\1/p' "$(cd "$here/../.." && go list -m -f '{{.Dir}}' sigs.k8s.io/kind)/pkg/apis/config/defaults/image.go")
if has "$own"; then
  log "node image ${own%@*}, kind's own"
elif ! has "$built" && log "pulling kind's node image ${own%@*} …" && docker pull --quiet "$own" >/dev/null 2>"$work/pull"; then
  log "node image ${own%@*}, kind's own"
else
  [[ ! -s $work/pull ]] || log "the image cannot be pulled ($(tail -1 "$work/pull" | cut -c1-160)): building one"
  IMAGE=$built "$here/build.sh"
fi
