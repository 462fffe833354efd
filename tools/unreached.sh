#!/usr/bin/env bash
# unreached.sh PROFILE [DEPTH]: compares the functions of which an exploration has not run every line with
# those that docs/correctness.md names with a reason. It prints each one with its lines, and fails if the two
# differ. With a DEPTH, an exploration runs other lines, so it only prints.
set -euo pipefail
cd "$(dirname "$0")/.."
profile=$1 depth=${2:-}

module=$(go list -m)
go tool cover -func="$profile" | awk '$3 != "100.0%" && $1 != "total:" { sub(/:.*/, "", $1); n = split($1, path, "/"); print path[n-1] "." $2 }' | sort -u >"$profile.unreached"
sed -n '/^## Lines that no explored state runs/,/^## Promises/p' docs/correctness.md | sed -n 's/^| \(`[^|]*\).*/\1/p' | tr -d '`' | tr -s ', ' '\n' | sed '/^$/d' | sort -u >"$profile.explained"

echo 'Lines that no explored state runs (docs/correctness.md says why):'
awk -v module="$module/" 'NR > 1 { if (!($1 in runs)) order[++n] = $1; runs[$1] += $3 }
  END { for (i = 1; i <= n; i++) if (!runs[order[i]]) { at = order[i]; sub(module, "", at); split(at, part, /[:,.]/); file = part[1] ".go:"; from = part[3]; to = part[5]
    if (file != last) printf "%s%s", (last ? "\n" : ""), "  " file; last = file; printf " %s", (from == to ? from : from "-" to) } print "" }' "$profile"

status=0
while read -r function; do
  echo "docs/correctness.md does not say why no explored state runs all of $function"
  status=1
done < <(comm -23 "$profile.unreached" "$profile.explained")
while read -r function; do
  echo "docs/correctness.md says why no explored state runs all of $function, and explored states do"
  status=1
done < <(comm -13 "$profile.unreached" "$profile.explained")
[[ -n $depth ]] || exit $status
