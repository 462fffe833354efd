#!/usr/bin/env bash
# Fails, with the difference, if `make generate` would change anything. It generates in a copy,
# so that a tree with uncommitted work can be checked and is left as it is.
#
#   tools/generated.sh BINDIR
set -euo pipefail
bin=$1
cd "$(dirname "$0")/.."

copy=$(mktemp -d); trap 'rm -rf "$copy"' EXIT
cp -R Makefile go.mod go.sum tools api clusters cmd config controllers "$copy"
mkdir -p "$copy/docs"; cp docs/api.md "$copy/docs" 2>/dev/null || true
make -C "$copy" --silent generate BIN="$bin" >"$copy/log" 2>&1 || { cat "$copy/log" >&2; exit 1; }

stale=
for path in api config docs/api.md; do
  diff -ruN "$path" "$copy/$path" || stale=1
done
[[ -z $stale ]] || { echo "generated files are out of date: run make generate" >&2; exit 1; }
