#!/usr/bin/env bash
# Builds a node image for kind v0.33 from Debian's packages and Go modules, without a container
# registry.
#
# Needs: Debian, root, a Docker engine, go, and access to a Debian mirror and a Go module proxy. It
# installs mmdebstrap. It writes to $WORK (1 GB) and to the Docker engine. It skips a step if the
# inputs of the step and this script are unchanged; comments do not count. README.md has the
# reasons.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
WORK=${WORK:-${XDG_CACHE_HOME:-$HOME/.cache}/fleetwright/kind-node}
IMAGE=${IMAGE:-localhost/kind-node:v1.36.3}
SUITE=bookworm
# The machine must run the same suite, so that its mirrors fit.
SOURCES=${SOURCES:-/etc/apt/sources.list.d/debian.sources}
# The packages of a node. Taken from one suite, systemd, containerd and runc fit together.
PACKAGES=(
  systemd mount util-linux procps kmod          # the node as a machine
  containerd runc containernetworking-plugins   # the container runtime
  iptables nftables iproute2 conntrack ethtool  # the kubelet's and kube-proxy's tools
)
# Static, so that each image needs one file only. The settings are those of tools/install.sh, so
# that both share Go's build cache.
export CGO_ENABLED=0 GOFLAGS=${GOFLAGS:--buildvcs=false}

log() { printf 'kind: +%ds %s\n' "$SECONDS" "$*" >&2; }
die() { log "$*"; exit 1; }

# fresh STEP HASH reports whether the step was done with these inputs. done_with STEP HASH records
# that.
fresh() { [[ -f $WORK/$1.stamp && $(<"$WORK/$1.stamp") == "$2" ]]; }
done_with() { echo "$2" >"$WORK/$1.stamp"; }
digest() { sha256sum | cut -c1-16; }
# sources prints this script and the files of node/ without lines that are comments.
sources() { (cd "$here" && find node build.sh -type f -print0 | sort -z | xargs -0 grep -Hv '^[[:space:]]*#'); }

prepare() {
  [[ $EUID == 0 ]] || die "building a node image needs root (mmdebstrap, chroot)"
  grep -q "$SUITE" "$SOURCES" 2>/dev/null || die "building a node image needs Debian $SUITE, but $SOURCES has no sources of it"
  command -v mmdebstrap >/dev/null || {
    log "apt-get install mmdebstrap"
    { apt-get -qq update && apt-get -qq install -y --no-install-recommends mmdebstrap; } >/dev/null 2>&1 || die "cannot install mmdebstrap"
  }
  mkdir -p "$WORK/bin"
}

# gobuild MODULE LDFLAGS OUT PACKAGE... builds binaries. `go build` skips those that are up to date.
gobuild() {
  local module=$1 ldflags=$2 out=$3; shift 3
  (cd "$here/$module" && go build -trimpath -ldflags "-s -w $ldflags" -o "$WORK/bin/$out" "$@")
}

