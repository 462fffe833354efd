#!/usr/bin/env bash
# Bounds the quantities in CRDs. Kubernetes' own pattern takes an exponent of any length, and to read 1e-2000000000 takes all the
# time and memory there is: one such AppService would end every operator that lists it.
#
#   tools/bounded.sh CRD...
set -euo pipefail
any='([0-9]+(\.[0-9]*)?)|(\.[0-9]+)'
few='([0-9]{1,18}(\.[0-9]{0,18})?)|(\.[0-9]{1,18})'
from="($any)(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?($any)))?"
to="($few)(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?[0-9]{1,2}))?"
for file in "$@"; do
  content=$(<"$file")
  printf '%s\n' "${content//"$from"/$to}" >"$file"
done
