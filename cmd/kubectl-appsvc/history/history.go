package history

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/difference"
	"github.com/fleetwright/fleetwright/cmd/kubectl-appsvc/output"
	"github.com/fleetwright/fleetwright/controllers/revision"
)

// Entry is a revision of an AppService.
type Entry struct {
	revision.Stored
	// States are what the revision is in the rollout: current, stable, failed, previous.
	States []string
	// Clusters is the number of clusters that run the revision, or are to run it.
	Clusters int
	// Before is the number of the stored revision before this one, or 0.
	Before int64
	// Changed are the fields of the spec, and the sources, that differ from the revision before.
	Changed []string
}

// List returns the stored revisions of an AppService, newest first. The stored ones may be in any
// order. The entries are those of the AppService.
func List(state *v1alpha1.RolloutStatus, entries []v1alpha1.ClusterStatus, stored []revision.Stored) []Entry {
	sorted := oldestFirst(stored)
	on := map[int64]int{}
	for i := range entries {
		on[entries[i].Revision]++
	}
	all := make([]Entry, 0, len(sorted))
	for i, one := range sorted {
		entry := Entry{Stored: one, States: States(state, one.Number), Clusters: on[one.Number]}
		if i > 0 {
			entry.Before, entry.Changed = sorted[i-1].Number, changes(sorted[i-1], one)
		}
		all = append(all, entry)
	}
	slices.Reverse(all)
	return all
}

func oldestFirst(stored []revision.Stored) []revision.Stored {
	return slices.SortedFunc(slices.Values(stored), func(a, b revision.Stored) int { return cmp.Compare(a.Number, b.Number) })
}

// States returns what a revision is in the rollout.
func States(state *v1alpha1.RolloutStatus, number int64) []string {
	var found []string
	for _, role := range []struct {
		name   string
		number int64
	}{{"current", state.Revision}, {"stable", state.StableRevision}, {"failed", state.FailedRevision}, {"previous", state.PreviousRevision}} {
		if role.number == number {
			found = append(found, role.name)
		}
	}
	return found
}

// changes returns what differs between two revisions: fields of the spec, and the sources whose
// content differs.
func changes(before, after revision.Stored) []string {
	all := changedFields(before.Template, after.Template)
	for _, source := range difference.ChangedSources(before.Configuration, after.Configuration) {
		all = append(all, difference.Resource(source))
	}
	return all
}

// changedFields returns the fields of the spec in which two templates differ.
func changedFields(before, after v1alpha1.AppServiceSpec) []string {
	was, is := fieldTexts(before), fieldTexts(after)
	var changed []string
	for name := range is {
		if was[name] != is[name] {
			changed = append(changed, name)
		}
	}
	for name := range was {
		if _, has := is[name]; !has {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	return changed
}

// fieldTexts returns the fields of a spec as YAML.
func fieldTexts(spec v1alpha1.AppServiceSpec) map[string]string {
	values := map[string]any{}
	if err := yaml.Unmarshal([]byte(templateText(spec)), &values); err != nil {
		return nil
	}
	texts := map[string]string{}
	for name, value := range values {
		texts[name], _ = output.MarshalYAML(value) // it was read from YAML
	}
	return texts
}

// templateText returns a template as YAML.
func templateText(template v1alpha1.AppServiceSpec) string {
	content, err := output.MarshalYAML(template)
	if err != nil {
		return err.Error()
	}
	return content
}

// NotStored returns the error for a number that is not stored.
func NotStored(stored []revision.Stored, number int64) error {
	var numbers []string
	for _, one := range oldestFirst(stored) {
		numbers = append(numbers, strconv.FormatInt(one.Number, 10))
	}
	if len(numbers) == 0 {
		return errors.New("the hub has no revision of the AppService")
	}
	return fmt.Errorf("revision %d is not stored: there are %s", number, strings.Join(numbers, ", "))
}
