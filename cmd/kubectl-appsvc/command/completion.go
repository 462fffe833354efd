package command

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/hub"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/join"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/output"
)

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
func addFlagCompletions(o *hub.Options, command *cobra.Command) {
	namespaces := o.CompleteFromHub(listNamespaces)
	byName := map[string]cobra.CompletionFunc{
		"cluster":          completeList(o.CompleteFromHub(listEntries)),
		"context":          o.CompleteContexts,
		"member-context":   o.CompleteContexts,
		"namespace":        namespaces,
		"print-only":       cobra.FixedCompletions([]cobra.Completion{join.PrintMember, join.PrintHub}, cobra.ShellCompDirectiveNoFileComp),
		"revision":         o.CompleteFromHub(listRevisions),
		"secret-namespace": namespaces,
		"stage":            o.CompleteFromHub(listStages),
		"to-revision":      o.CompleteFromHub(listRevisions),
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
		addFlagCompletions(o, below)
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

// completeList completes the last item of a list with commas by what complete returns.
func completeList(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(command *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		before := prefix[:strings.LastIndex(prefix, ",")+1]
		found, directive := complete(command, args, prefix[len(before):])
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

func listNamespaces(ctx context.Context, h hub.Client, _ []string) ([]cobra.Completion, error) {
	list := &corev1.NamespaceList{}
	err := h.List(ctx, list)
	var names []cobra.Completion
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return names, err
}

// listEntries returns the names of the clusters that have an entry of the AppService in args.
func listEntries(ctx context.Context, h hub.Client, args []string) ([]cobra.Completion, error) {
	if len(args) == 0 {
		return nil, nil
	}
	app, _, err := h.ReadKnownEntries(ctx, args[0])
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
func listStages(ctx context.Context, h hub.Client, args []string) ([]cobra.Completion, error) {
	if len(args) == 0 {
		return nil, nil
	}
	app, err := h.ReadApp(ctx, args[0])
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
func listRevisions(ctx context.Context, h hub.Client, args []string) ([]cobra.Completion, error) {
	if len(args) == 0 {
		return nil, nil
	}
	app, err := h.ReadApp(ctx, args[0])
	if err != nil {
		return nil, err
	}
	history, err := h.ReadHistory(ctx, app)
	var numbers []cobra.Completion
	for _, stored := range history {
		numbers = append(numbers, cobra.CompletionWithDesc(strconv.FormatInt(stored.Number, 10), output.Printable(stored.Template.Image)))
	}
	return numbers, err
}
