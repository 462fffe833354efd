package rollout

import (
	"fmt"
	"strings"
)

// maxNamed is how many clusters a message names; a message stays readable with a thousand.
const maxNamed = 5

// MaxMessage is how many characters the schema allows in the message of an entry. One longer would have the whole status refused, and
// with it the entries of all other clusters.
const MaxMessage = 1024

// BoundMessage shortens a message to what the schema of an entry allows.
func BoundMessage(message string) string {
	characters := []rune(message)
	if len(characters) <= MaxMessage {
		return message
	}
	return string(characters[:MaxMessage-1]) + "…"
}

// ListClusters counts and names clusters, as in "2 clusters: east, west".
func ListClusters(names []string) string {
	return fmt.Sprintf("%s: %s", CountClusters(int32(len(names))), CapNames(names))
}

// CountClusters counts clusters, as in "2 clusters".
func CountClusters(n int32) string {
	if n == 1 {
		return "1 cluster"
	}
	return fmt.Sprintf("%d clusters", n)
}

// CapNames names the first maxNamed of these, and counts the rest.
func CapNames(names []string) string {
	if len(names) <= maxNamed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "), len(names)-maxNamed)
}
