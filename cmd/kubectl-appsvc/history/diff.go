package history

import (
	"fmt"
	"slices"

	"github.com/aymanbagabas/go-udiff"

	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/difference"
	"github.com/fleetwright/fleetwright/controllers/configuration"
	"github.com/fleetwright/fleetwright/controllers/revision"
)

// Contents reads the content that a revision names for a source.
type Contents interface {
	Named(stored revision.Stored, source configuration.Ref) difference.Content
}

// Diff returns what a revision changed, as a unified diff against the stored revision before it. For
// the oldest one, it returns its whole template. Values of Secrets are hidden.
func Diff(contents Contents, stored []revision.Stored, number int64) (string, error) {
	sorted := oldestFirst(stored)
	i := slices.IndexFunc(sorted, func(s revision.Stored) bool { return s.Number == number })
	if i < 0 {
		return "", NotStored(stored, number)
	}
	if i == 0 {
		return fmt.Sprintf("# revision %d is the oldest that is stored\n%s", number, templateText(sorted[0].Template)), nil
	}
	before, after := sorted[i-1], sorted[i]
	was, is := fmt.Sprintf("revision %d", before.Number), fmt.Sprintf("revision %d", number)
	diff := udiff.Unified(was, is, templateText(before.Template), templateText(after.Template))
	for _, source := range difference.ChangedSources(before.Configuration, after.Configuration) {
		name := string(source.Kind) + "/" + source.From
		diff += difference.OfContent(name, was, is, contents.Named(before, source), contents.Named(after, source))
	}
	return diff, nil
}
