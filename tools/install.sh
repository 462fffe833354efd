#!/usr/bin/env bash
# Installs the developer tools and the control-plane binaries for the tests, and links them into a
# directory. The Go modules in this directory pin their versions.
#
#   tools/install.sh BINDIR [NAME...]      without NAME: all tools
#
# Needs: go, git, and access to a Go module proxy. It takes etcd, the control plane, kubectl, kwok
# and kwokctl from the first of these that has them:
#
#   1. KUBEBUILDER_ASSETS, if it is set; not kwok and kwokctl
#   2. PATH, if a program has exactly the pinned version
#   3. their published binaries, checked against checksums.txt; TOOLS_MIRROR=URL or DIRECTORY has
#      them for machines without internet access, as HOST/PATH
#   4. their sources
#
# CONTROL_PLANE=source builds them in any case. The other tools are always built.
#
# The binaries are in a cache outside the tree, which all clones and branches share. It has one
# directory for each state of a module. You may delete it at any time.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)

# Static binaries run in any container. Image builds also use CGO_ENABLED=0, so they share Go's
# build cache.
export CGO_ENABLED=0 GOFLAGS=${GOFLAGS:--buildvcs=false} GOWORK=off

# name, module directory, package, variable for the version
table='
controller-gen           .     sigs.k8s.io/controller-tools/cmd/controller-gen           sigs.k8s.io/controller-tools/pkg/version.version
kustomize                .     sigs.k8s.io/kustomize/kustomize/v5                        sigs.k8s.io/kustomize/api/provenance.version
crd-ref-docs             .     github.com/elastic/crd-ref-docs                           main.buildVersion
golangci-lint            lint  github.com/golangci/golangci-lint/v2/cmd/golangci-lint    main.version
govulncheck              lint  golang.org/x/vuln/cmd/govulncheck                         -
etcd                     .     go.etcd.io/etcd/server/v3                                 -
kube-apiserver           .     k8s.io/kubernetes/cmd/kube-apiserver                      k8s.io/component-base/version.gitVersion
kube-controller-manager  .     k8s.io/kubernetes/cmd/kube-controller-manager             k8s.io/component-base/version.gitVersion
kube-scheduler           .     k8s.io/kubernetes/cmd/kube-scheduler                      k8s.io/component-base/version.gitVersion
helm                     helm  helm.sh/helm/v4/cmd/helm                                  helm.sh/helm/v4/internal/version.version
kubectl                  .     k8s.io/kubernetes/cmd/kubectl                             k8s.io/component-base/version.gitVersion
kube-apiserver-skew      skew  k8s.io/kubernetes/cmd/kube-apiserver                      k8s.io/component-base/version.gitVersion
kwok                     .     sigs.k8s.io/kwok/cmd/kwok                                 sigs.k8s.io/kwok/pkg/consts.Version
kwokctl                  .     sigs.k8s.io/kwok/cmd/kwokctl                              sigs.k8s.io/kwok/pkg/consts.Version
kind                     .     sigs.k8s.io/kind                                          -'

log() { printf '%s\n' "$*" >&2; }
die() { log "tools/install.sh: $*"; exit 1; }

# older A B reports whether version A is older than version B. macOS has no `sort -V`.
older() {
  awk -v a="$1" -v b="$2" 'BEGIN {
    gsub(/[^0-9.].*/, "", a); gsub(/[^0-9.].*/, "", b)
    split(a, x, "."); split(b, y, ".")
    for (i = 1; i <= 3; i++) if (x[i] + 0 != y[i] + 0) exit !(x[i] + 0 < y[i] + 0)
    exit 1 }'
}

# digest MODULE prints a hash of the inputs of the module's binaries.
digest() {
  { cat "$here/$1/go.mod" "$here/$1/go.sum"; awk -v module="$1" '$2 == module' <<<"$table"; declare -f ldflags compile; echo "$toolchain"; } | git hash-object --stdin | cut -c1-16
}

# link FILE NAME does not replace a correct link, because a program may be starting from it.
link() { [[ $(readlink "$bin/$2" || true) == "$1" ]] || ln -sfn "$1" "$bin/$2"; }

