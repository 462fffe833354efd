package hub

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// completionTimeout is how long the shell of a user waits for completions.
const completionTimeout = 5 * time.Second

// CompleteFromHub completes with what list returns. args are the arguments of the command that are
// complete.
func (o *Options) CompleteFromHub(list func(ctx context.Context, h Client, args []string) ([]cobra.Completion, error)) cobra.CompletionFunc {
	return func(command *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		h, err := o.Connect()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		ctx, cancel := context.WithTimeout(command.Context(), completionTimeout)
		defer cancel()
		found, err := list(ctx, h, args)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteMembers completes the names of clusters.
func (o *Options) CompleteMembers(command *cobra.Command, given []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return o.CompleteFromHub(listMemberNames)(command, given, prefix)
}

// CompleteMember completes the name of one cluster.
func (o *Options) CompleteMember(command *cobra.Command, given []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(given) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return o.CompleteMembers(command, given, prefix)
}

// CompleteApp completes the name of one AppService, and then what next completes.
func (o *Options) CompleteApp(next cobra.CompletionFunc) cobra.CompletionFunc {
	return func(command *cobra.Command, given []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		switch {
		case len(given) == 0:
			return o.CompleteFromHub(listAppNames)(command, given, prefix)
		case next == nil:
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return next(command, given[1:], prefix)
	}
}

// CompleteContexts completes the name of a context of the kubeconfig.
func (o *Options) CompleteContexts(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	all, err := o.Contexts("")
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return slices.Sorted(maps.Keys(all.Kubeconfig.Contexts)), cobra.ShellCompDirectiveNoFileComp
}

// CompleteContext completes the name of one context of the kubeconfig.
func (o *Options) CompleteContext(command *cobra.Command, given []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(given) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return o.CompleteContexts(command, given, prefix)
}

// listMemberNames returns the names of all clusters that are not among args.
func listMemberNames(ctx context.Context, h Client, args []string) ([]cobra.Completion, error) {
	members, err := h.ListMembers(ctx)
	var names []cobra.Completion
	for i := range members {
		if !slices.Contains(args, members[i].Name) {
			names = append(names, members[i].Name)
		}
	}
	return names, err
}

// listAppNames returns the names of the AppServices of the namespace.
func listAppNames(ctx context.Context, h Client, _ []string) ([]cobra.Completion, error) {
	list := &v1alpha1.AppServiceList{}
	err := h.List(ctx, list, client.InNamespace(h.Namespace))
	var names []cobra.Completion
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, err
}
