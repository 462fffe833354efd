package command

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/liveness"
)

// versionTimeout is how long the hub may take to say the version of its operator.
const versionTimeout = 5 * time.Second

// upgradeGuide is what a user reads to upgrade the operator and its CRDs.
const upgradeGuide = "docs/install.md#upgrade"

func newVersion(o *hubOptions) *cobra.Command {
	var isClientOnly bool
	command := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of the plugin and of the operator",
		Long: `Print the version of the plugin and that of the operator of the hub, and say what to do if they
differ in more than the patch. The version of the operator is a label of its Lease. Every command that
fails, status and doctor say it too.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if err := o.write(fmt.Sprintf("kubectl-appsvc %s %s %s/%s\n", o.version, runtime.Version(), runtime.GOOS, runtime.GOARCH)); err != nil || isClientOnly {
				return err
			}
			return o.printOperatorVersion(command.Context())
		},
	}
	command.Flags().BoolVar(&isClientOnly, "client", false, "print only the version of the plugin, without a request to the hub")
	return command
}

// printOperatorVersion prints the version of the operator, and whether it is too far from that of the
// plugin. That it is not known is no error.
func (o *hubOptions) printOperatorVersion(ctx context.Context) error {
	h, err := o.connect()
	if err != nil {
		o.note("The version of the operator is not known: %s", describe(err))
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	lease, err := o.readLease(ctx, h)
	switch {
	case apierrors.IsNotFound(err):
		o.note("The version of the operator is not known: there is no Lease %s/%s (see --secret-namespace)", o.secretNamespace, liveness.LeaseName)
		return nil
	case err != nil:
		o.note("The version of the operator is not known: %s", describe(err))
		return nil
	}
	operator := operatorVersion(lease)
	if err := o.write("operator       " + orNone(operator) + "\n"); err != nil {
		return err
	}
	if skew := versionSkew(o.version, operator); skew != "" {
		return o.write("! " + skew + "\n")
	}
	return nil
}

// readLease returns the Lease of the operator.
func (o *hubOptions) readLease(ctx context.Context, h hub) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	return lease, h.Get(ctx, client.ObjectKey{Namespace: o.secretNamespace, Name: liveness.LeaseName}, lease)
}

// operatorVersion returns the version of the operator that holds a Lease, or "" if the operator is
// older than the label.
func operatorVersion(lease *coordinationv1.Lease) string { return lease.Labels[v1alpha1.LabelVersion] }

// versionSkew says that plugin and operator are of different versions, and what to do. It returns ""
// if they differ only in the patch, or if one of them is no version of a release.
func versionSkew(plugin, operator string) string {
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

// explainSkew says, after an error of a command, whether plugin and hub are of different versions. It
// returns "" if they are not, or if that is not known. An error that cannot come from the versions
// costs no request.
func (o *hubOptions) explainSkew(ctx context.Context, err error) string {
	if o.connected == nil || !mayBeSkew(err) {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, versionTimeout)
	defer cancel()
	if isUnknownField(err) || isUnknownKind(err) && o.connected.hasFleetwright() {
		return fmt.Sprintf("the CRDs of the hub are older than this plugin (%s): upgrade them and the operator (%s)", o.version, upgradeGuide)
	}
	lease, leaseErr := o.readLease(ctx, *o.connected)
	if leaseErr != nil {
		return ""
	}
	return versionSkew(o.version, operatorVersion(lease))
}

// mayBeSkew reports whether an error may come from different versions of plugin and hub.
func mayBeSkew(err error) bool {
	var notFound notFoundError
	var exit exitError
	switch {
	case errors.As(err, &notFound), errors.As(err, &exit), unreachable(err) != "", errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded),
		apierrors.IsForbidden(err), apierrors.IsUnauthorized(err), apierrors.IsConflict(err):
		return false
	}
	return true
}

// isUnknownKind reports whether the cluster does not know the kind of a request.
func isUnknownKind(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) && !isNoSuchObject(err)
}

// isUnknownField reports whether the hub refused a request because its CRD does not have a field of it.
func isUnknownField(err error) bool {
	return (apierrors.IsBadRequest(err) || apierrors.IsInvalid(err)) && strings.Contains(err.Error(), "unknown field")
}

// hasFleetwright reports whether the hub knows a kind of Fleetwright that every version has.
func (h hub) hasFleetwright() bool {
	for _, kind := range []string{"AppService", "MemberCluster"} {
		if _, err := h.RESTMapper().RESTMapping(schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: kind}, v1alpha1.GroupVersion.Version); err == nil {
			return true
		}
	}
	return false
}
