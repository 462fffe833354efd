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
)

func newClusters(o *hubOptions) *cobra.Command {
	var selector string
	output := newOutputFlags("")
	command := &cobra.Command{
		Use:   "clusters [NAME...]",
		Short: "List the clusters of the fleet",
		Long: `List the clusters of the fleet: whether they are connected, which version of Kubernetes they
run, how many AppServices they have, and whether their credentials are valid.`,
		Example: `  # All clusters, and why one of them is not Ready
  kubectl appsvc clusters -o wide

  # The clusters of one region
  kubectl appsvc clusters -l topology.kubernetes.io/region=eu`,
		ValidArgsFunction: o.completeMembers,
		RunE: func(command *cobra.Command, names []string) error {
			matching, err := labels.Parse(selector)
			if err != nil {
				return err
			}
			if selector != "" && len(names) > 0 {
				return errors.New("names and --selector exclude each other: give one of them")
			}
			h, err := o.connect()
			if err != nil {
				return err
			}
			list, err := h.selectMembers(command.Context(), names, matching)
			if err != nil {
				return err
			}
			switch {
			case output.isTable():
				return o.printMembers(list.Items, output.isWide())
			case len(names) == 1:
				return output.print(&list.Items[0], o.streams.Out)
			}
			return output.print(list, o.streams.Out)
		},
	}
	command.Flags().StringVarP(&selector, "selector", "l", "", "`labels` of the clusters")
	output.AddFlags(command)
	return command
}

// selectMembers returns the MemberClusters with these names, or those that a selector matches.
func (h hub) selectMembers(ctx context.Context, names []string, selector labels.Selector) (*v1alpha1.MemberClusterList, error) {
	list := &v1alpha1.MemberClusterList{}
	if len(names) == 0 {
		if err := h.List(ctx, list, client.MatchingLabelsSelector{Selector: selector}); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		member, err := h.readMember(ctx, name)
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

func (o *hubOptions) printMembers(members []v1alpha1.MemberCluster, isWide bool) error {
	if len(members) == 0 {
		o.note("No clusters found. Add one with: kubectl appsvc join CONTEXT")
		return nil
	}
	columns := []column{
		{"Name", false}, {"Ready", false}, {"Reason", false}, {"Version", false}, {"Region", false}, {"Apps", false},
		{"Credentials", false}, {"Age", false}, {"Message", true},
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
			member.Name, ready, orNone(reason), orNone(member.Status.Version), orNone(member.Labels[corev1.LabelTopologyRegion]),
			strconv.Itoa(int(member.Status.AppServices)), orNone(credentials), age(member.CreationTimestamp.Time), strings.TrimSpace(message),
		})
	}
	return printTable(o.streams.Out, isWide, columns, rows)
}
