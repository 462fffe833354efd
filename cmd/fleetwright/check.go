package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// newCheckCommand returns the command that `helm test` runs in a pod. It only needs permission to list
// MemberClusters.
func newCheckCommand() *cobra.Command {
	o := &options{}
	command := &cobra.Command{
		Use:   "check",
		Short: "Check that a member is connected, and that no member is refused",
		Long: `check prints the MemberClusters of the hub. It fails if none is connected, and if one is refused:
its kubeconfig or its credentials are not accepted, it grants too little, or it is another cluster
than before. A member that does not respond is no failure while another one is connected.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			members, err := o.listMembers(command.Context())
			if err != nil {
				return err
			}
			findings := make([]finding, len(members)) // sorted by name, as the API server lists them
			for i := range members {
				findings[i] = newFinding(&members[i])
			}
			return errors.Join(printFindings(command.OutOrStdout(), findings), judge(findings))
		},
	}
	o.addHubFlags(command)
	return command
}

// listMembers returns the MemberClusters of the hub.
func (o *options) listMembers(ctx context.Context) ([]v1alpha1.MemberCluster, error) {
	hub, err := o.hubConfig()
	if err != nil {
		return nil, err
	}
	hub.Timeout = startTimeout
	types := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(types); err != nil {
		return nil, err
	}
	c, err := client.New(hub, client.Options{Scheme: types})
	if err != nil {
		return nil, fmt.Errorf("create a client for the hub: %w", err)
	}
	list := &v1alpha1.MemberClusterList{}
	if err := c.List(ctx, list); err != nil {
		return nil, fmt.Errorf("read the MemberClusters from the hub at %s: %w", hub.Host, err)
	}
	return list.Items, nil
}

// finding is what the check says about a member: its condition Ready, or CredentialsValid if that is why
// the member is refused. The condition is empty if the operator has not seen the member yet.
type finding struct {
	name      string
	condition metav1.Condition
	isRefused bool
}

// refusals are the reasons of condition Ready that only an administrator can remove.
var refusals = []string{v1alpha1.ReasonUnauthorized, v1alpha1.ReasonForbidden, v1alpha1.ReasonIdentityChanged, v1alpha1.ReasonDuplicateCluster}

// newFinding returns the finding about a member. A new kubeconfig can be refused while the member is still
// connected with the previous one.
func newFinding(member *v1alpha1.MemberCluster) finding {
	found := finding{name: member.Name, condition: metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionUnknown}}
	if c := meta.FindStatusCondition(member.Status.Conditions, v1alpha1.ConditionReady); c != nil {
		found.condition, found.isRefused = *c, c.Status == metav1.ConditionFalse && slices.Contains(refusals, c.Reason)
	}
	c := meta.FindStatusCondition(member.Status.Conditions, v1alpha1.ConditionCredentialsValid)
	if !found.isRefused && c != nil && c.Status == metav1.ConditionFalse && c.Reason != v1alpha1.ReasonSecretMissing {
		found.condition, found.isRefused = *c, true
	}
	return found
}

// printFindings prints one line for each member.
func printFindings(out io.Writer, findings []finding) error {
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	for _, f := range findings {
		_, _ = fmt.Fprintf(table, "%s\t%s=%s\t%s\t%s\n", f.name, f.condition.Type, f.condition.Status, f.condition.Reason, f.condition.Message) // Flush returns the error
	}
	return table.Flush()
}

// judge returns an error if no member is connected, or if some are refused.
func judge(findings []finding) error {
	isConnected, refused := false, []string{}
	for _, f := range findings {
		isConnected = isConnected || f.condition.Type == v1alpha1.ConditionReady && f.condition.Status == metav1.ConditionTrue
		if f.isRefused {
			refused = append(refused, f.name)
		}
	}
	switch {
	case len(findings) == 0:
		return errors.New("the hub has no members: add a cluster with kubectl appsvc join CONTEXT")
	case len(refused) > 0:
		return fmt.Errorf("%d of %d members are refused (%s): kubectl appsvc doctor NAME says what to do", len(refused), len(findings), strings.Join(refused, ", "))
	case !isConnected:
		return fmt.Errorf("none of %d members is connected: kubectl appsvc doctor NAME says why", len(findings))
	}
	return nil
}
