package sources

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// allNamespaces is the value of the flag for all namespaces.
const allNamespaces = "*"

// Namespaces are namespaces of the hub, or all. The zero value is none.
type Namespaces struct {
	isAll bool
	names []string
}

// ParseNamespaces returns the namespaces in a list that is separated by commas. "*" is all, and ""
// is none.
func ParseNamespaces(text string) (Namespaces, error) {
	if strings.TrimSpace(text) == "" {
		return Namespaces{}, nil
	}
	var parsed Namespaces
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		switch {
		case name == allNamespaces:
			parsed.isAll = true
		case len(validation.IsDNS1123Label(name)) > 0:
			return Namespaces{}, fmt.Errorf("%q is not the name of a namespace: use names that are separated by commas, or %s for all", name, allNamespaces)
		case !slices.Contains(parsed.names, name):
			parsed.names = append(parsed.names, name)
		}
	}
	if parsed.isAll && len(parsed.names) > 0 {
		return Namespaces{}, fmt.Errorf("%s is all namespaces: remove the others", allNamespaces)
	}
	slices.Sort(parsed.names)
	return parsed, nil
}

// IsEmpty reports whether there is no namespace.
func (n Namespaces) IsEmpty() bool { return !n.isAll && len(n.names) == 0 }

// Has reports whether a namespace is one of them.
func (n Namespaces) Has(namespace string) bool { return n.isAll || slices.Contains(n.names, namespace) }

// watched returns the namespaces to watch; "" is all.
func (n Namespaces) watched() []string {
	if n.isAll {
		return []string{""}
	}
	return n.names
}
