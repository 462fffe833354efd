#!/usr/bin/env bash
# Builds the developer tools and the control-plane binaries for the tests, and links them into a
# directory. The Go modules in this directory pin their versions.
#
#   tools/install.sh BINDIR [NAME...]      without NAME: all tools
#
# Needs: go, git, and access to a Go module proxy. If KUBEBUILDER_ASSETS is set, its etcd,
# kube-apiserver and kubectl are linked instead of built, and so are its kube-controller-manager and
# kube-scheduler if they exist.
#
# The binaries are in a cache outside the tree, which all clones and branches share. It has one
# directory for each state of a module. You may delete it at any time.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/fleetwright/tools

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

# digest MODULE prints a hash of the inputs of the module's binaries. Comments in this script do not
# count.
digest() {
  { cat "$here/$1/go.mod" "$here/$1/go.sum"; grep -v "^ *#" "$here/install.sh"; echo "$toolchain"; } | git hash-object --stdin | cut -c1-16
}

# link FILE NAME does not replace a correct link, because a program may be starting from it.
link() { [[ $(readlink "$bin/$2" || true) == "$1" ]] || ln -sfn "$1" "$bin/$2"; }

# asset NAME links a binary from KUBEBUILDER_ASSETS. It fails if the binary must be built.
asset() {
  local file=${KUBEBUILDER_ASSETS:-}/$1
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

# describe NAME sets module, package and variable, and file to the path in the cache.
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
  if go build -trimpath -ldflags "$(ldflags)" -o "$temp/out" "$package" >"$temp/log" 2>&1 9>&-; then
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

[[ $# -ge 1 ]] || die "usage: tools/install.sh BINDIR [NAME...]"
mkdir -p "$1"; bin=$(cd "$1" && pwd); shift
# shellcheck disable=SC2046
[[ $# -gt 0 ]] || set -- $(awk '{print $1}' <<<"$table")

need=$(awk '$1 == "go" {print $2}' "$here/go.mod")
command -v go >/dev/null || die "go is missing: install Go $need or newer"
toolchain=$(cd "$here" && go env GOVERSION GOOS GOARCH 2>&1) || die "go is too old: install Go $need or newer ($toolchain)"
have=${toolchain%%[[:space:]]*}
[[ $(printf '%s\n' "go$need" "$have" | sort -V | head -1) == "go$need" ]] || die "go is too old: $have is installed, install go$need or newer"

missing=()
for name; do
  describe "$name"
  if ! asset "$name"; then
    if [[ -x $file ]]; then link "$file" "$name"; else missing+=("$name"); fi
  fi
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

# The lock prevents two clones from building the same tools at the same time. It is optional.
mkdir -p "$cache"
if command -v flock >/dev/null; then
  exec 9>"$cache/lock"
  flock -n 9 || { log "tools: waiting for another clone's build"; flock 9; }
fi
for i in "${!missing[@]}"; do
  name=${missing[$i]}
  describe "$name"
  [[ -x $file ]] || build "$name" "[$((i + 1))/${#missing[@]}]"
  link "$file" "$name"
done
