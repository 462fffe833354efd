#!/usr/bin/env bash
# Builds and checks the page of `kubectl appsvc ui`. Its built files are committed, so only a change
# of the page needs Node.js.
#
#   tools/page.sh build     installs the packages, checks the types, and writes dist
#   tools/page.sh verify    runs the unit tests, and fails if a build gives other files than dist
#   tools/page.sh install   installs the packages, which the tests in a browser need
#
# Exit status 3: Node.js is missing or too old.
set -euo pipefail
cd "$(dirname "$0")/../cmd/kubectl-appsvc/ui/page"

say() { printf 'page: %s\n' "$*" >&2; }

require_node() {
  local have
  have=$(node --version 2>/dev/null) && command -v npm >/dev/null || { say "Node.js is missing: install Node.js 20.19 or newer, with npm"; exit 3; }
  node -e 'const [major, minor] = process.versions.node.split("."); process.exit(major > 20 || (major == 20 && minor >= 19) ? 0 : 1)' || { say "Node.js $have is too old: install 20.19 or newer"; exit 3; }
}

# install leaves node_modules alone if it is that of the lock file.
install() {
  cmp -s package-lock.json node_modules/.installed && return
  npm ci --silent
  cp package-lock.json node_modules/.installed
}

verify() {
  npm run --silent test
  local built; built=$(mktemp -d)
  # shellcheck disable=SC2064 # the directory of now
  trap "rm -rf '$built'" EXIT
  npm run --silent build -- --outDir "$built" --emptyOutDir --logLevel error
  diff -rq dist "$built" >&2 || { say "dist is out of date: run make page, and commit the result"; exit 1; }
}

case ${1:-} in
  build) require_node; install; npm run --silent build ;;
  verify) require_node; install; verify ;;
  install) require_node; install ;;
  *) say "usage: tools/page.sh build|verify|install"; exit 1 ;;
esac
