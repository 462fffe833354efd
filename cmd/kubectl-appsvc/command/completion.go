package command

import (
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// completeMembers completes the names of clusters.
func (o *hubOptions) completeMembers(command *cobra.Command, given []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	h, err := o.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	members, err := h.listMembers(command.Context())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []cobra.Completion
	for i := range members {
		if !slices.Contains(given, members[i].Name) {
			names = append(names, members[i].Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeApp completes the name of one AppService, and then what next completes.
func (o *hubOptions) completeApp(next cobra.CompletionFunc) cobra.CompletionFunc {
	return func(command *cobra.Command, given []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(given) > 0 {
			if next == nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return next(command, given[1:], prefix)
		}
		h, err := o.connect()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		list := &v1alpha1.AppServiceList{}
		if err := h.List(command.Context(), list, client.InNamespace(h.namespace)); err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var names []cobra.Completion
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeContexts completes the name of a context of the kubeconfig.
func (o *hubOptions) completeContexts(_ *cobra.Command, given []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	all, err := o.contexts("")
	if err != nil || len(given) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Sorted(maps.Keys(all.kubeconfig.Contexts)), cobra.ShellCompDirectiveNoFileComp
}
