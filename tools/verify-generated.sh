#!/usr/bin/env bash
# Fails and prints the difference if `make generate` would change a file. It generates in a copy, so
# it also works in a tree with uncommitted changes, and does not modify the tree.
#
#   tools/verify-generated.sh BINDIR
set -euo pipefail
bin=$1
cd "$(dirname "$0")/.."

copy=$(mktemp -d); trap 'rm -rf "$copy"' EXIT
tar -c --exclude=node_modules Makefile go.mod go.sum tools api clusters cmd config controllers internal | tar -x -C "$copy"
mkdir -p "$copy/docs"; cp docs/api.md "$copy/docs" 2>/dev/null || true
make -C "$copy" --silent generate BIN="$bin" >"$copy/log" 2>&1 || { cat "$copy/log" >&2; exit 1; }

stale=
for path in api config docs/api.md docs/cli.md; do
  diff -ruN "$path" "$copy/$path" || stale=1
done
[[ -z $stale ]] || { echo "generated files are out of date: run make generate" >&2; exit 1; }
