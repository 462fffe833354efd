package command

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// completionTimeout is how long the shell of a user waits for completions.
const completionTimeout = 5 * time.Second

// addCompletionCommand adds the command completion. The scripts that its commands print are cobra's.
func addCompletionCommand(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	command, _, err := root.Find([]string{"completion"})
	if err != nil { // cobra has added it
		return
	}
	command.Short = "Say how the shell completes the arguments of the plugin"
	command.Long = `In a shell with the completion of kubectl (kubectl completion --help), kubectl asks the program
kubectl_complete-appsvc for the arguments of the plugin: names of AppServices, clusters and contexts,
revisions, stages, and values of flags. kubectl must find the program in your PATH.

make build writes it to bin/, and the archives of a release have it: copy it to the directory of
kubectl-appsvc. krew links only the plugin itself, so copy the program once. It is a script of sh, so
there is none for Windows.

completion bash, zsh, fish and powershell print scripts for a shell in which you type kubectl-appsvc
instead of kubectl appsvc.`
	command.Example = `  # For a plugin that krew has installed
  cp ~/.krew/store/appsvc/*/kubectl_complete-appsvc ~/.krew/bin/`
}

// addFlagCompletions adds the completion of the values of flags, by the names of the flags, to a
// command and to those below it.
func (o *hubOptions) addFlagCompletions(command *cobra.Command) {
	namespaces := o.completeFromHub(listNamespaces)
	byName := map[string]cobra.CompletionFunc{
		"cluster":          completeList(o.completeFromHub(listEntries)),
		"context":          o.completeContexts,
		"member-context":   o.completeContexts,
		"namespace":        namespaces,
		"print-only":       cobra.FixedCompletions([]cobra.Completion{printMember, printHub}, cobra.ShellCompDirectiveNoFileComp),
		"revision":         o.completeFromHub(listRevisions),
		"secret-namespace": namespaces,
		"stage":            o.completeFromHub(listStages),
		"to-revision":      o.completeFromHub(listRevisions),
	}
	if !command.HasParent() { // the cluster of a kubeconfig, and not one of the fleet
		delete(byName, "cluster")
	}
	add := func(flag *pflag.Flag) {
		complete := byName[flag.Name]
		if formats := formatsOf(flag); formats != nil {
			complete = cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)
		}
		// Of cluster=context, bash would replace only what is after the equals sign.
		if complete != nil && flag.Value.Type() != "stringToString" {
			_ = command.RegisterFlagCompletionFunc(flag.Name, complete) // the flag exists
		}
	}
	command.Flags().VisitAll(add)
	command.PersistentFlags().VisitAll(add)
	for _, below := range command.Commands() {
		o.addFlagCompletions(below)
	}
}

// formatsOf returns the values that the usage of the flag --output lists.
func formatsOf(flag *pflag.Flag) []cobra.Completion {
	_, list, hasList := strings.Cut(strings.TrimSuffix(flag.Usage, ")."), "One of: (")
	if flag.Name != "output" || !hasList {
		return nil
	}
	return strings.Split(list, ", ")
}

// completeFromHub completes with what list returns. args are the arguments of the command that are
// complete.
func (o *hubOptions) completeFromHub(list func(ctx context.Context, h hub, args []string) ([]cobra.Completion, error)) cobra.CompletionFunc {
	return func(command *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		h, err := o.connect()
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

// completeMembers completes the names of clusters.
func (o *hubOptions) completeMembers(command *cobra.Command, given []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return o.completeFromHub(listMemberNames)(command, given, prefix)
}

// completeMember completes the name of one cluster.
func (o *hubOptions) completeMember(command *cobra.Command, given []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(given) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return o.completeMembers(command, given, prefix)
}

// completeApp completes the name of one AppService, and then what next completes.
func (o *hubOptions) completeApp(next cobra.CompletionFunc) cobra.CompletionFunc {
	return func(command *cobra.Command, given []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		switch {
		case len(given) == 0:
			return o.completeFromHub(listAppNames)(command, given, prefix)
		case next == nil:
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return next(command, given[1:], prefix)
	}
}

// completeContexts completes the name of a context of the kubeconfig.
func (o *hubOptions) completeContexts(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	all, err := o.contexts("")
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return slices.Sorted(maps.Keys(all.kubeconfig.Contexts)), cobra.ShellCompDirectiveNoFileComp
}

// completeContext completes the name of one context of the kubeconfig.
func (o *hubOptions) completeContext(command *cobra.Command, given []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(given) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return o.completeContexts(command, given, prefix)
}

// completeList completes the last item of a list with commas by what complete returns.
func completeList(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(command *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		found, directive := complete(command, args, prefix)
		before := prefix[:strings.LastIndex(prefix, ",")+1]
		given := strings.Split(before, ",")
		var lists []cobra.Completion
		for _, item := range found {
			if !slices.Contains(given, item) {
				lists = append(lists, before+item)
			}
		}
		return lists, directive
	}
}

// listMemberNames returns the names of all clusters that are not among args.
func listMemberNames(ctx context.Context, h hub, args []string) ([]cobra.Completion, error) {
	members, err := h.listMembers(ctx)
	var names []cobra.Completion
	for i := range members {
		if !slices.Contains(args, members[i].Name) {
			names = append(names, members[i].Name)
		}
	}
	return names, err
}

// listAppNames returns the names of the AppServices of the namespace.
func listAppNames(ctx context.Context, h hub, _ []string) ([]cobra.Completion, error) {
	list := &v1alpha1.AppServiceList{}
	err := h.List(ctx, list, client.InNamespace(h.namespace))
	var names []cobra.Completion
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, err
}

func listNamespaces(ctx context.Context, h hub, _ []string) ([]cobra.Completion, error) {
	list := &corev1.NamespaceList{}
	err := h.List(ctx, list)
	var names []cobra.Completion
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, err
}

// listEntries returns the names of the clusters that have an entry of the AppService in args.
func listEntries(ctx context.Context, h hub, args []string) ([]cobra.Completion, error) {
	if len(args) == 0 {
		return nil, nil
	}
	app, _, err := h.readKnownEntries(ctx, args[0])
	if err != nil {
		return nil, err
	}
	var names []cobra.Completion
	for i := range app.Status.Clusters {
		names = append(names, app.Status.Clusters[i].Name)
	}
	return names, nil
}

// listStages returns the names of the stages of the AppService in args.
func listStages(ctx context.Context, h hub, args []string) ([]cobra.Completion, error) {
	if len(args) == 0 {
		return nil, nil
	}
	app, err := h.readApp(ctx, args[0])
	if err != nil {
		return nil, err
	}
	var names []cobra.Completion
	for _, stage := range app.Status.Rollout.Stages {
		names = append(names, stage.Name)
	}
	return names, nil
}

// listRevisions returns the revisions of the AppService in args, with their images.
func listRevisions(ctx context.Context, h hub, args []string) ([]cobra.Completion, error) {
	if len(args) == 0 {
		return nil, nil
	}
	app, err := h.readApp(ctx, args[0])
	if err != nil {
		return nil, err
	}
	history, err := h.readHistory(ctx, app)
	var numbers []cobra.Completion
	for _, stored := range history {
		numbers = append(numbers, cobra.CompletionWithDesc(strconv.FormatInt(stored.Number, 10), stored.Template.Image))
	}
	return numbers, err
}
