package hub

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// Argument is a positional argument of a command.
type Argument struct {
	// name is what the usage of the command calls it, such as APP.
	name string
	// kind is set if the argument names an object of the hub.
	kind                   *Kind
	isOptional, isRepeated bool
}

// App and Cluster name an AppService and a MemberCluster. ContextName names a context of the
// kubeconfig.
var (
	App         = Argument{name: "APP", kind: &Apps}
	Cluster     = Argument{name: "CLUSTER", kind: &Clusters}
	ContextName = Argument{name: "CONTEXT"}
)

// Optional returns the argument as one that may be left out.
func (a Argument) Optional() Argument {
	a.isOptional = true
	return a
}

// Repeated returns the argument as one that may be given more than once.
func (a Argument) Repeated() Argument {
	a.isRepeated = true
	return a
}

// Arguments checks the arguments of a command: an error names the one that is missing. The names of
// objects are accepted as kubectl prints them, such as appservice.fleetwright.dev/web; the command gets
// them without the kind, because cobra passes it the same slice.
func Arguments(expected ...Argument) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		for i, text := range args {
			argument := expected[min(i, len(expected)-1)]
			if i >= len(expected) && !argument.isRepeated {
				return fmt.Errorf("%q is one argument too many: %s", text, usageOf(command))
			}
			if argument.kind == nil {
				continue
			}
			name, err := argument.kind.NameOf(text)
			if err != nil {
				return err
			}
			args[i] = name
		}
		if len(args) < len(expected) && !expected[len(args)].isOptional {
			return Missing(command, expected[len(args)].name)
		}
		return nil
	}
}

// Missing returns the error of a command that lacks an argument, or a flag that must be given.
func Missing(command *cobra.Command, what string) error {
	return fmt.Errorf("%s is missing: %s", what, usageOf(command))
}

// usageOf returns how a command is called.
func usageOf(command *cobra.Command) string {
	_, arguments, _ := strings.Cut(command.Use, " ")
	return strings.TrimSpace(command.CommandPath() + " " + arguments)
}

// Kind is a kind of the hub whose objects the arguments and flags of commands name.
type Kind struct {
	// kind is the kind with its article, for messages.
	kind string
	// resources are the names of the kind that kubectl accepts and prints.
	resources []string
}

// Apps and Clusters are the kinds that commands name.
var (
	Apps     = Kind{"an AppService", []string{"appservice", "appservices", "appsvc"}}
	Clusters = Kind{"a MemberCluster", []string{"membercluster", "memberclusters", "mc"}}
)

// NameOf returns the name of an object in a text that has the name alone, or as kubectl prints it, such
// as appservice.fleetwright.dev/web. Another kind is an error.
func (k *Kind) NameOf(text string) (string, error) {
	prefix, name, hasPrefix := strings.Cut(text, "/")
	if !hasPrefix {
		return text, nil
	}
	resource, group, hasGroup := strings.Cut(strings.ToLower(prefix), ".")
	isGroup := !hasGroup || group == v1alpha1.GroupVersion.Group || group == v1alpha1.GroupVersion.Version+"."+v1alpha1.GroupVersion.Group
	switch {
	case !slices.Contains(k.resources, resource) || !isGroup:
		return "", fmt.Errorf("%q is not the name of %s: %q is another kind. Use NAME or %s/NAME", text, k.kind, prefix, k.resources[0])
	case name == "" || strings.Contains(name, "/"):
		return "", fmt.Errorf("%q is not the name of %s: use NAME or %s/NAME", text, k.kind, k.resources[0])
	}
	return name, nil
}

// Names returns the value of a flag with names of the kind, separated by commas, as one that accepts
// them as kubectl prints them. A name may have an equals sign and a text behind it.
func (k *Kind) Names(value pflag.Value) pflag.Value { return namesValue{value, k} }

// namesValue is the value of a flag with names of objects.
type namesValue struct {
	pflag.Value
	kind *Kind
}

// Set sets the value to the names in a text, or adds them.
func (v namesValue) Set(text string) error {
	names := strings.Split(text, ",")
	for i, item := range names {
		given, rest, hasRest := strings.Cut(item, "=")
		name, err := v.kind.NameOf(given)
		if err != nil {
			return err
		}
		if names[i] = name; hasRest {
			names[i] += "=" + rest
		}
	}
	return v.Value.Set(strings.Join(names, ","))
}
