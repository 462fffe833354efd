package hub

import (
	"fmt"

	"github.com/spf13/cobra"
)

// AtLeastOne returns an error that says what is missing, unless there is an argument.
func AtLeastOne(what, names string) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("%s are missing: %s %s", what, command.CommandPath(), names)
		}
		return nil
	}
}

// ExactlyOne returns an error that says what is missing, unless there is one argument.
func ExactlyOne(what, name string) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return fmt.Errorf("%s is missing: %s %s", what, command.CommandPath(), name)
		case len(args) > 1:
			return fmt.Errorf("%d arguments are given, and one is needed: %s %s", len(args), command.CommandPath(), name)
		}
		return nil
	}
}
