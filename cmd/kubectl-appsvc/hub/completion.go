package hub

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// completionTimeout is how long the shell of a user waits for completions.
const completionTimeout = 5 * time.Second

// CompleteFromHub completes with what list returns. args are the arguments of the command that are
// complete. If the user begins a name as kubectl prints it, such as appservice/w, the completions do
// too.
func (o *Options) CompleteFromHub(list func(ctx context.Context, h Client, args []string) ([]cobra.Completion, error)) cobra.CompletionFunc {
	return func(command *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		h, err := o.Connect()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		ctx, cancel := context.WithTimeout(command.Context(), completionTimeout)
		defer cancel()
		found, err := list(ctx, h, withoutKinds(args))
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		if kind, _, hasKind := strings.Cut(prefix, "/"); hasKind {
			for i := range found {
				found[i] = kind + "/" + found[i]
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// withoutKinds returns arguments without the kinds that kubectl prints before names.
func withoutKinds(args []string) []string {
	names := slices.Clone(args)
	for i, text := range names {
		names[i] = text[strings.LastIndex(text, "/")+1:]
	}
	return names
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

// CompleteApps completes the names of AppServices.
func (o *Options) CompleteApps(command *cobra.Command, given []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return o.CompleteFromHub(listAppNames)(command, given, prefix)
}

// CompleteApp completes the name of one AppService, and then what next completes.
func (o *Options) CompleteApp(next cobra.CompletionFunc) cobra.CompletionFunc {
	return func(command *cobra.Command, given []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		switch {
		case len(given) == 0:
			return o.CompleteApps(command, given, prefix)
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

// listAppNames returns the names of the AppServices of the namespace that are not among args.
func listAppNames(ctx context.Context, h Client, args []string) ([]cobra.Completion, error) {
	list := &v1alpha1.AppServiceList{}
	err := h.List(ctx, list, client.InNamespace(h.Namespace))
	var names []cobra.Completion
	for i := range list.Items {
		if !slices.Contains(args, list.Items[i].Name) {
			names = append(names, list.Items[i].Name)
		}
	}
	return names, err
}
