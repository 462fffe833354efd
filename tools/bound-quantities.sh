#!/usr/bin/env bash
# Limits the length of quantities in CRDs. The pattern of Kubernetes accepts an exponent of any
# length, and parsing 1e-2000000000 exhausts CPU and memory: one such AppService would crash every
# operator that lists it.
#
#   tools/bound-quantities.sh CRD...
set -euo pipefail
unbounded='([0-9]+(\.[0-9]*)?)|(\.[0-9]+)'
bounded='([0-9]{1,18}(\.[0-9]{0,18})?)|(\.[0-9]{1,18})'
from="($unbounded)(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?($unbounded)))?"
to="($bounded)(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?[0-9]{1,2}))?"
for file in "$@"; do
  content=$(<"$file")
  printf '%s\n' "${content//"$from"/$to}" >"$file"
done