# asset NAME links a binary from KUBEBUILDER_ASSETS. It fails if the binary must come from
# elsewhere.
asset() {
  local file=${KUBEBUILDER_ASSETS:-}/$1
  [[ ${CONTROL_PLANE:-} != source ]] || return 1
  case $1 in
    etcd | kube-apiserver | kubectl | kube-controller-manager | kube-scheduler) ;;
    *) return 1 ;;
  esac
  # KUBEBUILDER_ASSETS may be our own directory.
  [[ -n ${KUBEBUILDER_ASSETS:-} && ! $KUBEBUILDER_ASSETS -ef $bin ]] || return 1
  if [[ ! -x $file ]]; then
    [[ $1 == kube-controller-manager || $1 == kube-scheduler ]] && return 1
    die "KUBEBUILDER_ASSETS is set, but $file is missing: unset it, or add the file"
  fi
  link "$(cd "$KUBEBUILDER_ASSETS" && pwd)/$1" "$1"
}

# published NAME reports whether a tool may come from PATH or from its published binaries.
published() {
  [[ ${CONTROL_PLANE:-} != source ]] || return 1
  case $1 in
    etcd | kube-* | kubectl | kwok | kwokctl) ;;
    *) return 1 ;;
  esac
}

# describe_published NAME sets version, file to the path of the download, and stamp to the file that
# has the path of the program in PATH. Without a checksum, file is empty.
describe_published() {
  local sum
  version=$(awk -v package="$package" '$2 ~ /^v/ && index(package "/", $1 "/") == 1 { print $2; exit }' "$here/$module/go.mod")
  sum=$(awk -v name="$1" -v version="$version" -v platform="$platform" '$1 == name && $2 == version && $3 == platform { split($4, sum, ":"); print substr(sum[2], 1, 16) }' "$here/checksums.txt")
  file=${sum:+$cache/download-$sum/$1}
  stamp=$cache/path-$1-$version
}

# known NAME links a tool that was downloaded or found in PATH before. A program in PATH that changed
# since is not used: its inode or the time of its last change is another one.
known() {
  local path
  if [[ -n $file && -x $file ]]; then link "$file" "$1"; return; fi
  path=$(head -n 1 "$stamp" 2>/dev/null) && [[ -x $path && $(state "$path") == $(tail -n 1 "$stamp") ]] && link "$path" "$1"
}

# state FILE prints what changes with the file. A package manager keeps the time of the build, so
# that time is not enough.
state() { ls -Lldci "$1"; }

# download NAME... links the tools that PATH has or that it can download.
download() {
  local name path requests=()
  for name; do
    describe "$name"; describe_published "$name"
    requests+=("$name@$version=${file:-$cache/none}")
  done
  while read -r name path; do
    describe "$name"; describe_published "$name"
    [[ $path == "$file" ]] || { echo "$path"; state "$path"; } >"$stamp"
    link "$path" "$name"
  done < <(cd "$here/.." && go run -trimpath ./internal/download -not-in "$bin" install "${requests[@]}" 9>&- || log "tools: go run ./internal/download failed: building from source")
}

