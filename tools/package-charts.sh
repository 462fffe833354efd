#!/usr/bin/env bash
# Packages the Helm charts for a release, from the files that Git tracks:
#
#   tools/package-charts.sh BINDIR VERSION DIRECTORY      writes DIRECTORY/fleetwright-1.2.3.tgz, …
#
# VERSION is that of the release, such as v1.2.3. Each chart gets it as its version, without the v,
# and as the version of the application, which is the tag of the image. All files get the same time,
# which `helm package` stores. So the same sources and the same Helm give the same bytes:
# docs/decisions/the-chart-renders-config.md.
#
# Needs: git, BINDIR/helm.
set -euo pipefail

[[ $# == 3 ]] || { echo 'usage: tools/package-charts.sh BINDIR VERSION DIRECTORY' >&2; exit 2; }
[[ $2 =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] || { echo "VERSION $2 is no version of a release, such as v0.1.0" >&2; exit 1; }
mkdir -p "$3"
helm=$(cd "$1" && pwd)/helm version=$2 out=$(cd "$3" && pwd)
cd "$(dirname "$0")/.."

stage=$(mktemp -d); trap 'rm -rf "$stage"' EXIT
git ls-files -z charts config | while IFS= read -r -d '' file; do
  [[ ! -e $file ]] || printf '%s\0' "$file"
done | tar --null -T - -cf - | tar -xf - -C "$stage"
find "$stage" -exec env TZ=UTC touch -ht 198001010000 {} +
for chart in fleetwright fleetwright-member; do
  "$helm" package "$stage/charts/$chart" --version "${version#v}" --app-version "$version" --destination "$out" 2>"$stage/log" >&2 || { cat "$stage/log" >&2; exit 1; }
  echo "$out/$chart-${version#v}.tgz"
done
