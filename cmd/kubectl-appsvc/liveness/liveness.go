// Package liveness says whether the operator runs, by the Lease that it renews each second. It is
// pure.
//
//	lease, err := leases.Get(ctx, liveness.LeaseName, metav1.GetOptions{})
//	problem, isKnown := liveness.Assess(namespace, lease, err, time.Now())
//
// # Contract
//
//   - The time of the last renewal is that of the clock of the operator, and is compared with the
//     clock of this machine. `kubectl appsvc doctor` says if the clocks differ.
//   - Without the permission to read the Lease, it is not known whether the operator runs. That is
//     never reported as an operator that does not run.
package liveness

import (
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/duration"
)

// LeaseName is the name of the Lease of the operator.
const LeaseName = "fleetwright"

// Assess returns why what the operator wrote may be old, or "" if the operator runs. The Lease and
// the error are the result of a request for the Lease in a namespace. If isKnown is false, the Lease
// cannot be read, and the problem says why.
func Assess(namespace string, lease *coordinationv1.Lease, err error, now time.Time) (problem string, isKnown bool) {
	where := namespace + "/" + LeaseName
	switch {
	case apierrors.IsNotFound(err):
		return "no operator runs: there is no Lease " + where + " (see --secret-namespace), so what you see may be old", true
	case apierrors.IsForbidden(err):
		return "whether the operator runs is not known: you may not get the Lease " + where, false
	case err != nil:
		return fmt.Sprintf("whether the operator runs is not known: %s", strings.TrimSpace(err.Error())), false
	}
	if lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
		return "", true
	}
	since := now.Sub(lease.Spec.RenewTime.Time)
	if limit := time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second; since > limit {
		return fmt.Sprintf("the operator has not renewed its Lease for %s, so what you see may be old: see kubectl get pods -n %s", duration.HumanDuration(since), namespace), true
	}
	return "", true
}