binaries() {
  # A binary that is built from a module reports v0.0.0, but kubeadm compares versions.
  local v=k8s.io/component-base/version minor=${version#v1.}
  local ldflags="-X $v.gitVersion=$version -X $v.gitMajor=1 -X $v.gitMinor=${minor%%.*} -X $v.gitTreeState=clean"
  local commands=(kube-apiserver kube-controller-manager kube-scheduler kube-proxy kubelet kubeadm kubectl)
  log "binaries of Kubernetes $version"
  gobuild kube "$ldflags" "" "${commands[@]/#/k8s.io/kubernetes/cmd/}"
  gobuild kube "$ldflags" etcd go.etcd.io/etcd/server/v3
  gobuild helpers "" "" ./pause
  gobuild coredns "" coredns .
  gobuild crictl "" crictl sigs.k8s.io/cri-tools/cmd/crictl
}

rootfs() {
  local drop=() d
  for d in man doc info locale lintian bug; do drop+=(--dpkgopt="path-exclude=/usr/share/$d/*"); done
  # Each of these has several megabytes, and no node needs it.
  for d in bandwidth dhcp firewall host-device ipvlan macvlan sbr tuning vlan vrf; do drop+=(--dpkgopt="path-exclude=/usr/lib/cni/$d"); done
  drop+=(--dpkgopt="path-exclude=/usr/bin/containerd-shim" --dpkgopt="path-exclude=/usr/bin/containerd-shim-runc-v1")
  log "root file system: Debian $SUITE with ${PACKAGES[*]}"
  # Variant "essential" has no apt. The hook merges /usr; the package usrmerge would install perl.
  mmdebstrap --quiet --mode=root --variant=essential --format=tar "${drop[@]}" \
    --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr --aptopt='Apt::Install-Recommends "false"' \
    --include="$(IFS=,; echo "${PACKAGES[*]}")" "$SUITE" "$WORK/rootfs.tar" "$SOURCES" \
    >"$WORK/rootfs.log" 2>&1 || { tail -20 "$WORK/rootfs.log" >&2; die "mmdebstrap failed"; }
}

# import TREE IMAGE CHANGE... creates an image of one layer, and deletes its predecessor.
import() {
  local tree=$1 image=$2 old change changes=(); shift 2
  for change; do changes+=(--change "$change"); done
  old=$(docker image ls --quiet "$image")
  tar -C "$tree" --sort=name --numeric-owner -c . | docker import "${changes[@]}" - "$image" >/dev/null
  [[ -z $old ]] || docker image rm "$old" >/dev/null 2>&1 || true
}

# kube_proxy_files TREE copies iptables with its extensions, nft and conntrack from the root file
# system, with all their libraries. A missing library fails only when a Service gets its second
# endpoint: libxt_statistic.so needs libm.
kube_proxy_files() {
  local root=$WORK/proxy.root link
  rm -rf "$root"; mkdir -p "$root"; tar -C "$root" -xf "$WORK/rootfs.tar"
  # shellcheck disable=SC2016 # The inner shell expands it.
  chroot "$root" bash -c '
    files=(/usr/sbin/{xtables-nft-multi,nft,conntrack} /usr/lib/*/xtables/*.so)
    printf "%s\n" "${files[@]}"
    ldd "${files[@]}" | grep -oE "(^|[[:space:]])/[^ :]+ " | tr -d "[:blank:]" | sort -u' |
    (cd "$root" && sed 's/^/./' | xargs cp --parents -L -t "$1")
  for link in ip{,6}tables{,-save,-restore}; do ln -s xtables-nft-multi "$1/usr/sbin/$link"; done
  rm -rf "$root"
}

component_images() {
  local name tree=$WORK/component
  log "images of the control plane"
  for name in "${!image[@]}"; do
    rm -rf "$tree"; mkdir -p "$tree/usr/local/bin" "$tree/tmp"; chmod 1777 "$tree/tmp"
    [[ $name != kube-proxy ]] || kube_proxy_files "$tree"
    cp "$WORK/bin/$name" "$tree/usr/local/bin/"
    import "$tree" "${image[$name]}" 'ENV PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' "ENTRYPOINT [\"/usr/local/bin/$name\"]"
  done
  rm -rf "$tree"
}

# node_files TREE creates the node's file system without the preloaded images.
node_files() {
  tar -C "$1" -xf "$WORK/rootfs.tar"
  cp -r "$here/node/." "$1/"
  sed -i "s#@PAUSE@#${image[pause]}#" "$1/etc/containerd/config.toml"
  install -m 755 "$WORK"/bin/{kubelet,kubeadm,kubectl,crictl} "$1/usr/bin/"
  echo "$version" >"$1/kind/version" # kind reads it
  mkdir -p "$1/etc/kubernetes/manifests" "$1/etc/ssl/certs" "$1/lib/modules"
  # systemd runs only the journal, containerd and the kubelet. The machine owns the kernel, the
  # devices and the kernel settings.
  rm -f "$1"/etc/systemd/system/*.wants/* "$1"/lib/systemd/system/{sysinit,basic,local-fs,multi-user,timers,getty,graphical}.target.wants/*
  find "$1"/lib/systemd/system/sockets.target.wants -type l ! -name 'systemd-journald*' -delete
  chroot "$1" systemctl --quiet enable containerd.service kubelet.service
  chroot "$1" systemctl --quiet set-default multi-user.target
  mkdir -p "$1/lib/systemd/system/sysinit.target.wants"
  ln -s ../systemd-journald.service "$1/lib/systemd/system/sysinit.target.wants/"
  printf '[Journal]\nReadKMsg=no\nForwardToConsole=no\nRateLimitIntervalSec=0\n' >"$1/etc/systemd/journald.conf"
  local t; for t in iptables ip6tables; do ln -sf "/usr/sbin/$t-nft" "$1/etc/alternatives/$t"; done
  rm -rf "$1"/var/lib/dpkg/info "$1"/var/cache/* "$1"/var/log/* "$1"/etc/{machine-id,hostname,resolv.conf}
}

# preload TREE imports the images of the control plane into containerd's store. It runs the node's
# containerd in the tree. It does not unpack the images: a node creates the snapshots on its own
# volume when it first uses them.
preload() {
  local plugin containerd disabled='"io.containerd.grpc.v1.cri"'
  for plugin in btrfs devmapper zfs aufs; do disabled+=", \"io.containerd.snapshotter.v1.$plugin\""; done
  printf 'version = 2\ndisabled_plugins = [%s]\n' "$disabled" >"$1/tmp/preload.toml"
  mkdir -p "$1/dev" "$1/proc"
  [[ -c $1/dev/null ]] || mknod -m 666 "$1/dev/null" c 1 3
  [[ -c $1/dev/urandom ]] || mknod -m 666 "$1/dev/urandom" c 1 9
  chroot "$1" /usr/bin/containerd --config /tmp/preload.toml --log-level warn >"$WORK/containerd.log" 2>&1 & containerd=$!
  # shellcheck disable=SC2064 # Expand the PID now.
  trap "kill $containerd 2>/dev/null || true" EXIT
  for _ in $(seq 50); do ! chroot "$1" ctr version >/dev/null 2>&1 || break; sleep 0.2; done
  docker save "${image[@]}" | chroot "$1" ctr --namespace k8s.io images import --no-unpack - >/dev/null
  kill $containerd; wait $containerd || true
  trap - EXIT
  rm -rf "$1/tmp/preload.toml" "$1"/run/*
}

node_image() {
  local tree=$WORK/node
  log "node image $IMAGE"
  rm -rf "$tree"; mkdir -p "$tree"
  node_files "$tree"
  preload "$tree"
  import "$tree" "$IMAGE" 'ENV container=docker' 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' 'ENTRYPOINT ["/kind/bin/entrypoint"]'
  rm -rf "$tree"
}

prepare
version=$(cd "$here/kube" && go list -m -f '{{.Version}}' k8s.io/kubernetes)
[[ $IMAGE == *:$version ]] || die "the tag of IMAGE must be $version: $IMAGE"
binaries

hash=$(echo "$SUITE $(<"$SOURCES") ${PACKAGES[*]}" | digest)
fresh rootfs "$hash" || { rootfs; done_with rootfs "$hash"; }

# kubeadm defines the names and tags of the images.
declare -A image
while read -r ref; do name=${ref##*/}; image[${name%%:*}]=$ref; done < <("$WORK/bin/kubeadm" config images list --kubernetes-version "$version" 2>/dev/null)
for name in kube-apiserver kube-controller-manager kube-scheduler kube-proxy coredns pause etcd; do
  [[ -n ${image[$name]:-} ]] || die "kubeadm lists no image for $name"
done

hash=$( (cd "$WORK/bin" && sha256sum -- *; sources; echo "$hash") | digest)
if ! fresh node "$hash" || ! docker image inspect "$IMAGE" >/dev/null 2>&1; then
  component_images
  node_image
  docker image rm "${image[@]}" >/dev/null # The node image contains them.
  done_with node "$hash"
fi
log "$(docker image ls --format '{{.Repository}}:{{.Tag}} {{.Size}}' "$IMAGE")"
