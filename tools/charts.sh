#!/usr/bin/env bash
# Copies the manifests of config/ into the charts, whose templates render them: `make generate` runs it.
set -euo pipefail
cd "$(dirname "$0")/.."

# copy CHART FILE... copies files of config/ to the same paths in the chart's directory generated/.
copy() {
  local chart=$1 file; shift
  rm -rf "charts/$chart/generated"
  for file; do
    mkdir -p "charts/$chart/generated/$(dirname "${file#member/}")"
    cp "config/$file" "charts/$chart/generated/${file#member/}"
  done
}

cd config
hub=(); for file in crd/bases/*.yaml {admission,approval,networkpolicy,prometheus,propagation,rbac}/*.yaml; do
  [[ $file == */kustomization.yaml ]] || hub+=("$file")
done
cd ..
copy fleetwright "${hub[@]}" manager/disruption_budget.yaml grafana/dashboard.json
copy fleetwright-member member/{,named-namespaces/,configuration/,configuration/named-namespaces/}rbac.yaml \
  member/{,configuration/}named-namespaces/namespace.yaml member/token.yaml
cp charts/fleetwright/templates/_objects.tpl charts/fleetwright-member/templates/
