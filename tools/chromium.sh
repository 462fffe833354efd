#!/usr/bin/env bash
# Prints the path of a Chromium, for the tests in a browser.
#
# It installs Debian's package only as root, and only in CI (CI is set) or with INSTALL_CHROMIUM=1.
# Exit status 3: there is no Chromium, and the script must not or cannot install one.
set -euo pipefail

say() { printf 'chromium: %s\n' "$*" >&2; }
without() { say "$*"; exit 3; }

find_chromium() { command -v "${CHROMIUM:-chromium}" || command -v chromium-browser || command -v google-chrome; }

if ! find_chromium; then
  [[ -n ${CI:-} || -n ${INSTALL_CHROMIUM:-} ]] || without "no Chromium: install one, set CHROMIUM to its path, or run as root with INSTALL_CHROMIUM=1"
  [[ $EUID == 0 ]] || without "no Chromium: run as root to install one"
  command -v apt-get >/dev/null || without "no Chromium, and apt-get is missing: install one"
  say "apt-get install chromium"
  log=$(mktemp)
  { apt-get -qq update && apt-get -qq install -y --no-install-recommends chromium; } >"$log" 2>&1 || { tail -5 "$log" >&2; without "apt-get failed to install Chromium: see $log"; }
  find_chromium
fi
