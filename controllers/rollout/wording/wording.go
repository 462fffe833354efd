// Package wording bounds the messages of entries and conditions, and names clusters in them. It is
// pure.
package wording

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fleetwright/fleetwright/api/v1alpha1"
)

// MaxNamed is the maximum number of clusters that a message names, so that it stays readable with a
// thousand clusters.
const MaxNamed = 5

// MaxMessage is the maximum number of characters that the schema allows in the message of an entry.
// The API server would reject the whole status, with the entries of all other clusters, because of
// one longer message.
const MaxMessage = 1024

// Bound shortens a message to the length that the schema of an entry allows.
func Bound(message string) string {
	characters := []rune(message)
	if len(characters) <= MaxMessage {
		return message
	}
	return string(characters[:MaxMessage-1]) + "…"
}

// ListClusters returns the number and the names of clusters, as in "2 clusters: east, west".
func ListClusters(names []string) string {
	return fmt.Sprintf("%s: %s", CountClusters(int32(len(names))), CapNames(names))
}

// CountClusters returns the number of clusters in words, as in "2 clusters".
func CountClusters(n int32) string {
	if n == 1 {
		return "1 cluster"
	}
	return fmt.Sprintf("%d clusters", n)
}

// FirstNames returns the first MaxNamed names, in alphabetical order.
func FirstNames(names []string) []string {
	slices.Sort(names)
	return names[:min(len(names), MaxNamed)]
}

// CapNames returns the first MaxNamed names and the number of the rest.
func CapNames(names []string) string {
	if len(names) <= MaxNamed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:MaxNamed], ", "), len(names)-MaxNamed)
}

// Names returns the names of the clusters of these entries.
func Names(entries []v1alpha1.ClusterStatus) []string {
	names := make([]string, 0, len(entries))
	for _, entry := range entries {
		names = append(names, entry.Name)
	}
	return names
}
