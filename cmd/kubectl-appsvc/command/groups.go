package command

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// suggestionDistance is how many letters a mistyped command may differ from one that is suggested.
const suggestionDistance = 2

// requireCommands makes every command that only groups others fail if its first argument is none of
// them. cobra would print the help, with exit code 0. Without an argument, the help is printed.
func requireCommands(command *cobra.Command) {
	for _, below := range command.Commands() {
		requireCommands(below)
	}
	if !command.HasSubCommands() || command.Run != nil || command.RunE != nil {
		return
	}
	command.SuggestionsMinimumDistance = suggestionDistance
	command.Args = func(command *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(command, args[0])
		}
		return nil
	}
	command.RunE = func(command *cobra.Command, _ []string) error { return command.Help() }
}

// unknownCommand returns the error of an argument that is no command of a group.
func unknownCommand(group *cobra.Command, name string) error {
	near := group.SuggestionsFor(name)
	if len(near) == 0 {
		return fmt.Errorf("unknown command %q for %q: see %s --help", name, group.CommandPath(), group.CommandPath())
	}
	return fmt.Errorf("unknown command %q for %q\n\nDid you mean this?\n\t%s", name, group.CommandPath(), strings.Join(near, "\n\t"))
}

// explainFlagError returns the error of a flag. Of a mistyped command with a flag, such as
// rollout aprove --stage, the error is that of the command.
func explainFlagError(command *cobra.Command, err error) error {
	if given := command.Flags().Args(); command.HasSubCommands() && len(given) > 0 {
		return unknownCommand(command, given[0])
	}
	return err
}

// newHelp returns the command help. That of cobra prints the help of the root for a command that it
// does not know, with exit code 0.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND...]",
		Short: "Print the help of a command",
		ValidArgsFunction: func(command *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			group, rest := findCommand(command.Root(), args)
			if len(rest) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []cobra.Completion
			for _, below := range group.Commands() {
				if below.IsAvailableCommand() {
					names = append(names, cobra.CompletionWithDesc(below.Name(), below.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(command *cobra.Command, args []string) error {
			found, rest := findCommand(command.Root(), args)
			if len(rest) > 0 {
				return unknownCommand(found, rest[0])
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}

// findCommand returns the command that the arguments name, and the arguments that name none.
func findCommand(root *cobra.Command, args []string) (*cobra.Command, []string) {
	found := root
	for i, name := range args {
		var next *cobra.Command
		for _, below := range found.Commands() {
			if below.Name() == name || below.HasAlias(name) {
				next = below
			}
		}
		if next == nil {
			return found, args[i:]
		}
		found = next
	}
	return found, nil
}

// newOptions returns the command options, which lists the flags of all commands.
func newOptions(global *pflag.FlagSet) *cobra.Command {
	return &cobra.Command{
		Use:   "options",
		Short: "List the global flags, which apply to all commands",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			_, err := fmt.Fprintf(command.OutOrStdout(), "The following flags can be passed to any command:\n\n%s", global.FlagUsages())
			return err
		},
	}
}

// useShortUsage makes the help of each command end with the way to the global flags, as that of
// kubectl does. The two that select where a command works are there too.
func useShortUsage(root *cobra.Command) {
	common := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, name := range []string{"context", "namespace"} {
		common.AddFlag(root.PersistentFlags().Lookup(name))
	}
	root.SetUsageTemplate(strings.ReplaceAll(usageTemplate, "COMMON", strings.TrimRight(common.FlagUsages(), "\n")))
}

// usageTemplate is that of cobra, with other words about the global flags.
const usageTemplate = `Usage:{{if not .HasAvailableSubCommands}}
  {{.UseLine}}{{else}}
  {{.CommandPath}} [command]{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}{{$cmds := .Commands}}{{if eq (len .Groups) 0}}

Available Commands:{{range $cmds}}{{if (or .IsAvailableCommand (eq .Name "help"))}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{else}}{{range $group := .Groups}}

{{.Title}}{{range $cmds}}{{if (and (eq .GroupID $group.ID) .IsAvailableCommand)}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}

Additional Commands:{{range $cmds}}{{if (and (eq .GroupID "") (or .IsAvailableCommand (eq .Name "help")))}}
  {{rpad .Name .NamePadding}} {{.Short}}{{end}}{{end}}{{end}}{{end}}{{if .LocalNonPersistentFlags.HasAvailableFlags}}

Flags:
{{.LocalNonPersistentFlags.FlagUsages | trimTrailingWhitespaces}}{{end}}

Global Flags:
COMMON
{{if .HasAvailableSubCommands}}
Use "{{.CommandPath}} COMMAND --help" for more information about a command.{{end}}
Use "{{.Root.CommandPath}} options" for a list of global flags (applies to all commands).
`
