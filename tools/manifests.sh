#!/usr/bin/env bash
# Renders and applies the manifests in config/ with an image. It changes no file outside dist/.
#
#   tools/manifests.sh BINDIR render IMAGE      prints config/default with that image
#   tools/manifests.sh BINDIR deploy IMAGE      applies it and waits for the rollout
#   tools/manifests.sh BINDIR undeploy          removes only the operator, from any namespace
#   tools/manifests.sh BINDIR undeploy remove   deletes every AppService and its workloads first
#   tools/manifests.sh BINDIR uninstall         deletes the CRDs, which the operator must allow
#
# It applies and deletes in the cluster of the current kubeconfig.
#
# Needs: BINDIR/kubectl.
set -euo pipefail

die() { printf 'manifests: %s\n' "$*" >&2; exit 1; }
usage() { die "usage: tools/manifests.sh BINDIR render|deploy IMAGE, BINDIR undeploy [remove], or BINDIR uninstall"; }

[[ $# -ge 2 ]] || usage
kubectl=$(cd "$1" && pwd)/kubectl; action=$2; shift 2
cd "$(dirname "$0")/.."
namespace=fleetwright-system

# render IMAGE renders a temporary kustomization in dist/, because its path to config/ must be
# relative.
render() {
  [[ -n ${1:-} ]] || die "the image is missing: set IMG=REGISTRY/fleetwright:TAG"
  local name=$1 suffix overlay status=0
  mkdir -p dist
  overlay=$(mktemp -d dist/overlay.XXXXXX)
  # A digest and a tag are written differently; a colon before the last slash is a port.
  if [[ $name == *@* ]]; then
    suffix="digest: '${name#*@}'" name=${name%%@*}; [[ ${name##*/} != *:* ]] || name=${name%:*}
  elif [[ ${name##*/} == *:* ]]; then
    suffix="newTag: '${name##*:}'" name=${name%:*}
  else
    suffix="newTag: latest"
  fi
  cat >"$overlay/kustomization.yaml" <<END
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [../../config/default]
images:
  - name: fleetwright
    newName: '$name'
    $suffix
END
  "$kubectl" kustomize "$overlay" || status=$?
  rm -rf "$overlay" # not in a trap: deploy calls this in a subshell, which resets traps
  return "$status"
}

# operator_namespace prints the namespace of the operator that has permissions on this hub, or
# nothing. Only one operator can have them.
operator_namespace() {
  local found
  found=$("$kubectl" get clusterrolebinding fleetwright --ignore-not-found -o jsonpath='{.subjects[*].namespace}') || die "cannot read ClusterRoleBinding fleetwright, which has the namespace of the operator"
  [[ $found != *' '* ]] || die "ClusterRoleBinding fleetwright has subjects in several namespaces ($found): remove those that are not the operator"
  printf '%s' "$found"
}

deploy() {
  local manifest there
  manifest=$(render "${1:-}")
  there=$(operator_namespace)
  [[ ${there:-$namespace} == "$namespace" ]] || die "an operator is in namespace $there, and this would take over its permissions: apply the kustomization that installed it"
  # Force conflicts, so that manual changes of applied fields are reverted.
  "$kubectl" apply --server-side --force-conflicts -f - <<<"$manifest"
  "$kubectl" rollout status deployment/fleetwright -n "$namespace" --timeout="${TIMEOUT:-3m}"
}

# delete_objects DIRECTORY [OPTION...] deletes the objects of that directory of config/ in the
# operator's namespace.
delete_objects() {
  "$kubectl" kustomize "config/$1" | sed "s/namespace: fleetwright-system$/namespace: $namespace/" | "$kubectl" delete --ignore-not-found "${@:2}" -f -
}

undeploy() {
  local there; there=$(operator_namespace)
  namespace=${there:-$namespace}
  case ${1:-} in
    remove)
      # The operator removes the workloads. An AppService is deleted after all of its objects.
      echo "Deleting every AppService on the hub and its workloads on members:"
      "$kubectl" delete appservices --all --all-namespaces --timeout="${TIMEOUT:-10m}" ||
        die "some AppServices remain, so the operator was not removed: kubectl get appservices -A -o wide shows the reason"
      ;;
    "") ;;
    *) usage ;;
  esac
  # Delete the operator before its permissions. With foreground deletion, it has stopped when this
  # returns.
  delete_objects manager --cascade=foreground
  delete_objects networkpolicy
  delete_objects admission
  delete_objects rbac
  cat <<END
The operator was removed. Not removed:
  - the workloads on the members
  - on the hub: the CRDs, the AppServices and MemberClusters, and namespace $namespace with the members' Secrets
\`make deploy IMG=…\` installs the operator again, and it continues with them. docs/install.md describes
how to remove the rest, which is easier while the operator runs.
END
}

# uninstall deletes the CRDs and, with them, every AppService and MemberCluster. The operator releases the
# AppServices, and members keep what they run.
uninstall() {
  "$kubectl" delete --ignore-not-found --timeout="${TIMEOUT:-5m}" -k config/crd ||
    die "not all CRDs were deleted. They wait for AppServices that have the finalizer of the operator; if no operator runs, docs/install.md#uninstall has the command that removes it"
}

case $action in
  render) render "$@" ;;
  deploy) deploy "$@" ;;
  undeploy) undeploy "$@" ;;
  uninstall) uninstall ;;
  *) usage ;;
esac
