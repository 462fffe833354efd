// Command reference writes docs/cli.md from the commands of the plugin, to the standard output.
package main

import (
	"fmt"
	"os"

	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/command"
)

func main() {
	if _, err := os.Stdout.WriteString(command.Reference()); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}
