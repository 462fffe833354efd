#!/usr/bin/env bash
# Removes duplicate descriptions from CRDs: those inside the Kubernetes types of init containers and
# of the env of overrides, and those inside podAntiAffinity and worstClusters. `kubectl explain` shows
# the same descriptions under spec.env, spec.livenessProbe, spec.affinity.podAffinity, status.clusters
# and so on.
# `kubectl apply` stores a CRD in an annotation, and annotations are limited to 256 KiB.
#
#   tools/terse.sh CRD...
set -euo pipefail
for file in "$@"; do
  awk '
    /^ *$/ { if (!dropping) print; next }
    { indent = match($0, /[^ ]/) - 1 }
    dropping && indent > dropped { next }
    { dropping = 0 }
    base && indent <= base { base = 0; repeated = 0 }
    /^ +initContainers:$/ { base = indent; kubernetes = "^ +(env|envFrom|lifecycle|livenessProbe|readinessProbe|resources|securityContext|startupProbe|volumeMounts):$" }
    /^ +overrides:$/ { base = indent; kubernetes = "^ +env:$" }
    base && indent == base + 6 { repeated = $0 ~ kubernetes }
    base && repeated && indent > base + 8 && /^ +description:/ { dropping = 1; dropped = indent; next }
    anti && indent <= anti { anti = 0 }
    /^ +(podAntiAffinity|worstClusters):$/ { anti = indent }
    anti && indent > anti + 6 && /^ +description:/ { dropping = 1; dropped = indent; next }
    { print }
  ' "$file" >"$file.new"
  mv "$file.new" "$file"
done
