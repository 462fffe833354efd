package memberpolicy_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fleetwright/fleetwright/controllers/delivery/memberpolicy"
)

func TestRefusalOf(t *testing.T) {
	refused := func(message string) *apierrors.StatusError {
		err := apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "deployments"}, "web", errors.New(message))
		err.ErrStatus.Details.Causes = []metav1.StatusCause{{Message: message}}
		return err
	}
	const ours = "ValidatingAdmissionPolicy 'a' with binding 'b' denied request: member.fleetwright.dev/AdoptionNotAllowed: no"
	withoutCause, conflict := refused(ours), refused(ours)
	withoutCause.ErrStatus.Details.Causes = nil
	conflict.ErrStatus.Reason, conflict.ErrStatus.Code = metav1.StatusReasonConflict, 409
	for name, test := range map[string]struct {
		err  error
		want *memberpolicy.Refusal
	}{
		"of this policy":          {fmt.Errorf("apply: %w", refused(ours)), &memberpolicy.Refusal{Code: memberpolicy.AdoptionNotAllowed, Resource: "deployments", Name: "web"}},
		"of another policy":       {refused("ValidatingAdmissionPolicy 'member.fleetwright.dev' denied request: no: never"), nil},
		"without a code":          {refused("member.fleetwright.dev/no"), nil},
		"of a missing permission": {withoutCause, nil},
		"that is no refusal":      {conflict, nil},
		"that is not of a server": {errors.New(ours), nil},
		"that does not exist":     {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, memberpolicy.RefusalOf(test.err)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
