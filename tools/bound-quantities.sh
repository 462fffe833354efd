#!/usr/bin/env bash
# Limits quantities and numbers in CRDs. One AppService with a value that a client cannot decode, or
# only at great cost, would stop every operator that lists it.
#
# - Quantities: the pattern of Kubernetes accepts an exponent of any length, and parsing
#   1e-2000000000 exhausts CPU and memory.
# - A number or a percentage: it is decoded as a number of 32 bits, but its schema has no format.
#
#   tools/bound-quantities.sh CRD...
set -euo pipefail
unbounded='([0-9]+(\.[0-9]*)?)|(\.[0-9]+)'
bounded='([0-9]{1,18}(\.[0-9]{0,18})?)|(\.[0-9]{1,18})'
from="($unbounded)(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?($unbounded)))?"
to="($bounded)(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?[0-9]{1,2}))?"
for file in "$@"; do
  content=$(<"$file")
  printf '%s\n' "${content//"$from"/$to}" |
    awk '
      /^ +x-kubernetes-int-or-string: true$/ && before !~ /numkMGTPE/ { # not a quantity
        indent = substr($0, 1, match($0, /[^ ]/) - 1)
        print indent "maximum: 2147483647"; print indent "minimum: -2147483648"
      }
      { print; before = $0 }' >"$file.new"
  mv "$file.new" "$file"
done
