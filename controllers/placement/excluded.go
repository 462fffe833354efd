package placement

import (
	"cmp"
	"slices"
	"strings"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

const (
	// maxExamples is the maximum number of clusters, and of requirements, that are listed for each
	// reason.
	maxExamples = 3
	// maxRequirement is the maximum length of a requirement in characters.
	maxRequirement = 200
)

// Excluded returns the clusters that are not chosen, grouped and sorted by reason.
func (p Plan) Excluded() []v1alpha1.ExcludedClusters {
	var excluded []v1alpha1.ExcludedClusters
	requirements := map[string]map[string]int{} // by reason: the number of clusters that each requirement excludes
	for _, decision := range p {
		if decision.Chosen() {
			continue
		}
		i, found := slices.BinarySearchFunc(excluded, decision.Reason, func(e v1alpha1.ExcludedClusters, reason string) int {
			return cmp.Compare(e.Reason, reason)
		})
		if !found {
			excluded = slices.Insert(excluded, i, v1alpha1.ExcludedClusters{Reason: decision.Reason})
			requirements[decision.Reason] = map[string]int{}
		}
		excluded[i].Count++
		if len(excluded[i].Examples) < maxExamples {
			excluded[i].Examples = append(excluded[i].Examples, decision.Cluster)
		}
		if decision.Requirement != "" {
			requirements[decision.Reason][decision.Requirement]++
		}
	}
	for i := range excluded {
		excluded[i].Requirements = mostFrequent(requirements[excluded[i].Reason])
	}
	return excluded
}

// mostFrequent returns the requirements that exclude the most clusters, at most maxExamples.
// Requirements with equal counts are in alphabetical order.
func mostFrequent(counts map[string]int) []string {
	var requirements []string
	for requirement := range counts {
		requirements = append(requirements, requirement)
	}
	slices.SortFunc(requirements, func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
	return requirements[:min(len(requirements), maxExamples)]
}

// bounded truncates a requirement that is longer than maxRequirement.
func bounded(requirement string) string {
	characters := []rune(requirement)
	if len(characters) <= maxRequirement {
		return requirement
	}
	return string(characters[:maxRequirement-1]) + "…"
}
