#!/usr/bin/env bash
# Starts a Docker engine if none responds.
#
#   tools/docker.sh up      uses the engine that responds, or starts one and prints `started`
#   tools/docker.sh down    stops the engine that `up` started, and no other
#
# It installs and starts an engine only as root, and only in CI (CI is set) or with START_DOCKER=1.
# It uses Debian's packages and starts dockerd directly, so systemd is not required. Exit status 3:
# there is no engine, and the script must not or cannot start one, for example in an unprivileged
# container.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
pidfile=/run/fleetwright-dockerd.pid
log=${TMPDIR:-/tmp}/fleetwright-dockerd.log
# Without this wrapper, no privileged container starts if the engine lacks a capability.
wrapper=$(cd "$here/kind/host" && pwd)/runc-held-caps
engine= # PID of the engine that this script started, if any.

say() { printf 'docker: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
without() { say "$*"; exit 3; }
answers() { docker version --format '{{.Server.Version}}' 2>/dev/null; }

# await SECONDS waits until an engine responds, or until the started engine has exited.
await() {
  for _ in $(seq $(($1 * 5))); do
    answers >/dev/null && return
    [[ -z $engine ]] || kill -0 "$engine" 2>/dev/null || return 1
    sleep 0.2
  done
  return 1
}

up() {
  local version
  if version=$(answers); then say "engine $version responds"; return; fi
  if [[ -z ${CI:-} && -z ${START_DOCKER:-} ]]; then
    without "no engine responds: start one, or run as root with START_DOCKER=1 to install and start one"
  fi
  [[ $(uname) == Linux ]] || without "no engine responds: start one, such as Docker Desktop"
  [[ $EUID == 0 ]] || without "no engine responds: run as root to install and start one"
  if ! command -v dockerd >/dev/null || ! command -v iptables >/dev/null; then
    command -v apt-get >/dev/null || without "no engine responds, and apt-get is missing: install a Docker engine"
    say "apt-get install docker.io iptables"
    { apt-get -qq update && apt-get -qq install -y --no-install-recommends docker.io iptables; } >"$log" 2>&1 || { tail -5 "$log" >&2; without "no engine responds, and apt-get failed to install one: see $log"; }
    # With systemd, the package starts the engine.
    [[ ! -d /run/systemd/system ]] || await 10 || true
  fi
  if ! answers >/dev/null; then
    setsid dockerd --pidfile "$pidfile" --add-runtime "runc-held-caps=$wrapper" --default-runtime runc-held-caps >"$log" 2>&1 </dev/null &
    engine=$!
    trap 'kill "$engine" 2>/dev/null || true' EXIT
    await 30 || { tail -5 "$log" >&2; without "no engine responds, and dockerd does not start: see $log"; }
    trap - EXIT
    [[ $(cat "$pidfile" 2>/dev/null) != "$engine" ]] || { prefer; echo started; } # otherwise another engine started first
  fi
  say "engine $(answers) started"
}

# prefer lets containers have the CPU time of ten processes. By default, all containers together have that
# of one: beside `make test`, the nodes of kind had a sixth of the machine, and did not start within four
# minutes. The engine uses a cgroup that exists already.
prefer() {
  local cpu=/sys/fs/cgroup/cpu/docker
  if [[ -d /sys/fs/cgroup/cpu ]]; then
    { mkdir -p $cpu && echo 10240 >$cpu/cpu.shares; } 2>/dev/null || say "containers have little CPU time beside other work: $cpu/cpu.shares cannot be set"
  elif [[ -e /sys/fs/cgroup/cgroup.controllers ]]; then
    cpu=/sys/fs/cgroup/docker
    { mkdir -p $cpu && echo 1000 >$cpu/cpu.weight; } 2>/dev/null || true # with systemd, the cgroups are others
  fi
}

down() {
  local pid; pid=$(cat "$pidfile" 2>/dev/null) || { say "this script started no engine"; return; }
  [[ $(cat "/proc/$pid/comm" 2>/dev/null) == dockerd ]] || { rm -f "$pidfile"; say "the engine already exited"; return; }
  kill "$pid"
  for _ in $(seq 100); do kill -0 "$pid" 2>/dev/null || { rm -f "$pidfile"; say "stopped"; return; }; sleep 0.2; done
  die "dockerd ($pid) does not stop"
}

case ${1:-up} in
  up | down) "${1:-up}" ;;
  *) die "usage: tools/docker.sh up|down" ;;
esac
