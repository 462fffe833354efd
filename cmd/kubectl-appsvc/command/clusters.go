package command

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/output"
)

func newClusters(o *hub.Options) *cobra.Command {
	var selector string
	format := output.NewFlags(hub.NewScheme())
	command := &cobra.Command{
		Use:   "clusters [NAME...]",
		Short: "List the clusters of the fleet",
		Long: `List the clusters of the fleet: whether they are connected, which version of Kubernetes they
run, how many AppServices they have, and whether their credentials are valid.`,
		Example: `  # All clusters, and why one of them is not Ready
  kubectl appsvc clusters -o wide

  # The clusters of one region
  kubectl appsvc clusters -l topology.kubernetes.io/region=eu`,
		ValidArgsFunction: o.CompleteMembers,
		RunE: func(command *cobra.Command, names []string) error {
			matching, err := labels.Parse(selector)
			if err != nil {
				return err
			}
			if selector != "" && len(names) > 0 {
				return errors.New("names and --selector exclude each other: give one of them")
			}
			h, err := o.Connect()
			if err != nil {
				return err
			}
			list, err := selectMembers(command.Context(), h, names, matching)
			if err != nil {
				return err
			}
			switch {
			case format.IsTable():
				return printMembers(o, list.Items, format.IsWide())
			case len(names) == 1:
				return format.Print(&list.Items[0], o.Out)
			}
			return format.Print(list, o.Out)
		},
	}
	command.Flags().StringVarP(&selector, "selector", "l", "", "`labels` of the clusters")
	format.AddFlags(command)
	return command
}

// selectMembers returns the MemberClusters with these names, or those that a selector matches.
func selectMembers(ctx context.Context, h hub.Client, names []string, selector labels.Selector) (*v1alpha1.MemberClusterList, error) {
	list := &v1alpha1.MemberClusterList{}
	if len(names) == 0 {
		if err := h.List(ctx, list, client.MatchingLabelsSelector{Selector: selector}); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		member, err := h.ReadMember(ctx, name)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, *member)
	}
	for i := range list.Items { // the client clears it
		list.Items[i].SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("MemberCluster"))
	}
	return list, nil
}

func printMembers(o *hub.Options, members []v1alpha1.MemberCluster, isWide bool) error {
	if len(members) == 0 {
		o.Note("No clusters found. Add one with: kubectl appsvc join CONTEXT")
		return nil
	}
	columns := []output.Column{
		{Name: "Name"}, {Name: "Ready"}, {Name: "Reason"}, {Name: "Version"}, {Name: "Region"}, {Name: "Apps"},
		{Name: "Credentials"}, {Name: "Age"}, {Name: "Message", IsWide: true},
	}
	var rows [][]string
	for i := range members {
		member := &members[i]
		ready, reason, message := "Unknown", "", ""
		if c := meta.FindStatusCondition(member.Status.Conditions, v1alpha1.ConditionReady); c != nil {
			ready, reason, message = string(c.Status), c.Reason, c.Message
		}
		if member.Spec.Unschedulable && member.IsReady() {
			reason = "Cordoned"
		}
		credentials := ""
		if c := meta.FindStatusCondition(member.Status.Conditions, v1alpha1.ConditionCredentialsValid); c != nil {
			credentials = c.Reason
		}
		rows = append(rows, []string{
			member.Name, ready, output.OrNone(reason), output.OrNone(member.Status.Version), output.OrNone(member.Labels[corev1.LabelTopologyRegion]),
			strconv.Itoa(int(member.Status.AppServices)), output.OrNone(credentials), output.Age(member.CreationTimestamp.Time), strings.TrimSpace(message),
		})
	}
	return output.PrintTable(o.Out, isWide, columns, rows)
}
