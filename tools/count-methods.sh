#!/usr/bin/env bash
# Fails if a type has more than 30 methods: what it does is then no longer visible as one thing.
set -euo pipefail
git ls-files '*.go' ':!*_test.go' | xargs awk -v most=30 '
  match($0, /^func \([A-Za-z_]* ?\*?[A-Za-z_]+/) {
    type = substr($0, RSTART, RLENGTH); sub(/.*[ *(]/, "", type)
    package = FILENAME; sub(/\/[^\/]*$/, "", package)
    methods[package "." type]++
  }
  END {
    for (type in methods) if (methods[type] > most) { print type " has " methods[type] " methods, and may have " most; failed = 1 }
    exit failed
  }'