# ldflags prints the linker flags. A binary that is built from a module has no version of its own.
ldflags() {
  local flags="-s -w"
  [[ $variable == - ]] || flags+=" -X $variable=$version"
  if [[ $package == k8s.io/kubernetes/* ]]; then
    local minor=${version#v1.}
    flags+=" -X ${variable%.*}.gitMajor=1 -X ${variable%.*}.gitMinor=${minor%%.*} -X ${variable%.*}.gitTreeState=clean"
  fi
  echo "$flags"
}

compile() { go build -trimpath -ldflags "$(ldflags)" -o "$1" "$package"; }

# describe NAME sets module, package and variable, and file to the path of the built binary in the
# cache.
describe() {
  read -r _ module package variable < <(grep "^$1 " <<<"$table") || die "there is no tool $1"
  file=$cache/$(digest "$module")/$1
}

# build NAME LABEL builds file atomically. It shows the compiler's output only on failure.
build() {
  local label=$2 started=$SECONDS version ticker=
  mkdir -p "${file%/*}"
  temp=$(mktemp -d "$file.XXXXXX"); trap 'rm -rf "$temp"' EXIT
  cd "$here/$module"
  version=$(go list -f '{{.Module.Version}}' "$package" 2>"$temp/log") || { cat "$temp/log" >&2; die "$1: go cannot find $package"; }
  label+=" $1 $version …"
  if [[ -t 2 ]]; then
    # $$ is this script. The clock stops if the script is killed.
    while kill -0 $$; do printf '\r%s %ds' "$label" $((SECONDS - started)); sleep 1; done >&2 & ticker=$!
  else
    log "$label"
  fi
  # Close the lock (descriptor 9) for go, which may leave a process behind.
  if compile "$temp/out" >"$temp/log" 2>&1 9>&-; then
    mv "$temp/out" "$file"
    label+=" $((SECONDS - started))s"
  else
    label+=" failed"
  fi
  [[ -z $ticker ]] || { kill "$ticker"; wait "$ticker" 2>/dev/null || true; printf '\r' >&2; }
  log "$label"
  [[ -x $file ]] || { cat "$temp/log" >&2; die "$1 did not build"; }
  rm -rf "$temp"
}

# locate NAME links a tool if this needs no download and no build.
locate() {
  asset "$1" && return
  describe "$1"
  if [[ -x $file ]]; then link "$file" "$1"; return; fi
  published "$1" || return
  describe_published "$1"
  known "$1"
}

[[ $# -ge 1 ]] || die "usage: tools/install.sh BINDIR [NAME...]"
mkdir -p "$1"; bin=$(cd "$1" && pwd); shift
# shellcheck disable=SC2046
[[ $# -gt 0 ]] || set -- $(awk '{print $1}' <<<"$table")

need=$(awk '$1 == "go" {print $2}' "$here/go.mod")
command -v go >/dev/null || die "go is missing: install Go $need or newer"
toolchain=$(cd "$here" && go env GOVERSION GOOS GOARCH 2>&1) || die "go is too old: install Go $need or newer ($toolchain)"
have=${toolchain%%[[:space:]]*}
! older "${have#go}" "$need" || die "go is too old: $have is installed, install go$need or newer"
platform=$(printf '%s' "${toolchain#*[[:space:]]}" | tr '[:space:]' /)

# Without a writable home directory, the cache is in BINDIR, also that of go.
cache=${XDG_CACHE_HOME:-${HOME:-/dev/null}/.cache}/fleetwright/tools
if ! mkdir -p "$cache" 2>/dev/null || [[ ! -w $cache ]]; then
  cache=$bin/.cache
  mkdir -p "$cache"
fi

missing=()
for name; do
  locate "$name" || missing+=("$name")
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

# writable DIRECTORY creates a directory if necessary.
writable() { [[ $1 == /* ]] && mkdir -p "$1" 2>/dev/null && [[ -w $1 ]]; }
writable "$(go env GOCACHE 2>/dev/null)" || export GOCACHE=$cache/go-build
writable "$(go env GOMODCACHE 2>/dev/null)" || export GOMODCACHE=$cache/go-mod

# The lock prevents two clones from building the same tools at the same time. It is optional.
if command -v flock >/dev/null; then
  exec 9>"$cache/lock"
  flock -n 9 || { log "tools: waiting for another clone's build"; flock 9; }
fi

wanted=()
for name in "${missing[@]}"; do
  ! published "$name" || locate "$name" || wanted+=("$name")
done
[[ ${#wanted[@]} == 0 ]] || download "${wanted[@]}"

build=()
for name in "${missing[@]}"; do
  locate "$name" || build+=("$name")
done
[[ ${#build[@]} -gt 0 ]] || exit 0
for i in "${!build[@]}"; do
  describe "${build[$i]}"
  build "${build[$i]}" "[$((i + 1))/${#build[@]}]"
  link "$file" "${build[$i]}"
done
