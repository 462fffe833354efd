#!/usr/bin/env bash
# Sees to it that a Docker engine answers.
#
#   tools/docker.sh up      takes the one that answers; else installs and starts one, where it may, and prints `started`; else says why not
#   tools/docker.sh down    ends the engine that `up` has started, and no other
#
# It may install and start one as root in CI (CI is set), or when asked: START_DOCKER=1. It takes Debian's packages and
# starts dockerd by hand: there need be no systemd. Exit status 3: there is no engine, and it may not or cannot start one, as in an
# unprivileged container.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
pidfile=/run/fleetwright-dockerd.pid
log=${TMPDIR:-/tmp}/fleetwright-dockerd.log
# Where the engine lacks a capability, no privileged container would start without this.
wrapper=$(realpath "$here/../e2e/kind/host/runc-held-caps")
engine= # The process that was started, if one was.

say() { printf 'docker: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
without() { say "$*"; exit 3; }
answers() { docker version --format '{{.Server.Version}}' 2>/dev/null; }

# await SECONDS: until an engine answers, or until the one that was started has died.
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
  if version=$(answers); then say "engine $version answers"; return; fi
  if [[ -z ${CI:-} && -z ${START_DOCKER:-} ]]; then
    without "no engine answers: start one, or let this script install and start one: START_DOCKER=1, as root"
  fi
  [[ $EUID == 0 ]] || without "no engine answers, and only root can install and start one"
  if ! command -v dockerd >/dev/null || ! command -v iptables >/dev/null; then
    command -v apt-get >/dev/null || without "no engine answers, and there is no apt-get to install one with"
    say "apt-get install docker.io iptables"
    { apt-get -qq update && apt-get -qq install -y --no-install-recommends docker.io iptables; } >"$log" 2>&1 || { tail -5 "$log" >&2; without "no engine answers, and apt-get cannot install one; its log is $log"; }
    # Where there is a systemd, the package starts the engine.
    [[ ! -d /run/systemd/system ]] || await 10 || true
  fi
  if ! answers >/dev/null; then
    setsid dockerd --pidfile "$pidfile" --add-runtime "runc-held-caps=$wrapper" --default-runtime runc-held-caps >"$log" 2>&1 </dev/null &
    engine=$!
    trap 'kill "$engine" 2>/dev/null || true' EXIT
    await 30 || { tail -5 "$log" >&2; without "no engine answers, and dockerd does not come up; its log is $log"; }
    trap - EXIT
    [[ $(cat "$pidfile" 2>/dev/null) != "$engine" ]] || echo started # else another's came up first
  fi
  say "engine $(answers) started"
}

down() {
  local pid; pid=$(cat "$pidfile" 2>/dev/null) || { say "none was started by this script"; return; }
  [[ $(cat "/proc/$pid/comm" 2>/dev/null) == dockerd ]] || { rm -f "$pidfile"; say "it has ended already"; return; }
  kill "$pid"
  for _ in $(seq 100); do kill -0 "$pid" 2>/dev/null || { rm -f "$pidfile"; say "ended"; return; }; sleep 0.2; done
  die "dockerd ($pid) does not end"
}

case ${1:-up} in
  up | down) "${1:-up}" ;;
  *) die "usage: tools/docker.sh up|down" ;;
esac
