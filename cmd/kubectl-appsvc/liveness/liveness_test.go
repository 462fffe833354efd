package liveness_test

import (
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/liveness"
)

func TestAssess(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	resource := coordinationv1.Resource("leases")
	renewed := func(ago time.Duration) *coordinationv1.Lease {
		lease := &coordinationv1.Lease{}
		lease.Spec.RenewTime, lease.Spec.LeaseDurationSeconds = &metav1.MicroTime{Time: now.Add(-ago)}, new(int32(15))
		return lease
	}
	type result struct {
		problem string
		isKnown bool
	}
	for name, test := range map[string]struct {
		lease *coordinationv1.Lease
		err   error
		want  result
	}{
		"renewed now":                     {lease: renewed(0), want: result{"", true}},
		"renewed at the last moment":      {lease: renewed(15 * time.Second), want: result{"", true}},
		"expired":                         {lease: renewed(16 * time.Second), want: result{"the operator has not renewed its Lease for 16s, so what you see may be old: see kubectl get pods -n ops", true}},
		"renewed by a clock that is fast": {lease: renewed(-time.Minute), want: result{"", true}},
		"never renewed":                   {lease: &coordinationv1.Lease{}, want: result{"", true}},
		"missing":                         {err: apierrors.NewNotFound(resource, "fleetwright"), want: result{"no operator runs: there is no Lease ops/fleetwright (see --secret-namespace), so what you see may be old", true}},
		"forbidden":                       {err: apierrors.NewForbidden(resource, "fleetwright", errors.New("no")), want: result{"whether the operator runs is not known: you may not get the Lease ops/fleetwright", false}},
		"not readable":                    {err: errors.New("no route"), want: result{"whether the operator runs is not known: no route", false}},
	} {
		t.Run(name, func(t *testing.T) {
			problem, isKnown := liveness.Assess("ops", test.lease, test.err, now)
			if got := (result{problem, isKnown}); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}
