package hub

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/liveness"
)

// VersionTimeout is how long the hub may take to say the version of its operator.
const VersionTimeout = 5 * time.Second

// upgradeGuide is what a user reads to upgrade the operator and its CRDs.
const upgradeGuide = "docs/maintenance.md#upgrade"

// OperatorState is what the Lease of the operator says.
type OperatorState struct {
	// Stale says why what the operator wrote may be old, or is "".
	Stale string
	// IsKnown is false if the Lease cannot be read, so it is not known whether the operator runs.
	IsKnown bool
	// Skew says that the operator and the plugin are of different versions, or is "".
	Skew string
}

// ReadOperator returns what the Lease of the operator says.
func (o *Options) ReadOperator(ctx context.Context, h Client) OperatorState {
	lease, err := o.ReadLease(ctx, h)
	stale, isKnown := liveness.Assess(o.SecretNamespace, lease, err, time.Now())
	state := OperatorState{Stale: stale, IsKnown: isKnown}
	if err == nil {
		state.Skew = VersionSkew(o.Version, OperatorVersion(lease))
	}
	return state
}

// OperatorNotes says why what the operator wrote may be old, and whether it is of another version than
// the plugin. It returns nothing if the operator runs and is of the same version.
func (o *Options) OperatorNotes(ctx context.Context, h Client) []string {
	operator := o.ReadOperator(ctx, h)
	return slices.DeleteFunc([]string{operator.Stale, operator.Skew}, func(text string) bool { return text == "" })
}

// ReadLease returns the Lease of the operator.
func (o *Options) ReadLease(ctx context.Context, h Client) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	return lease, h.Get(ctx, client.ObjectKey{Namespace: o.SecretNamespace, Name: liveness.LeaseName}, lease)
}

// OperatorVersion returns the version of the operator that holds a Lease, or "" if the operator is
// older than the label.
func OperatorVersion(lease *coordinationv1.Lease) string { return lease.Labels[v1alpha1.LabelVersion] }

// VersionSkew says that plugin and operator are of different versions, and what to do. It returns ""
// if they differ only in the patch, or if one of them is no version of a release.
func VersionSkew(plugin, operator string) string {
	if operator == "" {
		return fmt.Sprintf("the operator of the hub is older than this plugin (%s): upgrade it (%s)", plugin, upgradeGuide)
	}
	of, err := version.ParseSemantic(plugin)
	other, otherErr := version.ParseSemantic(operator)
	if err != nil || otherErr != nil {
		return ""
	}
	of, other = version.MajorMinor(of.Major(), of.Minor()), version.MajorMinor(other.Major(), other.Minor())
	switch {
	case other.LessThan(of):
		return fmt.Sprintf("the operator of the hub (%s) is older than this plugin (%s): upgrade it (%s), or use the plugin of its version", operator, plugin, upgradeGuide)
	case of.LessThan(other):
		return fmt.Sprintf("this plugin (%s) is older than the operator of the hub (%s), and may not know all of its fields: install the plugin of that version", plugin, operator)
	}
	return ""
}

// ExplainSkew says, after an error of a command, whether plugin and hub are of different versions. It
// returns "" if they are not, or if that is not known. An error that cannot come from the versions
// costs no request.
func (o *Options) ExplainSkew(ctx context.Context, err error) string {
	if o.connected == nil || !mayBeSkew(err) {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, VersionTimeout)
	defer cancel()
	if isUnknownField(err) || isUnknownKind(err) && o.connected.hasFleetwright() {
		return fmt.Sprintf("the CRDs of the hub are older than this plugin (%s): upgrade them and the operator (%s)", o.Version, upgradeGuide)
	}
	lease, leaseErr := o.ReadLease(ctx, *o.connected)
	if leaseErr != nil {
		return ""
	}
	return VersionSkew(o.Version, OperatorVersion(lease))
}

// mayBeSkew reports whether an error may come from different versions of plugin and hub.
func mayBeSkew(err error) bool {
	var notFound NotFoundError
	var exit ExitError
	switch {
	case errors.As(err, &notFound), errors.As(err, &exit), unreachable(err) != "", errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		apierrors.IsForbidden(err), apierrors.IsUnauthorized(err), apierrors.IsConflict(err):
		return false
	}
	return true
}

// isUnknownKind reports whether the cluster does not know the kind of a request.
func isUnknownKind(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) && !IsNoSuchObject(err)
}

// isUnknownField reports whether the hub refused a request because its CRD does not have a field of it.
func isUnknownField(err error) bool {
	return (apierrors.IsBadRequest(err) || apierrors.IsInvalid(err)) && strings.Contains(err.Error(), "unknown field")
}

// hasFleetwright reports whether the hub knows a kind of Fleetwright that every version has.
func (h Client) hasFleetwright() bool {
	for _, kind := range []string{"AppService", "MemberCluster"} {
		if _, err := h.RESTMapper().RESTMapping(schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: kind}, v1alpha1.GroupVersion.Version); err == nil {
			return true
		}
	}
	return false
}
